"""What a compaction of Codex CLI leaves of the history."""

from collections.abc import Iterator
from typing import Any

from roocontext.formats.codex_history import CodexHistory, codex_texts, text_item
from roocontext.formats.codex_items import Items
from roocontext.formats.codex_kept import bridge, is_bridged, kept_messages
from roocontext.formats.codex_lines import Placed
from roocontext.formats.events import Added, Event, Hid, WentBack
from roocontext.log.entries import NewMessage

NOT_SENT = ("ghost_snapshot",)
_RECORD = {"compacted": True}
NO_SUMMARY = "(no summary available)"


def compaction_events(
    payload: dict[str, Any], at: Placed, ts: int | None, history: CodexHistory
) -> Iterator[Event]:
    """The events of a compaction."""
    replaced = payload.get("replacement_history")
    text = payload.get("message")
    summary = text if isinstance(text, str) else ""
    if isinstance(replaced, list):
        return _replaced(replaced, summary, at, ts, history)
    return _summed_up(summary if summary.strip() else NO_SUMMARY, at, ts, history)


def _replaced(
    items: list[Any], summary: str, at: Placed, ts: int | None, history: CodexHistory
) -> Iterator[Event]:
    name, line = f"compacted:{at.name}", at.line.number
    history.items, history.texts = Items(), {}
    rows = [
        history.add(item, at, ts, place)
        for place, item in enumerate(items)
        if isinstance(item, dict) and item.get("type") not in NOT_SENT
    ]
    history.compacted = len(rows)
    lead = _summary_among(rows, summary)
    if lead is not None:
        yield Hid(name, tuple(rows), lead=lead, record=_RECORD, line=line)
        return
    # Nothing that can be read stands for what was replaced: these items are all there is.
    yield WentBack(name, None, line, ts)
    for row in rows:
        yield Added(row.message_id, row, line)


def _summed_up(summary: str, at: Placed, ts: int | None, history: CodexHistory) -> Iterator[Event]:
    """What the session began with, what is kept of all that the user has written, the summary."""
    texts: list[str] = []
    prompt = next((n for n, item in enumerate(history.items) if not item.is_context), None)
    turns = Items(item for item in history.items if item.is_users)
    history.items = Items(
        item
        for number, item in enumerate(history.items)
        if item.is_context and (prompt is None or number < prompt)
    )
    if is_bridged(history.version):
        found = map(history.text_of, turns)
        summary = bridge([text for text in found if text is not None], summary, history.version)
    else:
        texts = _kept_of(turns, history)
    keeps = frozenset(map(history.id_of, history.items))
    numbers = {item.number for item in history.items}
    history.texts = {number: text for number, text in history.texts.items() if number in numbers}
    rows = tuple(history.write(text, at, ts) for text in (*texts, summary))
    history.compacted = len(history.items)
    name, lead = f"compacted:{at.name}", len(rows) - 1
    yield Hid(name, rows, keeps=keeps, lead=lead, at_end=True, record=_RECORD, line=at.line.number)


def _kept_of(turns: Items, history: CodexHistory) -> list[str]:
    """Keep the user's messages that are sent as they are; return the texts of those behind."""
    turns = Items(item for item in turns if history.text_of(item) is not None)
    newest_first = (history.text_of(item) or "" for item in reversed(turns))
    texts = [*kept_messages(newest_first, history.version)][::-1]
    first = len(turns) - len(texts)
    for number, text in enumerate(texts):
        item = turns[first + number]
        if history.read(item).get("content") != text_item("user", text)["content"]:
            return texts[number:]
        history.items.append(item)
    return []


def _summary_among(rows: list[NewMessage], text: str) -> int | None:
    """The row that holds the summary; else the last one that has words."""
    texts = [codex_texts(row) for row in rows]
    holds = [index for index, words in enumerate(texts) if text.strip() and text.strip() in words]
    speaks = [index for index, words in enumerate(texts) if words.strip()]
    found = holds or speaks
    return found[-1] if found else None
