"""An agent's loop over a session: whose turn it is, which tool calls wait, and their answers.

Only the log decides, so that the loop continues after a crash. `log.turns` defines the rules; this
module reads the last few messages for it, from the end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import and_, bindparam, or_, select, text

from roocontext.errors import InvalidOption, NoSuchCall
from roocontext.log.draft import KEPT_UNDER, Draft, Sources, message_draft, note_draft
from roocontext.log.encoding import MAX_INTEGER, decode, encode_plain
from roocontext.log.entries import BlockRef, NewMessage, Range, block_ref
from roocontext.log.pairs import links_of, matched, tools_from
from roocontext.log.readings import reader
from roocontext.log.readings.answers import AskedCall
from roocontext.log.spans import within
from roocontext.log.turns import PAUSED, TOO_LONG, LastTurn, PendingCall, WaitsFor, last_turn
from roocontext.store.engine.check_arguments import check_whole
from roocontext.store.engine.schema import (
    AT_SEQ,
    IN_LOG,
    IN_RANGE,
    entries,
    log_rows,
    of_session,
    spans,
)
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import lock, read_head
from roocontext.store.reading.messages import bounds, read_backwards, read_messages
from roocontext.store.reading.notes import BEGUN, notes_on
from roocontext.store.writing.append import Receipt, write
from roocontext.store.writing.notes import Drafted, write_note

PAGE: Final = 8
"""How many messages are read at once: enough for the end of most sessions."""

_SPANS: Final = 32
"""How many spans are read at once."""

_STANDING_BACK = (
    select(spans.c.lo, spans.c.hi)
    .where(
        of_session(spans),
        spans.c.lo < bindparam("lo"),
        text("rewound_by IS NULL AND uncovered_by IS NULL"),
    )
    .order_by(spans.c.lo.desc())
    .limit(_SPANS)
)
_EXTRA = log_rows("extra").where(AT_SEQ, IN_LOG)
_HAS_TOOLS = (entries.c.tools.is_not(None), text("kind = 'message'"))
_CALLS_OF = log_rows("tools", "format").where(AT_SEQ, *_HAS_TOOLS, IN_LOG)
_ANSWERS = (
    log_rows("seq", "tools", "hash")
    .where(
        entries.c.tools.is_not(None),
        entries.c.answers_seq.is_not(None),
        entries.c.answers_seq == bindparam("call"),
        entries.c.answers_block == bindparam("block"),
        IN_LOG,
    )
    .order_by(entries.c.seq)
)
_RESULT = text("""'["result",%'""")
_SEVERAL_RESULTS = text("""'["result",%","%'""")
# Results that name no call, or several ones of which only one is named: their ids decide.
_BY_ID = (
    log_rows("seq")
    .where(
        IN_RANGE,
        *_HAS_TOOLS,
        or_(
            and_(entries.c.answers_seq.is_(None), entries.c.tools.like(_RESULT)),
            entries.c.tools.like(_SEVERAL_RESULTS),
        ),
    )
    .limit(1)
)
_TOOLS = (
    log_rows("seq", "tools", "answers_seq", "answers_block", "hash")
    .where(IN_RANGE, *_HAS_TOOLS)
    .order_by(entries.c.seq)
)


def waits_for(log: SessionLog) -> WaitsFor:
    """Return whose turn it is."""
    end = _end(log)
    turn = end.waits_for
    if turn == "user" and end.reply and _stop_reason(log, end.reply.seq) == PAUSED:
        return "model"
    return turn


def pending(log: SessionLog) -> list[PendingCall]:
    """Return the calls that wait, oldest first."""
    waiting = _end(log).pending
    last = read_head(log).last_seq
    begun = {
        (seq, note.content["block"])
        for seq in {call.seq for call in waiting}
        for note in notes_on(log, BEGUN, seq, last)
    }
    # Only the last call of a reply can lack its end.
    newest = {call.seq: call.place for call in waiting}
    cut_off = {place for seq, place in newest.items() if _stop_reason(log, seq) in TOO_LONG}
    return [
        replace(call, begun=call.place in begun, cut_off=call.place in cut_off) for call in waiting
    ]


def asked_call(log: SessionLog, call: PendingCall | BlockRef) -> tuple[BlockRef, AskedCall]:
    """Read a call that is to be answered, and its place; NoSuchCall if there is none."""
    place, tool_id, format_ = _named_call(log, call)
    if reader(format_).answers_by_id:
        # Decoding a message of 600 calls for each of its answers would take most of their time.
        return place, AskedCall(tool_id, format_, [{"type": "tool_use", "id": tool_id}], 0)
    (message,) = read_messages(log, [(place[0], place[0])], {})
    return place, AskedCall(tool_id, format_, message.content, place[1])


def _named_call(log: SessionLog, call: PendingCall | BlockRef) -> tuple[BlockRef, str, str]:
    """Find the place, the id and the format of a call; NoSuchCall if there is none."""
    seq, block = _place_of(call)
    # By the column of ids: to read all calls for each of them would take quadratic time.
    row = log.row(_CALLS_OF, seq=seq)
    tools, format_ = (tools_from(row[0]), row[1]) if row else (None, "")
    calls = tools.ids if tools and tools.are_calls else ()
    if block >= len(calls):
        holds = f"holds {len(calls)} tool calls" if calls else "holds no tool call"
        raise NoSuchCall(
            f"There is no call {block} in entry {seq}, which {holds}.", seq=seq, block=block
        )
    if isinstance(call, PendingCall) and call.id != calls[block][1]:
        raise NoSuchCall(
            f"Call {block} of entry {seq} is not the given call.", seq=seq, block=block
        )
    return (seq, block), calls[block][1], format_


def answer_draft(
    place: BlockRef,
    asked: AskedCall,
    output: Any,
    sources: Sources,
    *,
    is_error: bool,
    extra: Any,
) -> Draft:
    """Draft the message that answers the call at this place."""
    plain, _ = encode_plain(output, "output")
    format_, role, content = asked.answered(plain, is_error=is_error)
    _, blocks = reader(format_).blocks(role, content)
    # Chat Completions and the Responses API have no field for an error: `extra` records it.
    is_lost = is_error and not any(block.get("is_error") for block in blocks)
    message = NewMessage(role, content, format_, extra=extra, answers=place)
    kept = {"is_error": True} if is_lost else None
    return message_draft(message, sources, kept=kept)


def answer(log: SessionLog, place: BlockRef, draft: Draft) -> Receipt:
    """Write the answer to a call. If a live answer exists, return its receipt instead."""
    head = lock(log)
    standing = _standing_from(log, place, head.head_seq)
    if first := _answer_to(log, place, standing):
        seq, hash_ = first
        return Receipt(log.session_id, seq, hash_.hex(), seq, new=False)
    (receipt,) = write(log, head, [draft])
    return receipt


def begin(log: SessionLog, call: PendingCall | BlockRef, sources: Sources) -> Receipt:
    """Write that a tool is about to run, once for each call."""
    head = lock(log)
    place, _, _ = _named_call(log, call)
    seq, block = place
    _standing_from(log, place, head.head_seq)
    # A client id of the store's own makes a second `begin` harmless.
    once = f"roocontext:{BEGUN}:{seq}:{block}"
    draft = note_draft(BEGUN, {"block": block}, sources, target=seq, client_id=once)
    return write_note(log, Drafted(draft))


def _place_of(call: PendingCall | BlockRef) -> BlockRef:
    """The entry of a call and its number there."""
    place = call.place if isinstance(call, PendingCall) else call
    if not isinstance(place, tuple) or len(place) != 2:
        raise InvalidOption("call must be an item of pending(), or (entry, number).", name="call")
    check_whole("call[0]", place[0], least=1)
    check_whole("call[1]", place[1])
    return place


def _standing_from(log: SessionLog, place: BlockRef, last: int) -> list[Range]:
    """Find what is live from a call on, ascending; NoSuchCall if the call is not live."""
    seq, block = place
    ranges: list[Range] = []
    for lo, hi in standing_back(log, last):
        if hi >= seq:
            ranges.append((max(lo, seq), hi))
        if lo <= seq:
            break
    if not ranges or ranges[-1][0] != seq:
        raise NoSuchCall(f"Entry {seq} is not live: it was rewound.", seq=seq, block=block)
    return ranges[::-1]


def _answer_to(
    log: SessionLog, place: BlockRef, standing: Sequence[Range]
) -> tuple[int, bytes] | None:
    """Find the live row that answers a call: one that names the call, or one with its id."""
    seq, block = place
    for row in log.rows(_ANSWERS, call=seq, block=block):
        tools = tools_from(row[1])
        if within(standing, row[0]) and not tools.are_calls and len(tools.ids) == 1:
            return row[0], row[2]
    # The other calls and answers are only read if one of them may answer this call too: with many
    # calls, each is answered on its own.
    if not log.each(_BY_ID, bounds(standing)):
        return None
    rows = log.each(_TOOLS, bounds(standing))
    links = links_of((row[0], block_ref(row[2], row[3])) for row in rows)
    for pair in matched([tools_from(row[1]) for row in rows], links):
        if (rows[pair.call[0]][0], pair.call[1]) == place:
            return rows[pair.result[0]][0], rows[pair.result[0]][4]
    return None


def _end(log: SessionLog) -> LastTurn:
    # From the last fold entry backwards: only notes follow it, of which there may be many.
    last = read_head(log).head_seq
    return last_turn(read_backwards(log, standing_back(log, last), PAGE))


def standing_back(log: SessionLog, last: int) -> Iterator[Range]:
    """Read the ranges of what is live, hidden or not, from the last one backwards."""
    lo = MAX_INTEGER
    while rows := log.rows(_STANDING_BACK, lo=lo):
        # By seq, not by position: a summary is no turn, and replies are never inserted.
        yield from ((max(lo, 1), min(hi, last)) for lo, hi in rows if lo <= last)
        lo = rows[-1][0]


def _stop_reason(log: SessionLog, seq: int) -> str | None:
    """Read why a reply ended, if that was recorded."""
    row = log.row(_EXTRA, seq=seq)
    match decode(row[0]) if row and row[0] else None:
        case dict(extra) if isinstance(kept := extra.get(KEPT_UNDER), dict):
            reason = kept.get("stop_reason")
            return reason if isinstance(reason, str) else None
    return None
