"""One error for values that are nested too deep for a framework's own serializer.

The serializers of pydantic and of LangGraph end at about 255 levels. The store itself takes 500.

The sessions of a framework, which are found by their metadata.

One clear error if a framework is missing, or is a version without what an adapter needs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from typing import Any

from roocontext.errors import FrameworkMissing, InvalidMessage
from roocontext.store.sessions.sessions import SessionInfo
from roocontext.store.store import Store

_SURROGATE = re.compile("[\ud800-\udfff]")
_LEVELS = 240
"""Deeper than this, the depth is the reason: the frameworks add some levels of their own."""


@contextmanager
def serializing(value: object, path: str) -> Iterator[None]:
    """Let a framework serialize a value in here; InvalidMessage if it is nested too deep."""
    try:
        yield
    except InvalidMessage:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        if not _is_deep(value):
            raise
        raise InvalidMessage(
            f"{path}: is nested deeper than {_LEVELS} levels, which the framework cannot write.",
            path=path,
        ) from error


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_LEVELS):
        # A value that many share is looked into once a level.
        held = {id(child): child for holder in level for child in _children(holder)}
        level = [*held.values()]
    return bool(level)


def _children(value: object) -> Iterable[object]:
    """The values that the frameworks find in a value: they refuse objects that they do not know."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple):
        return value
    is_known = is_dataclass(value) or hasattr(type(value), "__pydantic_fields__")
    return vars(value).values() if is_known and hasattr(value, "__dict__") else ()


def check_json(value: object, path: str) -> None:
    """Refuse what serializers would change silently: NaN, infinity, half characters in keys."""
    if isinstance(value, float) and not isfinite(value):
        raise InvalidMessage(f"{path} is {value}, which JSON cannot hold.", path=path)
    if isinstance(value, Mapping):
        if any(isinstance(key, str) and _SURROGATE.search(key) for key in value):
            raise InvalidMessage(f"{path} has a key with a lone surrogate.", path=path)
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for number, item in enumerate(value):  # a key may be content, so only its number is shown
            check_json(item, f"{path}.<{number}>")


def pages(
    store: Store, where: Mapping[str, str], *, size: int = 1000, parent: str | None = None
) -> Iterator[list[SessionInfo]]:
    """All sessions whose metadata has these values, the newest update first, page by page.

    A fork of such a session has its metadata too: compare the ids if that matters. Archived
    sessions are left out, because no framework can load them.
    """
    asked: dict[str, Any] = {"limit": size, "parent": parent, "where": where, "recorded": True}
    page = store.sessions(**asked)
    while page:
        yield [info for info in page if info.archived_at is None]
        if page.next is None:
            return
        page = store.sessions(after=page.next, **asked)


@contextmanager
def framework(package: str, *, works: str, extra: str) -> Iterator[None]:
    """Import a framework in here. What cannot be imported raises FrameworkMissing.

    `works` are the versions that the adapter works with, and `extra` installs them.
    """
    try:
        yield
    except (ImportError, AttributeError) as error:
        try:
            installed = version(package)
        except PackageNotFoundError:
            fact = f"This adapter needs {package} ({works}), which is not installed."
            installed = None
        else:
            fact = (
                f"This adapter works with {package} {works}. Version {installed} lacks what it"
                " uses."
            )
        raise FrameworkMissing(
            fact,
            advice=f"Install the extra: pip install 'roocontext[{extra}]'.",
            package=package,
            works=works,
            found=installed,
        ) from error
