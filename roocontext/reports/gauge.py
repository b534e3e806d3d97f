"""The gauge: the tokens that the next call of the model would send, and the model's limit.

If the provider reported the tokens of the last call, only messages that it had not read are
counted. Before the first call, and after a summary, marker, clearing or uncovering, all messages
are counted, and also the system prompt and the tools if they are recorded.

The model is the given one, or else the model that the newest message names. Without a model there
is a count but no limit.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from roocontext.log.model_names import is_same_model
from roocontext.log.spans import live_ranges, within
from roocontext.reports.document import Document
from roocontext.reports.tree import controls_of
from roocontext.tokens import counter_for, last_request, limit_for, size_of
from roocontext.tokens.limits import DEFAULT
from roocontext.tokens.refusals import REFUSED, with_remembered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roocontext import Session
    from roocontext.context.settings import Settings
    from roocontext.log.counting import Counter

BYTES_A_TOKEN = 4
"""The list of sessions estimates tokens from bytes, because it must not read contents."""

_RECENT = 200
"""How many of the newest entries are searched for the last call."""

_NEWEST = 50
"""How many of the newest messages of the view are searched for a model."""


class Gauge(Document):
    """The tokens of a model's context window that the next call would take.

    `reported` are the tokens of the prompt and the answer that the provider reported with entry
    `reported_at`. The other `tokens` were counted. Both fields are null if nothing was reported, or
    if the view was changed since. In this case all tokens were counted, and `has_frame` says
    whether they include the system prompt and the tools. A count is not `exact` if the counter is
    not, or if the size of a sealed compaction had to be estimated. `limit` is null if no model is
    known. `limit_source` is `table:` and a line of the table of models, the name of an environment
    variable, `override` for a given limit, `refusal` for a limit that the provider named when it
    refused a request, or `default` if the table does not have the model.
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
    """The last call of a model: the entry of its answer, and the tokens of prompt and answer.

    `read` is the last entry that the prompt had.
    """

    seq: int
    tokens: int
    read: int


def model_in_use(chat: "Session", given: str | None, *, as_of: int | None = None) -> str | None:
    """The given model, or the model of the newest message, or that of the last recorded call."""
    if given:
        return given
    newest = chat.view(last=_NEWEST, as_of=as_of).messages
    named = [message.model for message in newest if message.model]
    if not named:
        named = [call.model for call in chat.internals.calls(last=_RECENT) if call.model]
    return named[-1] if named else None


def knows_window(chat: "Session", settings: "Settings") -> bool:
    """True if the size of the model's window is known: a guess would cut the session to nothing.

    A provider may have named it for this session. The table may also know a model that the program
    does not know which the policy imitates.
    """
    note = chat.newest_note(REFUSED)
    window = settings.window(None if note is None else note.content)
    return window.source != DEFAULT or limit_for(settings.model).source != DEFAULT


def counted_gauge(chat: "Session", given: str | None, *, as_of: int | None = None) -> Gauge:
    """The gauge right after an entry."""
    model = model_in_use(chat, given, as_of=as_of)
    counter = counter_for(model or "")
    known = last_reported(chat, model, as_of)
    note = chat.newest_note(REFUSED, as_of=as_of)
    named = _limited(model, None if note is None else note.content)
    fields: dict[str, Any] = {"counter": counter.name, **named}
    if known is None:
        frame = _frame_tokens(chat, counter, as_of)
        counted = chat.internals.counted(counter, as_of=as_of)
        tokens = counted.tokens + (frame or 0)
        return Gauge.of(tokens=tokens, exact=counted.exact, has_frame=frame is not None, **fields)
    since, exact = chat.internals.counted(counter, as_of=as_of, after=known.seq)
    if known.read < known.seq - 1:
        since += chat.internals.counted(counter, as_of=known.seq - 1, after=known.read).tokens
    fields |= {"exact": exact or not since, "has_frame": True}
    reported = {"reported": known.tokens, "reported_at": known.seq}
    return Gauge.of(tokens=known.tokens + since, **reported, **fields)


def estimated_gauge(model: str | None, visible_bytes: int) -> Gauge:
    """The gauge with the tokens estimated from the bytes of the view."""
    return Gauge.of(
        tokens=visible_bytes // BYTES_A_TOKEN,
        exact=False,
        counter=f"bytes/{BYTES_A_TOKEN}",
        has_frame=False,
        **_limited(model),
    )


def last_reported(chat: "Session", model: str | None, as_of: int | None) -> Reported | None:
    """The report of this model's last call, if the view has only grown since.

    The call must be live. A rewind also takes back the summaries after the call, so the report of
    an earlier call may be valid again.
    """
    outline = chat.internals.outline()
    last = outline.info.last_seq
    seq = last if as_of is None else as_of
    controls = [row for row in controls_of(outline) if row.seq <= seq]
    live = live_ranges(controls, seq)
    # A rewind itself is never live: it changes which entries are live.
    changed = max((row.seq for row in controls if within(live, row.seq)), default=0)
    for call in reversed(chat.internals.calls(last=last - seq + _RECENT)):
        used = last_request(call.usage)
        if used is not None and within(live, call.seq):
            is_current = call.read >= changed and is_same_model(call.model, model)
            tokens = used.input + used.output
            return Reported(call.seq, tokens, call.read) if is_current else None
    return None


def _frame_tokens(chat: "Session", counter: "Counter", as_of: int | None) -> int | None:
    """The tokens of the system prompt and the tools, as a manager counts them, if recorded."""
    frame = chat.frame(as_of=as_of)
    if frame is None:
        return None
    from roocontext.context.settings import frame_of  # noqa: PLC0415 - loads all policies

    return frame_of(partial(size_of, counter), frame.system, frame.tools).overhead.tokens


def _limited(model: str | None, remembered: "Mapping[str, Any] | None" = None) -> dict[str, Any]:
    """The fields with the model and its limit, also as a provider has named it."""
    if model is None:
        return {}
    limit, _, source = with_remembered(limit_for(model), model, remembered)
    return {"model": model, "limit": limit, "limit_source": source}
