"""The documents about sessions that people and programs see, and how they are computed.

`--json` prints these documents, screens draw them, and other surfaces can send them. Nothing here
is about a terminal. A module is loaded when it is first used, because the documents need pydantic.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roocontext.reports import catalogue as catalogue
    from roocontext.reports import document as document
    from roocontext.reports import erasing as erasing
    from roocontext.reports import gauge as gauge
    from roocontext.reports import health as health
    from roocontext.reports import history as history
    from roocontext.reports import naming as naming
    from roocontext.reports import results as results
    from roocontext.reports import search as search
    from roocontext.reports import sessions as sessions
    from roocontext.reports import times as times
    from roocontext.reports import transfers as transfers
    from roocontext.reports import tree as tree
    from roocontext.reports import undo as undo
    from roocontext.reports import usage as usage
    from roocontext.reports import why as why


def __getattr__(name: str) -> Any:
    """Load a module of this package when it is first asked for."""
    if find_spec(f"{__name__}.{name}") is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
