"""Reads a provider's refusal of a request that is too long, and how much of it must be cut.

Each cut leaves a note that names the model's last reply, so that the cuts since that reply are
counted across managers and processes. Notes of other replies do not count: after a rewind the
request is another one.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from roocontext.context.session_port import LiveSession
from roocontext.context.steps import Steps, ask
from roocontext.log.entries import Kind, Message
from roocontext.log.readings.blocks import side_of
from roocontext.store.counting.snapshot import SnapshotRows, Wanted
from roocontext.store.writing.items import NewNote

CUT: Final = 0.75
"""The largest part of a refused request that a recovery leaves."""

MARGIN: Final = 0.95
"""The largest part of the provider's limit that a recovery fills."""

# Texts of the providers. A text that is missing here is still recognised by its phrase; the request
# is then cut to three quarters.
_NUMBERS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # Anthropic
        r"too long: (?P<sent>\d{1,18}) tokens > (?P<limit>\d{1,18})",
        # OpenAI, and servers that imitate it
        r"maximum context length is (?P<limit>\d{1,18}) tokens\D+(?P<sent>\d{1,18}) tokens",
        r"maximum prompt length is (?P<limit>\d{1,18})\D+(?P<sent>\d{1,18}) tokens",
        # Gemini
        (
            r"input token count \(?(?P<sent>\d{1,18})\)?\D+"
            r"number of tokens allowed \(?(?P<limit>\d{1,18})"
        ),
        r"prompt token count of (?P<sent>\d{1,18}) exceeds the limit of (?P<limit>\d{1,18})",
        r"exceed context limit: (?P<sent>\d{1,18}) \+ \d+ > (?P<limit>\d{1,18})",
    )
)
_PHRASES: Final = re.compile(
    r"prompt is too long|context.length.exceeded|maximum context length|context limit"
    r"|context window|context size|context length|too many tokens|input token count"
    r"|request.too.large|input is too long|reduce the length|maximum prompt length"
    r"|prompt.tokens.exceeded|prompt token count|model token limit|prompt exceeds max"
    r"|range of input length|inputs. tokens \+|too many images|at most \d+ images"
    r"|exceeds the maximum (?:size|number of tokens)",
    re.IGNORECASE,
)
_RATE: Final = re.compile(r"per min|per day|rate.limit|\bTPM\b", re.IGNORECASE)
"""A rate limit: retry later, even if the refusal speaks of length."""

ENTITY_TOO_LARGE: Final = 413


class PromptTooLong(NamedTuple):
    """The provider's numbers, if it named any."""

    sent: int | None = None
    limit: int | None = None

    def cap(self, counted: int) -> int:
        """The size to cut to, as the manager counts: three quarters, or less if necessary."""
        cap = int(counted * CUT)
        if self.sent and self.limit and self.sent > self.limit:
            cap = min(cap, int(counted * self.limit / self.sent * MARGIN))
        return max(1, cap)


def too_long(error: BaseException) -> PromptTooLong | None:
    """Read a provider's refusal, also as the cause of another error; None for other errors."""
    return next(filter(None, map(_read, _chain(error, []))), None)


def _chain(error: BaseException | None, met: list[BaseException]) -> Iterator[BaseException]:
    """The error and its causes, each once: an error may be its own cause."""
    if error is None or any(error is other for other in met):
        return
    met.append(error)
    yield error
    # Agents wrap the SDK's error in their own, and task groups in a group.
    inside = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for cause in (*inside, error.__cause__):
        yield from _chain(cause, met)


def _read(error: BaseException) -> PromptTooLong | None:
    text = f"{error} {getattr(error, 'body', '')} {getattr(error, 'code', '')}".replace(",", "")
    # Before the numbers: a limit per minute also names how many tokens were sent.
    if _RATE.search(text):
        return None
    for pattern in _NUMBERS:
        if numbers := pattern.search(text):
            return PromptTooLong(int(numbers["sent"]), int(numbers["limit"]))
    is_entity = getattr(error, "status_code", None) == ENTITY_TOO_LARGE
    return PromptTooLong() if is_entity or _PHRASES.search(text) else None


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
    live = yield from port.read(Wanted(counter=counter, rows=SnapshotRows.LIVE))
    replies = (message.seq for message, *_ in live.rows if _is_reply(message))
    reply = max(replies, default=0)
    notes = yield from ask(lambda: chat.notes(NOTE))
    done = sum(note.content.get("reply") == reply for note in notes)
    return Recoveries(reply, done, live.sums[counter.name] + port.frame.overhead.tokens)


def _is_reply(message: Message) -> bool:
    return message.kind is Kind.MESSAGE and side_of(message.role) == "assistant"
