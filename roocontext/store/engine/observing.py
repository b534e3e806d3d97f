"""Tells an observer which operations a store performs: names, ids and numbers, never content.

An operation is one call of a public method. What happens below it, in whatever function, is noted
in the operation that the context holds. Without an observer there is none.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from inspect import isfunction, isgeneratorfunction, signature
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from roocontext.errors import InvalidOption
from roocontext.log.draft import Draft
from roocontext.log.encoding import decode

Observed = TypeVar("Observed")

_logger = logging.getLogger("roocontext")
_current: ContextVar["StoreOperation | None"] = ContextVar("roocontext_operation", default=None)
_COUNTED: Final = (
    *("entries", "messages", "bytes", "hidden", "cleared", "left", "returned", "restored"),
    *("tokens_before", "tokens_after"),
)
"""The attributes of results that are counts, or that are lists to be counted."""
_UNOBSERVED: Final = frozenset({"close", "turn", "changes"})
"""Methods that do nothing by themselves."""


class ReportedCall(NamedTuple):
    """A call of a model that an operation has recorded: the usage is in the provider's words."""

    model: str | None
    usage: Any


@dataclass(slots=True, eq=False)
class StoreOperation:
    """One call of a public method, as an observer sees it. The numbers are final when it is over.

    `name` is that of the method, and `session_id` is None if it is not about one session. Times are
    in seconds. `retries` is how often it was run again because another writer was in the way.
    `lock_wait` and `connection_wait` are parts of the `duration`; on PostgreSQL the first is that
    of the statement which locks the session. `counts` are numbers of the result by name, and
    `compacted` is whether the model's view lost messages or outputs to a compaction. `calls` are
    the model's calls whose usage was recorded. `error` is the name of the exception's class.

    `state` is for the observer, which finds in it what it put there when the operation started.
    """

    name: str
    session_id: str | None = None
    duration: float = 0
    error: str | None = None
    retries: int = 0
    lock_wait: float = 0
    connection_wait: float = 0
    counts: dict[str, int] = field(default_factory=dict)
    compacted: bool = False
    calls: list[ReportedCall] = field(default_factory=list)
    state: Any = None


@runtime_checkable
class Observer(Protocol):
    """The argument of `Store.open(observer=...)`. It is called in the thread of the operation."""

    def started(self, operation: StoreOperation) -> None:
        """Called before an operation: only its name and session are known."""

    def finished(self, operation: StoreOperation) -> None:
        """Called after an operation, whether it succeeded or raised an error."""


def checked_observer(observer: Observer | None) -> Observer | None:
    """The observer that was given, or InvalidOption if it lacks a method."""
    if observer is not None and not isinstance(observer, Observer):
        raise InvalidOption(
            "An observer must have the methods started and finished.", name="observer"
        )
    return observer


def current_operation() -> StoreOperation | None:
    """The operation that runs in this context, if somebody observes it."""
    return _current.get()


def note_calls(drafts: Iterable[Draft]) -> None:
    """Note the usage of the replies that are being written."""
    operation = _current.get()
    if operation is not None:
        operation.calls += [
            ReportedCall(draft.sealed.model, decode(draft.sealed.usage))
            for draft in drafts
            if draft.sealed.usage is not None
        ]


def noted_calls() -> int:
    """How many calls are noted so far."""
    operation = _current.get()
    return 0 if operation is None else len(operation.calls)


def forget_calls(since: int = 0) -> None:
    """Forget the calls that were noted since: their replies were not recorded, or not now."""
    operation = _current.get()
    if operation is not None:
        del operation.calls[since:]


def note_lock_wait(seconds: float) -> None:
    """Note how long another writer was waited for."""
    operation = _current.get()
    if operation is not None:
        operation.lock_wait += seconds


@contextmanager
def observing(observer: Observer, operation: StoreOperation) -> Iterator[Callable[[Any], None]]:
    """Observe an operation, whose block passes on its result.

    What the observer raises is logged, and harms nothing.
    """
    _tell(observer.started, operation)
    token, begun = _current.set(operation), perf_counter()
    try:
        yield partial(_note_result, operation)
    except BaseException as error:
        operation.error = type(error).__name__
        raise
    finally:
        operation.duration = perf_counter() - begun
        _current.reset(token)
        _tell(observer.finished, operation)


def _note_result(operation: StoreOperation, result: Any) -> None:
    """Note the numbers of a result. A dry run, a repeated reply or a diff compacts nothing."""
    if isinstance(result, list):
        operation.counts["items"] = len(result)
        return
    was_written = getattr(result, "dry_run", None) is False
    if isinstance(getattr(result, "new", None), bool):  # a receipt
        was_written = result.new
        operation.counts["entries"] = int(result.new)
    for name in _COUNTED:
        value = getattr(result, name, None)
        if isinstance(value, tuple):
            value = len(value)
        if type(value) is int:
            operation.counts[name] = value
    removed = operation.counts.get("hidden", 0) or operation.counts.get("cleared", 0)
    operation.compacted = bool(removed) and was_written


def observed(kind: type[Observed]) -> type[Observed]:
    """Let the public methods of a class be observed if it was opened with an observer."""
    for name, method in list(vars(kind).items()):
        is_public = isfunction(method) and name[0] != "_" and name not in _UNOBSERVED
        if is_public and not isgeneratorfunction(method):
            setattr(kind, name, _observed_method(name, method))
    return kind


def _observed_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    names_session = list(signature(method).parameters)[1:2] == ["session_id"]

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        observer = self._opened.observer
        if observer is None:
            return method(self, *args, **kwargs)
        session_id = getattr(self, "id", None)
        if names_session:
            session_id = args[0] if args else kwargs.get("session_id")
        operation = StoreOperation(name, session_id)
        with observing(observer, operation) as note:
            result = method(self, *args, **kwargs)
            if operation.session_id is None:
                operation.session_id = getattr(result, "id", None)
            note(result)
        return result

    return call


def _tell(listener: Callable[[StoreOperation], None], operation: StoreOperation) -> None:
    try:
        listener(operation)
    except Exception as error:  # noqa: BLE001 - an observer's fault is not the operation's
        _logger.warning("The observer of the store raised %s.", type(error).__name__)
