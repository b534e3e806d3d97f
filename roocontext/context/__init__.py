"""Managing a context: decide when to act, plan, ask for a summary, and commit."""

from roocontext.context.hooks import Hooks
from roocontext.context.manager import AsyncContextManager, ContextManager
from roocontext.context.outcome import Outcome
from roocontext.context.restore import Restoration, Restored
from roocontext.log.events import (
    AfterCompact,
    BeforeCheck,
    BeforeCompact,
    BudgetPassed,
    CompactionFailed,
    Drifted,
    Status,
    Step,
)

__all__ = [
    "AfterCompact",
    "AsyncContextManager",
    "BeforeCheck",
    "BeforeCompact",
    "BudgetPassed",
    "CompactionFailed",
    "ContextManager",
    "Drifted",
    "Hooks",
    "Outcome",
    "Restoration",
    "Restored",
    "Status",
    "Step",
]
