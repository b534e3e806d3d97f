"""An event-sourced session store for coding agents: nothing is lost, the model sees a view."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from roocontext.errors import (
    BudgetExceeded,
    DuplicateMessage,
    ForeignDatabase,
    FrameworkMissing,
    HistoryCorrupt,
    InvalidIdentifier,
    InvalidMessage,
    InvalidOption,
    InvalidPlan,
    MessageNotFound,
    NoSuchCall,
    NothingToUndo,
    NotTheModelsTurn,
    RecoveryExhausted,
    RooContextError,
    SchemaMismatch,
    SessionExists,
    SessionNotFound,
    SessionPurged,
    SourceDiverged,
    StoreClosed,
    StoreForked,
    StoreFull,
    StoreNotFound,
    StoreReadOnly,
    StoreUnavailable,
    SummaryFailed,
    SystemPromptTooLarge,
    TurnTooLarge,
    UncoverRefused,
    UndoRefused,
    UnknownPlugin,
    UnreadableSource,
    VersionConflict,
)

if TYPE_CHECKING:
    from roocontext.context.hooks import Hooks
    from roocontext.context.manager import AsyncContextManager, ContextManager
    from roocontext.context.outcome import Outcome
    from roocontext.context.restore import Restoration, Restored
    from roocontext.log.budget import Size
    from roocontext.log.committed import Committed
    from roocontext.log.entries import Entry, Kind, Message, NewMessage, View
    from roocontext.log.forms import Repair
    from roocontext.log.frame import Frame
    from roocontext.log.plan import Action, Counts, Plan
    from roocontext.log.reported import ReportedUsage
    from roocontext.log.request import Request
    from roocontext.log.turns import PendingCall
    from roocontext.search.snippet import Snippet
    from roocontext.store.aio import AsyncSession, AsyncStore
    from roocontext.store.append import Receipt
    from roocontext.store.audit import AuditEntry, Diff, Hider
    from roocontext.store.batch import Written
    from roocontext.store.calls import Call
    from roocontext.store.erase import Purged, Redacted
    from roocontext.store.items import Describe, NewNote, Pin, Rename, Rewind, Unpin
    from roocontext.store.live import LiveMessage
    from roocontext.store.notes import Note
    from roocontext.store.originals import Original
    from roocontext.store.outline import ControlEntry, Outline
    from roocontext.store.overview import LastCall, SessionOverview
    from roocontext.store.restorable import Restorable
    from roocontext.store.restore import RestoredLog, StoredEntry
    from roocontext.store.rewind import Rewound
    from roocontext.store.search.hits import Hit, SearchPage
    from roocontext.store.session import Session
    from roocontext.store.sessions import SessionInfo, Stats
    from roocontext.store.snapshot import Snapshot, Wanted
    from roocontext.store.store import Store
    from roocontext.store.uncover import Uncovered
    from roocontext.store.verify import Head, Verification
    from roocontext.tokens.usage import Drift

__all__ = [
    "Action",
    "AsyncContextManager",
    "AsyncSession",
    "AsyncStore",
    "AuditEntry",
    "BudgetExceeded",
    "Call",
    "Committed",
    "ContextManager",
    "ControlEntry",
    "Counts",
    "Describe",
    "Diff",
    "Drift",
    "DuplicateMessage",
    "Entry",
    "ForeignDatabase",
    "Frame",
    "FrameworkMissing",
    "Head",
    "Hider",
    "HistoryCorrupt",
    "Hit",
    "Hooks",
    "InvalidIdentifier",
    "InvalidMessage",
    "InvalidOption",
    "InvalidPlan",
    "Kind",
    "LastCall",
    "LiveMessage",
    "Message",
    "MessageNotFound",
    "NewMessage",
    "NewNote",
    "NoSuchCall",
    "NotTheModelsTurn",
    "Note",
    "NothingToUndo",
    "Original",
    "Outcome",
    "Outline",
    "PendingCall",
    "Pin",
    "Plan",
    "Purged",
    "Receipt",
    "RecoveryExhausted",
    "Redacted",
    "Rename",
    "Repair",
    "ReportedUsage",
    "Request",
    "Restorable",
    "Restoration",
    "Restored",
    "RestoredLog",
    "Rewind",
    "Rewound",
    "RooContextError",
    "SchemaMismatch",
    "SearchPage",
    "Session",
    "SessionExists",
    "SessionInfo",
    "SessionNotFound",
    "SessionOverview",
    "SessionPurged",
    "Size",
    "Snapshot",
    "Snippet",
    "SourceDiverged",
    "Stats",
    "Store",
    "StoreClosed",
    "StoreForked",
    "StoreFull",
    "StoreNotFound",
    "StoreReadOnly",
    "StoreUnavailable",
    "StoredEntry",
    "SummaryFailed",
    "SystemPromptTooLarge",
    "TurnTooLarge",
    "UncoverRefused",
    "Uncovered",
    "UndoRefused",
    "UnknownPlugin",
    "Unpin",
    "UnreadableSource",
    "Verification",
    "VersionConflict",
    "View",
    "Wanted",
    "Written",
]

# A store loads SQLAlchemy, so a module is loaded only when one of its names is first used.
_LAZY = {
    "roocontext.context.hooks": "Hooks",
    "roocontext.context.manager": "AsyncContextManager ContextManager",
    "roocontext.context.outcome": "Outcome",
    "roocontext.context.restore": "Restoration Restored",
    "roocontext.log.budget": "Size",
    "roocontext.log.committed": "Committed",
    "roocontext.log.entries": "Entry Kind Message NewMessage View",
    "roocontext.log.forms": "Repair",
    "roocontext.log.frame": "Frame",
    "roocontext.log.plan": "Action Counts Plan",
    "roocontext.log.request": "Request",
    "roocontext.log.turns": "PendingCall",
    "roocontext.log.reported": "ReportedUsage",
    "roocontext.search.snippet": "Snippet",
    "roocontext.store.aio": "AsyncSession AsyncStore",
    "roocontext.store.append": "Receipt",
    "roocontext.store.audit": "AuditEntry Diff Hider",
    "roocontext.store.batch": "Written",
    "roocontext.store.calls": "Call",
    "roocontext.store.erase": "Purged Redacted",
    "roocontext.store.items": "Describe NewNote Pin Rename Rewind Unpin",
    "roocontext.store.live": "LiveMessage",
    "roocontext.store.notes": "Note",
    "roocontext.store.originals": "Original",
    "roocontext.store.outline": "ControlEntry Outline",
    "roocontext.store.overview": "LastCall SessionOverview",
    "roocontext.store.restorable": "Restorable",
    "roocontext.store.restore": "RestoredLog StoredEntry",
    "roocontext.store.rewind": "Rewound",
    "roocontext.store.search.hits": "Hit SearchPage",
    "roocontext.store.session": "Session",
    "roocontext.store.sessions": "SessionInfo Stats",
    "roocontext.store.snapshot": "Snapshot Wanted",
    "roocontext.store.store": "Store",
    "roocontext.store.uncover": "Uncovered",
    "roocontext.store.verify": "Head Verification",
    "roocontext.tokens.usage": "Drift",
}
_HOMES = {name: module for module, names in _LAZY.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a name's module when the name is first asked for."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
