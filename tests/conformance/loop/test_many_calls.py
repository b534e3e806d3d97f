"""Messages with many tool calls: what an answer costs does not grow with the number of the others.

Nothing here is a time. Python's profiler counts the calls of functions, which are the same on every
machine.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from roocontext import Plan
from support.dialogue import call, result
from support.four_formats import FORMATS, asking

FEW, MANY = 20, 120
"""As far apart as 100 and 600."""


def calling(form: str, count: int) -> tuple[str, Any]:
    """The role and content of a reply with so many calls; Gemini's have no ids."""
    return asking(form, *(("" if form == "gemini" else f"t{n}", "run") for n in range(count)))


def functions(work: Callable[[], object]) -> int:
    """The number of Python functions that are called."""
    called = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal called
        called += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return called


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("form", FORMATS)
def test_answers_to_six_times_as_many_calls_take_at_most_twelve_times_the_work(store, form):
    def answered(count: int) -> int:
        chat = store.create()
        chat.append("user", "go")
        seq = chat.append(*calling(form, count), format=form).seq

        def answer() -> None:
            for number in range(count):
                assert chat.answer((seq, number), "done").new

        called = functions(answer)
        assert chat.pending() == []
        assert chat.waits_for() == "model"
        assert not chat.answer((seq, count - 1), "again").new
        return called

    answered(2)
    assert answered(MANY) <= 12 * answered(FEW)


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("form", ["openai-responses", "anthropic"])
def test_read_of_a_message_takes_work_in_proportion_to_its_calls(store, form):
    def read(count: int) -> int:
        chat = store.create()
        chat.append("user", "go")
        chat.append(*calling(form, count), format=form)
        called = functions(chat.pending)
        return called + functions(lambda: chat.messages("openai-responses"))

    read(2)
    assert read(10 * FEW) <= 12 * read(FEW)


def test_results_that_name_no_call_are_still_found(store):
    chat = store.create()
    chat.append("user", "go")
    seq = chat.append("assistant", [call(f"t{n}") for n in range(4)]).seq
    chat.answer((seq, 0), "done")
    by_id = chat.append("user", [result("t1"), result("t3")]).seq
    for number in (1, 3):
        found = chat.answer((seq, number), "again")
        assert (found.seq, found.new) == (by_id, False)
    # Of several results in one row, ids decide, also where the row names a call.
    named = chat.append("user", [result("t2"), result("t2")], answers=(seq, 2)).seq
    assert chat.answer((seq, 2), "again").seq == named
    assert chat.pending() == []


@pytest.mark.values_on_one_leg
def test_outputs_of_a_row_are_cleared_in_work_in_proportion_to_them(store):
    def cleared(count: int) -> int:
        chat = store.create()
        chat.append(*calling("anthropic", count))
        seq = chat.append("user", [result(f"t{n}", "long " * 9) for n in range(count)]).seq
        chat.commit(Plan.clear(chat.view(), [(seq, n) for n in range(count)], "-"))
        called = functions(chat.view)
        (row,) = [row for row in chat.view().messages if row.seq == seq]
        assert {block["content"] for block in row.content} == {"-"}
        return called

    cleared(2)
    assert cleared(MANY) <= 12 * cleared(FEW)
