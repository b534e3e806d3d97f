"""How full the context window is: what the view costs, and what the model holds.

The model is the one that is named, or else the one whose call stands last in the log. Without a
model there is a count, but nothing to measure it against.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roocontext.cli import completing
from roocontext.cli.answers.shapes import Gauge
from roocontext.cli.waiting import Progress, progress

if TYPE_CHECKING:
    from roocontext import Session, Stats
    from roocontext.log.counting import Counter

MODEL = "ROOCONTEXT_MODEL"
BYTES_A_TOKEN = 4
"""What the list of sessions takes for a token: it must not read what was said."""

_RECENT = 200

ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        envvar=MODEL,
        show_envvar=False,
        help=f"Whose window and counter: default {MODEL}, else that of the session's last call.",
        autocompletion=completing.models,
    ),
]


def model_of(chat: "Session", given: str | None) -> str | None:
    """The model that is named, or that answered last."""
    if given:
        return given
    calls = [call for call in chat.calls(last=_RECENT) if call.model]
    return calls[-1].model if calls else None


def counter_of(model: str | None) -> "Counter":
    """The counter of a model, or the one for unknown models."""
    from roocontext.tokens import counter_for  # noqa: PLC0415 - only what counts pays for it

    return counter_for(model or "")


def measured(chat: "Session", given: str | None, *, as_of: int | datetime | None = None) -> Gauge:
    """What the view costs, counted."""
    model = model_of(chat, given)
    counter = counter_of(model)
    with watched(counter, chat.stats().visible_messages) as telling:
        tokens = chat.tokens(telling, as_of=as_of)
    return _against(model, tokens, counter.name, exact=counter.exact)


@contextmanager
def watched(counter: "Counter", total: int) -> Iterator["Counter"]:
    """The counter, and a bar that tells how many messages of so many it has counted."""
    with progress("Counting tokens", total) as told:
        yield _Watched(counter, total, told)


class _Watched:
    """Counts as another does, and tells each time."""

    def __init__(self, counter: "Counter", total: int, told: Progress) -> None:
        self.name, self.exact = counter.name, counter.exact
        self._counter, self._total, self._told = counter, total, told
        self._done = 0

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """What one message costs."""
        cost = self._counter.count(role, content, format)
        self._done += 1
        self._told(self._done, self._total)
        return cost


def guessed(chat: "Session", stats: "Stats", given: str | None) -> Gauge:
    """What the view costs by its bytes, without reading it."""
    tokens = stats.visible_bytes // BYTES_A_TOKEN
    return _against(model_of(chat, given), tokens, f"bytes/{BYTES_A_TOKEN}", exact=False)


def _against(model: str | None, tokens: int, counter: str, *, exact: bool) -> Gauge:
    limit, source = None, None
    if model is not None:
        from roocontext.tokens import limit_for  # noqa: PLC0415 - see above

        limit, _, source = limit_for(model)
    return {
        "tokens": tokens,
        "exact": exact,
        "counter": counter,
        "model": model,
        "limit": limit,
        "limit_source": source,
    }
