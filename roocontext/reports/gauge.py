"""How full the context window is: the tokens of the view, and the limit of the model.

The model is the one that is given, or else the one of the last recorded call. Without a model there
is a count but no limit.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from roocontext.reports.document import Document
from roocontext.tokens import counter_for, limit_for

if TYPE_CHECKING:
    from roocontext import Session
    from roocontext.log.counting import Counter
    from roocontext.store.verify import Progress

BYTES_A_TOKEN = 4
"""The list of sessions estimates tokens from bytes, because it must not read contents."""

_RECENT = 200


def silent(_done: int, _total: int) -> None:
    """Report no progress."""


class Gauge(Document):
    """How much of a model's context window the view takes.

    `limit` is None if no model is known. `limit_source` says where the limit comes from: `table:`
    and a line of the table of models, the name of an environment variable, `override` if it was
    given, or `default` for a model that the table does not have.
    """

    tokens: int
    exact: bool
    counter: str
    model: str | None
    limit: int | None
    limit_source: str | None


def model_of(chat: "Session", given: str | None) -> str | None:
    """The model that is given, or that of the last recorded call."""
    if given:
        return given
    calls = [call for call in chat.calls(last=_RECENT) if call.model]
    return calls[-1].model if calls else None


def counted_gauge(
    chat: "Session",
    given: str | None,
    *,
    as_of: int | datetime | None = None,
    progress: "Progress" = silent,
) -> Gauge:
    """The gauge with the tokens counted. `progress` is called after each message."""
    model = model_of(chat, given)
    counter = counter_for(model or "")
    reporting = _Reporting(counter, chat.stats().visible_messages, progress)
    tokens = chat.tokens(reporting, as_of=as_of)
    return gauge_of(model, tokens, counter.name, exact=counter.exact)


def estimated_gauge(model: str | None, visible_bytes: int) -> Gauge:
    """The gauge with the tokens estimated from the bytes of the view."""
    return gauge_of(model, visible_bytes // BYTES_A_TOKEN, f"bytes/{BYTES_A_TOKEN}", exact=False)


def gauge_of(model: str | None, tokens: int, counter: str, *, exact: bool) -> Gauge:
    """A count against the limit of a model."""
    limit, source = None, None
    if model is not None:
        limit, _, source = limit_for(model)
    return Gauge(
        tokens=tokens,
        exact=exact,
        counter=counter,
        model=model,
        limit=limit,
        limit_source=source,
    )


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
