"""Any session goes out acceptable in every form, whatever was hidden, rewound or redacted in it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext import Store
from roocontext.errors import NotTheModelsTurn, SummarySealed
from roocontext.log.compactions import can_read
from roocontext.log.forms import form_named, forms
from roocontext.log.forms.dialects import DIALECTS
from support.dialogue import text
from support.examples import everyday, examples
from support.histories import HISTORIES, play
from support.nasty_sessions import KINDS
from support.provider_rules import CHECKS, dialects
from support.replies import CLAUDE, claude, gpt, output_text, readable, sealed

GPT = "gpt-5.6"
MODELS = (None, "gemini-3-pro", CLAUDE, GPT)

compactions = st.lists(
    st.tuples(
        st.integers(0, 21),
        st.sampled_from(["readable", "readable only", "sealed", "sealed only", "failed"]),
        st.booleans(),
    ),
    max_size=3,
)
"""After which scene a provider compacts, how, and if a message arrives while it does."""


def compact(chat: Any, number: int, kind: str, *, late: bool) -> None:
    """Record a reply in which the provider compacted what it had read."""
    is_sealed, request = kind.startswith("sealed"), None
    form, model = ("openai-responses", GPT) if is_sealed else ("anthropic", CLAUDE)
    with suppress(NotTheModelsTurn, SummarySealed):
        request = chat.request(form, model=model, compact=True)
    if late:
        chat.append("user", f"L{number}.")
    compaction, said = readable(None if kind == "failed" else f"K{number}."), text("So.")
    if is_sealed:
        compaction, said = sealed(number, f"K{number}."), output_text(f"A{number}.", number)
    parts = [compaction] if kind.endswith("only") else [compaction, said]
    reply = (gpt if is_sealed else claude)(*parts, number=number, model=model)
    chat.record(reply, request)


def faults(chat: Any, models: Sequence[str | None] = MODELS) -> list[str]:
    """Everything that a provider would refuse, and every compaction that is lost or too much."""
    rows = chat.view().messages
    found: list[str] = []
    for form, check in CHECKS.items():
        for model in models:
            with sealed_for(rows, form, model):
                sent = chat.messages(form, model=model)
                found += check(sent, model=model)
                found += wrong_compactions(rows, form, sent, model)
                out = forms[form].compose(rows, model=model, complete=True)
                found += check(out.messages, complete=True, model=model)
    for dialect in DIALECTS:
        with sealed_for(rows, "openai", "mine"):
            out = form_named("openai", dialect).compose(rows, model="mine", complete=True)
            facts = {"complete": True, "model": "mine", "reasons": True}
            found += dialects.violations(out.messages, dialect, **facts)
            found += wrong_compactions(rows, "openai", out.messages)
    return found


@contextmanager
def sealed_for(rows: Any, form: str, model: str | None) -> Iterator[None]:
    """A model that cannot read a sealed compaction of the view is refused, and no other."""
    sealed = [row for row in rows if row.compacted is not None and row.compacted.sealed]
    is_refused = any(row.format != form or not can_read(model, row.model) for row in sealed)
    try:
        yield
    except SummarySealed:
        assert is_refused or (model is None and sealed)  # the model is that of the newest reply
    else:
        assert not is_refused or model is None


def wrong_compactions(rows: Any, form: str, sent: list[Any], model: str | None = None) -> list[str]:
    """The compactions in effect go out once, as they are or as text; no other goes out."""
    blocks = [
        block
        for message in sent
        for block in (message, *parts_of(message))
        if isinstance(block, dict) and block.get("type") == "compaction"
    ]
    shown = [row for row in rows if row.compacted is not None]
    own = [row.content[row.compacted.block] for row in shown if row.format == form]
    # A model that does not compact gets the text. Without a name, the newest reply names the model.
    if form == "anthropic" and (blocks == [] if model is None else model != CLAUDE):
        own = []
    found = [f"{len(blocks)} compactions"] if blocks != own else []
    marks = {
        str(block.get("content") or block.get("encrypted_content")): row.compacted is not None
        for row in rows
        for block in (row.content if isinstance(row.content, list) else ())
        if isinstance(block, dict) and block.get("type") == "compaction"
    }
    text = json.dumps(sent, default=repr) if marks else ""  # it may have megabytes
    for mark, is_wanted in marks.items():
        if text.count(mark) != is_wanted:
            found.append(f"{mark} is sent {text.count(mark)} times")
    return found


def parts_of(message: Any) -> list[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else []


@pytest.fixture(scope="module")
def memory() -> Iterator[Store]:
    """A store in memory."""
    with Store.open(":memory:") as store:
        yield store


@settings(max_examples=examples(25))
@given(history=HISTORIES, compacted=compactions)
def test_any_session_goes_out_acceptable_in_every_form(memory, history, compacted):
    chat = memory.create()
    for place, scene in enumerate(history):
        play(chat, [scene])
        for number, (after, kind, late) in enumerate(compacted):
            if after == place:
                compact(chat, number, kind, late=late)
    assert faults(chat) == []


def test_every_nasty_session_goes_out_acceptable_in_every_form(memory):
    """Each day each of them for one model, and each model in a quarter of them."""
    for number, kind in enumerate(KINDS.values()):
        chat = kind.build(memory.create())
        one = MODELS[number % len(MODELS)]
        assert faults(chat, everyday([one], MODELS)) == []
