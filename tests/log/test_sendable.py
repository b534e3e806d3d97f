"""What Anthropic's API refuses of a log is repaired, and each repair is reported."""

import json

import pytest
from msgspec import structs

from roocontext.log.entries import Kind, Message
from roocontext.log.forms import OPENING, UNANSWERED
from roocontext.log.forms.anthropic import ANTHROPIC_FORM
from roocontext.log.turns import last_turn
from support.provider_rules.anthropic import displaced, violations

sendable = ANTHROPIC_FORM.compose


def message(seq, role, content, form="anthropic", **more):
    row = Message(seq, Kind.MESSAGE, role, content, form, None, 0, None, None)
    return structs.replace(row, **more)


def history(*rows):
    return [message(seq, *row) for seq, row in enumerate(rows, 1)]


def user(*blocks):
    """A row with these blocks, or with one string."""
    return "user", blocks[0] if [*map(type, blocks)] == [str] else [*blocks]


def assistant(*blocks):
    return "assistant", user(*blocks)[1]


def text(said="hello"):
    return {"type": "text", "text": said}


def call(tool_id="a", **more):
    return {"type": "tool_use", "id": tool_id, "name": "read", "input": {}, **more}


def result(tool_id="a", content="ok", **more):
    return {"type": "tool_result", "tool_use_id": tool_id, "content": content, **more}


def quoted(tool_id, *said):
    frame = "[Data: the result of an earlier call that is not shown, quoted as JSON]\n"
    return text(frame + json.dumps({"id": tool_id, "content": said}))


def unanswered(tool_id="a"):
    return result(tool_id, UNANSWERED, is_error=True)


def reported(out):
    """The repairs as text: the seq, the rule and the block of each."""
    parts = [(it.seq, it.rule, it.block) for it in out.repairs]
    return ", ".join(" ".join(str(one) for one in it if one is not None) for it in parts)


IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
HEIC = {"type": "base64", "media_type": "image/heic", "data": "AAAA"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "AAAA"}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
MARK = {"cache_control": {"type": "ephemeral"}}
GO, ON, SO = user("go"), user("on"), assistant("so")
APART = user(OPENING)

REPAIRED = {
    "nothing": ([], [], ""),
    "the assistant opens": ([SO], [APART, SO], "1 opening"),
    "two rows of one role": (
        [user("one"), user(text("two")), assistant("three")],
        [user(text("one"), text("two")), assistant("three")],
        "2 merged",
    ),
    "parallel calls and results in separate rows": (
        [GO, assistant(call("a")), assistant(call("b")), user(result("a")), user(result("b"))],
        [GO, assistant(call("a"), call("b")), user(result("a"), result("b"))],
        "3 merged, 5 merged",
    ),
    "empty and blank blocks": (
        [GO, assistant(), user(" \n"), assistant(text(""), text("x"))],
        [GO, assistant(text("x"))],
        "2 empty, 3 empty, 3 blank 0, 4 blank 0",
    ),
    "blocks of the other role": (
        [user(text(), call(), THOUGHT), assistant(text(), result()), user(result())],
        [user(text()), assistant(text()), user(quoted("a", "ok"))],
        "1 misplaced 1, 1 misplaced 2, 2 misplaced 1, 3 orphan 0",
    ),
    "rows of thinking alone": (
        [GO, assistant(THOUGHT, HIDDEN), ON, assistant(THOUGHT)],
        [user(text("go"), text("on"))],
        "2 trailing 0, 2 trailing 1, 3 merged, 4 trailing 0",
    ),
    "thinking in a row before a call": (
        [GO, assistant(THOUGHT), assistant(call())],
        [GO, assistant(THOUGHT, call())],
        "3 merged",
    ),
    "thinking of a second row has nothing put before it": (
        [GO, SO, assistant(THOUGHT, text("two"), HIDDEN, text("three")), assistant("four")],
        [GO, SO, APART, assistant(THOUGHT, text("two"), HIDDEN, text("three"), text("four"))],
        "3 apart, 4 merged",
    ),
    "results keep two rows apart where the first has calls": (
        [
            *(GO, assistant(THOUGHT, call("a"), call("b")), assistant(THOUGHT, call("c"))),
            user(result("a"), result("c")),
        ],
        [
            *(GO, assistant(THOUGHT, call("a"), call("b")), user(result("a"), unanswered("b"))),
            *(assistant(THOUGHT, call("c")), user(result("c"))),
        ],
        "2 unanswered 2, 4 hoisted 0",
    ),
    "thinking in a row of its own after a text": (
        [GO, SO, assistant(THOUGHT), assistant(call())],
        [GO, SO, APART, assistant(THOUGHT, call())],
        "3 apart, 4 merged",
    ),
    "thinking that nothing follows, before a result": (
        [GO, assistant(call()), assistant(THOUGHT), user(result())],
        [GO, assistant(call()), user(result())],
        "3 trailing 0",
    ),
    "thinking that nothing follows, at the end": (
        [GO, assistant(call()), assistant(THOUGHT)],
        [GO, assistant(call())],
        "3 trailing 0",
    ),
    "thinking at the end of a row that another continues": (
        [GO, assistant(text("so"), THOUGHT), assistant(call())],
        [GO, assistant(text("so"), THOUGHT, call())],
        "3 merged",
    ),
    "two rows of thinking before a text": (
        [GO, assistant(THOUGHT), assistant(HIDDEN), SO],
        [GO, assistant(HIDDEN, text("so"))],
        "2 trailing 0, 4 merged",
    ),
    "lone surrogates at any depth": (
        [GO, assistant(call(input={"\ud800k": ["a\udfffb", "é😀\0"]}, caller="\udc00"))],
        [GO, assistant(call(input={"\ufffdk": ["a\ufffdb", "é😀\0"]}, caller="\ufffd"))],
        "2 surrogate 0",
    ),
    "a lone surrogate in a string": ([user("\ud800")], [user(text("\ufffd"))], "1 surrogate 0"),
    "an input that is no object": (
        [GO, assistant(call(input="x"))],
        [GO, assistant(call())],
        "2 input 0",
    ),
    "redacted blocks": (
        [
            user({"type": "image"}, {"type": "document"}, {"type": "new"}),
            assistant({"type": "web_search_tool_result"}),
        ],
        [user(*[text("[redacted]")] * 2), assistant(text("[redacted]"))],
        "1 redacted 0, 1 redacted 1, 1 unknown 2, 2 redacted 0",
    ),
    "an unanswered call": (
        [GO, assistant(text(), call()), user("stop")],
        [GO, assistant(text(), call()), user(unanswered(), text("stop"))],
        "2 unanswered 1",
    ),
    "a call at the very end waits": ([GO, assistant(call())], [GO, assistant(call())], ""),
    "a call waits before a blank row": (
        [GO, assistant(call()), user("")],
        [GO, assistant(call())],
        "3 empty, 3 blank 0",
    ),
    "a partly answered last message": (
        [GO, assistant(call("a"), call("b")), user(result("b"))],
        [GO, assistant(call("a"), call("b")), user(result("b"), unanswered("a"))],
        "2 unanswered 0",
    ),
    "a late result": (
        [
            *(GO, assistant(call("a"), call("b")), user(result("b"), text("wait"))),
            *(assistant("waiting"), user(result("a")), assistant("done")),
        ],
        [
            *(GO, assistant(call("a"), call("b")), user(result("b"), result("a"), text("wait"))),
            assistant(text("waiting"), text("done")),
        ],
        "5 hoisted 0, 6 merged",
    ),
    "a result after a text": (
        [GO, assistant(call()), user(text(), result()), SO],
        [GO, assistant(call()), user(result(), text()), SO],
        "3 hoisted 1",
    ),
    "orphans and a duplicate": (
        [
            *(user(result("z"), text()), assistant(call())),
            *(user(result(), result(content="again")), SO, user(result("y"))),
        ],
        [
            *(user(quoted("z", "ok"), text()), assistant(call()), user(result()), SO),
            user(quoted("y", "ok")),
        ],
        "1 orphan 0, 3 duplicate 1, 5 orphan 0",
    ),
    "an orphan with an image": (
        [user(result("z", [text("seen"), IMAGE]), text("so?"))],
        [user(quoted("z", "seen"), IMAGE, text("so?"))],
        "1 orphan 0",
    ),
    "the image of a failed call": (
        [
            *(GO, assistant(call("a"), call("b"))),
            user(result("a", [text("no"), IMAGE], is_error=True), result("b")),
        ],
        [
            *(GO, assistant(call("a"), call("b"))),
            user(result("a", [text("no")], is_error=True), result("b"), IMAGE),
        ],
        "3 moved 0",
    ),
    "fields that the API refuses": (
        [GO, assistant({**call(), "parsed": 1, "caller": None}, {**text(), "index": 0})],
        [GO, assistant(call(), text())],
        "2 field 0, 2 field 1",
    ),
    "fields that are unknown in a result": (
        [
            *(GO, assistant(call())),
            user(result(content=[{**text(), "note": 1}, {**IMAGE, "cache_control": None}])),
        ],
        [GO, assistant(call()), user(result(content=[text(), IMAGE]))],
        "3 field 0",
    ),
    "an image of a type that the API refuses": (
        [user({"type": "image", "source": HEIC})],
        [user(text("[image/heic attached]"))],
        "1 media 0",
    ),
    "white space where the assistant speaks last": (
        [GO, assistant("so\n")],
        [GO, assistant(text("so"))],
        "2 stripped 0",
    ),
    "white space before the user speaks": (
        [GO, assistant("so\n"), ON],
        [GO, assistant("so\n"), ON],
        "",
    ),
    "a reply after a pause": (
        [GO, assistant(THOUGHT, SEARCH), assistant(FOUND, THOUGHT, text()), ON],
        [GO, assistant(THOUGHT, SEARCH, FOUND, THOUGHT, text()), ON],
        "3 merged",
    ),
    "thinking alone after a pause": (
        [GO, assistant(SEARCH), assistant(THOUGHT), assistant(FOUND)],
        [GO, assistant(SEARCH, THOUGHT, FOUND)],
        "4 merged",
    ),
    "a tool of the provider without its partner": (
        [GO, assistant(text(), SEARCH), ON, assistant(FOUND, text())],
        [GO, assistant(text()), ON, assistant(text())],
        "2 separated 1, 4 separated 0",
    ),
    "a continued reply that repeats the call of a tool of the provider": (
        [GO, assistant(text(), SEARCH), assistant(SEARCH, FOUND, text())],
        [GO, assistant(text(), SEARCH, FOUND, text())],
        "2 separated 1, 3 merged",
    ),
    "a program of the provider that calls the agent's tools": (
        [
            *(GO, assistant(SEARCH, call("a", caller={"type": "code_execution"}))),
            *(user(result("a")), assistant(FOUND, text())),
        ],
        [
            *(GO, assistant(SEARCH, call("a", caller={"type": "code_execution"}))),
            *(user(result("a")), assistant(FOUND, text())),
        ],
        "",
    ),
    "the image of a failed result ends the wait for a tool of the provider": (
        [
            *(GO, assistant(text(), SEARCH, call())),
            user(result(content=[IMAGE], is_error=True)),
        ],
        [GO, assistant(text(), call()), user(result(content=[], is_error=True), IMAGE)],
        "2 separated 1, 3 moved 0",
    ),
    "more than four marks of a client": (
        [(user, assistant)[at % 2]({**text(), **MARK}) for at in range(7)],
        [
            *((user, assistant)[at % 2](text()) for at in range(3)),
            *((assistant, user)[at % 2]({**text(), **MARK}) for at in range(4)),
        ],
        "1 field 0, 2 field 0, 3 field 0",
    ),
    "thinking that a client marked": (
        [GO, assistant({**THOUGHT, **MARK}, text())],
        [GO, assistant(THOUGHT, text())],
        "2 field 0",
    ),
    "repairs in the order of seq and block": (
        [user(text(""), text("\ud800"), text("")), user("")],
        [user(text("\ufffd"))],
        "1 blank 0, 1 surrogate 1, 1 blank 2, 2 empty, 2 blank 0",
    ),
}
for name, block in {
    "a text that is missing": {"type": "text"},
    "a text that is a number": {"type": "text", "text": 5},
    "no id": {"type": "tool_use", "name": "f", "input": {}},
    "no name": {"type": "tool_use", "id": "a", "input": {}},
    "an empty name": {"type": "tool_use", "id": "a", "name": "", "input": {}},
    "an id that is a number": {"type": "tool_use", "id": 5, "name": "f", "input": {}},
    "a type that is a list": {"type": ["tool_use"]},
    "an empty type": {"type": "", "text": "x"},
}.items():
    REPAIRED[f"a block with {name}"] = (
        [GO, assistant(text(), block)],
        [GO, assistant(text())],
        "2 malformed 1",
    )
for name, block in {
    "none": {"type": "thinking"},
    "no data": {"type": "redacted_thinking"},
    "no signature": {"type": "thinking", "thinking": "hm"},
    "a null signature": {"type": "thinking", "thinking": "hm", "signature": None},
    "data that are a number": {"type": "redacted_thinking", "data": 5},
    "a surrogate": {**THOUGHT, "thinking": "\ud800"},
    "a surrogate in a key": {**HIDDEN, "\udfff": 1},
}.items():
    REPAIRED[f"thinking that is not byte-exact, with {name}"] = (
        [GO, assistant(block, text())],
        [GO, assistant(text())],
        "2 thinking 0",
    )
for name, before, after in (
    ("a blank text", [text(" "), text("x")], [text("x")]),
    ("an empty text", [text("")], []),
    ("what belongs elsewhere", [result("z"), "x", {"type": "text"}, IMAGE], [IMAGE]),
    ("a blank type", [{"type": " \n", "text": "x"}], []),
    ("nothing", None, []),
    ("an object", {"x": 1}, []),
):
    REPAIRED[f"a result that holds {name}"] = (
        [GO, assistant(call()), user(result(content=before))],
        [GO, assistant(call()), user(result(content=after))],
        "3 output 0",
    )
for tool_id in (["s1"], {"s": 1}, 5, None, ""):
    REPAIRED[f"a tool of the provider with the id {tool_id}"] = (
        [GO, assistant({**SEARCH, "id": tool_id}, {**FOUND, "tool_use_id": tool_id}, text())],
        [GO, assistant(text())],
        "2 separated 0, 2 separated 1",
    )


def sent(*rows):
    """What goes out of a history, as rows, and the repairs; checked."""
    out = sendable(history(*rows))
    assert violations(out.messages) == []
    assert displaced([content for _, content, *_ in rows], out.messages) == []
    return [(it["role"], it["content"]) for it in out.messages], reported(out)


@pytest.mark.parametrize(("rows", "expected", "repairs"), REPAIRED.values(), ids=REPAIRED)
def test_history_is_sent_as_the_api_accepts_it(rows, expected, repairs):
    before = repr(rows)
    assert sent(*rows) == (expected, repairs)
    assert repr(rows) == before


def test_messages_without_repairs_go_out_as_the_same_objects():
    rows = [
        user("hi"),
        assistant(THOUGHT, text(), call("a"), call("b")),
        user(result("b", []), result("a", [text()]), text()),
        assistant(HIDDEN, SEARCH, FOUND),
        user(text(), IMAGE),
        assistant(text("first"), THOUGHT, text("then"), HIDDEN, call("c")),
    ]
    said, repairs = sent(*rows)
    assert (said, repairs) == (rows, "")
    assert all(new is old for (_, new), (_, old) in zip(said, rows, strict=True))


@pytest.mark.parametrize("odd", [None, 5, [], [1], {}, {"a": 1}])
def test_ids_and_marks_of_no_valid_type_are_no_obstacle(odd):
    rows = history(
        user(text("go") | {"cache_control": odd}),
        assistant(text(), SEARCH | {"id": odd}, FOUND | {"tool_use_id": odd}),
        user("and"),
    )
    out = sendable(rows)
    assert [it["role"] for it in out.messages] == ["user", "assistant", "user"]
    assert ANTHROPIC_FORM.body(out.messages, cache=True)["messages"][2]["role"] == "user"
    assert last_turn(rows[:0:-1]).waits_for == "model"
    assert last_turn(rows[1:2]).waits_for == "user"


def test_thinking_goes_to_the_model_that_wrote_it():
    rows = [
        message(1, *GO),
        message(2, *assistant(THOUGHT, text("one")), model="old"),
        message(3, *ON),
        message(4, *assistant(HIDDEN, text("two")), model="new"),
    ]
    out = sendable(rows)
    assert [it["content"] for it in out.messages] == ["go", [text("one")], "on", rows[3].content]
    assert reported(out) == "2 thinking 0"
    assert sendable(rows, model="old").messages[1]["content"] is rows[1].content
    assert sendable(rows, drop_thinking=[4]).messages[3]["content"] == [text("two")]


@pytest.mark.parametrize(
    ("rows", "added", "repairs"),
    [
        ([GO, assistant(call())], [unanswered()], "2 unanswered 0"),
        ([GO, SO], OPENING, "2 closing"),
        ([], OPENING, ""),
    ],
    ids=["call", "reply", "nothing"],
)
def test_complete_request_ends_with_the_user(rows, added, repairs):
    out = sendable(history(*rows), complete=True)
    assert out.messages[len(rows) :] == [{"role": "user", "content": added}]
    assert reported(out) == repairs


def test_tool_id_that_is_used_again_is_renamed_with_its_result():
    said, repairs = sent(
        *(GO, assistant(call("a")), user(result("a")), assistant(call("a")), user(result("a"))),
        assistant(call("b"), call("")),
    )
    again, empty = said[3][1][0]["id"], said[5][1][1]["id"]
    assert said[3:] == [
        *(assistant(call(again)), user(result(again)), assistant(call("b"), call(empty))),
    ]
    assert len({"a", "b", again, empty}) == 4
    assert repairs == "4 renamed 0, 5 renamed 0, 6 renamed 1"


def test_characters_that_providers_refuse_in_tool_ids_are_replaced():
    said, repairs = sent(GO, assistant(call("f.g:0")), user(result("f.g:0")))
    tool_id = said[1][1][0]["id"]
    assert said[1:] == [assistant(call(tool_id)), user(result(tool_id))]
    assert repairs == "2 renamed 0, 3 renamed 0"


def test_foreign_formats_are_converted_and_that_is_no_repair():
    def asked(*ids):
        function = {"name": "f", "arguments": "{}"}
        calls = [{"id": i, "type": "function", "function": function} for i in ids]
        return ("assistant", {"role": "assistant", "content": "", "tool_calls": calls}, "openai")

    def answer(tool_id):
        content = {"role": "tool", "tool_call_id": tool_id, "content": "ok"}
        return ("tool", content, "openai")

    def said(role, *parts):
        return (role, {"role": role, "parts": list(parts)}, "gemini")

    out, repairs = sent(
        ("user", {"role": "user", "content": "go"}, "openai"),
        *(asked("a", "b"), answer("a"), answer("b")),
        said("model", {"functionCall": {"name": "g", "args": {}}}),
        said("user", {"functionResponse": {"name": "g", "response": {}}}),
        said("model", {"functionCall": {"name": "g", "args": {}}}),
    )
    assert repairs == ""
    assert out[2] == user(result("a"), result("b"))
    first, second = (block["id"] for block in out[3][1] + out[5][1])
    assert out[4] == user(result(first, "{}"))
    assert first != second


def test_tool_of_the_provider_that_waits_at_the_end_is_sent_back_as_it_is():
    out = sendable(history(GO, assistant(text(), SEARCH)), complete=True)
    assert out.messages[-1] == {"role": "assistant", "content": [text(), SEARCH]}
    assert (out.repairs, violations(out.messages, complete=True)) == ((), [])


def test_tool_of_the_provider_waits_no_more_after_a_reply_that_calls_nothing():
    rows = history(GO, assistant(SEARCH, call()), user(result()), SO)
    out = sendable(rows, complete=True)
    assert violations(out.messages, complete=True) == []
    assert [it.rule for it in out.repairs] == ["separated", "closing"]


@pytest.mark.parametrize(
    ("rows", "asked_at"),
    [
        ([GO, assistant(SEARCH, call()), assistant(FOUND, text())], 2),
        ([GO, assistant(text(), SEARCH), SO, assistant(call()), user(result())], 3),
    ],
    ids=["synthetic results of a program", "a tool that was left out"],
)
def test_reply_follows_what_its_request_sent_of_a_tool_of_the_provider(rows, asked_at):
    made = history(*rows)
    made[asked_at] = structs.replace(made[asked_at], asked_at=asked_at)
    asked = sendable(made[:asked_at], complete=True).messages
    following = sendable(made).messages
    assert following[: len(asked)] == asked
    assert following[len(asked)] == {"role": "assistant", "content": made[asked_at].content}


def test_tool_loop_that_lost_its_first_thinking_is_reported_to_older_models():
    rows = history(GO, assistant(THOUGHT, call()), user(result()))
    assert sendable(rows, complete=True).repairs == ()
    lost = sendable(rows, drop_thinking=[2], complete=True)
    assert reported(lost) == "2 unthinking, 2 thinking 0"
    rows += [message(4, *SO), message(5, *ON)]
    assert reported(sendable(rows, drop_thinking=[2], complete=True)) == "2 thinking 0"
