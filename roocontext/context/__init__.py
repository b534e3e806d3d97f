"""When to act: plan, ask for a summary, commit."""

from roocontext.context.derived import gemini_event, opencode_event, roo_events
from roocontext.context.hooks import (
    AfterCompact,
    BeforeCheck,
    BeforeCompact,
    BudgetPassed,
    CompactionFailed,
    Drifted,
    Hooks,
)
from roocontext.context.manager import AsyncContextManager, ContextManager
from roocontext.context.outcome import Outcome, Status, Step

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
    "Status",
    "Step",
    "gemini_event",
    "opencode_event",
    "roo_events",
]
