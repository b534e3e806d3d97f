"""What is nested too deep for a framework's own serializer is refused by one error of ours.

The serializers of pydantic and of LangGraph end at about 255 levels. The store itself takes 500.

The sessions of a framework, which are found by their metadata.

One clear error if a framework is missing, or is a version without what an adapter needs.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from roocontext.errors import FrameworkMissing, InvalidMessage
from roocontext.store.sessions.sessions import SessionInfo
from roocontext.store.store import Store

_LEVELS = 240
"""From here on the depth is the reason: the frameworks add some levels of their own."""


@contextmanager
def serializing(value: object, path: str) -> Iterator[None]:
    """Let a framework serialize a value in here. If that is nested too deep: InvalidMessage."""
    try:
        yield
    except InvalidMessage:
        raise
    except (TypeError, ValueError, RecursionError) as error:
        where = _deep_place(value, path)
        if where is None:
            raise
        raise InvalidMessage(
            f"{where}: is nested deeper than {_LEVELS} levels, which the framework cannot write.",
            path=where,
        ) from error


def _deep_place(value: object, path: str) -> str | None:
    seen: dict[int, int] = {}
    steps: list[str] = []
    todo = [iter([(path, value)])]
    while todo:
        for step, item in todo[-1]:
            depth = len(todo)
            if depth > _LEVELS:
                # Only the beginning of a path is shown, as the store does it.
                return "".join([*steps, step])[:200]
            # What is shared by many is only looked into again where it is deeper.
            if _holds_others(item) and seen.get(id(item), 0) < depth:
                seen[id(item)] = depth
                steps.append(step)
                todo.append(_children(item))
                break
        else:
            todo.pop()
            del steps[-1:]
    return None


def _holds_others(value: object) -> bool:
    """Whether the frameworks look into a value: they refuse objects that they do not know."""
    is_known = is_dataclass(value) or hasattr(value, "__pydantic_fields__")
    is_object = is_known and not isinstance(value, type) and hasattr(value, "__dict__")
    return isinstance(value, dict | list | tuple) or is_object


def _children(value: object) -> Iterator[tuple[str, object]]:
    """What a value holds. A key may be content, so only its number is shown."""
    if isinstance(value, dict):
        yield from ((f".<{number}>", child) for number, child in enumerate(value.values()))
    elif isinstance(value, list | tuple):
        yield from ((f"[{number}]", child) for number, child in enumerate(value))
    else:
        yield from ((f".{name}", child) for name, child in vars(value).items())


def pages(
    store: Store, where: Mapping[str, str], *, size: int = 1000, parent: str | None = None
) -> Iterator[list[SessionInfo]]:
    """All sessions whose metadata has these values, the one updated last first, page by page.

    A fork of such a session has its metadata too: compare the ids if that matters.
    """
    asked: dict[str, Any] = {"limit": size, "parent": parent, "where": where, "recorded": True}
    page = store.sessions(**asked)
    while page:
        yield page
        if page.next is None:
            return
        page = store.sessions(after=page.next, **asked)


@contextmanager
def framework(package: str, *, works: str, extra: str) -> Iterator[None]:
    """Import a framework in here: what cannot be imported becomes FrameworkMissing.

    `works` are the versions that the adapter works with, `extra` is what installs them.
    """
    try:
        yield
    except (ImportError, AttributeError) as error:
        try:
            found = version(package)
        except PackageNotFoundError:
            fact = f"This adapter needs {package} ({works}), which is not installed."
            found = None
        else:
            fact = f"This adapter works with {package} {works}. Version {found} lacks what it uses."
        raise FrameworkMissing(
            fact,
            advice=f"Install the extra: pip install 'roocontext[{extra}]'.",
            package=package,
            works=works,
            found=found,
        ) from error
