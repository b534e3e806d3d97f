"""Every document, by its name: the models of this package, and the library's own values."""

from roocontext.reports import (
    erasing,
    gauge,
    health,
    history,
    results,
    search,
    sessions,
    transfers,
    tree,
    undo,
    usage,
    why,
)
from roocontext.reports.document import Document
from roocontext.store.engine.migrate import SchemaVersion
from roocontext.store.proof.verify import Head
from roocontext.store.writing.append import Receipt

_LIBRARY = (Receipt, Head, SchemaVersion)
_MODULES = (
    gauge,
    sessions,
    history,
    why,
    search,
    tree,
    undo,
    usage,
    usage,
    results,
    erasing,
    results,
    results,
    transfers,
    health,
)

DOCUMENTS: dict[str, type] = {
    **{
        name: kind
        for module in _MODULES
        for name, kind in vars(module).items()
        if isinstance(kind, type)
        and issubclass(kind, Document)
        and kind.__module__ == module.__name__
    },
    **{kind.__name__: kind for kind in _LIBRARY},
}
