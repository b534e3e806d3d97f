"""The default values of a package's callables, as `help` and generated docs print them."""

import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import roocontext
from roocontext.errors import FrameworkMissing

_FUNCTION = re.compile(r"<(?:function|built-in method) [^<>]*(?:<[^<>]*>[^<>]*)*>")


def printed_defaults() -> Iterator[tuple[str, str]]:
    """Every callable that can be imported here, and each of its defaults as it is printed."""
    for module in pkgutil.walk_packages(roocontext.__path__, "roocontext."):
        try:
            found = import_module(module.name)
        except FrameworkMissing:
            continue  # the tests of the adapters run where the frameworks are installed
        own = [one for one in vars(found).values() if _home(one) == module.name]
        members = [each for one in own if inspect.isclass(one) for each in vars(one).values()]
        for one in [*own, *members]:
            yield from _of(one)


def live_objects(printed: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The defaults that are objects of this process, and not values. A function is a value."""
    return [(name, text) for name, text in printed if _is_live(text)]


def _is_live(text: str) -> bool:
    return " at 0x" in _FUNCTION.sub("", text) or text.startswith("environ(")


def _home(one: Any) -> str | None:
    return getattr(one, "__module__", None)


def _of(one: Any) -> Iterator[tuple[str, str]]:
    function = getattr(one, "__func__", one)
    if not callable(function):
        return
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # made in C, or an alias of a type
        return
    for each in parameters:
        if each.default is not each.empty:
            yield f"{_home(function)}.{function.__qualname__}({each.name})", repr(each.default)
