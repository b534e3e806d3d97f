"""How full the context window is: what the next call of the model would send, and its limit.

What the provider reported for the last call is known. Only what came after it is counted. Before
the first call, and after a summary, marker, clearing or uncovering, nothing is known: everything is
counted, and so are the system prompt and the tools if they are recorded.

The model is the one that is given, or else the one that the newest message names. Without a model
there is a count but no limit.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from roocontext.log.entries import Control, Kind
from roocontext.log.spans import live_ranges, within
from roocontext.reports.document import Document
from roocontext.tokens import counter_for, last_request, limit_for, size_of

if TYPE_CHECKING:
    from roocontext import Session
    from roocontext.log.counting import Counter
    from roocontext.store.proof.verify import Progress

BYTES_A_TOKEN = 4
"""The list of sessions estimates tokens from bytes, because it must not read contents."""

_RECENT = 200
"""Among how many of the newest entries the last call is looked for."""

_SPOKEN = 50
"""Among how many of the newest messages of the view a model is looked for."""


def silent(_done: int, _total: int) -> None:
    """Report no progress."""


class Gauge(Document):
    """How much of a model's context window the next call would take.

    `reported` is what the provider reported for the call that entry `reported_at` answers: its
    prompt and its answer. The rest of `tokens` was counted. Both are None if nothing was reported,
    or if the view was changed since; then all of it was counted, and `has_frame` says whether that
    includes the system prompt and the tools. `limit` is None if no model is known. `limit_source`
    says where the limit comes from: `table:` and a line of the table of models, the name of an
    environment variable, `override` if it was given, or `default` for a model that the table does
    not have.
    """

    tokens: int
    exact: bool
    counter: str
    reported: int | None
    reported_at: int | None
    has_frame: bool
    model: str | None
    limit: int | None
    limit_source: str | None


@dataclass(frozen=True, slots=True)
class Reported:
    """The last call of a model: the answer's entry, and the tokens of its prompt and answer."""

    seq: int
    tokens: int


def model_in_use(chat: "Session", given: str | None, *, as_of: int | None = None) -> str | None:
    """The model that is given, or that the newest message names, or the last recorded call."""
    if given:
        return given
    newest = chat.view(last=_SPOKEN, as_of=as_of).messages
    named = [message.model for message in newest if message.model]
    if not named:
        named = [call.model for call in chat.calls(last=_RECENT) if call.model]
    return named[-1] if named else None


def counted_gauge(
    chat: "Session",
    given: str | None,
    *,
    as_of: int | None = None,
    progress: "Progress" = silent,
) -> Gauge:
    """The gauge right after an entry. `progress` is called after each message that is counted."""
    model = model_in_use(chat, given, as_of=as_of)
    counter = counter_for(model or "")
    reporting = _Reporting(counter, chat.stats().visible_messages, progress)
    known = last_reported(chat, model, as_of)
    if known is not None:
        since = chat.tokens(reporting, as_of=as_of, after=known.seq)
        tokens, has_frame = known.tokens + since, True
        is_exact = counter.exact or not since
    else:
        around = _frame_tokens(chat, counter, as_of)
        tokens = chat.tokens(reporting, as_of=as_of) + (around or 0)
        is_exact, has_frame = counter.exact, around is not None
    limit, source = _limit_of(model)
    return Gauge(
        tokens=tokens,
        exact=is_exact,
        counter=counter.name,
        reported=None if known is None else known.tokens,
        reported_at=None if known is None else known.seq,
        has_frame=has_frame,
        model=model,
        limit=limit,
        limit_source=source,
    )


def estimated_gauge(model: str | None, visible_bytes: int) -> Gauge:
    """The gauge with the tokens estimated from the bytes of the view."""
    limit, source = _limit_of(model)
    return Gauge(
        tokens=visible_bytes // BYTES_A_TOKEN,
        exact=False,
        counter=f"bytes/{BYTES_A_TOKEN}",
        reported=None,
        reported_at=None,
        has_frame=False,
        model=model,
        limit=limit,
        limit_source=source,
    )


def last_reported(chat: "Session", model: str | None, as_of: int | None) -> Reported | None:
    """What was reported for the last call of this model, if the view has only grown since it.

    That call must be live. A rewind takes the summaries behind the call back with it, so that the
    report of an earlier call may count again.
    """
    outline = chat.internals.outline()
    last = outline.info.last_seq
    seq = last if as_of is None else as_of
    rewinds = [
        Control(one.seq, Kind.REWIND, to=one.details["to"])
        for one in outline.controls
        if one.kind is Kind.REWIND and one.seq <= seq
    ]
    live = live_ranges(rewinds, seq)
    # A rewind is never live: what it changes is which entries are.
    changed = max((one.seq for one in outline.controls if within(live, one.seq)), default=0)
    for call in reversed(chat.calls(last=last - seq + _RECENT)):
        used = last_request(call.usage)
        if used is not None and call.seq <= seq and within(live, call.seq):
            is_current = call.seq > changed and call.model == model
            return Reported(call.seq, used.input + used.output) if is_current else None
    return None


def _frame_tokens(chat: "Session", counter: "Counter", as_of: int | None) -> int | None:
    """The tokens of the system prompt and the tools, as a manager counts them, if recorded."""
    frame = chat.frame(as_of=as_of)
    if frame is None:
        return None
    from roocontext.context.settings import frame_of  # noqa: PLC0415 - loads all policies

    around = frame_of(partial(size_of, counter), frame.system, frame.tools)
    return around.overhead.tokens


def _limit_of(model: str | None) -> tuple[int | None, str | None]:
    if model is None:
        return None, None
    limit, _, source = limit_for(model)
    return limit, source


class _Reporting:
    """A counter that reports its progress."""

    def __init__(self, counter: "Counter", total: int, progress: "Progress") -> None:
        self.name, self.exact = counter.name, counter.exact
        self._counter, self._total, self._progress = counter, total, progress
        self._done = 0

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """The tokens of one message."""
        tokens = self._counter.count(role, content, format)
        self._done += 1
        self._progress(self._done, self._total)
        return tokens
