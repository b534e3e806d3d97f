"""Any session, condensed, cleared, rewound and redacted, goes out acceptable in every form."""

from hypothesis import given, settings

from roocontext import Store
from roocontext.log.forms import form_named, forms
from roocontext.log.forms.dialects import DIALECTS
from support import (
    provider_rules,
    provider_rules_chat,
    provider_rules_dialects,
    provider_rules_gemini,
    provider_rules_responses,
)
from support.histories import HISTORIES, play
from support.nasty_sessions import KINDS

CHECKS = {
    "anthropic": provider_rules.violations,
    "openai": provider_rules_chat.violations,
    "openai-responses": provider_rules_responses.violations,
    "gemini": provider_rules_gemini.violations,
}


def faults(chat):
    rows = chat.view().messages
    found = []
    for form, check in CHECKS.items():
        for model in (None, "gemini-3-pro"):
            found += check(chat.messages(form, model=model), model=model)
            out = forms[form].compose(rows, model=model, complete=True)
            found += check(out.messages, complete=True, model=model)
    for dialect in DIALECTS:
        out = form_named("openai", dialect).compose(rows, model="mine", complete=True)
        facts = {"complete": True, "model": "mine", "reasons": True}
        found += provider_rules_dialects.violations(out.messages, dialect, **facts)
    return found


@settings(max_examples=40)
@given(HISTORIES)
def test_any_session_goes_out_acceptable_in_every_form(history):
    with Store.open(":memory:") as store:
        chat = store.create()
        play(chat, history)
        assert faults(chat) == []


def test_every_nasty_session_goes_out_acceptable_in_every_form():
    with Store.open(":memory:") as store:
        for kind in KINDS.values():
            chat = store.create()
            assert faults(kind.build(chat) or chat) == []
