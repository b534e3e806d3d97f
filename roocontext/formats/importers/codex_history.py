"""The lines of a Codex CLI rollout, and the items that the program would send now.

A forked thread holds only its new records. Its first record names the thread that it was forked
from, and the number of the first record there that it does not share.

If a compaction has left nothing but a summary, the program finds the user's messages before it and
sends them again as text, the newest ones up to 20,000 tokens of four bytes. The message that
crosses the limit loses its middle, and older ones are dropped.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from roocontext.formats.events import Added, Covered, Event, Hid, Problem, WentBack
from roocontext.formats.files import SourceLine, read_lines, report
from roocontext.formats.typed import Insertions, typed
from roocontext.log.compactions import newest_compaction
from roocontext.log.entries import NewMessage
from roocontext.log.readings import reader, text_of
from roocontext.log.readings.blocks import as_dict, dicts

FORMAT = "openai-responses"
# Tuples: what a damaged record holds in the place of a name need not be hashable.
ENVELOPES = ("session_meta", "response_item", "turn_context", "compacted", "event_msg")
_SENT = (
    *("message", "agent_message", "reasoning", "web_search_call", "image_generation_call"),
    *("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output"),
    *("local_shell_call", "tool_search_call", "tool_search_output"),
    *("compaction", "compaction_summary", "context_compaction"),
)
"""The types of items that the program sends; it leaves out those that it does not know."""
_NO_SUMMARY = "(no summary available)"
_RECORD = {"compacted": True}
_THREAD = re.compile(r"[\w-]+")
_CONTEXT = re.compile(
    r"# AGENTS\.md instructions.*</INSTRUCTIONS>"
    r"|<(environment_context|user_instructions|INSTRUCTIONS|turn_aborted|user_shell_command|skill"
    r"|subagent_notification|goal_context|recommended_plugins|agent_message_board_notification)>"
    r"(?:.*</\1>)?"
    r"|<(hook_prompt|codex_internal_context) [^>]*>.*</\2>",
    re.DOTALL | re.IGNORECASE,
)
"""The program's own texts in user messages: a message with one of them is no turn of the user."""
_INSERTIONS = Insertions(
    openings=(
        "# AGENTS.md instructions",
        "Warning: apply_patch was requested via",
        "<image>",
        "<image name=",
        "</image>",
    ),
    tags=(
        *("environment_context", "user_instructions", "INSTRUCTIONS", "turn_aborted"),
        *("user_shell_command", "user_action", "skill", "subagent_notification", "hook_prompt"),
        *("collaboration_mode", "personality_spec", "realtime_conversation", "goal_context"),
        *("recommended_plugins", "agent_message_board_notification", "codex_internal_context"),
    ),
    heading="## My request for Codex:",
)
_TOKENS = 20_000
_TOKEN = 4
"""The bytes that the program counts as one token."""
_PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking "
    "process. You also have access to the state of the tools that were used by that language "
    "model. Use this to build on the work that has already been done and avoid duplicating work. "
    "Here is the summary produced by the other language model, use the information in this "
    "summary to assist with your own analysis:"
)
_IMAGE_TAG = re.compile(r"<image( name=[^>]*)?>|</image>")


class Placed(NamedTuple):
    """A line, and its number as a name that no line of another file has."""

    line: SourceLine
    name: str


def read_threads(
    path: Path,
    problems: list[Problem],
    *,
    end: int | None = None,
    above: tuple[Path, ...] = (),
) -> Iterator[Placed]:
    """The lines of a rollout in their order, after those of its base; `end` is not read."""
    is_begun = False
    for line in read_lines(path, problems):
        record = as_dict(line.record)
        ordinal = record.get("ordinal")
        if end is not None and type(ordinal) is int and ordinal >= end:
            return
        if not is_begun and record.get("type") == "session_meta":
            is_begun = True
            yield from _base(record.get("payload"), line, problems, end, (*above, path))
        yield Placed(line, f"{path.stem}:{line.number}" if above else f"{line.number}")


def _base(
    facts: Any,
    line: SourceLine,
    problems: list[Problem],
    end: int | None,
    above: tuple[Path, ...],
) -> Iterator[Placed]:
    """The lines that a thread shares with the one that it was forked from."""
    match facts:
        case {"history_base": {"thread_id": str(thread), "end_ordinal_exclusive": int(last)}}:
            base = _rollout(above[-1], thread) if _THREAD.fullmatch(thread) else None
            if base is None or base in above:
                what = "the thread that it was forked from is not here, so its history is missing"
                report(problems, Problem(above[-1], line.number, what))
                return
            last = last if end is None else min(last, end)
            yield from read_threads(base, problems, end=last, above=above)


def _rollout(path: Path, thread: str) -> Path | None:
    """The rollout of another thread: in the same folder, or where the program keeps them all."""
    name = f"rollout-*-{thread}.jsonl"
    homes = [folder.parent for folder in path.parents if folder.name.endswith("sessions")][:1]
    places = [path.parent.glob(name)]
    for home in homes:
        places += [home.glob(f"sessions/*/*/*/{name}"), home.glob(f"archived_sessions/{name}")]
    return next((file for place in places for file in sorted(place)), None)


def opened_line(record: Any) -> tuple[str, dict[str, Any]]:
    """The type and the payload of a line, of those without an envelope too."""
    if not isinstance(record, dict):
        return "unknown", {}
    payload = record.get("payload")
    if isinstance(payload, dict):
        return str(record.get("type") or "unknown"), payload
    if "payload" in record or record.get("type") in ENVELOPES:
        return "unknown", {}
    if "record_type" in record:
        return "state", record
    if "type" in record:
        return "response_item", record
    return "session_meta", record


class Item(NamedTuple):
    """An item of the history, by the id of its message.

    A rollback counts the turns of the user; a compaction without a list keeps their texts. The
    `payload` is there if the item may have to be written again.
    """

    name: str
    is_turn: bool
    is_context: bool
    text: str
    payload: dict[str, Any] | None


class Replaced(NamedTuple):
    """The items that a compaction has replaced, in a turn that a rollback may drop.

    `turn` is the number of turns that had begun, `said` that of the user's messages before.
    """

    items: list[Item]
    compacted: int
    turn: int
    said: int


@dataclass(slots=True)
class CodexHistory:
    """The items that the program would send now. A compaction left the first `compacted` ones."""

    items: list[Item] = field(default_factory=list)
    compacted: int = 0
    count: int = 0
    model: str | None = None
    has_messages: bool = False
    said: int = 0
    """The messages of the user, without those that compactions left."""
    begun: list[int] = field(default_factory=list)
    """By turn: `said` when it began. Only rollouts since 2026 say that one begins."""
    replaced: list[Replaced] = field(default_factory=list)

    def add(self, payload: dict[str, Any], ts: int | None, *, is_left: bool = False) -> NewMessage:
        """The next item as a message; a compaction or a rollback may have left it."""
        self.count += 1
        self.has_messages |= is_message(payload)
        name = f"{self.count}:{payload.get('id') or payload.get('call_id') or '-'}"
        message = item_message(payload, name, ts, self.model)
        role = payload.get("role") if is_message(payload) else None
        parts = dicts(payload.get("content")) if role == "user" else []
        is_own = any(_CONTEXT.fullmatch(str(part.get("text")).strip()) for part in parts)
        is_context = is_own or role in ("developer", "system")
        is_turn = role == "user" and not is_own
        self.said += is_turn and not is_left
        text = _text_of_content(payload.get("content")) if is_turn else ""
        is_first = is_context and all(item.is_context for item in self.items)
        may_return = is_left or is_first or (is_turn and _is_text(payload, text))
        self.items.append(Item(name, is_turn, is_context, text, payload if may_return else None))
        return message

    def replace(self, items: Iterable[dict[str, Any]], ts: int | None) -> list[NewMessage]:
        """The items that a compaction puts in place of all, as messages."""
        self.replaced.append(Replaced(self.items, self.compacted, len(self.begun), self.said))
        self.items = []
        rows = [self.add(item, ts, is_left=True) for item in items]
        self.compacted = len(rows)
        return rows

    def roll_back(self, turns: int) -> None:
        """Drop the last turns of the user, and undo the compactions that were made in them."""
        if turns <= 0:
            return
        left, at = max(self.said - turns, 0), self.said
        while self.begun and at > left:
            at = self.begun.pop()
        undone: Replaced | None = None
        while self.replaced and self.replaced[-1].turn > len(self.begun):
            undone = self.replaced.pop()
        # What the user added to a turn after its compaction may be all that is dropped.
        if undone is not None and undone.said >= left:
            self.items, self.compacted = undone.items, undone.compacted
            turns -= self.said - undone.said
        self.said = left
        self._cut(turns)

    def _cut(self, turns: int) -> None:
        """Drop the last turns of the user, with the context that was written for them."""
        starts = [index for index, item in enumerate(self.items) if item.is_turn]
        if not starts:
            return
        first = max(len(starts) - turns, 0)
        at = starts[first] if turns else len(self.items)
        # The context before the first turn is the session's.
        while first and at and self.items[at - 1].is_context:
            at -= 1
        del self.items[at:]


def is_sent(payload: dict[str, Any]) -> bool:
    """True if an item is sent to the model."""
    return payload.get("type", "message") in _SENT and payload.get("role") != "system"


def is_message(payload: dict[str, Any]) -> bool:
    """True if an item is a message."""
    return bool(payload.get("type", "message") == "message")


def _is_text(payload: dict[str, Any] | None, text: str) -> bool:
    """True if an item has this text and nothing else."""
    content = text_item("user", text)["content"]
    return payload is not None and bool(payload.get("content") == content)


def text_item(role: str, text: str) -> dict[str, Any]:
    """A message of one text as an item."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def item_message(
    payload: dict[str, Any], name: str, ts: int | None, model: str | None
) -> NewMessage:
    """An item as a message."""
    kind = str(payload.get("type") or "message")
    role = payload.get("role")
    if kind != "message" or not isinstance(role, str):
        role = "user" if kind.endswith("output") else "assistant"
    model = model if role == "assistant" else None
    message = NewMessage(role, payload, FORMAT, ts=ts, message_id=name, model=model)
    return typed(message, _INSERTIONS.typed) if kind == "message" else message


def _texts(message: NewMessage) -> str:
    """A message's texts; nothing if it cannot be read."""
    try:
        return text_of(reader(FORMAT).blocks(message.role, message.content)[1])
    except (AttributeError, TypeError, ValueError):
        return ""


def compaction_events(
    payload: dict[str, Any], at: Placed, ts: int | None, history: CodexHistory
) -> Iterator[Event]:
    """The events of a compaction."""
    replaced, text = payload.get("replacement_history"), payload.get("message")
    summary = text if isinstance(text, str) else ""
    if isinstance(replaced, list):
        yield from _replaced(replaced, summary, at, ts, history)
    else:
        yield _summed_up(summary if summary.strip() else _NO_SUMMARY, at, ts, history)


def _replaced(
    items: list[Any], summary: str, at: Placed, ts: int | None, history: CodexHistory
) -> Iterator[Event]:
    name, line = f"compacted:{at.name}", at.line.number
    rows = history.replace(filter(is_sent, dicts(items)), ts)
    # The summary is the row that holds its text, or else the last one that has words.
    texts = list(map(_texts, rows))
    holds = [n for n, words in enumerate(texts) if summary.strip() and summary.strip() in words]
    speaks = [n for n, words in enumerate(texts) if words.strip()]
    sealed = [n for n, row in enumerate(rows) if newest_compaction(FORMAT, row.content)]
    if sealed and not holds:
        newest = sealed[-1]
        # The items after it came later: a rollback may go back to right after it.
        history.compacted = newest + 1
        yield Covered(name, tuple(rows[: newest + 1]), line)
        for row in rows[newest + 1 :]:
            yield Added(row.message_id, row, line)
        return
    if leads := holds or speaks:
        yield Hid(name, tuple(rows), lead=leads[-1], record=_RECORD, line=line)
        return
    # No text replaces what was there: these items are all there is.
    yield WentBack(name, None, line, ts)
    for row in rows:
        yield Added(row.message_id, row, line)


def _summed_up(summary: str, at: Placed, ts: int | None, history: CodexHistory) -> Event:
    """The session's first context, the user's messages that are kept, and the summary."""
    before = history.items
    history.items = list(takewhile(lambda item: item.is_context, before))
    texts = _keep_turns([item for item in before if item.is_turn], history)
    keeps = frozenset(item.name for item in history.items)
    rows = tuple(
        history.add(text_item("user", text), ts, is_left=True) for text in (*texts, summary)
    )
    history.compacted = len(history.items)
    name, lead = f"compacted:{at.name}", len(rows) - 1
    return Hid(name, rows, keeps=keeps, lead=lead, at_end=True, record=_RECORD, line=at.line.number)


def _keep_turns(turns: list[Item], history: CodexHistory) -> list[str]:
    """Keep the user's messages that are sent as they are; return the texts of those after them."""
    own = [item for item in turns if not item.text.startswith(f"{_PREFIX}\n")]
    sent = [*_within_limit(item.text for item in reversed(own))][::-1]
    for number, (item, text) in enumerate(zip(own[len(own) - len(sent) :], sent, strict=True)):
        if not _is_text(item.payload, text):
            return sent[number:]
        history.items.append(item)
    return []


def _text_of_content(content: Any) -> str:
    """The text of a user's message, as a compaction reads it."""
    parts = dicts(content)
    is_image = [part.get("type") == "input_image" for part in parts]
    return "".join(
        text
        for number, part in enumerate(parts)
        if isinstance(text := part.get("text"), str)
        # The program itself wraps an image into tags.
        and not (any(is_image[max(number - 1, 0) : number + 2]) and _IMAGE_TAG.fullmatch(text))
    )


def _within_limit(newest_first: Iterable[str]) -> Iterator[str]:
    """The user's messages within the limit, the newest first."""
    left = _TOKENS
    for text in newest_first:
        if not left:
            return
        data = text.encode("utf-8", "surrogatepass")
        size = -(-len(data) // _TOKEN)
        if size > left:
            yield _without_middle(data, left * _TOKEN).decode("utf-8", "surrogatepass")
            return
        yield text
        left -= size


def _without_middle(data: bytes, limit: int) -> bytes:
    start, end = limit // 2, len(data) - (limit - limit // 2)
    while start and data[start] & 0xC0 == 0x80:  # between two characters
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    removed = -(-(len(data) - limit) // _TOKEN)
    return data[:start] + f"…{removed} tokens truncated…".encode() + data[end:]
