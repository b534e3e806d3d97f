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
    PoolExhausted,
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
    from roocontext.log.counting import ReportedUsage, Size
    from roocontext.log.entries import Entry, Kind, Message, NewMessage, View
    from roocontext.log.forms import Repair
    from roocontext.log.plan import Action, Committed, Counts, Plan
    from roocontext.log.request import Frame, Request
    from roocontext.log.turns import PendingCall
    from roocontext.search.passages import Snippet
    from roocontext.store.aio import AsyncSession, AsyncStore
    from roocontext.store.counting.count import Restorable
    from roocontext.store.counting.snapshot import Snapshot, Wanted
    from roocontext.store.proof.restore import RestoredLog, StoredEntry
    from roocontext.store.proof.verify import Head, Verification
    from roocontext.store.reading.audit import AuditEntry, Diff, Hider
    from roocontext.store.reading.live import LiveMessage, Original
    from roocontext.store.reading.notes import Note
    from roocontext.store.reading.usage import Call
    from roocontext.store.search.hits import Hit, SearchPage
    from roocontext.store.session import Session
    from roocontext.store.sessions.overview import LastCall, SessionOverview
    from roocontext.store.sessions.sessions import ControlEntry, Outline, SessionInfo, Stats
    from roocontext.store.store import Store
    from roocontext.store.writing.append import Receipt
    from roocontext.store.writing.batch import Written
    from roocontext.store.writing.erase import Purged, Redacted
    from roocontext.store.writing.items import Describe, NewNote, Pin, Rename, Rewind, Unpin
    from roocontext.store.writing.rewind import Rewound
    from roocontext.store.writing.uncover import Uncovered
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
    "PoolExhausted",
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
    "roocontext.log.counting": "ReportedUsage Size",
    "roocontext.log.plan": "Action Committed Counts Plan",
    "roocontext.log.entries": "Entry Kind Message NewMessage View",
    "roocontext.log.forms": "Repair",
    "roocontext.log.request": "Frame Request",
    "roocontext.log.turns": "PendingCall",
    "roocontext.search.passages": "Snippet",
    "roocontext.store.aio": "AsyncSession AsyncStore",
    "roocontext.store.writing.append": "Receipt",
    "roocontext.store.reading.audit": "AuditEntry Diff Hider",
    "roocontext.store.writing.batch": "Written",
    "roocontext.store.reading.usage": "Call",
    "roocontext.store.writing.erase": "Purged Redacted",
    "roocontext.store.writing.items": "Describe NewNote Pin Rename Rewind Unpin",
    "roocontext.store.reading.live": "LiveMessage Original",
    "roocontext.store.reading.notes": "Note",
    "roocontext.store.sessions.sessions": "ControlEntry Outline SessionInfo Stats",
    "roocontext.store.sessions.overview": "LastCall SessionOverview",
    "roocontext.store.counting.count": "Restorable",
    "roocontext.store.proof.restore": "RestoredLog StoredEntry",
    "roocontext.store.writing.rewind": "Rewound",
    "roocontext.store.search.hits": "Hit SearchPage",
    "roocontext.store.session": "Session",
    "roocontext.store.counting.snapshot": "Snapshot Wanted",
    "roocontext.store.store": "Store",
    "roocontext.store.writing.uncover": "Uncovered",
    "roocontext.store.proof.verify": "Head Verification",
    "roocontext.tokens.usage": "Drift",
}
_HOMES = {name: module for module, names in _LAZY.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a name's module when the name is first asked for."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
