"""How often a refused request was cut since the model last replied.

Each cut leaves a note that names that reply, so that another manager or process counts on from
there. Notes of other replies do not count: after a rewind the request is another one.
"""

from typing import Any, Final, NamedTuple

from roocontext.context.desk import Steps
from roocontext.log.entries import Kind, Message
from roocontext.log.readings import reader

NOTE: Final = "recovery"
"""The kind of the notes."""

RECOVERIES: Final = 3
"""How often a request is cut before the model has replied."""


class Recoveries(NamedTuple):
    """The seq of the newest live reply (0 if there is none), and how many cuts followed it."""

    reply: int
    done: int


def recoveries(chat: Any) -> Steps:
    """Read them from the session."""
    reply = _newest_reply([row.message for row in (yield chat.live())])
    notes = yield chat.notes(NOTE)
    return Recoveries(reply, sum(note.content.get("reply") == reply for note in notes))


def recovered(chat: Any, before: Recoveries) -> Steps:
    """Note one more."""
    yield chat.note(NOTE, {"reply": before.reply, "attempt": before.done + 1})


def _newest_reply(messages: list[Message]) -> int:
    newest_first = sorted(messages, key=lambda message: -message.seq)
    return next((message.seq for message in newest_first if _is_reply(message)), 0)


def _is_reply(message: Message) -> bool:
    role, _ = reader(message.format).blocks(message.role, message.content)
    return message.kind is Kind.MESSAGE and role == "assistant"
