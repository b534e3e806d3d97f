"""Policies decide what is hidden or cleared, and when: pure functions of a situation.

The names below are everything that a third-party policy needs.
"""

from roocontext.log.plan import Action
from roocontext.policies.layout import Group, Turn, groups, held, turns
from roocontext.policies.make_plan import clear_plan, hide_plan, outgoing, say, summary_row
from roocontext.policies.situation import (
    Aim,
    Ask,
    Decision,
    Nothing,
    Policy,
    Ready,
    Refused,
    Row,
    Situation,
    TooLarge,
    Totals,
)

__all__ = [
    "Action",
    "Aim",
    "Ask",
    "Decision",
    "Group",
    "Nothing",
    "Policy",
    "Ready",
    "Refused",
    "Row",
    "Situation",
    "TooLarge",
    "Totals",
    "Turn",
    "clear_plan",
    "groups",
    "held",
    "hide_plan",
    "outgoing",
    "say",
    "summary_row",
    "turns",
]
