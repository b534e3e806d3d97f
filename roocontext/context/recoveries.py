"""The cuts of a request that the provider refused as too long.

Each cut leaves a note that names the model's last reply, so that the cuts since that reply are
counted across managers and processes. Notes of other replies do not count: after a rewind the
request is another one.
"""

from typing import Final, NamedTuple

from roocontext.context.session_port import LiveSession
from roocontext.context.steps import Steps, ask
from roocontext.log.entries import Kind
from roocontext.log.readings.blocks import side_of
from roocontext.store.counting.snapshot import SnapshotRows, Wanted
from roocontext.store.writing.items import NewNote
from roocontext.tokens.refusals import REFUSED

NOTE: Final = "recovery"
"""The kind of the notes."""

RECOVERIES: Final = 3
"""The most cuts of a request before the model has replied."""


class Recoveries(NamedTuple):
    """The number of cuts since the newest live reply, and the tokens of the request now.

    `reply` is the seq of that reply, 0 if there is none.
    """

    reply: int
    done: int
    tokens: int

    @property
    def note(self) -> NewNote:
        """The note for one more cut."""
        return NewNote(NOTE, {"reply": self.reply, "attempt": self.done + 1})


def recoveries(port: LiveSession) -> Steps[Recoveries]:
    """Read them from the session."""
    counter, chat = port.settings.counter, port.chat
    live = yield from port.read(Wanted(counter=counter, rows=SnapshotRows.LIVE, notes=[REFUSED]))
    port.learn(live.notes.get(REFUSED))
    messages = (row.message for row in live.rows if row.message.kind is Kind.MESSAGE)
    replies = (message.seq for message in messages if side_of(message.role) == "assistant")
    reply = max(replies, default=0)
    notes = yield from ask(lambda: chat.notes(NOTE))
    done = sum(note.content.get("reply") == reply for note in notes)
    return Recoveries(reply, done, live.sums[counter.name] + port.frame.overhead.tokens)
