"""The fill level of a context window, in words and as a bar."""

from typing import TYPE_CHECKING

from roocontext.cli.screens.safe_text import one_line
from roocontext.cli.screens.screen import Screen

if TYPE_CHECKING:
    from roocontext.reports.gauge import Gauge

_DEFAULT = "default"
"""The source of the limit if the model is not in the table."""

_CELLS = 10
_FULL = 0.8
_NAME = 40
_MANY = 10_000


def size_in_words(gauge: "Gauge") -> str:
    """The count, and the limit if there is one."""
    count = f"{'' if gauge.exact else '~'}{gauge.tokens:,}"
    limit = gauge.limit
    if limit is None:
        return f"{count} tokens"
    default = ""
    if gauge.limit_source == _DEFAULT:
        default = f" (default; {one_line(gauge.model or '', longest=_NAME)} is not known)"
    return f"{count} of {limit:,} tokens{default}, {100 * gauge.tokens / limit:.0f} %"


def window_share(gauge: "Gauge") -> str:
    """The percentage of the window that is full, or the tokens if its size is not known."""
    sign = "" if gauge.exact else "~"
    if gauge.limit is not None and gauge.limit_source != _DEFAULT:
        return f"{sign}{100 * gauge.tokens / gauge.limit:.0f} %"
    tokens = gauge.tokens
    return f"{sign}{tokens:,} tok" if tokens < _MANY else f"{sign}{tokens / 1_000:,.0f}k tok"


def source(gauge: "Gauge") -> str:
    """The tokens that the provider reported, and the counter that estimated the others."""
    counter = one_line(gauge.counter, longest=_NAME)
    if gauge.reported is None:
        verb = "counted" if gauge.exact else "estimated"
        what = "" if gauge.has_frame else ", messages only"
        return f"{verb} by {counter}{what}"
    since = gauge.tokens - gauge.reported
    if not since:
        return f"reported with entry {gauge.reported_at}"
    sign = "" if gauge.exact else "~"
    return f"{gauge.reported:,} reported with entry {gauge.reported_at}, {sign}{since:,} since"


def bar(screen: Screen, gauge: "Gauge") -> tuple[str, str]:
    """The window as a bar, coloured by how full it is."""
    limit = gauge.limit
    if limit is None:
        return "", ""
    share = gauge.tokens / limit
    cells = min(_CELLS, round(share * _CELLS))
    style = "bad" if share > 1 else "warn" if share >= _FULL else "good"
    return screen.signs.full * cells + screen.signs.empty * (_CELLS - cells), style
