"""What people and programs are shown of sessions: documents, and how they are computed.

`--json` prints these documents, screens draw them, and other surfaces can send them. Nothing here
is about a terminal. A module is loaded when it is first used, because the documents need pydantic.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roocontext.reports import (
        catalogue,
        document,
        erasing,
        gauge,
        health,
        history,
        naming,
        results,
        search,
        sessions,
        times,
        transfers,
        tree,
        undo,
        usage,
        why,
    )

__all__ = [
    "catalogue",
    "document",
    "erasing",
    "gauge",
    "health",
    "history",
    "naming",
    "results",
    "search",
    "sessions",
    "times",
    "transfers",
    "tree",
    "undo",
    "usage",
    "why",
]


def __getattr__(name: str) -> Any:
    """Load a module of this package when it is first asked for."""
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
