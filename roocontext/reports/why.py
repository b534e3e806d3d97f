"""Why the model does or does not see an entry, and what would bring it back."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from roocontext.log.compactions import compactions_in
from roocontext.log.draft import UNCOVERED
from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.reports.document import Document, Text, Time
from roocontext.reports.history import one_entry, text_in
from roocontext.store.reading.audit import AuditEntry, Hider
from roocontext.store.reading.notes import EXTRACT

if TYPE_CHECKING:
    from roocontext import Session


class Reason(Document):
    """An entry that hides, clears or takes back another, and how to reverse it.

    `text` is the text of a summary, marker or compaction, which the model sees instead; `policy`
    made it. Of a compaction that only its model can read, it is the extract of what it hides.
    `trigger` is manual, auto, or the agent's own word. A `partial` clearing leaves the head and the
    tail of the output. To reverse the entry, uncover entry `uncover`, or rewind to entry
    `rewind_to`, the last entry before it.
    """

    seq: int
    kind: str
    happened_at: Time
    recorded_at: Time
    trigger: Text | None
    policy: Text | None
    text: Text | None
    partial: bool
    uncover: int | None
    rewind_to: int | None


class Why(Document):
    """The reasons why the model does not see an entry now, or not as it was written.

    The `reasons` come in the order in which they have to be reversed: a summary may itself be
    hidden by another, and a rewind may have taken back an entry that was hidden. If an entry is not
    `shown_to_models`, it is not a message, and no model ever sees it.
    """

    session_id: str
    title: str | None
    seq: int
    kind: str
    speaker: str | None
    shown_to_models: bool
    visible: bool
    redacted: bool
    reasons: list[Reason]


def why(chat: "Session", seq: int) -> Why:
    """Explain why the model does or does not see an entry."""
    row = one_entry(chat, seq)
    return Why.of(
        *(row, chat.info()),
        shown_to_models=row.kind in MESSAGE_KINDS,
        reasons=[*_reasons(chat, seq)],
    )


def _reasons(chat: "Session", seq: int) -> Iterator[Reason]:
    """The entries that hide or clear an entry, each after the entries that hide it in turn."""
    read, known = _reader(chat), set[int]()
    entry = read(seq)
    # If this is reversed, the session is what it was before it, and the entry may be hidden there.
    while entry.hiders and entry.hiders[0].kind not in UNCOVERED:
        hider = entry.hiders[0]
        yield _reason(hider, seq, read(hider.seq), None)
        read = _reader(chat, as_of=hider.seq - 1)
        entry = read(seq)

    # A stack of its own: a chain of summaries may be longer than Python's. It has each hider, the
    # entry that it hides, and the hider as an entry once what hides that is on the stack too.
    waiting = _waiting(entry)
    while waiting:
        hider, hidden, acting = waiting.pop()
        if acting is not None:
            yield _reason(hider, hidden, acting, _text(chat, acting, read))
        elif hider.seq not in known:
            known.add(hider.seq)
            acting = read(hider.seq)
            if hider.kind is Kind.CLEARING:
                if not acting.hiders:
                    yield _reason(hider, hidden, acting, None)
                # Without it, the clearing of the output before it counts, unless it was uncovered.
                before = _waiting(_reader(chat, as_of=hider.seq - 1)(hidden))
                waiting += [item for item in before if item[0].kind is Kind.CLEARING]
            else:
                waiting.append((hider, hidden, acting))
                # A covering is hidden where its reply is.
                is_covering = hider.kind is Kind.COVERING
                waiting += _waiting(read(_source(acting)[0]) if is_covering else acting)


def _reader(chat: "Session", as_of: int | None = None) -> Callable[[int], AuditEntry]:
    page = chat.internals.audited(as_of=as_of)
    return lambda seq: page(seq - 1, 1)[0]


def _source(covering: AuditEntry) -> tuple[int, int]:
    """The entry and the block of the compaction that a covering is about."""
    seq, block = (covering.entry.details or {})["source"]
    return seq, block


def _waiting(entry: AuditEntry) -> list[tuple[Hider, int, AuditEntry | None]]:
    return [(hider, entry.seq, None) for hider in reversed(entry.hiders)]


def _reason(hider: Hider, hidden: int, acting: AuditEntry, text: str | None) -> Reason:
    details, is_uncovered = acting.entry.details or {}, hider.kind in UNCOVERED
    policy = details.get("record", {}).get("policy")
    return Reason.of(
        hider,
        policy=policy if isinstance(policy, str) else None,
        text=text,
        partial=any(kept[0] == hidden for kept in details.get("keeps", ())),
        uncover=hider.seq if is_uncovered else None,
        rewind_to=None if is_uncovered else hider.seq - 1,
    )


def _text(chat: "Session", acting: AuditEntry, read: Callable[[int], AuditEntry]) -> str | None:
    """The text that replaces what an entry hides, or an extract of what it hides."""
    if acting.kind is not Kind.COVERING:
        return text_in(acting)
    seq, block = _source(acting)
    reply = read(seq)
    for compaction in compactions_in(reply.entry.format or "", reply.content):
        if compaction.block == block and compaction.text is not None:
            return compaction.text
    extract = chat.newest_note(EXTRACT, target=seq)
    return None if extract is None else str(extract.content["text"]) or None
