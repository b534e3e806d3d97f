"""Rewinding and undoing: the last change of the view, how it is undone, and the outcome.

An undo writes an entry like any other change, so a second undo is a redo.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roocontext.errors import NothingToUndo, UndoRefused
from roocontext.log.draft import UNCOVERED
from roocontext.log.entries import Control, Kind
from roocontext.reports.document import Document, Time
from roocontext.reports.history import MessageRow, last_row
from roocontext.reports.naming import quantity
from roocontext.reports.tree import controls_of

if TYPE_CHECKING:
    from roocontext import Rewound, Session, Uncovered


class ViewChange(Document):
    """The change of the view by a rewind, an undo or an uncovering, or by its dry run.

    `seq` is the entry that was written: a rewind to entry `to`, or the uncovering of entry
    `uncovered`. Both `seq` and `hash` are null if nothing changed. `undone` is the entry that an
    undo reversed, and `undone_kind` its kind. If a rewind named a time or a message's id, `target`
    is the message at that place, and `target_time` its own time. `left` messages left the view,
    `returned` came back into it, and `restored` blocks show their content again. `last` is the
    last message of the view now; a dry run of an uncovering leaves it out.
    """

    session_id: str
    seq: int | None
    hash: str | None
    head_seq: int
    to: int | None
    uncovered: int | None
    undone: int | None
    undone_kind: str | None
    target: int | None
    target_time: Time | None
    left: int
    returned: int
    restored: int
    last: MessageRow | None
    changed: bool
    dry_run: bool


def last_change(controls: Sequence[Control]) -> Control | None:
    """The change that `undo` undoes: the newest plan, covering, uncovering or rewind.

    Nothing has taken it back, because that would be a newer change.
    """
    changing = {*UNCOVERED, Kind.UNCOVERING, Kind.REWIND}
    return next((control for control in reversed(controls) if control.kind in changing), None)


def undo_last_change(
    chat: "Session", *, of: int | None, force: bool, expected_seq: int | None, dry_run: bool
) -> ViewChange:
    """Undo the last change of the view.

    A summary, marker, covering or clearing is uncovered, so everything after it is kept. A rewind
    or an uncovering is undone by a rewind to just before it. Later entries would leave the view, so
    this is refused without `force` if there are any.
    """
    outline = chat.internals.outline()
    change = last_change(controls_of(outline))
    if change is None:
        line = f"Nothing has changed the view of session {chat.id!r}."
        raise NothingToUndo(line, session_id=chat.id)
    if of is not None and of != change.seq:
        line = f"The last change of the view is the {change.kind} {change.seq}, not entry {of}."
        raise UndoRefused(line, advice="", seq=change.seq)
    undone = {"undone": change.seq, "undone_kind": change.kind.value}
    if change.kind in UNCOVERED:
        uncovered = chat.uncover(change.seq, expected_seq=expected_seq, dry_run=dry_run)
        return uncovered_report(chat, uncovered, **undone)
    if outline.info.head_seq != change.seq and not force:
        since = sum(entry.kind is not Kind.NOTE for entry in chat.audit(after=change.seq))
        came = f"{quantity(since, 'entry', 'entries')} came after {change.kind} {change.seq}"
        line = f"{came}, and undoing it would hide them too."
        raise UndoRefused(line, seq=change.seq, since=since)
    if change.kind is Kind.REWIND and not dry_run:
        done = chat.undo(of=change.seq, force=force, expected_seq=expected_seq)
    else:
        # Expect the head that was read, so that a newer entry is never hidden unseen.
        head = outline.info.head_seq if expected_seq is None else expected_seq
        done = chat.rewind(to=change.seq - 1, expected_seq=head, dry_run=dry_run)
    return rewound_report(chat, done, **undone)


def rewound_report(chat: "Session", done: "Rewound", **undone: Any) -> ViewChange:
    """The outcome of a rewind or of its dry run."""
    last = last_row(chat, as_of=done.to if done.dry_run else None)
    return ViewChange.of(done, last=last, restored=0, **undone)


def uncovered_report(chat: "Session", done: "Uncovered", **undone: Any) -> ViewChange:
    """The outcome of an uncovering or of its dry run."""
    last = None if done.dry_run else last_row(chat)
    return ViewChange.of(done, target=None, uncovered=done.target, last=last, **undone)
