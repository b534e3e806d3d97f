"""The items that Codex CLI would send now, while its rollout is read."""

from dataclasses import dataclass, field
from typing import Any

from roocontext.formats.codex_items import Item, Items
from roocontext.formats.codex_kept import is_summary, text_of_content
from roocontext.formats.codex_lines import Placed, opened_line
from roocontext.formats.events import Added, Event
from roocontext.formats.lines import SourceLine, read_at
from roocontext.formats.source_files import opened as opened_file
from roocontext.formats.typed import Insertions, typed
from roocontext.log.entries import NewMessage
from roocontext.log.readings import reader, text_of

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
