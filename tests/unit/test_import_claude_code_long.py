"""Long transcripts of Claude Code, in every shape: each row is looked at a few times only."""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roocontext.formats.importers import (
    claude_code,
    claude_code_ancestors,
    claude_code_tree,
    claude_code_walk,
)
from roocontext.formats.importers.claude_code_ancestors import Ancestors, Tops
from support.transcripts import Transcript, use

LONG = 400
ORDERING = {one.__file__ for one in (claude_code_ancestors, claude_code_tree, claude_code_walk)}


@pytest.fixture
def file(tmp_path: Path) -> Transcript:
    transcript = Transcript(tmp_path / "-work" / "s-1.jsonl")
    transcript.version = "2.1.330"
    transcript.user("go")
    return transcript


def lines_run_to_order(file: Transcript) -> int:
    """How many lines of code run to find the order of the rows."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename not in ORDERING:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for source in claude_code.sources(file.path):
            assert list(source.events())
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("kind", ["system", "progress"])
def test_each_row_of_a_long_chain_is_looked_at_a_few_times(file, kind):
    for _ in range(LONG):
        file.row(kind)
    file.user("again")
    assert lines_run_to_order(file) < 200 * LONG


def test_results_that_hang_on_each_other_are_looked_at_a_few_times(file):
    file.reply("m1", *(use(f"c{one}") for one in range(LONG)), stop="tool_use")
    file.user("meanwhile")
    for one in range(LONG):
        file.result(f"c{one}", "ok")
    assert lines_run_to_order(file) < 300 * LONG


@pytest.mark.parametrize("order", [1, -1])
def test_calls_that_are_open_at_once_are_looked_at_a_few_times(file, order):
    calls = [file.reply(f"m{one}", use(f"c{one}")) for one in range(LONG)]
    for one in range(LONG)[::order]:
        file.result(f"c{one}", sourceToolAssistantUUID=calls[one])
    assert lines_run_to_order(file) < 500 * LONG


def test_an_answer_of_many_rows_is_looked_at_a_few_times(file):
    for _ in range(LONG):
        file.reply("m1", "word")
    assert lines_run_to_order(file) < 100 * LONG


def test_calls_side_by_side_are_looked_at_a_few_times(file):
    calls = [file.reply("m1", use(f"c{one}"), parent="u-1") for one in range(LONG)]
    file.user("meanwhile", parent=calls[0])
    for one in range(LONG):
        file.result(f"c{one}")
    assert lines_run_to_order(file) < 500 * LONG


def test_parents_that_form_cycles_are_looked_at_a_few_times(file):
    for number in range(LONG):
        file.user("one", parent=f"u-{2 * number + 3}")
        file.user("two")
    assert lines_run_to_order(file) < 500 * LONG


@given(st.lists(st.integers(0, 60), min_size=1, max_size=60), st.data())
def test_what_is_above_a_row(parents, data):
    above = {str(row): str(parent) for row, parent in enumerate(parents) if parent < row}

    def way(row):
        while row:
            yield row
            row = above.get(row, "")

    rows = st.sampled_from(range(len(parents))).map(str)
    ancestors = Ancestors(lambda row: above.get(row, ""))
    some = data.draw(st.lists(rows, min_size=1, max_size=4))
    tops = Tops(ancestors, some[0])
    for row in some[1:]:
        tops.add(row)
    for row in data.draw(st.lists(rows, max_size=9)):
        assert ancestors.depth(row) == len([*way(row)]) - 1
        assert tops.has_above(row) == any(one in some for one in way(row))


@pytest.mark.parametrize("row", ["a", "b", "c"])
def test_each_row_of_a_cycle_is_above_the_others(row):
    for other in "abc":
        ancestors = Ancestors({"a": "b", "b": "c", "c": "a"}.__getitem__)
        assert Tops(ancestors, row).has_above(other)
