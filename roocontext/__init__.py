"""An event-sourced session store for coding agents: nothing is lost, the model sees a view."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roocontext.errors import RooContextError
    from roocontext.log.entries import Kind, Message, NewMessage, View
    from roocontext.log.plan import Counts, Plan
    from roocontext.store.aio import AsyncSession, AsyncStore
    from roocontext.store.session import Session
    from roocontext.store.store import Store
    from roocontext.store.verify import Head

__all__ = [
    "AsyncSession",
    "AsyncStore",
    "Counts",
    "Head",
    "Kind",
    "Message",
    "NewMessage",
    "Plan",
    "RooContextError",
    "Session",
    "Store",
    "View",
]

_HOMES = {
    "AsyncSession": "roocontext.store.aio",
    "AsyncStore": "roocontext.store.aio",
    "Counts": "roocontext.log.plan",
    "Head": "roocontext.store.verify",
    "Kind": "roocontext.log.entries",
    "Message": "roocontext.log.entries",
    "NewMessage": "roocontext.log.entries",
    "Plan": "roocontext.log.plan",
    "RooContextError": "roocontext.errors",
    "Session": "roocontext.store.session",
    "Store": "roocontext.store.store",
    "View": "roocontext.log.entries",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
