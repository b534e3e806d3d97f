"""Every type of item, block, part and message of the SDKs: stored, read, and sent in every form."""

import itertools

import anthropic.types as anthropic
import anthropic.types.beta as beta
import openai.types.responses as responses
import pytest
from google.genai import types as genai
from msgspec.structs import replace
from openai.types.chat import ChatCompletionMessage

from roocontext.log.encoding import encode_plain
from roocontext.log.entries import Compacted
from roocontext.log.forms import Rule, forms
from roocontext.log.readings import Holds, pieces, reader, walk
from support.provider_rules import CHECKS
from support.rows_of_formats import MODELS, message
from support.sdk_objects import fields_of, members

ASKED = {
    "anthropic": "go",
    "openai": {"role": "user", "content": "go"},
    "openai-responses": [{"type": "message", "role": "user", "content": "go"}],
    "gemini": {"role": "user", "parts": [{"text": "go"}]},
}


def stored(format_, role, given):
    """A view whose second row is this, as the log stores and reads it."""
    content, _ = encode_plain(given)
    reader(format_).check(role, content)
    reader(format_).check(role, reader(format_).skeleton(content))
    rows = [message(1, "user", ASKED[format_], format_)]
    return [*rows, message(2, role, content, format_, MODELS[format_])]


def is_sent(piece, sent):
    """True if a text or call is there, or an image, or a text in place of a search result."""
    if piece.kind in (Holds.TEXT, Holds.CALL):
        return not piece.text or piece.text in sent
    if piece.kind in (Holds.THINKING, Holds.OUTPUT):
        return True
    block = piece.block
    return block.get("type") == "image" or block.get("title", "?") in sent


def assert_nothing_is_lost(format_, role, given):
    """Each form is accepted, and what it leaves out it lists."""
    rows = stored(format_, role, given)
    found = [*walk(pieces(reader(format_).blocks(role, rows[1].content)[1]))]
    for form, complete in itertools.product(forms.known(), (False, True)):
        out = forms[form].compose(rows, model=MODELS[form], complete=complete)
        assert CHECKS[form](out.messages, complete=complete, model=MODELS[form]) == []
        listed = any(repair.seq == 2 and repair.rule is not Rule.CLOSING for repair in out.repairs)
        sent = str(out.messages)
        if form == format_:
            assert listed or all(leaf in sent for leaf in leaves(rows[1].content))
        else:
            assert listed or all(is_sent(piece, sent) for piece in found)


def leaves(value):
    """Each text of a content; the ids of items are not sent to another model."""
    if isinstance(value, dict):
        return [leaf for key, it in value.items() if key != "id" for leaf in leaves(it)]
    if isinstance(value, list):
        return [leaf for it in value for leaf in leaves(it)]
    return [value] if isinstance(value, str) else []


OUTPUTS = ("mcp_approval_response", "configuration_update", "additional_tools", "item_reference")
ITEMS = [
    *members(responses.ResponseInputItem),
    *members(responses.ResponseOutputItem),
    *members(responses.ResponseItem),
]


@pytest.mark.parametrize("kind", dict.fromkeys(ITEMS), ids=lambda kind: kind.__name__)
def test_every_item_of_responses(kind):
    for whole in (False, True):
        given = fields_of(kind, whole=whole)
        type_ = given.get("type") or "item_reference"
        answers = type_.endswith("_output") and type_ != "program_output"
        role = given.get("role") if type_ == "message" else None
        role = role or ("user" if answers or type_ in OUTPUTS else "assistant")
        item = kind.model_validate(given)
        assert_nothing_is_lost("openai-responses", role, [item])
        assert_nothing_is_lost("openai-responses", role, [given])


BLOCKS = [*members(anthropic.ContentBlock), *members(beta.BetaContentBlock)]
PARAMS = [*members(anthropic.ContentBlockParam), *members(beta.BetaContentBlockParam)]
TAIL = {"type": "text", "text": "So."}


@pytest.mark.parametrize("kind", dict.fromkeys(BLOCKS), ids=lambda kind: kind.__name__)
def test_every_block_of_anthropics_replies(kind):
    for whole in (False, True):
        block = kind.model_validate(fields_of(kind, whole=whole))
        assert_nothing_is_lost("anthropic", "assistant", [block, TAIL])


@pytest.mark.parametrize("kind", dict.fromkeys(PARAMS), ids=lambda kind: kind.__name__)
def test_every_block_of_anthropics_requests(kind):
    for role in ("user", "assistant"):
        assert_nothing_is_lost("anthropic", role, [fields_of(kind, whole=True), TAIL])


@pytest.mark.parametrize("name", genai.Part.model_fields)
def test_every_part_of_gemini_in_both_spellings(name):
    whole = fields_of(genai.Part, whole=True)
    key = genai.Part.model_fields[name].alias
    others = {"text": "So."} if name in ("thought", "thought_signature", "speech_metadata") else {}
    if "metadata" in name or name.startswith("media_"):
        others = {"inlineData": {"mimeType": "video/mp4", "data": "AAAA"}}
    part = genai.Part.model_validate({**others, key: whole[key]})
    snake = part.model_dump(mode="json", exclude_none=True)
    for role in ("user", "model"):
        assert_nothing_is_lost("gemini", role, genai.Content(role=role, parts=[part]))
        assert_nothing_is_lost("gemini", role, {"role": role, "parts": [snake]})


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CUSTOM = {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}}
OLDER = {"name": "f", "arguments": '{"q": "x"}'}
SPOKEN = {"id": "a1", "data": "AAAA", "expires_at": 1, "transcript": "Good day."}
PARTS = [
    {"type": "text", "text": "See."},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
]
REPLIES = [
    {"content": "Yes."},
    {"content": None, "refusal": "No."},
    {"content": "Well.", "refusal": "No."},
    {"content": [{"type": "refusal", "refusal": "No."}]},
    {"content": None, "audio": SPOKEN},
    {"content": None, "audio": {"id": "a1"}},
    {"content": None, "audio": {"id": "a1"}, "tool_calls": [{**CALL, "index": 0}]},
    {"content": None, "function_call": OLDER},
    {"content": None, "function_call": None, "tool_calls": [CALL, CUSTOM]},
    {"content": "", "tool_calls": [CALL]},
    {"content": "Yes.", "tool_calls": []},
]
OTHERS = [
    {"role": "function", "name": "f", "content": "Done."},
    {"role": "tool", "tool_call_id": "c1", "content": PARTS},
    {"role": "user", "name": "n", "content": PARTS},
    {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA"}}]},
    {"role": "user", "content": [{"type": "file", "file": {"file_id": "f1"}}]},
    {"role": "system", "content": PARTS},
    {"role": "developer", "content": "Be kind."},
]


@pytest.mark.parametrize("given", [*({"role": "assistant", **it} for it in REPLIES), *OTHERS])
def test_every_message_of_chat_completions(given):
    assert_nothing_is_lost("openai", given["role"], given)


@pytest.mark.parametrize("given", [it for it in REPLIES if not isinstance(it["content"], list)])
def test_every_reply_of_chat_completions(given):
    audio = {"audio": SPOKEN} if "audio" in given else {}
    reply = ChatCompletionMessage.model_validate({"role": "assistant", **given, **audio})
    assert_nothing_is_lost("openai", "assistant", reply)


def chat_sent(*rows):
    made = [message(at, row["role"], row, "openai", "gpt-5") for at, row in enumerate(rows, 1)]
    return forms["openai"].compose(made, model="gpt-5")


def test_call_of_the_older_api_and_its_result_are_a_pair():
    asked = {"role": "assistant", "content": None, "function_call": OLDER}
    done = {"role": "function", "name": "f", "content": "Done."}
    out = chat_sent(ASKED["openai"], asked, done)
    function = {"name": "f", "arguments": '{"q":"x"}'}
    assert out.messages[1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "f", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "f", "content": "Done."},
    ]
    assert {(it.seq, it.rule) for it in out.repairs} >= {(2, Rule.RENAMED), (3, Rule.RENAMED)}
    assert reader("openai").answer(asked, 0, "Done.", is_error=False) == ("function", done)
    assert reader("openai").skeleton(asked)["function_call"] == {"name": "f", "arguments": "{}"}
    assert reader("openai").outputs(done) == (0,)


def test_what_a_model_said_aloud_is_its_transcript():
    reply = {"role": "assistant", "content": None, "audio": SPOKEN}
    out = chat_sent(ASKED["openai"], reply)
    assert out.messages[1] == {"role": "assistant", "content": "Good day."}
    own = {"role": "assistant", "content": None, "audio": {"id": "a1"}}
    assert chat_sent(ASKED["openai"], own).messages[1] is own
    odd = {**own, "tool_calls": [{**CALL, "index": 0}]}
    assert chat_sent(ASKED["openai"], odd).messages[1] == {**own, "tool_calls": [CALL]}


def test_image_in_a_tool_message_is_moved_and_reported():
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    out = chat_sent(ASKED["openai"], asked, OTHERS[1])
    assert [it["role"] for it in out.messages[2:]] == ["tool", "user"]
    assert [(it.seq, it.rule) for it in out.repairs] == [(3, Rule.MOVED)]


def test_media_in_a_response_of_gemini_are_read_and_cleared():
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    response = {"name": "f", "response": {"output": "Done."}, "parts": [image]}
    content = {"role": "user", "parts": [{"functionResponse": response}]}
    (block,) = reader("gemini").blocks("user", content)[1]
    assert [it["type"] for it in block["content"]] == ["text", "image"]
    cleared = reader("gemini").clear(content, [0], "[cleared]")
    assert cleared["parts"][0]["functionResponse"] == {
        "name": "f",
        "response": {"output": "[cleared]"},
    }


def test_item_that_only_a_reply_has_fields_of_goes_without_them():
    call = {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}}
    rows = stored("openai-responses", "assistant", [{**call, "created_by": "x"}])
    out = forms["openai-responses"].compose(rows, model="gpt-5")
    assert out.messages[1] == call
    assert (2, Rule.FIELD, 0) in [(it.seq, it.rule, it.block) for it in out.repairs]


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        (None, "input_text"),
        ({"a": 1}, "input_text"),
        ([], "input_text"),
        ("message", "output_text"),
    ],
    ids=str,
)
def test_message_of_a_wrong_type_or_with_the_assistants_parts_is_composed_anew(kind, part):
    said = {"role": "user", "content": [{"type": part, "text": "so"}]}
    out = forms["openai-responses"].compose(
        stored("openai-responses", "user", [{"type": kind, **said}])
    )
    told = {"role": "user", "content": [{"type": "input_text", "text": "so"}]}
    assert {"type": "message", **told} in out.messages


def test_redacted_item_without_its_values_is_left_out_and_a_short_one_is_not():
    rest = {"type": "mcp_call", "id": "mcp_1", "name": "f"}
    compaction = {"type": "compaction", "encrypted_content": "x"}
    rows = stored("openai-responses", "assistant", [rest, compaction])
    rows[1] = replace(rows[1], compacted=Compacted(1, sealed=True, covering=3))
    out = forms["openai-responses"].compose(rows, model="gpt-5")
    assert out.messages[1:] == [compaction]
    assert [(it.rule, it.block) for it in out.repairs] == [(Rule.UNKNOWN, 0)]
