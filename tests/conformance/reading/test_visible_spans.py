"""Hidden rows leave no span of the view: each would make every later read slower."""

from collections.abc import Callable
from typing import Any

import pytest

from roocontext import NewMessage, Plan
from roocontext.errors import DuplicateMessage
from roocontext.store.engine.schema import VISIBLE
from support.examples import TORTURE

ROUNDS = 12 if TORTURE else 5


def work(chat: Any) -> list[NewMessage]:
    """A call and its result."""
    call = {"type": "tool_use", "id": f"t{chat.head_seq()}", "name": "run", "input": {}}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "much output " * 20}
    return [NewMessage("assistant", [call]), NewMessage("user", [result])]


def rewind_and_undo(chat: Any) -> None:
    """Two rewinds, after which all is as before."""
    chat.rewind(chat.head_seq() - 1)
    chat.undo()


def rewind(chat: Any) -> None:
    """A rewind that takes back a message."""
    chat.append("user", "Never mind.")
    chat.rewind(chat.head_seq() - 1)


def note(chat: Any) -> None:
    """Two notes of different kinds."""
    chat.set_title(f"at {chat.head_seq()}")
    chat.note("remark", {"text": "a note"})


def clear(chat: Any) -> None:
    """A clearing of the newest result."""
    view = chat.view()
    chat.commit(Plan.clear(view, [(view.messages[-1].seq, 0)]))


def uncover(chat: Any) -> None:
    """A condensation that is taken back."""
    view = chat.view()
    hidden = [message.seq for message in view.messages[-4:]]
    chat.uncover(chat.commit(Plan.condense(view, hidden, "short")).seq)


def everything(chat: Any) -> None:
    """All of them, one after the other."""
    for change in CHANGES[:-1]:
        change(chat)


CHANGES: list[Callable[[Any], None]] = [rewind_and_undo, rewind, note, clear, uncover, everything]


def visible_spans(shared: Any, chat: Any) -> int:
    """The number of spans of the view, with messages or without."""
    ((count,),) = shared.sql(
        f"SELECT count(*) FROM spans WHERE session_id = '{chat.id}' AND {VISIBLE}"
    )
    return int(count)


def condense(chat: Any, kept: int) -> Any:
    """Put a summary in the place of all but the newest messages."""
    view = chat.view()
    hidden = [message.seq for message in view.messages[:-kept]]
    return chat.commit(Plan.condense(view, hidden, "What was said before, in short."))


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("change", CHANGES[::-1])
@pytest.mark.parametrize("kept", [2, 4, 6])
def test_change_at_or_next_to_the_cut_leaves_no_span(shared, change, kept):
    chat = shared.store.create()
    counts = []
    for _ in range(ROUNDS):
        chat.append_many([*work(chat), *work(chat)])
        change(chat)
        chat.append_many([*work(chat), *work(chat)])
        condense(chat, kept)
        counts.append(visible_spans(shared, chat))
    assert counts[-1] == counts[1] <= 6
    assert chat.verify().ok


def test_rows_that_stay_between_hidden_ones_are_not_taken_in(shared):
    """A summary, a companion and a pinned message keep their place and stay in the view."""
    chat = shared.store.create()
    chat.append_many([NewMessage("user", f"message {number}") for number in range(12)])
    chat.pin(3)
    chat.note("remark", {"text": "a note"})
    chat.append_many([NewMessage("user", f"message {number}") for number in range(4)])
    view = chat.view()
    first = chat.commit(
        Plan.condense(view, [5, 6], "a", companions=[NewMessage("assistant", "ok")])
    )
    view = chat.view()
    hidden = [one.seq for one in view.messages[:-2] if one.seq not in {3, *first.rows}]
    second = chat.commit(Plan.truncate(view, hidden, "b"))
    seen = [message.seq for message in chat.view().messages]
    assert seen == [3, *first.rows, *second.rows, 17, 18]
    details = next(one.entry.details for one in chat.audit(after=second.seq - 1))
    # The pin's note 13 and the remark 14 are among them.
    assert details["hides"] == [[1, 2], [4, 4], [7, 16]]
    chat.uncover(second.seq)
    assert [message.seq for message in chat.view().messages] == [m.seq for m in view.messages]
    assert chat.verify().ok


def test_repeated_plan_is_recognised_after_widening(shared):
    chat = shared.store.create()
    chat.append_many([NewMessage("user", f"message {number}") for number in range(4)])
    chat.note("remark", {"text": "a note"})
    chat.append_many([NewMessage("user", f"message {number}") for number in range(4)])
    plan = Plan.condense(chat.view(), [2, 3, 4, 6, 7], "short", client_id="once")
    assert plan.hides == ((2, 4), (6, 7))
    (first,) = chat.write_batch([plan], expected_seq=plan.head_seq)
    (again,) = chat.write_batch([plan], expected_seq=plan.head_seq)
    assert (again.seq, again.new) == (first.seq, False)


def test_another_plan_under_its_client_id_is_refused(shared):
    chat = shared.store.create()
    chat.append_many([NewMessage("user", f"message {number}") for number in range(8)])
    view = chat.view()
    plan = Plan.condense(view, [2, 3, 4, 5], "short", client_id="once")
    chat.write_batch([plan], expected_seq=8)
    for hidden in ([2, 3], [2, 5], [2, 3, 4, 5, 6], [1, 2, 3, 4, 5]):
        other = Plan.condense(view, hidden, "short", client_id="once")
        with pytest.raises(DuplicateMessage):
            chat.write_batch([other], expected_seq=8)
