"""What keeps compaction from running in circles: what failed, and what did not help.

Both are notes of the session, so they survive a crash, a rewind and another process. Of the notes
of this kind the newest counts.

The latch: `failures` is how many condensations failed in a row. A run on request does not add to
it. A condensation that was committed takes it back to zero.

The stall: `stalled` is the size that a compaction left behind when it took away less than a
twentieth. Nothing is tried again until the context has grown by a twentieth of the window beyond
it, is over the window, a run is asked for, or a summary, marker or clearing is uncovered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from roocontext.policies.situation import Totals
from roocontext.store.notes import Note

NOTE: Final = "compaction"
"""The kind of the notes."""

TOO_LITTLE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Guard:
    """Where a session stands."""

    failures: int = 0
    stalled: int | None = None

    @classmethod
    def of(cls, newest: Note | None) -> "Guard":
        """Read it from the newest note of its kind."""
        if newest is None:
            return cls()
        told: Mapping[str, Any] = newest.content
        failures, stalled = (_number(told.get(name)) for name in ("failures", "stalled"))
        return cls(failures or 0, stalled)

    def failed(self, *, counts: bool) -> "Guard":
        """After a condensation that came to nothing."""
        return replace(self, failures=self.failures + 1) if counts else self

    def committed(self, before: int, after: int, *, condensed: bool) -> "Guard":
        """After a plan was committed."""
        little = before - after < TOO_LITTLE * before
        return Guard(0 if condensed else self.failures, after if little else None)

    def uncovered(self) -> "Guard":
        """After a condensation, truncation or clearing was taken back: the stall is over."""
        return replace(self, stalled=None)

    def holds(self, totals: Totals) -> bool:
        """Whether another run would only go in circles."""
        return (
            self.stalled is not None
            and not totals.is_over
            and totals.size.tokens < self.stalled + TOO_LITTLE * totals.window
        )

    def facts(self) -> dict[str, Any]:
        """What is kept in a note."""
        return {"failures": self.failures, "stalled": self.stalled}


def _number(value: Any) -> int | None:
    """Anybody may write notes of this kind, with anything in them."""
    return value if type(value) is int and value >= 0 else None
