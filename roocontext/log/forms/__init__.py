"""Outgoing messages that a provider accepts, made from any history.

The log keeps each message as its agent wrote it. A form makes a view acceptable to one provider: a
row in the form's own format is sent as it is stored, and rows of other formats are converted. The
built-in forms are registered in the same way as a plugin's.
"""

from typing import Final

from roocontext.log.forms.anthropic import ANTHROPIC_FORM
from roocontext.log.forms.chat import CHAT
from roocontext.log.forms.gemini import GEMINI_FORM
from roocontext.log.forms.parts import OPENING, UNANSWERED
from roocontext.log.forms.repairs import Form, Outgoing, Repair, Rule, newest_reply
from roocontext.log.forms.responses import RESPONSES_FORM
from roocontext.registry import Registry

__all__ = ["OPENING", "UNANSWERED", "Form", "Outgoing", "Repair", "Rule", "forms", "newest_reply"]

forms: Final[Registry[Form]] = Registry("roocontext.forms")

forms.register("anthropic", ANTHROPIC_FORM)
forms.register("openai", CHAT)
forms.register("openai-responses", RESPONSES_FORM)
forms.register("gemini", GEMINI_FORM)
