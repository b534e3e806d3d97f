"""How full the context window is: what the view costs, and what the model holds.

The model is the one that is named, or else the one whose call stands last in the log. Without a
model there is a count, but nothing to measure it against.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from roocontext.cli.shapes import Gauge
from roocontext.cli.showing import Screen

if TYPE_CHECKING:
    from roocontext import Session, Stats
    from roocontext.log.counting import Counter

MODEL = "ROOCONTEXT_MODEL"
BYTES_A_TOKEN = 4
"""What the list of sessions takes for a token: it must not read what was said."""

_RECENT = 200
_CELLS = 10
_FULL = 0.8

ModelName = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        envvar=MODEL,
        show_envvar=False,
        help=f"Whose window and counter: default {MODEL}, else that of the session's last call.",
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
    return _against(model, chat.tokens(counter, as_of=as_of), counter.name, exact=counter.exact)


def guessed(chat: "Session", stats: "Stats", given: str | None) -> Gauge:
    """What the view costs by its bytes, without reading it."""
    tokens = stats.visible_bytes // BYTES_A_TOKEN
    return _against(model_of(chat, given), tokens, f"bytes/{BYTES_A_TOKEN}", exact=False)


def words(gauge: Gauge) -> str:
    """The count, and the limit if there is one."""
    count = f"{'' if gauge['exact'] else '~'}{gauge['tokens']:,}"
    limit = gauge["limit"]
    if limit is None:
        return f"{count} tokens"
    return f"{count} of {limit:,} tokens, {100 * gauge['tokens'] / limit:.0f} %"


def bar(screen: Screen, gauge: Gauge) -> tuple[str, str]:
    """The window as a bar, in the colour of how full it is."""
    limit = gauge["limit"]
    if limit is None:
        return "", ""
    share = gauge["tokens"] / limit
    cells = min(_CELLS, round(share * _CELLS))
    style = "bad" if share > 1 else "warn" if share >= _FULL else "good"
    return screen.signs.full * cells + screen.signs.empty * (_CELLS - cells), style


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
