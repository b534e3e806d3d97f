"""PDFs go to every provider that takes them, and what a form leaves out of a text is reported."""

import json

import pytest
from hypothesis import given
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter

from roocontext.log.forms import Rule, form_named, forms
from roocontext.log.readings import reader
from support.provider_rules import CHECKS, dialects
from support.rows_of_formats import MODELS, histories, message, rows

PDF = "JVBERi0x"
DATA = f"data:application/pdf;base64,{PDF}"
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": PDF}
DOCUMENTS = {
    "anthropic": [{"type": "document", "source": SOURCE}],
    "openai": {
        "role": "user",
        "content": [{"type": "file", "file": {"filename": "a.pdf", "file_data": DATA}}],
    },
    "openai-responses": [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_file", "filename": "a.pdf", "file_data": DATA}],
        }
    ],
    "gemini": {
        "role": "user",
        "parts": [{"inlineData": {"mimeType": "application/pdf", "data": PDF}}],
    },
}


def compose(form, *given_rows, dialect=None):
    out = form_named(form, dialect).compose(given_rows, model=MODELS[form], complete=True)
    if dialect is None:
        assert CHECKS[form](out.messages, complete=True, model=MODELS[form]) == []
    else:
        assert dialects.violations(out.messages, dialect, complete=True) == []
    return out.messages, [(it.seq, it.rule) for it in out.repairs]


@pytest.mark.parametrize("form", CHECKS)
def test_image_without_a_source_in_a_result_is_named(form):
    content = [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]}]
    messages, _ = compose(form, message(1, "user", content, "anthropic"))
    assert " attached]" in str(messages)


@pytest.mark.parametrize("form", DOCUMENTS)
@pytest.mark.parametrize("format_", DOCUMENTS)
def test_pdf_of_any_format_goes_to_every_provider(format_, form):
    row = message(1, "user", DOCUMENTS[format_], format_)
    messages, repairs = compose(form, row)
    assert PDF in json.dumps(messages)
    assert repairs == []
    own = messages[0] if form != "anthropic" else messages[0]["content"]
    assert forms[form].compose([message(1, "user", own, form)]).repairs == ()


@pytest.mark.parametrize("kind", ["custom_tool_call", "shell_call", "apply_patch_call"])
def test_image_in_the_result_of_a_call_that_is_no_function_goes_out(kind):
    call = {"type": kind, "call_id": "a", "name": "plot", "input": "x", "action": {}}
    image = {"type": "image", "source": {**SOURCE, "media_type": "image/png"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [image]}
    messages, _ = compose(
        "openai-responses",
        message(1, "user", "go", "anthropic"),
        message(2, "assistant", [call], "openai-responses", MODELS["openai-responses"]),
        message(3, "user", [result], "anthropic"),
    )
    assert f"data:image/png;base64,{PDF}" in str(messages[2])


@pytest.mark.parametrize("form", DOCUMENTS)
def test_pdf_in_a_result_goes_out_with_it_or_after_it(form):
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    inner = [{"type": "text", "text": "Here."}, *DOCUMENTS["anthropic"]]
    result = {"type": "tool_result", "tool_use_id": "a", "content": inner}
    history = [
        message(1, "user", "go", "anthropic"),
        message(2, "assistant", [call], "anthropic", "claude-x"),
        message(3, "user", [result], "anthropic"),
    ]
    messages, _ = compose(form, *history)
    sent = json.dumps(messages)
    assert sent.index("Here.") < sent.index(PDF)


@pytest.mark.parametrize("form", MODELS)
@pytest.mark.parametrize(
    "media_type", [["image/png"], {"image": "png"}, None, "image/", "image/tiff"], ids=str
)
def test_image_of_a_type_that_the_provider_does_not_know_is_named(form, media_type):
    source = {"type": "base64", "media_type": media_type, "data": "AAAA"}
    content = [{"type": "image", "source": source}, {"type": "text", "text": "look"}]
    messages, _ = compose(form, message(1, "user", content, "anthropic"))
    assert "attached]" in json.dumps(messages)


def test_pdf_of_mistral_is_a_document_url():
    (first,), repairs = compose(
        "openai", message(1, "user", DOCUMENTS["anthropic"], "anthropic"), dialect="mistral"
    )
    assert first["content"] == [{"type": "document_url", "document_url": DATA}]
    assert repairs == []


def test_pdf_at_a_url_is_named_where_the_provider_cannot_fetch_it():
    source = {"type": "url", "url": "https://example.org/a.pdf"}
    row = message(
        1, "user", [{"type": "document", "source": source, "title": "a.pdf"}], "anthropic"
    )
    (item,), repairs = compose("openai-responses", row)
    assert item["content"][-1] == {"type": "input_file", "file_url": source["url"]}
    assert repairs == []
    for form in ("openai", "gemini"):
        messages, repairs = compose(form, row)
        assert "[a.pdf attached]" in json.dumps(messages)
        assert repairs == [(1, Rule.MEDIA)]


def test_words_about_a_document_go_before_it_where_it_cannot_hold_them():
    document = {**DOCUMENTS["anthropic"][0], "title": "a.pdf", "context": "The contract."}
    row = message(1, "user", [document], "anthropic")
    (chat,), _ = compose("openai", row)
    assert chat["content"][0] == {"type": "text", "text": "The contract."}
    assert chat["content"][1]["file"]["filename"] == "a.pdf"
    (gemini,), _ = compose("gemini", row)
    assert gemini["parts"][0] == {"text": "a.pdf\nThe contract."}


CITED = {
    "anthropic": [{"type": "text", "text": "so", "citations": [{"type": "char_location"}]}],
    "openai": {"role": "assistant", "content": "so", "annotations": [{"type": "url_citation"}]},
    "openai-responses": [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "so", "annotations": [{"type": "x"}]}],
        }
    ],
}


@pytest.mark.parametrize("form", DOCUMENTS)
@pytest.mark.parametrize("format_", CITED)
def test_citations_that_another_provider_does_not_know_are_reported(format_, form):
    history = [
        message(1, "user", "go", "anthropic"),
        message(2, "assistant", CITED[format_], format_, MODELS[format_]),
    ]
    messages, repairs = compose(form, *history)
    assert ((2, Rule.CITATIONS) in repairs) == (form != format_)
    assert ("location" in str(messages) or "annotations" in str(messages)) == (form == format_)


def test_hosted_tool_search_goes_back_whole():
    searched = {"type": "tool_search_call", "id": "ts_1", "call_id": None, "execution": "server"}
    items = [
        {**searched, "arguments": {"query": "files"}, "status": "completed"},
        {
            "type": "tool_search_output",
            "id": "tso_1",
            "call_id": None,
            "execution": "server",
            "status": "completed",
            "tools": [],
        },
        {"type": "message", "role": "assistant", "content": "Found."},
    ]
    history = [
        message(1, "user", "go", "anthropic"),
        message(2, "assistant", items, "openai-responses", "gpt-5"),
    ]
    messages, repairs = compose("openai-responses", *history)
    assert [it["type"] for it in messages[1:4]] == [it["type"] for it in items]
    assert repairs == [(2, Rule.CLOSING)]
    _, repairs = compose("openai", *history)
    assert repairs.count((2, Rule.UNKNOWN)) == 2
    bare = reader("openai-responses").skeleton(items)
    redacted = message(2, "assistant", bare, "openai-responses", "gpt-5")
    _, repairs = compose("openai-responses", history[0], redacted)
    assert repairs.count((2, Rule.UNKNOWN)) == 2


ITEMS = TypeAdapter(list[ResponseInputItemParam])


@given(histories)
def test_composed_items_have_the_fields_that_the_sdk_requires(history):
    foreign = [row for row in rows(history) if row.format != "openai-responses"]
    out = forms["openai-responses"].compose(foreign, model="gpt-5", complete=True)
    ITEMS.validate_python(out.messages)


@pytest.mark.parametrize(
    ("model", "is_inside"), [("gemini-3-pro", True), ("gemini-2.5-pro", False)]
)
def test_images_in_a_response_are_moved_for_models_that_refuse_them(model, is_inside):
    called = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    response = {"name": "f", "response": {"output": "so"}}
    told = {"role": "user", "parts": [{"functionResponse": {**response, "parts": [image]}}]}
    rows_of_one = [
        message(1, "user", {"role": "user", "parts": [{"text": "go"}]}, "gemini"),
        message(2, "model", called, "gemini", "gemini-3-pro"),
        message(3, "user", told, "gemini"),
    ]
    out = forms["gemini"].compose(rows_of_one, model=model, complete=True)
    moved = {"role": "user", "parts": [{"functionResponse": response}, image]}
    assert out.messages[-1] == (told if is_inside else moved)
    assert ((3, Rule.MOVED) in [(it.seq, it.rule) for it in out.repairs]) is not is_inside
