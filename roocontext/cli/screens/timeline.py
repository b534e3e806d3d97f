"""Lists of entries: the effective history, the audit, the difference of two views."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roocontext.cli.screens import content, tables
from roocontext.cli.screens.next_commands import draw_hint, next_command
from roocontext.cli.screens.safe_text import cut_line, one_line, safe, unbroken
from roocontext.cli.screens.screen import Screen
from roocontext.log.entries import Kind
from roocontext.log.readings import Holds
from roocontext.reports.naming import quantity, ranges_in_words
from roocontext.reports.times import chosen_time, local_time, zone, zoned_time

if TYPE_CHECKING:
    from roocontext import SessionInfo
    from roocontext.reports.history import Difference, EntryRow, MessageRow, Shown

_SEQ, _WHAT = 4, 10
_STATE = len("taken back by ")
_STATES: Mapping[str, str] = {
    Kind.SUMMARY: "in summary",
    Kind.COVERING: "in covering",
    Kind.MARKER: "cut by marker",
    Kind.CLEARING: "cleared by",
    Kind.REWIND: "taken back by",
    Kind.UNCOVERING: "uncovered by",
}
_RANGES = 12
"""How many ranges of seq a row names without --full."""


@dataclass(frozen=True, slots=True)
class ShownLog:
    """The log that an audit shows, and the entry after which the audit begins.

    `name` is the session's name in the suggested command; without it, none is suggested.
    `recorded` shows when entries were recorded, not when they happened.
    """

    info: "SessionInfo"
    after: int = 0
    name: str = ""
    recorded: bool = False


def draw_view(
    screen: Screen,
    answer: "Shown",
    *,
    full: bool,
    name: str,
    rows: "Iterable[MessageRow] | None" = None,
) -> None:
    """The effective history, message by message, and commands to copy.

    `name` is the session's name in these. The messages are the `rows`, or else those of the answer.
    """
    screen.headline(answer.session_id, answer.title)
    many = quantity(answer.visible_messages, "message")
    count = len(answer.messages) if rows is None else answer.visible_messages
    some = f" These are {count:,} of them." if count < answer.visible_messages else ""
    screen.line(f"Right after entry {answer.seq}, the model sees {many}.{some}")
    tables.draw_context(screen, answer.context)
    newest = draw_messages(screen, answer.messages if rows is None else rows, full=full)
    if newest:
        draw_hint(screen, "One entry whole", next_command(name, f"show {{}} {newest}"))
    draw_hint(screen, "Every entry ever written", next_command(name, "audit {}"))


def draw_messages(screen: Screen, messages: "Iterable[MessageRow]", *, full: bool) -> int:
    """Messages of a view, each under a line that names its speaker. Returns the newest seq."""
    newest = 0
    for message in messages:
        _message(screen, message, full=full)
        newest = max(newest, message.seq)
    return newest


def draw_audit(screen: Screen, rows: "Iterable[EntryRow]", *, log: ShownLog, full: bool) -> None:
    """Every entry on a line, under its day. An entry that hides or rewinds shows what it did."""
    day, hidden = "", 0
    for row in rows:
        hidden = row.seq if row.hiders and row.kind == "message" else hidden
        at = chosen_time(row, recorded=log.recorded)
        today, time = local_time(at).split()
        if not day:
            _top(screen, log)
        if today != day:
            day = today
            screen.line((f"{today} {zone(at)}", "note"))
        start = start_of(row, time, len(str(log.info.last_seq)))
        if full:
            draw_whole_entry(screen, row, start)
        else:
            _entry(screen, row, start)
    if hidden:
        why = f"why {{}} {hidden}"
        draw_hint(screen, "Why the model does not see an entry", next_command(log.name, why))
    if not day:
        last = log.info.last_seq
        screen.headline(log.info.session_id, log.info.title)
        where = f"There are no entries after {log.after}; the last is {last}."
        if not last:
            where = "The session has no entries."
        elif log.after < last:
            where = f"None of the {quantity(last, 'entry', 'entries')} matches."
        screen.line(where)


def draw_difference(screen: Screen, answer: "Difference") -> None:
    """The messages that left the view, and those that came into it."""
    screen.headline(answer.session_id, None)
    screen.line(f"From entry {answer.old} to entry {answer.new}: {_sums(answer)}.")
    for sign, style, rows in (("-", "bad", answer.left), ("+", "good", answer.came)):
        for row in rows:
            draw_brief(screen, row, sign, style)


def _sums(answer: "Difference") -> str:
    """The number of messages and outputs that differ."""
    parts = []
    if answer.left or answer.came:
        parts.append(f"{quantity(len(answer.left), 'message')} left the view")
        parts.append(f"{len(answer.came):,} came into it")
    parts += [
        f"{quantity(len(blocks), 'output')} {name}, of {_places(blocks, None)}"
        for name, blocks in (("cleared", answer.cleared), ("restored", answer.restored))
        if blocks
    ]
    return ", ".join(parts) or "no difference"


def draw_brief(screen: Screen, row: "MessageRow", sign: str, style: str) -> None:
    """A message of a view on a line."""
    text = content.one_line_of(row.role, row.content, row.format, screen.signs, row.tools)
    screen.row(f"{sign} {row.seq:>5} {_what(row):<{_WHAT}} ", text, style, "")


def action(acts: Mapping[str, Any], arrow: str, most: int | None = _RANGES) -> str:
    """The action of a control row, from its details: `hides 3-11; 4,512 -> 1,001 bytes`."""
    record = acts.get("record", {})
    if "to" in acts:
        return _rewound(record)
    if "uncovers" in acts:
        blocks = record.get("restored")
        restored = f"; {quantity(blocks, 'tool output')} shown again" if blocks else ""
        return f"{_rewound(record)}{restored}"
    hides, clears = acts.get("hides") or [], acts.get("clears") or []
    many = f" ({quantity(acts['messages'], 'message')})" if acts.get("messages") else ""
    what = [f"hides {ranges_in_words(hides, most)}{many}"] if hides else []
    if clears:
        what = [f"clears {quantity(len(clears), 'output')} of {_places(clears, most)}"]
    what += sizes(record, arrow)
    policy, trigger = (one_line(str(record.get(key, ""))) for key in ("policy", "trigger"))
    who = "" if policy in ("", trigger) else f"policy {policy}"
    why = ", ".join(filter(None, (who, trigger)))
    return "; ".join(filter(None, (*what, why)))


def _places(blocks: list[list[int]], most: int | None) -> str:
    """The entries of these blocks."""
    return ranges_in_words([[seq, seq] for seq in sorted({seq for seq, _ in blocks})], most)


def sizes(record: Mapping[str, Any], arrow: str) -> list[str]:
    """The sizes before and after, if the agent's record of the plan has both."""
    before, after = record.get("before"), record.get("after")
    if type(before) is not int or type(after) is not int:
        return []
    unit = record["counter"] if record.get("counter") in ("bytes", "images") else "tokens"
    sign = "" if record.get("exact") else "~"
    return [f"{sign}{before:,} {arrow} {sign}{after:,} {unit}"]


def _rewound(record: Mapping[str, Any]) -> str:
    undone = f"; takes back rewind {record['undone']}" if "undone" in record else ""
    moved = f"{record.get('left', 0):,} left the view, {record.get('returned', 0):,} came back"
    return f"{moved}{undone}"


def _message(screen: Screen, message: "MessageRow", *, full: bool) -> None:
    kind = "" if message.kind == "message" else f" {message.kind}"
    cleared = ""
    if message.cleared:  # an entry that `-f` shows is too new to be cleared
        how = "shortened" if message.shortened else "cleared"
        cleared = f" {screen.signs.dot} output {how}"
    screen.blank()
    screen.line(
        (f"{message.seq} ", "title"),
        (one_line(message.speaker), f"role.{message.speaker}"),
        (kind, "acts"),
        (f"{cleared}  {zoned_time(message.happened_at)}", "note"),
    )
    _parts(screen, message, style=_text_style(message), full=full)


def _parts(screen: Screen, row: "MessageRow | EntryRow", *, style: str, full: bool) -> None:
    indent = _indent(screen)
    for block in content.block_texts(
        row.role or "", row.content, row.format or "", screen.signs, row.tools
    ):
        text, rest = content.readable(block.text, full=full)
        own = "hidden" if block.kind is Holds.THINKING else style
        if full:
            screen.raw("\n".join(filter(None, (block.heading, text))), indent=indent)
            continue
        heading = f"{block.heading} " if block.heading else ""
        screen.line((heading, "note"), (text, own), indent=indent)
        if rest:
            screen.line((f"{screen.signs.more} {rest}", "note"), indent=indent)


def _top(screen: Screen, log: ShownLog) -> None:
    """The session, and the headings of the columns."""
    last = log.info.last_seq
    screen.headline(log.info.session_id, log.info.title)
    since = f", shown from {log.after + 1} on" if log.after else ""
    screen.line(f"{quantity(last, 'entry', 'entries')}{since}")
    digits = len(str(last))
    names = f"{'entry':>{max(_SEQ, digits) + 1}} {'time':<8} {'what':<{_WHAT}}"
    names += f" {'state':<{_STATE + digits}} "
    if screen.fits_after(names):
        screen.line((f"{names}content or action", "note"))


def start_of(row: "EntryRow", time: str, digits: int) -> str:
    """The columns before the text."""
    what = f"{_what(row):<{_WHAT}} {_state(row):<{_STATE + digits}}"
    return f"{row.seq:>{max(_SEQ, digits) + 1}} {time} {what} "


def _entry(screen: Screen, row: "EntryRow", start: str) -> None:
    if not _acts(row):
        style = _text_style(row) if row.visible else "hidden"
        screen.row(start, _text(screen, row), "" if row.visible else "hidden", style)
        return
    screen.whole_row(start, action(row.details, screen.signs.arrow), "acts")
    if row.role is not None:
        screen.row(" " * len(start), _text(screen, row), "", "note")


def draw_whole_entry(screen: Screen, row: "EntryRow", start: str) -> None:
    """An entry with its whole content and everything that was recorded with it."""
    screen.blank()
    style = "" if row.visible else "hidden"
    if _acts(row):
        screen.whole_row(start, action(row.details, screen.signs.arrow, None), "acts")
    elif row.note is not None:
        screen.whole_row(start, safe(_note(row)), style)
    else:
        screen.line((" ".join(start.split()) if screen.narrow else start.rstrip(), style))
    for name, value in _facts(row):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        screen.line((f"{name} ", "note"), (unbroken(text), style), indent=_indent(screen))
    if row.content is not None and row.note is None:
        _parts(screen, row, style=style, full=True)


def _facts(row: "EntryRow") -> Iterator[tuple[str, Any]]:
    """The recorded fields of an entry, and everything that hides it."""
    for name in ("message_id", "client_id", "compaction_id", "model", "usage", "extra"):
        if (value := getattr(row, name)) is not None:
            yield name, value
    if row.asked_at is not None:
        yield "asked at", f"entry {row.asked_at}"
    if row.answers is not None:
        yield "answers", f"call {row.answers[1]} of entry {row.answers[0]}"
    if row.ts is not None:
        yield "ts", f"{row.ts} ({zoned_time(row.ts)})"
    if row.format not in (None, "anthropic"):
        yield "format", row.format
    hiders = [f"{hider.kind} {hider.seq}" for hider in row.hiders if hider.kind != "clearing"]
    if len(hiders) > 1:
        yield "hidden by", ", ".join(hiders)
    for block, clearing in row.cleared:
        yield "cleared", f"block {block} by {clearing}"
    if record := (row.details or {}).get("record"):
        yield "record", record


def _text(screen: Screen, row: "EntryRow") -> str:
    if row.note is not None:
        return one_line(_note(row))
    return content.one_line_of(
        row.role or "", row.content, row.format or "", screen.signs, row.tools
    )


def _note(row: "EntryRow") -> str:
    """A note: its kind, its target, and its content, or the value alone if there is only one."""
    value = row.content
    if row.note == "pin" and isinstance(value, dict):
        return f"{'pinned' if value.get('pinned') else 'no longer pinned'}: {row.target}"
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    target = "" if row.target is None else f" of {row.target}"
    return f"{row.note}{target}: {text}"


def _acts(row: "EntryRow") -> bool:
    return row.details is not None and row.kind != "companion"


def _indent(screen: Screen) -> int:
    return 1 if screen.narrow else 4


def _what(row: "MessageRow | EntryRow") -> str:
    speaker = row.speaker or ""
    return cut_line(one_line(speaker), _WHAT, "") if row.kind == "message" else row.kind


def _text_style(row: "MessageRow | EntryRow") -> str:
    """Prompts of a person have a style of their own."""
    return "prompt" if row.kind == "message" and row.speaker == "user" else ""


def _state(row: "EntryRow") -> str:
    """`visible`, or the first reason why the model does not see the row as it was written."""
    if row.hiders:
        return f"{_STATES[row.hiders[0].kind]} {row.hiders[0].seq}"
    if row.kind == Kind.REWIND:
        return f"to {row.details['to']}"
    if row.kind == Kind.UNCOVERING:
        return f"of {row.details['uncovers'][0]}"
    return "redacted" if row.redacted else "visible" if row.visible else ""
