"""The form of the guide's page, which a reader of the page copies, keeps the laws of forms."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roocontext import Store
from roocontext.errors import InvalidMessage
from roocontext.log.forms import forms
from roocontext.log.readings import reader, readers
from roocontext.log.replies import Reply, reply_readers
from support.provider_rules import CHECKS
from support.rows_of_formats import MODELS, histories, message, rows

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "own-form.md"
UI = "ai-sdk-ui"
DEFINED = {}
"""What the page defines."""


@pytest.fixture(scope="module", autouse=True)
def _registered_as_on_the_page():
    kept = [(registry, dict(registry)) for registry in (readers, forms, reply_readers)]
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    with redirect_stdout(io.StringIO()):
        exec("\n".join(code), DEFINED)
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


NEEDED = {
    "input-available": {"toolCallId", "input"},
    "output-available": {"toolCallId", "input", "output"},
    "output-error": {"toolCallId", "input", "errorText"},
}
"""What the part of a tool has in each state, by the types of the AI SDK (ai-sdk.dev, UIMessage)."""


def faults(messages):
    """What the AI SDK refuses of UI messages."""
    ids = [it["id"] for it in messages]
    found = ["the same id twice"] if len(set(ids)) < len(ids) else []
    for one in messages:
        if one["role"] not in ("system", "user", "assistant") or not one["parts"]:
            found.append(f"role or parts of {one['id']}")
        for part in one["parts"]:
            kind = part["type"]
            if kind == "text" and not isinstance(part["text"], str):
                found.append("text")
            if kind == "file" and not part["url"].startswith(("data:", "http")):
                found.append("url")
            if kind.startswith("tool-") and not NEEDED[part["state"]] <= part.keys():
                found.append(f"state {part['state']}")
    return found


@given(histories, st.booleans())
def test_any_history_becomes_messages_of_the_interface(history, complete):
    out = forms[UI].compose(rows(history), complete=complete)
    assert faults(out.messages) == []


@given(histories)
def test_messages_of_the_interface_go_to_every_provider(history):
    shown = forms[UI].compose(rows(history), complete=True).messages
    stored = [row for one in shown for row in DEFINED["rows_of"](one)]
    for role, content in stored:
        reader(UI).check(role, content)
    made = [message(seq, *row, UI, "claude-x") for seq, row in enumerate(stored, 1)]
    words = [part["text"] for one in shown for part in one["parts"] if part["type"] == "text"]
    for form, check in CHECKS.items():
        out = forms[form].compose(made, model=MODELS[form], complete=True)
        assert check(out.messages, complete=True, model=MODELS[form]) == []
        sent = json.dumps(out.messages, default=repr)
        assert all(json.dumps(said)[1:-1] in sent for said in words if said.strip())
    again = forms[UI].compose(made, complete=True).messages
    assert [it["role"] for it in again[:1]] == [it["role"] for it in shown[:1]]


def test_form_given_as_an_object_needs_no_name():
    form = DEFINED["UiForm"]()
    with Store.open(":memory:") as store:
        chat = store.create()
        chat.append("user", "hi")
        request = chat.request(form)
        assert request["messages"] == chat.messages(form) == chat.messages(UI)
        assert (request.form, chat.repairs(form)) == (UI, ())


def test_reply_given_as_an_object_is_recorded_as_it_is():
    with Store.open(":memory:") as store:
        chat = store.create()
        chat.append("user", "hi")
        chat.record(Reply("anthropic", "assistant", "hello", model="mine", beside={"x": 1}))
        last = list(chat.audit())[-1].entry
        assert (last.content, last.model, last.extra) == ("hello", "mine", {"roocontext": {"x": 1}})


def test_own_reader_is_asked_before_the_built_in_ones():
    call = {"type": "tool-f", "toolCallId": "a", "state": "output-available", "output": 1}
    with Store.open(":memory:") as store, pytest.raises(InvalidMessage, match="rows_of"):
        store.create().record({"id": "1", "role": "assistant", "parts": [call]})


def test_clearing_redaction_and_answers_keep_the_shape():
    reading = reader(UI)
    asked = {"type": "dynamic-tool", "toolName": "f", "toolCallId": "a", "input": {"x": "secret"}}
    role, content = reading.answer({"parts": [asked]}, 0, {"y": "secret"}, is_error=False)
    reading.check(role, content)
    cleared = reading.clear(content, reading.outputs(content), "gone")
    assert cleared["parts"][0]["output"] == "gone"
    for one in (content, {"role": "assistant", "parts": [asked]}):
        skeleton = reading.skeleton(one)
        reading.check(one["role"], skeleton)
        assert "secret" not in str(skeleton)
        assert reading.skeleton(skeleton) == skeleton
