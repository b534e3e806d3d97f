"""Rows at the end of a plan stand where they were put, whatever rewinds lie around them."""

import pytest

from roocontext import Plan
from support.dialogue import fill


@pytest.mark.parametrize("rewinds", [0, 1, 2])
def test_row_at_the_end_stays_before_what_was_appended_after_rewinds(chat, rewinds):
    fill(chat, 4)
    for _ in range(rewinds):
        chat.rewind(to=3)
        chat.undo()
    plan = Plan.truncate(chat.view(), [1, 2], at_end=True)
    (later,) = fill(chat, 1)
    marker = chat.commit(plan).seq
    for as_of in (None, marker):
        assert [it.seq for it in chat.view(as_of=as_of).messages] == [3, 4, marker, later]
    fill(chat, 1)
    assert [it.seq for it in chat.view(as_of=marker).messages] == [3, 4, marker, later]
    assert chat.verify().ok
    assert chat.rebuild() == 0
