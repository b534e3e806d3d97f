"""The lines of a Codex CLI rollout, and the items that the program would send now."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from roocontext.formats.events import Added, Event, Hid, Problem, WentBack
from roocontext.formats.files import SourceLine, read_at, read_lines
from roocontext.formats.files import opened as opened_file
from roocontext.formats.typed import Insertions, typed
from roocontext.log.entries import NewMessage
from roocontext.log.readings import reader, text_of

_THREAD = re.compile(r"[\w-]+")
# Tuples: what a damaged record holds in the place of a name need not be hashable.
ENVELOPES = ("session_meta", "response_item", "turn_context", "compacted", "event_msg")


class Placed(NamedTuple):
    """A line, its file, and its number as a name that no line of another file has."""

    path: Path
    line: SourceLine
    name: str


def read_threads(
    path: Path,
    problems: list[Problem],
    *,
    end: int | None = None,
    above: tuple[Path, ...] = (),
) -> Iterator[Placed]:
    """The lines of a rollout in their order, behind those of its base; `end` is not read."""
    is_begun = False
    for line in read_lines(path, problems):
        record = line.record if isinstance(line.record, dict) else {}
        ordinal = record.get("ordinal")
        if end is not None and type(ordinal) is int and ordinal >= end:
            return
        if not is_begun and record.get("type") == "session_meta":
            is_begun = True
            yield from _base(record.get("payload"), line, problems, end, (*above, path))
        name = f"{path.stem}:{line.number}" if above else f"{line.number}"
        yield Placed(path, line, name)


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
            path = above[-1]
            found = _rollout(path, thread) if _THREAD.fullmatch(thread) else None
            if found is None or found in above:
                what = "the thread that it was forked from is not here, so its history is missing"
                problems.append(Problem(path, line.number, what))
                return
            last = last if end is None else min(last, end)
            yield from read_threads(found, problems, end=last, above=above)


def _rollout(path: Path, thread: str) -> Path | None:
    """The rollout of another thread: in the same folder, or where the program keeps them all."""
    name = f"rollout-*-{thread}.jsonl"
    homes = [folder.parent for folder in path.parents if folder.name.endswith("sessions")][:1]
    places = [path.parent.glob(name)]
    for home in homes:
        places += [home.glob(f"sessions/*/*/*/{name}"), home.glob(f"archived_sessions/{name}")]
    return next((found for place in places for found in sorted(place)), None)


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


_PACKED = Struct("<QQIIi???H")
_WHOLE_LINE = -1


class Item(NamedTuple):
    """An item of the history: its number, whose words it holds, and where it is.

    `place` is its number in a list that replaced the history; None if the line itself is the item.
    A rollback counts the items that are turns. A compaction without a list keeps those that are
    `is_users`.
    """

    start: int
    end: int
    line: int
    number: int
    place: int | None
    is_turn: bool
    is_users: bool
    is_context: bool
    path: Path


class Items:
    """The items that the program would send now."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._packed = bytearray()
        self._paths: list[Path] = []
        for item in items:
            self.append(item)

    def append(self, item: Item) -> None:
        """The next item."""
        if item.path not in self._paths:
            self._paths.append(item.path)
        *numbers, place, is_turn, is_users, is_context, path = item
        place = _WHOLE_LINE if place is None else place
        flags = (is_turn, is_users, is_context)
        self._packed += _PACKED.pack(*numbers, place, *flags, self._paths.index(path))

    def cut(self, at: int) -> None:
        """Drop the items from this one on."""
        del self._packed[at * _PACKED.size :]

    def __len__(self) -> int:
        return len(self._packed) // _PACKED.size

    def __getitem__(self, at: int) -> Item:
        return self._unpacked(_PACKED.unpack_from(self._packed, at % len(self) * _PACKED.size))

    def __iter__(self) -> Iterator[Item]:
        return map(self._unpacked, _PACKED.iter_unpack(self._packed))

    def _unpacked(self, packed: tuple[int, ...]) -> Item:
        start, end, line, number, place, is_turn, is_users, is_context, path = packed
        return Item(
            start,
            end,
            line,
            number,
            None if place == _WHOLE_LINE else place,
            bool(is_turn),
            bool(is_users),
            bool(is_context),
            self._paths[path],
        )


FORMAT = "openai-responses"
_LEAVES_CONTEXT = ((0, 77), (0, 105))
"""From the release with the first rollbacks to the one since which a rollback also drops the
context that was written for the turn."""
_ABORTED = "<turn_aborted>"
_KNOWS_ABORTS = (0, 99)
_CONTEXT = (
    *("<environment_context>", "<user_instructions>", "<INSTRUCTIONS>", "# AGENTS.md"),
    *(_ABORTED, "<user_shell_command>", "<skill>", "<subagent_notification>"),
)
"""How the program's own words begin that it says as the user."""
_INSERTIONS = Insertions(
    openings=(
        *_CONTEXT,
        "Warning: apply_patch was requested via",
        "<image>",
        "<image name=",
        "</image>",
    ),
    tags=(
        *("environment_context", "user_instructions", "INSTRUCTIONS", "turn_aborted"),
        *("user_shell_command", "user_action", "skill", "subagent_notification", "hook_prompt"),
        *("collaboration_mode", "personality_spec", "realtime_conversation"),
    ),
    heading="## My request for Codex:",
)


@dataclass(slots=True)
class CodexHistory:
    """The items that the program would send now, and the reply whose usage may still come.

    The first `compacted` ones are what the last compaction left. `texts` are those of items that
    the rollout does not hold, by their numbers. `events` are the texts of events, as long as no
    item is a message.
    """

    items: Items = field(default_factory=Items)
    compacted: int = 0
    count: int = 0
    version: tuple[int, ...] = ()
    texts: dict[int, str] = field(default_factory=dict)
    model: str | None = None
    reply: Added | None = None
    behind: list[Event] = field(default_factory=list)
    events: list[Added] | None = field(default_factory=list)

    def add(
        self, payload: dict[str, Any], at: Placed, ts: int | None, place: int | None = None
    ) -> NewMessage:
        """The next item as a message."""
        self.count += 1
        name = _name(self.count, payload)
        message = item_message(payload, name, ts, self.model)
        words = codex_texts(message)
        speaks = payload.get("type", "message") == "message"
        is_user = speaks and payload.get("role") == "user"
        is_own = is_user and words.lstrip().startswith(_CONTEXT)
        is_context = is_own or (speaks and payload.get("role") in ("developer", "system"))
        is_kept = is_user and (not is_own or self._keeps(words))
        # Without the record, which may be long, and is read again where it is needed.
        where = (at.line.start, at.line.end, at.line.number, self.count, place)
        self.items.append(Item(*where, is_user and not is_own, is_kept, is_context, at.path))
        if speaks:
            self.events = None
        return message

    def _keeps(self, words: str) -> bool:
        """Whether a compaction keeps these words of the program's own among the user's."""
        return self.version < _KNOWS_ABORTS and words.lstrip().startswith(_ABORTED)

    def write(self, text: str, at: Placed, ts: int | None) -> NewMessage:
        """The next item, a message of the user's that the rollout does not hold."""
        message = self.add(text_item("user", text), at, ts)
        self.texts[self.count] = text
        return message

    def again(self, item: Item) -> NewMessage:
        """An item that a rollback has left, once more."""
        at = Placed(item.path, SourceLine(item.line, None, item.start, item.end), "")
        if item.number in self.texts:
            return self.write(self.texts[item.number], at, None)
        return self.add(self.read(item), at, None, item.place)

    def read(self, item: Item) -> dict[str, Any]:
        """An item as it was added."""
        if item.number in self.texts:
            return text_item("user", self.texts[item.number])
        with opened_file(item.path) as file:
            _, payload = opened_line(read_at(file, item.start, item.end))
        if item.place is None:
            return payload
        found: dict[str, Any] = payload["replacement_history"][item.place]
        return found

    def id_of(self, item: Item) -> str:
        """The id of an item's message."""
        return _name(item.number, self.read(item))

    def text_of(self, item: Item) -> str | None:
        """What a compaction takes for the text of a user's message; None if it skips the item."""
        text = text_of_content(self.read(item).get("content"), self.version)
        return None if text is None or is_summary(text, self.version) else text

    def cut(self, turns: int) -> None:
        """Drop the last turns of the user."""
        starts = [index for index, item in enumerate(self.items) if item.is_turn]
        if not starts or turns <= 0:
            return
        first = max(len(starts) - turns, 0)
        at = starts[first]
        # A dropped turn takes its prompt with it, but the first turn's prompt is the session's.
        since, until = _LEAVES_CONTEXT
        takes = first > 0 and not since <= self.version < until
        while takes and at and self.items[at - 1].is_context:
            at -= 1
        self.items.cut(at)


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
    is_reply = role == "assistant"
    model = model if is_reply else None
    message = NewMessage(role, payload, FORMAT, ts=ts, message_id=name, model=model)
    return typed(message, _INSERTIONS.typed) if kind == "message" else message


def codex_texts(message: NewMessage) -> str:
    """A message's texts; nothing if it cannot be read."""
    try:
        return text_of(reader(FORMAT).blocks(message.role, message.content)[1])
    except (AttributeError, TypeError, ValueError):
        return ""


def _name(number: int, payload: dict[str, Any]) -> str:
    return f"{number}:{payload.get('id') or payload.get('call_id') or '-'}"


_FIRST, _LIMITED, _COUNTED, _APART, _ROUNDED = (0, 30), (0, 40), (0, 48), (0, 54), (0, 59)
"""The releases that send one message, limit it, count its tokens, send several, count by fours."""
_TOKENS = 20_000
_TOKEN = 4
"""How many bytes the program takes for a token."""
_PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking "
    "process. You also have access to the state of the tools that were used by that language "
    "model. Use this to build on the work that has already been done and avoid duplicating work. "
    "Here is the summary produced by the other language model, use the information in this "
    "summary to assist with your own analysis:"
)
_IMAGE_TAG = re.compile(r"<image( name=[^>]*)?>|</image>")


def is_bridged(version: tuple[int, ...]) -> bool:
    """Whether this release puts everything into one message."""
    return _FIRST <= version < _APART


def is_summary(text: str, version: tuple[int, ...]) -> bool:
    """Whether the release knows this text for the summary of an earlier compaction."""
    return not _FIRST <= version < _ROUNDED and text.startswith(f"{_PREFIX}\n")


def text_of_content(content: Any, version: tuple[int, ...]) -> str | None:
    """The text of a user's message; None if the release skips a message without text."""
    parts = content if isinstance(content, list) else []
    parts = [part for part in parts if isinstance(part, dict)]
    is_image = [part.get("type") == "input_image" for part in parts]
    texts = [
        text
        for number, part in enumerate(parts)
        if isinstance(text := part.get("text"), str)
        # The program itself wraps an image into tags.
        and not (any(is_image[max(number - 1, 0) : number + 2]) and _IMAGE_TAG.fullmatch(text))
    ]
    if _FIRST <= version < _COUNTED:
        return "\n".join(filter(None, texts)) or None
    return "".join(texts)


def kept_messages(newest_first: Iterable[str], version: tuple[int, ...]) -> Iterator[str]:
    """What is left of the user's messages, from the newest backwards."""
    unit = 1 if _FIRST <= version < _ROUNDED else _TOKEN
    left = _TOKENS * _TOKEN // unit
    for text in newest_first:
        if not left:
            return
        data = _encoded(text)
        size = -(-len(data) // unit)
        if size > left:
            yield _decoded(
                _cut_at_lines(data, left, _tokens)
                if unit == 1
                else _cut_at_characters(data, left * unit)
            )
            return
        yield text
        left -= size


def bridge(texts: list[str], summary: str, version: tuple[int, ...]) -> str:
    """The one message: what the user has written, and the summary."""
    written = "\n\n".join(texts) or "(none)"
    data = _encoded(written)
    if version >= _LIMITED and len(data) > _TOKENS * _TOKEN:
        count = _fours if version < _COUNTED else _tokens
        written = _decoded(_cut_at_lines(data, _TOKENS * _TOKEN, count))
    return (
        "You were originally given instructions from a user over one or more turns. "
        "Here were the user messages:\n\n"
        f"{written}\n\n"
        f"{_PREFIX}\n\n{summary}"
    )


def _cut_at_lines(data: bytes, limit: int, count: Callable[[bytes], int]) -> bytes:
    """Leave out the middle, from a line's end to a line's start where there are any."""
    whole = removed = count(data)
    for _ in range(5):  # the marker's length depends on the number in it
        marker = _marker(removed)
        room = limit - len(marker)
        if room <= 0:
            return _marker(whole)
        start = _line_end(data, room // 2)
        end = max(start, _line_start(data, len(data) - (room - room // 2)))
        guess, removed = removed, count(data[start:end])
        if removed == guess:
            break
    return data[:start] + marker + b"\n" + data[end:]


def _cut_at_characters(data: bytes, limit: int) -> bytes:
    """Leave out the middle, wherever it begins and ends."""
    start = _boundary(data, limit // 2, -1)
    end = _boundary(data, len(data) - (limit - limit // 2), 1)
    return data[:start] + _marker(-(-(len(data) - limit) // _TOKEN)) + data[end:]


def _line_end(data: bytes, at: int) -> int:
    found = data.rfind(b"\n", 0, at) if _is_boundary(data, at) else -1
    return found + 1 if found >= 0 else _boundary(data, at, -1)


def _line_start(data: bytes, at: int) -> int:
    found = data.find(b"\n", at) if _is_boundary(data, at) else -1
    return found + 1 if found >= 0 else _boundary(data, at, 1)


def _boundary(data: bytes, at: int, step: int) -> int:
    """The nearest place between two characters in this direction."""
    while not _is_boundary(data, at):
        at += step
    return at


def _is_boundary(data: bytes, at: int) -> bool:
    return at in (0, len(data)) or data[at] & 0xC0 != 0x80


def _marker(tokens: int) -> bytes:
    return f"…{tokens} tokens truncated…".encode()


def _tokens(data: bytes) -> int:
    from roocontext.tokens.bpe import O200K  # noqa: PLC0415 - few rollouts need it

    return O200K.count(_decoded(data))


def _fours(data: bytes) -> int:
    return -(-len(data) // _TOKEN)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


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
