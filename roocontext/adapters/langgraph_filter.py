"""The filter of `list(filter=)`: it lists checkpoints whose metadata contains it.

Containment is that of PostgreSQL's `@>`, which LangGraph's `PostgresSaver` uses: an object contains
another if it has its keys with values that contain the other's, and a list contains another if each
of the other's items is in one of its own. A key with dots leads inside, as in `SqliteSaver`.
"""

from collections.abc import Mapping
from typing import Any

from roocontext.errors import InvalidOption


def check_filter(wanted: object) -> None:
    """Refuse a filter that is not a mapping of names."""
    is_mapping = isinstance(wanted, Mapping) and all(isinstance(name, str) for name in wanted)
    if wanted is not None and not is_mapping:
        raise InvalidOption("A filter maps names of metadata to values.", name="filter")


def matches(metadata: Any, wanted: Mapping[str, Any]) -> bool:
    """True if the metadata contains the filter. None also stands for a name that is missing."""
    return all(_contains(_value(metadata, name), value) for name, value in wanted.items())


def _value(metadata: Any, name: str) -> Any:
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
            name in value and _contains(value[name], item) for name, item in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return isinstance(value, list | tuple) and all(
            any(_contains(mine, item) for mine in value) for item in wanted
        )
    # In JSON true is not 1.
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)
