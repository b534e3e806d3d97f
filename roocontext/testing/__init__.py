"""Checks that any store for agents' sessions should pass, to run over your own store.

Write a driver with the ten methods of `SessionStore`, and call `examine`, or derive a test class
from `StoreContract`.
"""

from roocontext.testing.examine import CHECKS, Report, Result, StoreContract, examine
from roocontext.testing.protocol import (
    Append,
    Capability,
    Condense,
    Fork,
    History,
    Message,
    Receipt,
    Sent,
    SessionStore,
    Verdict,
    Version,
    View,
)
from roocontext.testing.trial import Check

__all__ = [
    "CHECKS",
    "Append",
    "Capability",
    "Check",
    "Condense",
    "Fork",
    "History",
    "Message",
    "Receipt",
    "Report",
    "Result",
    "Sent",
    "SessionStore",
    "StoreContract",
    "Verdict",
    "Version",
    "View",
    "examine",
]
