"""An event-sourced session store for coding agents: nothing is lost, the model sees a view."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roocontext.context.hooks import Hooks
    from roocontext.context.manager import AsyncContextManager, ContextManager
    from roocontext.context.outcome import Outcome
    from roocontext.errors import RooContextError
    from roocontext.log.entries import Kind, Message, NewMessage, View
    from roocontext.log.plan import Action, Counts, Plan
    from roocontext.log.sendable import Repair
    from roocontext.store.aio import AsyncSession, AsyncStore
    from roocontext.store.append import Receipt
    from roocontext.store.audit import AuditEntry, Diff
    from roocontext.store.batch import Written
    from roocontext.store.commit import Committed
    from roocontext.store.count import Call
    from roocontext.store.erase import Purged, Redacted
    from roocontext.store.items import Describe, NewNote, Pin, Rename, Rewind, Unpin
    from roocontext.store.live import LiveMessage
    from roocontext.store.notes import Note
    from roocontext.store.rewind import Rewound
    from roocontext.store.session import Session
    from roocontext.store.sessions import SessionInfo, Stats
    from roocontext.store.store import Store
    from roocontext.store.uncover import Uncovered
    from roocontext.store.verify import Head, Verification

__all__ = [
    "Action",
    "AsyncContextManager",
    "AsyncSession",
    "AsyncStore",
    "AuditEntry",
    "Call",
    "Committed",
    "ContextManager",
    "Counts",
    "Describe",
    "Diff",
    "Head",
    "Hooks",
    "Kind",
    "LiveMessage",
    "Message",
    "NewMessage",
    "NewNote",
    "Note",
    "Outcome",
    "Pin",
    "Plan",
    "Purged",
    "Receipt",
    "Redacted",
    "Rename",
    "Repair",
    "Rewind",
    "Rewound",
    "RooContextError",
    "Session",
    "SessionInfo",
    "Stats",
    "Store",
    "Uncovered",
    "Unpin",
    "Verification",
    "View",
    "Written",
]

_HOMES = {
    "Action": "roocontext.log.plan",
    "AsyncContextManager": "roocontext.context.manager",
    "AsyncSession": "roocontext.store.aio",
    "AsyncStore": "roocontext.store.aio",
    "AuditEntry": "roocontext.store.audit",
    "Call": "roocontext.store.count",
    "Committed": "roocontext.store.commit",
    "ContextManager": "roocontext.context.manager",
    "Counts": "roocontext.log.plan",
    "Describe": "roocontext.store.items",
    "Diff": "roocontext.store.audit",
    "Head": "roocontext.store.verify",
    "Hooks": "roocontext.context.hooks",
    "Kind": "roocontext.log.entries",
    "LiveMessage": "roocontext.store.live",
    "Message": "roocontext.log.entries",
    "NewMessage": "roocontext.log.entries",
    "NewNote": "roocontext.store.items",
    "Note": "roocontext.store.notes",
    "Outcome": "roocontext.context.outcome",
    "Pin": "roocontext.store.items",
    "Plan": "roocontext.log.plan",
    "Purged": "roocontext.store.erase",
    "Receipt": "roocontext.store.append",
    "Redacted": "roocontext.store.erase",
    "Rename": "roocontext.store.items",
    "Repair": "roocontext.log.sendable",
    "Rewind": "roocontext.store.items",
    "Rewound": "roocontext.store.rewind",
    "RooContextError": "roocontext.errors",
    "Session": "roocontext.store.session",
    "SessionInfo": "roocontext.store.sessions",
    "Stats": "roocontext.store.sessions",
    "Store": "roocontext.store.store",
    "Uncovered": "roocontext.store.uncover",
    "Unpin": "roocontext.store.items",
    "Verification": "roocontext.store.verify",
    "View": "roocontext.log.entries",
    "Written": "roocontext.store.batch",
}


def __getattr__(name: str) -> Any:
    """Load a name's module when the name is first asked for."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
