"""What each provider accepts: outgoing messages, made from whatever the log holds."""

from roocontext.log.forms.anthropic import OPENING, UNANSWERED, Sendable, compose, repaired
from roocontext.log.forms.repairs import Repair, Rule

__all__ = ["OPENING", "UNANSWERED", "Repair", "Rule", "Sendable", "compose", "repaired"]
