"""Outgoing messages that a provider accepts, made from any history.

The log keeps each message as its agent wrote it. A form makes a view acceptable to one provider: a
row in the form's own format is sent as it is stored, and rows of other formats are converted. The
built-in forms are registered in the same way as a plugin's.
"""

from typing import Final

from roocontext.errors import InvalidOption
from roocontext.log.forms.anthropic import ANTHROPIC_FORM
from roocontext.log.forms.arrange import OutgoingTurn, ProviderForm
from roocontext.log.forms.chat import CHAT
from roocontext.log.forms.converse import CONVERSE_FORM
from roocontext.log.forms.gemini import GEMINI_FORM
from roocontext.log.forms.parts import (
    OPENING,
    UNANSWERED,
    OutgoingPart,
    OwnPiece,
    OwnRow,
    PartKind,
    RequestState,
)
from roocontext.log.forms.repairs import Form, Outgoing, Repair, Rule, newest_reply
from roocontext.log.forms.responses import RESPONSES_FORM
from roocontext.registry import Registry

__all__ = [
    "OPENING",
    "UNANSWERED",
    "Form",
    "Outgoing",
    "OutgoingPart",
    "OutgoingTurn",
    "OwnPiece",
    "OwnRow",
    "PartKind",
    "ProviderForm",
    "Repair",
    "RequestState",
    "Rule",
    "form_named",
    "forms",
    "newest_reply",
]

forms: Final[Registry[Form]] = Registry("roocontext.forms")

forms.register("anthropic", ANTHROPIC_FORM)
forms.register("openai", CHAT)
forms.register("openai-responses", RESPONSES_FORM)
forms.register("gemini", GEMINI_FORM)
forms.register("bedrock-converse", CONVERSE_FORM)


def form_named(given: str | Form, dialect: str | None = None) -> Form:
    """Find a form; `dialect` names the server that it is for, if it is not the provider's own."""
    form = forms[given] if isinstance(given, str) else given
    if isinstance(form, type) or not hasattr(form, "compose"):
        raise InvalidOption("form must be a name, or an object with compose.", name="form")
    if dialect is None:
        return form
    if form is not CHAT:
        raise InvalidOption("Only the form 'openai' has dialects.", name="dialect")
    return CHAT.in_dialect(dialect)
