"""How often a refused request was cut since the model last replied.

Each cut leaves a note that names that reply, so that another manager or process counts on from
there. Notes of other replies do not count: after a rewind the request is another one.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from roocontext.context.session_port import LiveSession
from roocontext.context.steps import Steps
from roocontext.log.entries import Kind, Message
from roocontext.log.readings import reader
from roocontext.store.items import NewNote

NOTE: Final = "recovery"
"""The kind of the notes."""

RECOVERIES: Final = 3
"""How often a request is cut before the model has replied."""


class Recoveries(NamedTuple):
    """How many cuts followed the newest live reply, and what the request costs now.

    `reply` is the seq of that reply, 0 if there is none.
    """

    reply: int
    done: int
    tokens: int

    @property
    def note(self) -> NewNote:
        """The note of one more."""
        return NewNote(NOTE, {"reply": self.reply, "attempt": self.done + 1})


def recoveries(port: LiveSession) -> Steps[Recoveries]:
    """Read them from the session."""
    live = yield from port.live()
    reply = _newest_reply(row.message for row in live.rows)
    notes = yield from port.notes(NOTE)
    done = sum(note.content.get("reply") == reply for note in notes)
    tokens = live.sums[port.settings.counter.name] + port.frame.overhead.tokens
    return Recoveries(reply, done, tokens)


def _newest_reply(messages: Iterable[Message]) -> int:
    newest_first = sorted(messages, key=lambda message: -message.seq)
    return next((message.seq for message in newest_first if _is_reply(message)), 0)


def _is_reply(message: Message) -> bool:
    role, _ = reader(message.format).blocks(message.role, message.content)
    return message.kind is Kind.MESSAGE and role == "assistant"
