"""What was said, drawn: the effective history, the audit, and the difference of two views."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from roocontext.cli import content, shapes, tallies
from roocontext.cli.showing import Screen
from roocontext.cli.wording import counted, moment, named, one_line, ranges

_SEQ, _WHAT, _STATE = 6, 10, 20
_WIDE = 100
"""From so many columns on there is room for the time."""


def shown(screen: Screen, answer: shapes.Shown, *, full: bool) -> None:
    """The effective history, message by message."""
    title = f"  {one_line(answer['title'])}" if answer["title"] else ""
    screen.line((named(answer["session_id"]), "title"), title)
    many = counted(len(answer["messages"]), "message")
    screen.line(f"The model sees {many} right after entry {answer['seq']}.")
    tallies.context(screen, answer["context"])
    for message in answer["messages"]:
        _message(screen, message, full=full)


def audit(screen: Screen, rows: Iterable[shapes.EntryRow], *, full: bool) -> None:
    """Every entry on a line; those that act also with what they did."""
    empty = True
    for row in rows:
        empty = False
        _entry(screen, row)
        if full and row["content"] is not None and row["note"] is None:
            style = "" if row["visible"] else "hidden"
            _parts(screen, row, style=style, full=True)
    if empty:
        screen.line("The session has no entries.")


def difference(screen: Screen, answer: shapes.Difference) -> None:
    """What left the view, and what came into it."""
    arrow = screen.signs.arrow
    screen.line(
        (named(answer["session_id"]), "title"), f"  {answer['old']} {arrow} {answer['new']}"
    )
    for sign, style, rows in (("-", "bad", answer["left"]), ("+", "good", answer["came"])):
        for row in rows:
            brief(screen, row, sign, style)
    for name in ("cleared", "restored"):
        for seq, block in answer[name]:
            screen.line(f"{name} block {block} of entry {seq}")
    if not any(answer[name] for name in ("left", "came", "cleared", "restored")):
        screen.line("Nothing differs.")


def brief(screen: Screen, row: shapes.MessageRow, sign: str, style: str) -> None:
    """A message of a view on a line."""
    said = content.preview(row["role"], row["content"], row["format"], screen.signs)
    screen.beside(f"{sign} {row['seq']:>5} {_what(row):<{_WHAT}} ", said, style, "")


def did(acts: Mapping[str, Any], arrow: str) -> str:
    """What an entry that acts did, by its details: `hides 3-11; 4,512 -> 1,001 bytes; manual`."""
    record = acts.get("record", {})
    if "to" in acts:
        return _rewound(record)
    hides, clears = acts.get("hides") or [], acts.get("clears") or []
    what = [f"hides {ranges(hides)}"] if hides else []
    if clears:
        places = sorted({seq for seq, _ in clears})
        what = [f"clears {counted(len(clears), 'output')} of {ranges([[s, s] for s in places])}"]
    what += _sizes(record, arrow)
    names = dict.fromkeys(str(record[key]) for key in ("policy", "trigger") if key in record)
    return "; ".join([*what, ", ".join(map(one_line, names))])


def _sizes(record: Mapping[str, Any], arrow: str) -> list[str]:
    """Before and after, if both were told: what a plan records is the agent's."""
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


def _message(screen: Screen, message: shapes.MessageRow, *, full: bool) -> None:
    kind = "" if message["kind"] == "message" else f" {message['kind']}"
    cleared = f" {screen.signs.dot} output cleared" if message["cleared"] else ""
    at = message["recorded_at"] if message["ts"] is None else message["ts"]
    screen.blank()
    screen.line(
        (f"{message['seq']} ", "title"),
        (message["role"], f"said.{message['role']}"),
        (kind, "acts"),
        (f"{cleared}  {moment(at)}", "note"),
    )
    _parts(screen, message, style="", full=full)


def _parts(
    screen: Screen, row: shapes.MessageRow | shapes.EntryRow, *, style: str, full: bool
) -> None:
    indent = 1 if screen.narrow else 4
    said = content.parts(row["role"] or "", row["content"], row["format"] or "", screen.signs)
    for part in said:
        text, rest = content.readable(part.text, full=full)
        own = "hidden" if part.kind == "thinking" else style
        if full:
            screen.raw("\n".join(filter(None, (part.heading, text))), indent=indent)
            continue
        heading = f"{part.heading} " if part.heading else ""
        screen.line((heading, "note"), (text, own), indent=indent)
        if rest:
            screen.line((f"{screen.signs.more} {rest}", "note"), indent=indent)


def _entry(screen: Screen, row: shapes.EntryRow) -> None:
    acts = row["details"] is not None and row["kind"] != "companion"
    style = "acts" if acts else "" if row["visible"] else "hidden"
    state = _state(row)
    said = _said(screen, row, acts=acts)
    at = f"{moment(row['recorded_at'])} " if screen.width >= _WIDE else ""
    start = f"{row['seq']:>{_SEQ}} {at}{_what(row):<{_WHAT}} {state:<{_STATE}} "
    screen.beside(start, said, style, style)
    if acts and row["role"] is not None:
        quoted = content.preview(row["role"], row["content"], row["format"] or "", screen.signs)
        screen.beside(" " * len(start), quoted, "", "note")


def _said(screen: Screen, row: shapes.EntryRow, *, acts: bool) -> str:
    if acts:
        return did(row["details"], screen.signs.arrow)
    if row["note"] is not None:
        target = "" if row["target"] is None else f" of {row['target']}"
        return f"{one_line(row['note'])}{target}: {one_line(_noted(row['content']))}"
    return content.preview(row["role"] or "", row["content"], row["format"] or "", screen.signs)


def _noted(told: Any) -> str:
    """A note's content: the value alone where there is one."""
    value = next(iter(told.values())) if isinstance(told, dict) and len(told) == 1 else told
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _what(row: shapes.MessageRow | shapes.EntryRow) -> str:
    return one_line(row["role"] or "") if row["kind"] == "message" else row["kind"]


def _state(row: shapes.EntryRow) -> str:
    """The first reason there is not to see the row as it was written."""
    for why, by in (
        ("taken back by", row["rewound_by"]),
        ("in summary", row["condense_parent"]),
        ("cut by marker", row["truncation_parent"]),
        ("cleared by", row["cleared"][0][1] if row["cleared"] else None),
        ("to", row["details"]["to"] if row["kind"] == "rewind" else None),
    ):
        if by is not None:
            return f"{why} {by}"
    return "redacted" if row["redacted"] else "seen" if row["visible"] else ""
