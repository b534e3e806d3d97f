"""An event-sourced session store for coding agents: nothing is lost, the model sees a view.

All errors are in `roocontext.errors`; those that an agent usually handles are here too. A value
that is missing here is in the module of the method that returns it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from roocontext.registry import BUILT_IN

if TYPE_CHECKING:
    from roocontext.context.hooks import Hooks as Hooks
    from roocontext.context.manager import (
        AsyncContextManager as AsyncContextManager,
        ContextManager as ContextManager,
    )
    from roocontext.context.outcome import Outcome as Outcome
    from roocontext.errors import (
        BudgetExceeded as BudgetExceeded,
        DuplicateMessage as DuplicateMessage,
        InvalidMessage as InvalidMessage,
        InvalidOption as InvalidOption,
        MessageNotFound as MessageNotFound,
        NotTheModelsTurn as NotTheModelsTurn,
        RooContextError as RooContextError,
        SessionArchived as SessionArchived,
        SessionExists as SessionExists,
        SessionNotFound as SessionNotFound,
        SessionPurged as SessionPurged,
        StoreNotFound as StoreNotFound,
        StoreReadOnly as StoreReadOnly,
        StoreUnavailable as StoreUnavailable,
        SummaryFailed as SummaryFailed,
        TurnLost as TurnLost,
        TurnTaken as TurnTaken,
        VersionConflict as VersionConflict,
    )
    from roocontext.log.entries import (
        Entry as Entry,
        Kind as Kind,
        Message as Message,
        NewMessage as NewMessage,
        View as View,
    )
    from roocontext.log.forms import Repair as Repair
    from roocontext.log.plan import (
        Action as Action,
        Committed as Committed,
        Counts as Counts,
        Plan as Plan,
    )
    from roocontext.log.request import Request as Request
    from roocontext.log.turns import PendingCall as PendingCall
    from roocontext.store.aio import (
        AsyncChanges as AsyncChanges,
        AsyncSession as AsyncSession,
        AsyncSessionTurn as AsyncSessionTurn,
        AsyncStore as AsyncStore,
    )
    from roocontext.store.proof.archive import ArchiveFolder as ArchiveFolder
    from roocontext.store.proof.verify import (
        Head as Head,
        Verification as Verification,
    )
    from roocontext.store.reading.audit import (
        AuditEntry as AuditEntry,
        Diff as Diff,
    )
    from roocontext.store.reading.notes import Note as Note
    from roocontext.store.reading.pages import Page as Page
    from roocontext.store.search.hits import Hit as Hit
    from roocontext.store.session import Session as Session
    from roocontext.store.sessions.changes import (
        Change as Change,
        Changes as Changes,
    )
    from roocontext.store.sessions.overview import SessionOverview as SessionOverview
    from roocontext.store.sessions.sessions import SessionInfo as SessionInfo
    from roocontext.store.store import Store as Store
    from roocontext.store.turn import SessionTurn as SessionTurn
    from roocontext.store.writing.append import Receipt as Receipt
    from roocontext.store.writing.erase import (
        Purged as Purged,
        Redacted as Redacted,
    )
    from roocontext.store.writing.items import (
        NewNote as NewNote,
        Pin as Pin,
        Rewind as Rewind,
        SetMetadata as SetMetadata,
        SetTitle as SetTitle,
        Unpin as Unpin,
    )
    from roocontext.store.writing.record import RecordedReply as RecordedReply
    from roocontext.store.writing.rewind import Rewound as Rewound
    from roocontext.store.writing.uncover import Uncovered as Uncovered

BUILT_IN["roocontext.counters"] = "roocontext.tokens.builtin"
BUILT_IN["roocontext.models"] = "roocontext.tokens.limits"
BUILT_IN["roocontext.model_groups"] = "roocontext.tokens.limits"

# A store loads SQLAlchemy, so a module is loaded only when one of its names is first used.
_LAZY = {
    "roocontext.context.hooks": "Hooks",
    "roocontext.context.manager": "ContextManager AsyncContextManager",
    "roocontext.context.outcome": "Outcome",
    "roocontext.errors": """
        BudgetExceeded DuplicateMessage InvalidMessage InvalidOption MessageNotFound
        NotTheModelsTurn RooContextError SessionArchived SessionExists SessionNotFound
        SessionPurged StoreNotFound StoreReadOnly StoreUnavailable SummaryFailed TurnLost TurnTaken
        VersionConflict
    """,
    "roocontext.log.entries": "NewMessage Message View Entry Kind",
    "roocontext.log.forms": "Repair",
    "roocontext.log.plan": "Plan Action Counts Committed",
    "roocontext.log.request": "Request",
    "roocontext.log.turns": "PendingCall",
    "roocontext.store.aio": "AsyncStore AsyncSession AsyncSessionTurn AsyncChanges",
    "roocontext.store.proof.archive": "ArchiveFolder",
    "roocontext.store.proof.verify": "Head Verification",
    "roocontext.store.reading.audit": "AuditEntry Diff",
    "roocontext.store.reading.notes": "Note",
    "roocontext.store.reading.pages": "Page",
    "roocontext.store.search.hits": "Hit",
    "roocontext.store.session": "Session",
    "roocontext.store.sessions.changes": "Changes Change",
    "roocontext.store.sessions.overview": "SessionOverview",
    "roocontext.store.sessions.sessions": "SessionInfo",
    "roocontext.store.store": "Store",
    "roocontext.store.turn": "SessionTurn",
    "roocontext.store.writing.append": "Receipt",
    "roocontext.store.writing.erase": "Redacted Purged",
    "roocontext.store.writing.items": "NewNote Pin Unpin SetTitle SetMetadata Rewind",
    "roocontext.store.writing.record": "RecordedReply",
    "roocontext.store.writing.rewind": "Rewound",
    "roocontext.store.writing.uncover": "Uncovered",
}
_HOMES = {name: module for module, names in _LAZY.items() for name in names.split()}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Load a name's module when the name is first asked for."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
