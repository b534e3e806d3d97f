"""What is nested too deep for a framework's own serializer is refused by one error of ours.

The serializers of pydantic and of LangGraph end at about 255 levels. The store itself takes 500.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from roocontext.errors import InvalidMessage

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
    todo = [(value, path, 1)]
    while todo:
        item, where, depth = todo.pop()
        if depth > _LEVELS:
            return where
        # Only the beginning of a path is shown, as the store does it.
        todo += [(child, f"{where}{step}"[:200], depth + 1) for step, child in _children(item)]
    return None


def _children(value: object) -> Iterator[tuple[str, object]]:
    """What a value holds. A key may be content, so only its number is shown."""
    if isinstance(value, dict):
        yield from ((f".<{number}>", child) for number, child in enumerate(value.values()))
    elif isinstance(value, list | tuple):
        yield from ((f"[{number}]", child) for number, child in enumerate(value))
    elif not isinstance(value, type) and hasattr(value, "__dict__"):
        yield from ((f".{name}", child) for name, child in vars(value).items())
