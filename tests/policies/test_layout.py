"""Groups that leave together, turns, and rows that no plan may hide."""

from roocontext import NewMessage, Plan
from roocontext.log.clearing import output_blocks
from roocontext.policies.layout import Layout, groups, held, turns, whole_groups
from support.deciding import seen
from support.dialogue import call, fill, result, text, work
from support.histories import IMAGE, THOUGHT


def grouped(chat):
    return [[row.seq for row in group.rows] for group in groups(seen(chat))]


def turned(chat):
    return [
        (turn.question.seq if turn.question else None, [row.seq for row in turn.rows])
        for turn in turns(seen(chat))
    ]


def test_call_leaves_with_all_its_results(chat):
    chat.append("user", "go")
    chat.append("assistant", [call("a"), call("b")])
    chat.append("user", [result("b")])
    chat.append("user", [result("a")])
    chat.append("assistant", "done")
    assert grouped(chat) == [[1], [2, 3, 4], [5]]


def test_group_stands_where_its_newest_row_does(chat):
    chat.append("assistant", [call("a")])
    chat.append("user", "and another thing")
    chat.append("user", [result("a")])
    assert grouped(chat) == [[2], [1, 3]]


def test_thinking_leaves_with_what_follows_it_in_the_same_message(chat):
    chat.append("assistant", "first")
    chat.append("assistant", [THOUGHT])
    chat.append("assistant", "so")
    chat.append("assistant", [call("a")])
    chat.append("user", [result("a")])
    chat.append("assistant", "last")
    assert grouped(chat) == [[1], [2, 3, 4, 5], [6]]


def test_summary_leaves_with_its_companions(chat):
    said = fill(chat, 4)
    companions = (NewMessage("assistant", "Got it."),)
    done = chat.commit(Plan.condense(chat.view(), said[:2], "in short", companions=companions))
    assert grouped(chat) == [list(done.rows), [3], [4]]
    assert [row.seq for row in Layout(seen(chat)).summaries] == [done.seq]


def test_size_of_a_group_is_that_of_its_rows(chat):
    fill(chat, 1)
    work(chat)
    (first, second) = groups(seen(chat))
    assert first.size.plus(second.size) == seen(chat).size
    assert second.seqs == {2, 3}


def test_turn_begins_where_the_user_says_something(chat):
    chat.append("assistant", "hello")
    chat.append("user", "go")
    work(chat)
    chat.append("user", [IMAGE])
    chat.append("assistant", "nice")
    assert turned(chat) == [(None, [1]), (2, [2, 3, 4]), (5, [5, 6])]


def test_summaries_and_markers_begin_no_turn(chat):
    said = fill(chat, 6)
    summary = chat.commit(Plan.condense(chat.view(), said[:2], "in short")).seq
    marker = chat.commit(Plan.truncate(chat.view(), said[2:4])).seq
    assert turned(chat) == [(None, [summary, marker]), (5, [5, 6])]


def test_rows_without_a_question_are_one_turn(chat):
    assert turned(chat) == []
    work(chat)
    assert turned(chat) == [(None, [1, 2])]


def test_newest_question_the_pins_and_the_summaries_are_held(chat):
    fill(chat, 4)
    chat.append("assistant", [call("a")])
    chat.append("user", [result("a")])
    chat.append("user", "go on")
    chat.append("assistant", "yes")
    summary = chat.commit(Plan.condense(chat.view(), [1, 2], "in short")).seq
    chat.pin(6)
    situation = seen(chat)
    assert (held(situation), held(situation, summaries=False)) == ({summary, 5, 6, 7}, {5, 6, 7})


def test_call_at_the_end_that_waits_is_held(chat):
    chat.append("user", "go")
    work(chat, ["x"])
    chat.append("assistant", [call("a"), call("b")])
    assert Layout(seen(chat)).waiting == {4}
    chat.append("user", [result("a")])
    assert Layout(seen(chat)).waiting == {4}
    assert held(seen(chat)) == {1, 4, 5}
    chat.append("user", [result("b")])
    assert Layout(seen(chat)).waiting == frozenset()


def test_closed_call_is_not_held(chat):
    chat.append("user", "go")
    chat.append("assistant", [call("a")])
    chat.append("user", "never mind")
    assert Layout(seen(chat)).waiting == frozenset()
    assert held(seen(chat)) == {3}


def test_empty_view_holds_nothing(chat):
    assert held(seen(chat)) == frozenset()
    assert groups(seen(chat)) == ()
    assert Layout(seen(chat)).waiting == frozenset()


def test_rows_bound_to_a_row_come_with_it(chat):
    chat.append("user", [text("go")])
    work(chat)
    parts = groups(seen(chat))
    assert whole_groups(parts, {3}) == {2, 3}
    assert whole_groups(parts, {99}) == frozenset()


def test_output_is_of_its_own_tool_beside_a_result_that_cannot_be_cleared(chat):
    """A screenshot is a result, and has no place for another text."""
    form = "openai-responses"
    looked = {"type": "computer_call", "id": "cu_1", "call_id": "a", "action": {"type": "wait"}}
    called = {"type": "function_call", "call_id": "b", "name": "read", "arguments": "{}"}
    shot = {"type": "computer_screenshot", "image_url": "https://example.org/1.png"}
    seen_now = {"type": "computer_call_output", "call_id": "a", "output": shot}
    told = {"type": "function_call_output", "call_id": "b", "output": "of the file"}
    chat.append("user", "go")
    chat.append("assistant", [looked, called], format=form)
    row = chat.append("user", [seen_now, told], format=form)
    assert Layout(seen(chat)).tools == {(row.seq, 1): "read"}
    assert output_blocks(form, "user", [seen_now, told])[1]["content"] == "of the file"
