"""Law L5: whatever the log holds, what goes out is what a provider accepts."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from roocontext.log.entries import Kind, Message
from roocontext.log.forms import OPENING, UNANSWERED, Repair, Rule
from roocontext.log.forms.anthropic import ANTHROPIC_FORM
from roocontext.log.turns import last_turn
from support.examples import examples
from support.provider_rules.anthropic import displaced, violations

sendable = ANTHROPIC_FORM.compose


def message(seq, role, content, form="anthropic"):
    return Message(seq, Kind.MESSAGE, role, content, form, None, 0, None, None)


def history(*rows):
    return [message(seq, *row) for seq, row in enumerate(rows, 1)]


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


IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "AAAA"}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}


def sent(*rows):
    """The outgoing (role, content) and (seq, rule, block) of a history, checked."""
    out = sendable(history(*rows))
    assert violations(out.messages) == []
    assert displaced([content for _, content, *_ in rows], out.messages) == []
    said = [(it["role"], it["content"]) for it in out.messages]
    return said, [(it.seq, it.rule, it.block) for it in out.repairs]


def test_messages_without_repairs_go_out_as_the_same_objects():
    rows = [
        ("user", "hi"),
        ("assistant", [THOUGHT, text(), call("a"), call("b")]),
        ("user", [result("b", []), result("a", [text()]), text()]),
        ("assistant", [HIDDEN, SEARCH, FOUND]),
        ("user", [text(), IMAGE]),
        ("assistant", [call("c")]),
    ]
    out = sendable(history(*rows))
    assert out.repairs == ()
    assert [it["role"] for it in out.messages] == [role for role, _ in rows]
    assert all(
        it["content"] is content for it, (_, content) in zip(out.messages, rows, strict=True)
    )


def test_empty_history_is_an_empty_list():
    assert sent() == ([], [])


def test_assistant_never_opens():
    assert sent(("assistant", "hi")) == (
        [("user", OPENING), ("assistant", "hi")],
        [(1, Rule.OPENING, None)],
    )


def test_messages_of_one_role_are_merged():
    assert sent(("user", "one"), ("user", [text("two")]), ("assistant", "three")) == (
        [("user", [text("one"), text("two")]), ("assistant", "three")],
        [(2, Rule.MERGED, None)],
    )


def test_parallel_calls_and_results_in_separate_rows_are_merged():
    said, repairs = sent(
        ("user", "go"),
        ("assistant", [call("a")]),
        ("assistant", [call("b")]),
        ("user", [result("a")]),
        ("user", [result("b")]),
    )
    assert said[1:] == [
        ("assistant", [call("a"), call("b")]),
        ("user", [result("a"), result("b")]),
    ]
    assert repairs == [(3, Rule.MERGED, None), (5, Rule.MERGED, None)]


def test_empty_and_blank_blocks_are_left_out():
    said, repairs = sent(
        ("user", "go"), ("assistant", []), ("user", " \n"), ("assistant", [text(""), text("x")])
    )
    assert said == [("user", "go"), ("assistant", [text("x")])]
    assert repairs == [
        (2, Rule.EMPTY, None),
        (3, Rule.EMPTY, None),
        (3, Rule.BLANK, 0),
        (4, Rule.BLANK, 0),
    ]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "tool_use", "name": "f", "input": {}},
        {"type": "tool_use", "id": "a", "input": {}},
        {"type": "tool_use", "id": "a", "name": "", "input": {}},
        {"type": "tool_use", "id": 5, "name": "f", "input": {}},
        {"type": ["tool_use"]},
    ],
)
def test_malformed_blocks_are_left_out(block):
    said, repairs = sent(("user", "go"), ("assistant", [text(), block]))
    assert said == [("user", "go"), ("assistant", [text()])]
    assert repairs == [(2, Rule.MALFORMED, 1)]


@pytest.mark.parametrize("odd", [None, 5, [], [1], {}, {"a": 1}])
def test_ids_and_marks_of_no_valid_type_are_no_obstacle(odd):
    rows = history(
        ("user", [text("go") | {"cache_control": odd}]),
        ("assistant", [text(), SEARCH | {"id": odd}, FOUND | {"tool_use_id": odd}]),
        ("user", "and"),
    )
    out = sendable(rows)
    assert [it["role"] for it in out.messages] == ["user", "assistant", "user"]
    assert ANTHROPIC_FORM.body(out.messages, cache=True)["messages"][2]["role"] == "user"
    assert last_turn(rows[:0:-1]).waits_for == "model"
    assert last_turn(rows[1:2]).waits_for == "user"


def test_blocks_of_the_other_role_are_left_out():
    said, repairs = sent(
        ("user", [text(), call(), THOUGHT]), ("assistant", [text(), result()]), ("user", [result()])
    )
    assert said == [("user", [text()]), ("assistant", [text()]), ("user", [quoted("a", "ok")])]
    assert repairs == [
        (1, Rule.MISPLACED, 1),
        (1, Rule.MISPLACED, 2),
        (2, Rule.MISPLACED, 1),
        (3, Rule.ORPHAN, 0),
    ]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking"},
        {"type": "redacted_thinking"},
        {"type": "thinking", "thinking": "hm"},
        {"type": "thinking", "thinking": "hm", "signature": None},
        {"type": "redacted_thinking", "data": 5},
        {**THOUGHT, "thinking": "\ud800"},
        {**HIDDEN, "\udfff": 1},
    ],
)
def test_thinking_is_byte_exact_or_left_out(block):
    said, repairs = sent(("user", "go"), ("assistant", [block, text()]))
    assert said[1] == ("assistant", [text()])
    assert repairs == [(2, Rule.THINKING, 0)]


def test_empty_thinking_is_left_out():
    said, repairs = sent(
        ("user", "go"), ("assistant", [THOUGHT, HIDDEN]), ("user", "on"), ("assistant", [THOUGHT])
    )
    assert said == [("user", [text("go"), text("on")])]
    assert repairs == [
        (2, Rule.TRAILING, 0),
        (2, Rule.TRAILING, 1),
        (3, Rule.MERGED, None),
        (4, Rule.TRAILING, 0),
    ]


def test_thinking_in_a_row_of_its_own_stays_before_what_follows():
    said, _ = sent(("user", "go"), ("assistant", [THOUGHT]), ("assistant", [call()]))
    assert said[1] == ("assistant", [THOUGHT, call()])


APART = ("user", OPENING)


def test_thinking_of_a_second_row_has_nothing_put_before_it():
    said, repairs = sent(
        ("user", "go"),
        ("assistant", "so"),
        ("assistant", [THOUGHT, text("two"), HIDDEN, text("three")]),
        ("assistant", "four"),
    )
    assert said[1:] == [
        ("assistant", "so"),
        APART,
        ("assistant", [THOUGHT, text("two"), HIDDEN, text("three"), text("four")]),
    ]
    assert repairs == [(3, Rule.APART, None), (4, Rule.MERGED, None)]


def test_stored_row_keeps_the_order_of_its_blocks():
    row = [text("first"), THOUGHT, text("then"), HIDDEN, call()]
    said, repairs = sent(("user", "go"), ("assistant", row))
    assert said[1][1] is row
    assert repairs == []


def test_results_keep_two_rows_apart_where_the_first_has_calls():
    said, repairs = sent(
        ("user", "go"),
        ("assistant", [THOUGHT, call("a"), call("b")]),
        ("assistant", [THOUGHT, call("c")]),
        ("user", [result("a"), result("c")]),
    )
    assert said[1:] == [
        ("assistant", [THOUGHT, call("a"), call("b")]),
        ("user", [result("a"), unanswered("b")]),
        ("assistant", [THOUGHT, call("c")]),
        ("user", [result("c")]),
    ]
    assert repairs == [(2, Rule.UNANSWERED, 2), (4, Rule.HOISTED, 0)]


def test_thinking_in_a_row_of_its_own_is_kept_from_what_was_said_before():
    said, repairs = sent(
        ("user", "go"), ("assistant", "so"), ("assistant", [THOUGHT]), ("assistant", [call()])
    )
    assert said[1:] == [("assistant", "so"), APART, ("assistant", [THOUGHT, call()])]
    assert repairs == [(3, Rule.APART, None), (4, Rule.MERGED, None)]


def test_thinking_that_nothing_follows_keeps_nothing_apart():
    said, repairs = sent(
        ("user", "go"), ("assistant", [call()]), ("assistant", [THOUGHT]), ("user", [result()])
    )
    assert said[1:] == [("assistant", [call()]), ("user", [result()])]
    assert repairs == [(3, Rule.TRAILING, 0)]
    assert sent(("user", "go"), ("assistant", [call()]), ("assistant", [THOUGHT]))[0][1:] == [
        ("assistant", [call()])
    ]


def test_thinking_at_the_end_of_a_row_stays_where_the_assistant_goes_on():
    said, repairs = sent(
        ("user", "go"), ("assistant", [text("so"), THOUGHT]), ("assistant", [call()])
    )
    assert said[1:] == [("assistant", [text("so"), THOUGHT, call()])]
    assert repairs == [(3, Rule.MERGED, None)]


def test_last_of_two_rows_of_thinking_goes_out():
    said, repairs = sent(
        ("user", "go"), ("assistant", [THOUGHT]), ("assistant", [HIDDEN]), ("assistant", "so")
    )
    assert said[1:] == [("assistant", [HIDDEN, text("so")])]
    assert repairs == [(2, Rule.TRAILING, 0), (4, Rule.MERGED, None)]


@pytest.mark.parametrize("kind", ["", " \n"])
def test_type_that_is_blank_is_left_out_wherever_it_is_stored(kind):
    odd = {"type": kind, "text": "x"}
    said, repairs = sent(
        ("user", [text(), odd]), ("assistant", [call()]), ("user", [result(content=[odd])])
    )
    assert said == [
        ("user", [text()]),
        ("assistant", [call()]),
        ("user", [result(content=[])]),
    ]
    assert repairs == [(1, Rule.MALFORMED, 1), (3, Rule.OUTPUT, 0)]


def test_lone_surrogates_are_replaced_at_any_depth():
    before = [call(input={"\ud800k": ["a\udfffb", "é😀\0"]}, caller="\udc00")]
    said, repairs = sent(("user", "go"), ("assistant", before))
    after = [call(input={"\ufffdk": ["a\ufffdb", "é😀\0"]}, caller="\ufffd")]
    assert said[1] == ("assistant", after)
    assert repairs == [(2, Rule.SURROGATE, 0)]
    assert before[0]["caller"] == "\udc00"
    assert sent(("user", "\ud800"))[0] == [("user", [text("\ufffd")])]


def test_input_that_is_no_object_goes_out_empty():
    said, repairs = sent(("user", "go"), ("assistant", [call(input="x")]))
    assert said[1] == ("assistant", [call()])
    assert repairs == [(2, Rule.INPUT, 0)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([text(" "), text("x")], [text("x")]),
        ([text("")], []),
        ([result("z"), "x", {"type": "text"}, IMAGE], ...),
        (None, []),
        ({"x": 1}, []),
    ],
)
def test_content_of_a_result_is_freed_of_what_is_refused(before, after):
    after = [IMAGE] if after is ... else after
    said, repairs = sent(
        ("user", "go"), ("assistant", [call()]), ("user", [result(content=before)])
    )
    assert said[2] == ("user", [result(content=after)])
    assert repairs == [(3, Rule.OUTPUT, 0)]


def test_redacted_image_says_so():
    bare = [{"type": "image"}, {"type": "document"}]
    said, repairs = sent(
        ("user", [*bare, {"type": "new"}]), ("assistant", [{"type": "web_search_tool_result"}])
    )
    assert said == [("user", [text("[redacted]")] * 2), ("assistant", [text("[redacted]")])]
    assert repairs == [
        *((1, Rule.REDACTED, index) for index in range(2)),
        (1, Rule.UNKNOWN, 2),
        (2, Rule.REDACTED, 0),
    ]


def test_unanswered_call_gets_a_result_that_says_so():
    said, repairs = sent(("user", "go"), ("assistant", [text(), call()]), ("user", "stop"))
    assert said[2] == ("user", [unanswered(), text("stop")])
    assert repairs == [(2, Rule.UNANSWERED, 1)]


def test_call_at_the_very_end_waits():
    assert sent(("user", "go"), ("assistant", [call()]))[1] == []
    assert sent(("user", "go"), ("assistant", [call()]), ("user", ""))[0][-1][0] == "assistant"


def test_partly_answered_last_message_is_completed():
    said, repairs = sent(
        ("user", "go"), ("assistant", [call("a"), call("b")]), ("user", [result("b")])
    )
    assert said[2] == ("user", [result("b"), unanswered("a")])
    assert repairs == [(2, Rule.UNANSWERED, 0)]


def test_late_result_is_moved_after_its_call():
    said, repairs = sent(
        ("user", "go"),
        ("assistant", [call("a"), call("b")]),
        ("user", [result("b"), text("wait")]),
        ("assistant", "waiting"),
        ("user", [result("a")]),
        ("assistant", "done"),
    )
    assert said[2:] == [
        ("user", [result("b"), result("a"), text("wait")]),
        ("assistant", [text("waiting"), text("done")]),
    ]
    assert repairs == [(5, Rule.HOISTED, 0), (6, Rule.MERGED, None)]


def test_results_stand_first_in_their_message():
    said, repairs = sent(
        ("user", "go"), ("assistant", [call()]), ("user", [text(), result()]), ("assistant", "x")
    )
    assert said[2] == ("user", [result(), text()])
    assert repairs == [(3, Rule.HOISTED, 1)]


def test_orphans_are_quoted_and_duplicates_are_left_out():
    said, repairs = sent(
        ("user", [result("z"), text()]),
        ("assistant", [call()]),
        ("user", [result(), result(content="again")]),
        ("assistant", "x"),
        ("user", [result("y")]),
    )
    assert said == [
        ("user", [quoted("z", "ok"), text()]),
        ("assistant", [call()]),
        ("user", [result()]),
        ("assistant", "x"),
        ("user", [quoted("y", "ok")]),
    ]
    assert repairs == [
        (1, Rule.ORPHAN, 0),
        (3, Rule.DUPLICATE, 1),
        (5, Rule.ORPHAN, 0),
    ]


def test_orphans_images_follow_its_quoted_text():
    said, repairs = sent(("user", [result("z", [text("seen"), IMAGE]), text("so?")]))
    assert said == [("user", [quoted("z", "seen"), IMAGE, text("so?")])]
    assert repairs == [(1, Rule.ORPHAN, 0)]


def test_image_of_a_failed_call_moves_after_the_results():
    failed = result("a", [text("no"), IMAGE], is_error=True)
    said, repairs = sent(
        ("user", "go"), ("assistant", [call("a"), call("b")]), ("user", [failed, result("b")])
    )
    slim = result("a", [text("no")], is_error=True)
    assert said[2] == ("user", [slim, result("b"), IMAGE])
    assert repairs == [(3, Rule.MOVED, 0)]


def test_fields_that_the_api_refuses_are_left_out():
    asked = {**call(), "parsed": 1, "caller": None}
    said, repairs = sent(("user", "go"), ("assistant", [asked, {**text(), "index": 0}]))
    assert said[1] == ("assistant", [call(), text()])
    assert repairs == [(2, Rule.FIELD, 0), (2, Rule.FIELD, 1)]


def test_image_of_a_type_that_the_api_refuses_is_named():
    source = {"type": "base64", "media_type": "image/heic", "data": "AAAA"}
    said, repairs = sent(("user", [{"type": "image", "source": source}]))
    assert said == [("user", [text("[image/heic attached]")])]
    assert repairs == [(1, Rule.MEDIA, 0)]


def test_thinking_goes_to_the_model_that_wrote_it():
    rows = [
        message(1, "user", "go"),
        structs.replace(message(2, "assistant", [THOUGHT, text("one")]), model="old"),
        message(3, "user", "on"),
        structs.replace(message(4, "assistant", [HIDDEN, text("two")]), model="new"),
    ]
    out = sendable(rows)
    assert [it["content"] for it in out.messages] == ["go", [text("one")], "on", rows[3].content]
    assert out.repairs == (Repair(2, Rule.THINKING, 0),)
    assert sendable(rows, model="old").messages[1]["content"] is rows[1].content
    assert sendable(rows, drop_thinking=[4]).messages[3]["content"] == [text("two")]


def test_request_is_complete():
    out = sendable(history(("user", "go"), ("assistant", [call()])), complete=True)
    assert out.messages[2:] == [{"role": "user", "content": [unanswered()]}]
    out = sendable(history(("user", "go"), ("assistant", "so")), complete=True)
    assert out.messages[2:] == [{"role": "user", "content": OPENING}]
    assert out.repairs == (Repair(2, Rule.CLOSING),)
    assert sendable([], complete=True).messages == [{"role": "user", "content": OPENING}]


def test_tool_id_that_is_used_again_is_renamed_with_its_result():
    said, repairs = sent(
        ("user", "go"),
        ("assistant", [call("a")]),
        ("user", [result("a")]),
        ("assistant", [call("a")]),
        ("user", [result("a")]),
        ("assistant", [call("b"), call("")]),
    )
    again, empty = said[3][1][0]["id"], said[5][1][1]["id"]
    assert said[3:] == [
        ("assistant", [call(again)]),
        ("user", [result(again)]),
        ("assistant", [call("b"), call(empty)]),
    ]
    assert len({"a", "b", again, empty}) == 4
    assert repairs == [(seq, Rule.RENAMED, block) for seq, block in [(4, 0), (5, 0), (6, 1)]]


def test_characters_that_providers_refuse_in_tool_ids_are_replaced():
    said, repairs = sent(
        ("user", "go"), ("assistant", [call("f.g:0")]), ("user", [result("f.g:0")])
    )
    tool_id = said[1][1][0]["id"]
    assert said[1:] == [("assistant", [call(tool_id)]), ("user", [result(tool_id)])]
    assert repairs == [(2, Rule.RENAMED, 0), (3, Rule.RENAMED, 0)]


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
        asked("a", "b"),
        answer("a"),
        answer("b"),
        said("model", {"functionCall": {"name": "g", "args": {}}}),
        said("user", {"functionResponse": {"name": "g", "response": {}}}),
        said("model", {"functionCall": {"name": "g", "args": {}}}),
    )
    assert repairs == []
    assert out[2] == ("user", [result("a"), result("b")])
    first, second = (block["id"] for block in out[3][1] + out[5][1])
    assert out[4] == ("user", [result(first, "{}")])
    assert first != second


def test_order_of_repairs_is_that_of_seq_and_block():
    rows = history(("user", [text(""), text("\ud800"), text("")]), ("user", ""))
    assert sendable(rows).repairs == (
        Repair(1, Rule.BLANK, 0),
        Repair(1, Rule.SURROGATE, 1),
        Repair(1, Rule.BLANK, 2),
        Repair(2, Rule.EMPTY),
        Repair(2, Rule.BLANK, 0),
    )


# Histories as nasty as they come: any block in any role, few ids, everything ill-typed.

ids = st.sampled_from(["a", "b", "c", "a_2", "", "x.y", "\ud800"])
strings = st.sampled_from(["x", "", " \n", "\ud83d", "é", "y\udc00"])
odd = st.sampled_from([None, 5, [], {}, ["x"], {"k\ud800": "v"}, True])


def field(usual):
    return st.one_of(usual, usual, usual, odd)


texts = st.builds(text, field(strings))
thinkings = st.one_of(
    st.just(THOUGHT),
    st.just(HIDDEN),
    st.just({"type": "thinking"}),
    st.builds(lambda said, sig: {**THOUGHT, "thinking": said, "signature": sig}, strings, odd),
)
calling = st.builds(call, field(ids), input=field(st.dictionaries(strings, strings, max_size=2)))
inner = st.lists(st.one_of(texts, thinkings, st.just(IMAGE), odd))
resulting = st.builds(result, field(ids), st.one_of(strings, inner, odd))
others = st.one_of(
    st.sampled_from([{"type": "image"}, {"type": "document"}, {"type": "new"}, {"type": "text"}]),
    st.builds(lambda key: {"type": "new", key: 1}, strings),
    st.just({"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}}),
)
any_block = st.one_of(texts, thinkings, calling, calling, resulting, resulting, resulting, others)


def openai_row(role, said, tool_id, named):
    function = {"name": named, "arguments": said}
    calls = [{"id": tool_id, "type": "function", "function": function}] * (role == "assistant")
    content = {"role": role, "content": said, "tool_calls": calls, "tool_call_id": tool_id}
    return role, content, "openai"


def gemini_row(role, parts):
    return role, {"role": role, "parts": parts}, "gemini"


gemini_tools = st.fixed_dictionaries({"name": field(strings)}, optional={"id": field(ids)})
gemini_parts = st.one_of(
    st.fixed_dictionaries({"text": field(strings)}),
    st.fixed_dictionaries({"functionCall": gemini_tools}),
    st.fixed_dictionaries({"functionResponse": gemini_tools}),
    st.just({"text": "x", "thought": True}),
)
anthropic_rows = st.tuples(
    st.sampled_from(["user", "assistant"]),
    st.one_of(strings, st.lists(any_block, max_size=4)),
)
foreign_rows = st.one_of(
    st.builds(
        openai_row,
        st.sampled_from(["user", "assistant", "tool", "system"]),
        field(strings).filter(lambda said: said is None or isinstance(said, str)),
        field(ids),
        field(strings),
    ),
    st.builds(gemini_row, st.sampled_from(["user", "model"]), st.lists(gemini_parts, max_size=3)),
)
plausible_rows = st.one_of(
    st.builds(lambda *ids: ("assistant", [call(i) for i in ids]), ids, ids),
    st.builds(lambda *ids: ("user", [result(i) for i in ids]), ids, ids),
    st.builds(lambda i: ("assistant", [THOUGHT, text("y"), call(i)]), ids),
    st.builds(lambda i: ("user", [result(i)]), ids),
    st.sampled_from([("user", "hi"), ("assistant", "ho"), ("assistant", [THOUGHT])]),
)
nasty = st.lists(st.one_of(anthropic_rows, plausible_rows), max_size=12)
nastier = st.lists(st.one_of(anthropic_rows, plausible_rows, foreign_rows), max_size=12)


def every_message_is_acceptable(rows):
    rows = [copy.deepcopy(row) for row in rows]  # so that no two rows hold the same object
    before = copy.deepcopy(rows)
    out = sendable(history(*rows))
    assert violations(out.messages) == []
    assert displaced([content for _, content, *_ in rows], out.messages) == []
    assert rows == before


def thinking_is_as_stored_and_in_order(rows):
    stored = [
        block
        for _, content, *form in rows
        if not form and isinstance(content, list)
        for block in content
    ]
    position = 0
    for it in sendable(history(*rows)).messages:
        for block in it["content"] if isinstance(it["content"], list) else ():
            if block["type"] in {"thinking", "redacted_thinking"}:
                position = next(i for i in range(position, len(stored)) if stored[i] is block) + 1


def what_was_sent_needs_no_repair(rows):
    once = sendable(history(*rows))
    again = sendable(history(*((it["role"], it["content"]) for it in once.messages)))
    assert again.repairs == ()
    assert again.messages == once.messages


def repairs_name_rows_and_blocks_and_no_content(rows):
    for repair in sendable(history(*rows)).repairs:
        assert 1 <= repair.seq <= len(rows)
        content = rows[repair.seq - 1][1]
        if repair.block is not None and isinstance(content, list):
            assert 0 <= repair.block < len(content)
        assert set(json.loads(json.dumps([repair.seq, repair.rule, repair.block]))) <= {
            repair.seq,
            str(repair.rule),
            repair.block,
        }


def each_answered_call_keeps_its_result(rows):
    numbered = copy.deepcopy(rows)
    kept = []
    for number, (_, content, *form) in enumerate(numbered):
        for index, block in enumerate(content if isinstance(content, list) and not form else ()):
            if block.get("type") == "tool_result":
                block["content"] = f"{number}.{index}"
                kept.append(f"{number}.{index}")
    out = sendable(history(*numbered))
    dropped = {Rule.ORPHAN, Rule.DUPLICATE, Rule.MALFORMED, Rule.MISPLACED}
    gone = {f"{it.seq - 1}.{it.block}" for it in out.repairs if it.rule in dropped}
    going = [
        block["content"]
        for it in out.messages
        if isinstance(it["content"], list)
        for block in it["content"]
        if block["type"] == "tool_result"
    ]
    for output in kept:
        assert going.count(output) == (output not in gone)


@settings(max_examples=examples(80, long=40))
@given(nastier)
def test_any_log_goes_out_by_the_laws(rows):
    every_message_is_acceptable(rows)
    thinking_is_as_stored_and_in_order(rows)
    what_was_sent_needs_no_repair(rows)
    repairs_name_rows_and_blocks_and_no_content(rows)
    each_answered_call_keeps_its_result(rows)


def plain_step(tool_id, said, late):
    asked = [THOUGHT, text(said), call(tool_id)]
    return [("assistant", asked), ("user", [result(tool_id, said), *[text("on")] * late])]


steps = st.builds(plain_step, ids, strings, st.booleans())
exchanges = st.tuples(
    st.sampled_from(["ho", "\ud83d", " "]).map(lambda said: ("assistant", said)),
    st.sampled_from(["hi", "", "é"]).map(lambda said: ("user", said)),
).map(list)
orderly = st.lists(st.one_of(steps, steps, exchanges), max_size=4).map(
    lambda parts: [("user", "go"), *(row for part in parts for row in part)]
)


@given(st.one_of(nasty, orderly, st.builds(list.__add__, orderly, nasty)))
def test_repairs_are_reported_if_and_only_if_another_object_is_sent(rows):
    out = sendable(history(*rows))
    same = len(out.messages) == len(rows) and all(
        it["role"] == role and it["content"] is content
        for it, (role, content) in zip(out.messages, rows, strict=False)
    )
    assert same == (not out.repairs)


@given(nasty, anthropic_rows | plausible_rows)
def test_append_without_late_results_keeps_the_prefix(rows, row):
    before = sendable(history(*rows))
    after = sendable(history(*rows, row))
    late = {(it.seq, it.rule) for it in after.repairs} & {(len(rows) + 1, Rule.HOISTED)}
    revived = any(it.rule is Rule.UNANSWERED for it in before.repairs)
    # A first row that held nothing but a waiting tool of the provider leaves with the line before.
    left = {(it.seq, it.rule) for it in after.repairs} & {(len(rows), Rule.EMPTY)}
    opened = any(it.rule is Rule.OPENING for it in before.repairs)
    if not (late and revived) and not (left and opened):
        settled = before.messages[:-1]
        assert after.messages[: len(settled)] == settled


def test_white_space_is_stripped_where_the_assistant_speaks_last():
    assert sent(("user", "go"), ("assistant", "so\n")) == (
        [("user", "go"), ("assistant", [text("so")])],
        [(2, Rule.STRIPPED, 0)],
    )
    assert sent(("user", "go"), ("assistant", "so\n"), ("user", "on"))[1] == []


def test_tool_of_the_provider_that_waits_at_the_end_is_sent_back_as_it_is():
    row = [text(), SEARCH]
    out = sendable(history(("user", "go"), ("assistant", row)), complete=True)
    assert out.messages[-1] == {"role": "assistant", "content": row}
    assert (out.repairs, violations(out.messages, complete=True)) == ((), [])


def test_reply_after_a_pause_joins_its_message():
    said, repairs = sent(
        ("user", "go"),
        ("assistant", [THOUGHT, SEARCH]),
        ("assistant", [FOUND, THOUGHT, text()]),
        ("user", "on"),
    )
    assert said[1] == ("assistant", [THOUGHT, SEARCH, FOUND, THOUGHT, text()])
    assert repairs == [(3, Rule.MERGED, None)]


def test_thinking_alone_after_a_pause_joins_its_message():
    said, _ = sent(
        ("user", "go"), ("assistant", [SEARCH]), ("assistant", [THOUGHT]), ("assistant", [FOUND])
    )
    assert said[1:] == [("assistant", [SEARCH, THOUGHT, FOUND])]


def test_reply_follows_the_synthetic_results_of_a_program_of_the_provider():
    rows = history(("user", "go"), ("assistant", [SEARCH, call()]), ("assistant", [FOUND, text()]))
    rows[2] = structs.replace(rows[2], asked_at=2)
    asked = sendable(rows[:2], complete=True).messages
    assert sendable(rows).messages == [*asked, {"role": "assistant", "content": rows[2].content}]


def test_tool_of_the_provider_is_left_out_where_it_has_no_partner():
    said, repairs = sent(
        ("user", "go"),
        ("assistant", [text(), SEARCH]),
        ("user", "on"),
        ("assistant", [FOUND, text()]),
    )
    assert [content for _, content in said] == ["go", [text()], "on", [text()]]
    assert repairs == [(2, Rule.SEPARATED, 1), (4, Rule.SEPARATED, 0)]


@pytest.mark.parametrize("tool_id", [["s1"], {"s": 1}, 5, None, ""], ids=str)
def test_tool_of_the_provider_whose_id_is_no_text_is_left_out(tool_id):
    asked, found = {**SEARCH, "id": tool_id}, {**FOUND, "tool_use_id": tool_id}
    said, repairs = sent(("user", "go"), ("assistant", [asked, found, text()]))
    assert said[1][1] == [text()]
    assert repairs == [(2, Rule.SEPARATED, 0), (2, Rule.SEPARATED, 1)]


def test_tool_of_the_provider_waits_no_more_after_a_reply_that_calls_nothing():
    rows = history(
        ("user", "go"), ("assistant", [SEARCH, call()]), ("user", [result()]), ("assistant", "so")
    )
    out = sendable(rows, complete=True)
    assert violations(out.messages, complete=True) == []
    assert [it.rule for it in out.repairs] == [Rule.SEPARATED, Rule.CLOSING]


def test_tool_of_the_provider_that_was_left_out_does_not_come_back():
    rows = history(
        ("user", "go"),
        ("assistant", [text("first"), SEARCH]),
        ("assistant", "so"),
        ("assistant", [call()]),
        ("user", [result()]),
    )
    rows[3] = structs.replace(rows[3], asked_at=3)
    asked = sendable(rows[:3], complete=True).messages
    assert sendable(rows).messages[: len(asked)] == asked


def test_program_of_the_provider_may_call_the_agents_tools():
    said, repairs = sent(
        ("user", "go"),
        ("assistant", [SEARCH, call("a", caller={"type": "code_execution"})]),
        ("user", [result("a")]),
        ("assistant", [FOUND, text()]),
    )
    assert (len(said), repairs) == (4, [])


def test_parts_of_a_result_have_only_fields_that_are_known():
    odd = [{**text(), "note": 1}, {**IMAGE, "cache_control": None}]
    said, repairs = sent(("user", "go"), ("assistant", [call()]), ("user", [result(content=odd)]))
    assert said[2] == ("user", [result(content=[text(), IMAGE])])
    assert repairs == [(3, Rule.FIELD, 0)]


MARK = {"cache_control": {"type": "ephemeral"}}


def test_newest_four_marks_of_a_client_are_sent():
    rows = [((("user", "assistant")[at % 2]), [{**text(), **MARK}]) for at in range(7)]
    said, repairs = sent(*rows)
    assert [len(content[0]) for _, content in said] == [2, 2, 2, 3, 3, 3, 3]
    assert repairs == [(seq, Rule.FIELD, 0) for seq in (1, 2, 3)]


def test_thinking_that_a_client_marked_is_sent_without_the_mark():
    said, repairs = sent(("user", "go"), ("assistant", [{**THOUGHT, **MARK}, text()]))
    assert said[1] == ("assistant", [THOUGHT, text()])
    assert repairs == [(2, Rule.FIELD, 0)]


def test_tool_loop_that_lost_its_first_thinking_is_reported_to_older_models():
    rows = history(("user", "go"), ("assistant", [THOUGHT, call()]), ("user", [result()]))
    assert sendable(rows, complete=True).repairs == ()
    lost = sendable(rows, drop_thinking=[2], complete=True)
    assert [(it.seq, it.rule) for it in lost.repairs] == [(2, Rule.UNTHINKING), (2, Rule.THINKING)]
    rows += [message(4, "assistant", "so"), message(5, "user", "on")]
    done = sendable(rows, drop_thinking=[2], complete=True)
    assert [it.rule for it in done.repairs] == [Rule.THINKING]


def test_image_of_a_failed_result_ends_the_wait_for_a_tool_of_the_provider():
    said, repairs = sent(
        ("user", "go"),
        ("assistant", [text(), SEARCH, call()]),
        ("user", [result(content=[IMAGE], is_error=True)]),
    )
    assert said[1][1] == [text(), call()]
    assert repairs == [(2, Rule.SEPARATED, 1), (3, Rule.MOVED, 0)]
