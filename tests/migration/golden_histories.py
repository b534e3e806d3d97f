"""Sessions with a past: whatever a session can have done to it, in a few nasty orders."""

from collections.abc import Callable
from typing import Any

from roocontext import NewMessage, Plan, Session, Store


def plain(chat: Session) -> None:
    """Six messages."""
    say(chat, 6)


def condensed(chat: Session) -> None:
    """A summary with a companion, in the place of what it stands for, and more after it."""
    say(chat, 8)
    condense(chat, slice(1, 5), companions=[NewMessage("assistant", "noted")])
    say(chat, 2)


def condensed_twice(chat: Session) -> None:
    """A summary that hides a summary."""
    condensed(chat)
    condense(chat, slice(0, 4))
    say(chat, 1)


def condensed_at_the_end(chat: Session) -> None:
    """A summary after the messages that stay."""
    say(chat, 6)
    condense(chat, slice(0, 3), at_end=True)


def truncated(chat: Session) -> None:
    """A marker over what a summary left."""
    condensed(chat)
    view = chat.view()
    chat.commit(Plan.truncate(view, [m.seq for m in view.messages[:4]], "cut"))
    say(chat, 1)


def cleared(chat: Session) -> None:
    """Outputs of tools cleared, one message with two of them and one with one."""
    for turn in range(3):
        names = [f"call {turn}.{part}" for part in range(3)]
        calls = [{"type": "tool_use", "id": name, "name": "ls", "input": {}} for name in names]
        done = {"type": "tool_result"}
        results = [{**done, "tool_use_id": name, "content": f"{name} " * 40} for name in names]
        for role, content in (("user", f"go {turn}"), ("assistant", calls), ("user", results)):
            chat.append(role, content)
    chat.commit(Plan.clear(chat.view(), [(3, 2), (3, 0), (6, 1)], "gone"))
    chat.commit(Plan.clear(chat.view(), [(3, 1)], "gone too"))
    chat.commit(Plan.clear(chat.view(), [(9, 0), (9, 2)], "cut", keep=(20, 10)))
    chat.commit(Plan.clear(chat.view(), [(9, 2)], "gone"))


def rewound(chat: Session) -> None:
    """Rewound before a summary, gone on, and rewound again."""
    condensed(chat)
    chat.rewind(4)
    say(chat, 3)
    chat.rewind(2)
    say(chat, 1)


def undone(chat: Session) -> None:
    """Rewound across a clearing, undone, redone, undone."""
    cleared(chat)
    chat.rewind(9)
    for _ in range(3):
        chat.undo()


def emptied(chat: Session) -> None:
    """Rewound to nothing."""
    condensed(chat)
    chat.rewind(0)


def uncovered(chat: Session) -> None:
    """A summary with its companion and a clearing uncovered, covered again, and uncovered."""
    cleared(chat)
    condense(chat, slice(0, 3), companions=[NewMessage("assistant", "noted")])
    say(chat, 2)
    chat.uncover(11)
    chat.uncover(12)
    chat.rewind(15)
    say(chat, 1)
    chat.uncover(12)
    condense(chat, slice(0, 3))


def noted(chat: Session) -> None:
    """Notes between the messages, one message pinned and one redacted."""
    say(chat, 3)
    chat.set_title("a title")
    chat.pin(2)
    say(chat, 2)
    condense(chat, slice(2, 5))
    chat.set_metadata({"project": "parser"})
    chat.redact(3)
    say(chat, 1)


def forked(chat: Session) -> None:
    """A fork taken amid a stretch that was rewound later, and gone on with."""
    condensed_twice(chat)
    chat.rewind(3)
    say(chat.fork(12, session_id=f"{chat.id}-fork"), 2)


def foreign(chat: Session) -> None:
    """Messages of other formats, and text that engines like to change."""
    chat.append("user", {"role": "user", "content": "hi"}, format="openai", ts=-5)
    chat.append("model", {"parts": [{"text": "ho"}]}, format="gemini", model="m", usage={"n": 1})
    chat.append("user", "NUL \0, lone \ud800, \u20ac, emoji \U0001f600, quote ' and \"")
    chat.append("assistant", [{"type": "odd", "n": [1, 1.0, True, None, 2**70, {"b": 1, "a": 2}]}])


def told(chat: Session) -> None:
    """Messages with data of the agent's own, and what they were asked at and answer."""
    say(chat, 1)
    call = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    chat.append("assistant", [call], asked_at=1, extra={"stop_reason": "tool_use", "n": [1.0]})
    result = {"type": "tool_result", "tool_use_id": "t", "content": "ok"}
    chat.append("user", [result], answers=(2, 0), extra="a commit")
    chat.append("assistant", "gone", asked_at=3, extra={"gone": "too"})
    chat.redact(4)


ALL = [
    *(plain, condensed, condensed_twice, condensed_at_the_end, truncated, cleared, rewound),
    *(undone, emptied, noted, forked, foreign, uncovered, told),
]
HISTORIES: dict[str, Callable[[Session], None]] = {one.__name__: one for one in ALL}


def make_all(store: Store) -> None:
    """One session of each, and a child."""
    for name, history in HISTORIES.items():
        history(store.create(name))
    plain(store.create("child", parent="plain", metadata={"user": "ann"}))


def say(chat: Session, times: int) -> None:
    """Append messages, turn by turn."""
    for number in range(times):
        role = "assistant" if number % 2 else "user"
        text = f"{number}: something long enough to be worth a summary of its own"
        chat.append(role, text, message_id=f"m{number}")


def condense(chat: Session, which: slice, **options: Any) -> None:
    """Put a summary in the place of a part of the view."""
    view = chat.view()
    hide = [message.seq for message in view.messages[which]]
    chat.commit(Plan.condense(view, hide, "in short", **options))
