"""Stops a session from compacting again and again without effect.

The state is in the newest note of this kind, so it survives a crash, a rewind and another process.

`failures` is how many condensations failed in a row. A run on request does not add to it, and a
condensation that was committed sets it to zero.

`stalled` is the size that a compaction left behind when it removed less than a twentieth. Nothing
is tried again until the context has grown by a twentieth of the window beyond that size, is over
the window, a run is requested, or a summary, marker or clearing is uncovered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from roocontext.policies.situation import Totals
from roocontext.store.reading.notes import Note

TOO_LITTLE: Final = 0.05


@dataclass(frozen=True, slots=True)
class CompactionState:
    """How the last compactions of a session went."""

    failures: int = 0
    stalled: int | None = None

    @classmethod
    def of(cls, newest: Note | None) -> "CompactionState":
        """Read it from the newest note of its kind."""
        if newest is None:
            return cls()
        content: Mapping[str, Any] = newest.content
        failures, stalled = (_number(content.get(name)) for name in ("failures", "stalled"))
        return cls(failures or 0, stalled)

    def failed(self, *, counts: bool) -> "CompactionState":
        """After a condensation that came to nothing."""
        return replace(self, failures=self.failures + 1) if counts else self

    def committed(self, before: int, after: int, *, condensed: bool) -> "CompactionState":
        """After a plan was committed."""
        little = before - after < TOO_LITTLE * before
        return CompactionState(0 if condensed else self.failures, after if little else None)

    def uncovered(self) -> "CompactionState":
        """After a summary, marker or clearing was uncovered: another run may help now."""
        return replace(self, stalled=None)

    def waits(self, totals: Totals) -> bool:
        """Whether another run would most likely change as little as the last one."""
        return (
            self.stalled is not None
            and not totals.is_over
            and totals.size.tokens < self.stalled + TOO_LITTLE * totals.window
        )

    def facts(self) -> dict[str, Any]:
        """What a note holds of it."""
        return {"failures": self.failures, "stalled": self.stalled}


def _number(value: Any) -> int | None:
    """Read a number. Anybody may write notes of this kind, with anything in them."""
    return value if type(value) is int and value >= 0 else None
