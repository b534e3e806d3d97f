"""Which checkpoints `list(filter=)` lists: those whose metadata contains what is asked for.

Containment is that of PostgreSQL's `@>`, which LangGraph's `PostgresSaver` uses: an object contains
another if it has its keys with values that contain the other's, and a list contains another if each
of the other's items is in one of its own. A key with dots leads inside, as in `SqliteSaver`.
"""

from collections.abc import Mapping
from typing import Any

from roocontext.errors import InvalidOption


def check_filter(wanted: object) -> None:
    """Refuse a filter that is not a mapping of names."""
    if isinstance(wanted, Mapping) and not all(isinstance(name, str) for name in wanted):
        raise InvalidOption("The names in a filter are strings.", name="filter")
    if wanted is not None and not isinstance(wanted, Mapping):
        raise InvalidOption("A filter maps names of metadata to values.", name="filter")


def matches(metadata: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether the metadata contains what is asked for. None is also a name that is not there."""
    return all(_contains(_found(metadata, name), value) for name, value in wanted.items())


def _found(metadata: Any, name: str) -> Any:
    if name in metadata:
        return metadata[name]
    for step in name.split("."):
        if not isinstance(metadata, Mapping):
            return None
        metadata = metadata.get(step)
    return metadata


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(value, Mapping) and all(
            name in value and _contains(value[name], one) for name, one in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return isinstance(value, list | tuple) and all(
            any(_contains(item, one) for item in value) for one in wanted
        )
    # In JSON true is not 1.
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
