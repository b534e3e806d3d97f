"""From the library's values to the documents that `--json` prints."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

import msgspec

from roocontext.cli.answers.reports import Checked, OutcomeReport, PurgedReport
from roocontext.cli.answers.shapes import (
    Difference,
    EntryRow,
    Gauge,
    MessageRow,
    SessionRow,
    StatsReport,
)

if TYPE_CHECKING:
    from roocontext import AuditEntry, Diff, Message, SessionInfo, Stats, Verification
    from roocontext.context import Outcome
    from roocontext.store.erase import Purged


_SCALARS = frozenset({str, int, float, bool, type(None)})


def document(value: Any) -> Any:
    """A value of the library as JSON has it."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, Enum):
        return value.value
    named = _fields(value)
    if named is not None:
        return {name: document(item) for name, item in named.items()}
    if isinstance(value, list | tuple | frozenset):
        return [document(item) for item in value]
    return value


def message_row(message: "Message") -> MessageRow:
    """A message of a view."""
    return cast(MessageRow, document(message))


def entry_row(found: "AuditEntry") -> EntryRow:
    """An entry of the audit."""
    told = document(found)
    del told["hider"]
    return cast(EntryRow, {**told.pop("entry"), **told})


def difference(session_id: str, found: "Diff") -> Difference:
    """What left a view and what came into it."""
    return cast(Difference, {"session_id": session_id, **document(found)})


def session_row(info: "SessionInfo", sizes: "Stats", context: Gauge) -> SessionRow:
    """A session of the list."""
    seen = {
        "visible_messages": sizes.visible_messages,
        "visible_bytes": sizes.visible_bytes,
    }
    return cast(SessionRow, {**document(info), **seen, "context": context})


def stats_report(found: "Sequence[Stats]", session_id: str | None) -> StatsReport:
    """The sums of some sessions."""
    told = {"session_id": session_id, "sessions": len(found)}
    numbers = [name for name in StatsReport.__annotations__ if name not in told]
    sums = {name: sum(getattr(one, name) for one in found) for name in numbers}
    return cast(StatsReport, {**told, **sums})


def checked(found: "Verification", rebuilt: int | None = None) -> Checked:
    """What was found in a session."""
    return cast(Checked, {**document(found), "rebuilt": rebuilt})


def purged_report(receipt: "Purged", *, changed: bool, dry_run: bool) -> PurgedReport:
    """The receipt of a purge, of this one or of one before."""
    return cast(PurgedReport, {**document(receipt), "changed": changed, "dry_run": dry_run})


def outcome_report(session_id: str, outcome: "Outcome") -> OutcomeReport:
    """What a run of the manager did."""
    view = None if outcome.view is None else [message_row(one) for one in outcome.view]
    told = {"session_id": session_id, **outcome.to_dict(), "view": view}
    return cast(OutcomeReport, told)


def _fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of a value that has names for them."""
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return value
    named: Mapping[str, Any] | None = value._asdict() if hasattr(value, "_asdict") else None
    return named
