"""Functions of the agent's program that are called while its context is managed.

A hook is a function of one event. It can never break the agent: if it raises, the exception's type
is logged and recorded, and the run continues. Only a hook that was registered with `veto=True` can
stop a compaction, by returning False.
"""

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from roocontext.context.steps import Steps, ask
from roocontext.errors import InvalidOption
from roocontext.log.events import BeforeCompact, Event

_log = logging.getLogger(__name__)


Hook: TypeAlias = Callable[[Any], Any]


class Hooks:
    """The hooks of one or more managers, by the type of their event.

    Without `allow_async` a coroutine function is refused when it is registered.
    """

    def __init__(self, *, allow_async: bool = True) -> None:
        self._hooks: dict[type, list[tuple[Hook, bool]]] = defaultdict(list)
        self._allow_async = allow_async

    def on(self, event: type, hook: Hook, *, veto: bool = False) -> Hook:
        """Call the hook with every event of this type. With `veto`, False from it stops the run."""
        if event not in Event.__args__:
            known = ", ".join(kind.__name__ for kind in Event.__args__)
            raise InvalidOption(f"event must be one of {known}.", name="event")
        if veto and event is not BeforeCompact:
            raise InvalidOption("Only BeforeCompact can be vetoed.", name="veto")
        if not callable(hook):
            raise InvalidOption("hook must be a function of one event.", name="hook")
        if not self._allow_async:
            _refuse_async(hook)
        self._hooks[event].append((hook, veto))
        return hook

    def refuse_async(self) -> None:
        """Raise InvalidOption if a hook is a coroutine function."""
        for hooks in self._hooks.values():
            for hook, _ in hooks:
                _refuse_async(hook)

    def fire(self, event: Event) -> Steps["HookResults"]:
        """Call the hooks of an event one after the other, and return their results."""
        results: list[dict[str, str]] = []
        stopped = False
        # A copy: a hook may register another one.
        for hook, may_veto in tuple(self._hooks[type(event)]):
            answer: Any = None
            result = "done"
            try:
                answer = yield from ask(partial(hook, event))
            except Exception as error:  # noqa: BLE001 - a hook may raise anything and break nothing
                result = f"raised {type(error).__name__}"
                _log.warning("The hook %s %s.", _name(hook), result)
            if may_veto and answer is False:
                stopped, result = True, "vetoed"
            results.append({"hook": _name(hook), "result": result})
        return HookResults(stopped, results)


@dataclass(frozen=True, slots=True)
class HookResults:
    """The results of the hooks of an event; `stopped` is True if one of them vetoed it."""

    stopped: bool = False
    results: list[dict[str, str]] = field(default_factory=list)


def _refuse_async(hook: Hook) -> None:
    if iscoroutinefunction(hook) or iscoroutinefunction(type(hook).__call__):
        raise InvalidOption("An asynchronous hook needs AsyncContextManager.", name="hooks")


def _name(hook: Hook) -> str:
    return getattr(hook, "__qualname__", type(hook).__name__)
