"""Compactions that a person or an agent asks the server for.

Their summaries are made of the session's own words, unless the server was started with another
summariser.
"""

from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from roocontext import ContextManager, reports
from roocontext.errors import InvalidOption, SummaryFailed, VersionConflict
from roocontext.log.events import Status
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.summarisers import AnySummariser, is_async

if TYPE_CHECKING:
    from roocontext import Outcome, Session
    from roocontext.summarisers import Summariser

_REMEMBERED: Final = 32


class RememberedSummaries:
    """A summariser that answers the newest questions again as it did before.

    So a summary that was shown in a preview is the one that is committed, and is paid for once.
    """

    def __init__(self, summariser: AnySummariser) -> None:
        if is_async(summariser):
            line = f"The summariser {summariser.name!r} is asynchronous, which a server cannot use."
            raise InvalidOption(line, name="summariser")
        self.name = summariser.name
        self._summariser = cast("Summariser", summariser)
        self._known: OrderedDict[bytes, Summary] = OrderedDict()

    def summarise(self, request: SummaryRequest) -> Summary:
        """The summary of a request, or SummaryFailed."""
        key = sha256(repr(request).encode("utf-8", "backslashreplace")).digest()
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._summariser.summarise(request)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return known


def manager_for(
    chat: "Session", summariser: AnySummariser, model: str | None = None, **options: Any
) -> ContextManager:
    """The manager for a model, by default the one in use. Its window may not be known."""
    named = reports.gauge.model_in_use(chat, model) or ""
    return ContextManager(named, summariser=summariser, **options)


def compacted(
    chat: "Session", manager: ContextManager, aim: str, expected: int | None, **frame: Any
) -> "Outcome":
    """The outcome of what a manager is asked for by its aim."""
    run = manager.prune if aim == "clear" else getattr(manager, aim)
    return checked_outcome(chat, run(chat, **frame), expected)


def checked_outcome(chat: "Session", outcome: "Outcome", expected: int | None) -> "Outcome":
    """The outcome of a run; an error if the run failed, or if another writer came first."""
    if outcome.status is Status.CONFLICT:
        actual = chat.head_seq()
        raise VersionConflict(outcome.reason, expected=expected, actual=actual)
    if outcome.status is Status.FAILED:
        raise SummaryFailed(outcome.reason)
    return outcome


def with_known_window(chat: "Session", manager: ContextManager) -> ContextManager:
    """The manager itself, or InvalidOption if nobody knows the window of its model."""
    if not reports.gauge.knows_window(chat, manager.settings):
        name = manager.settings.model
        known = f"The window of model {name!r} is not known" if name else "No model is named"
        raise InvalidOption(f"{known}: give its `limit` in tokens.", name="limit")
    return manager
