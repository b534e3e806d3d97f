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

_MODULES = (gauge, sessions, history, why, search, tree, undo, usage)
_RESULTS = (results, erasing, transfers, health)

DOCUMENTS: dict[str, type] = {
    kind.__name__: kind
    for module in (*_MODULES, *_RESULTS)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Document) and kind.__module__ == module.__name__
} | {kind.__name__: kind for kind in (Receipt, Head, SchemaVersion)}
