"""What twice as long a history costs: about twice as many steps, and no time of blanks squared."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from roocontext import Plan, Store
from roocontext.cli.screens.screen import wrapped
from roocontext.log.clearing import shown_by
from roocontext.log.entries import Control, Kept, Kind, Message, View
from roocontext.log.forms import forms
from roocontext.log.readings.blocks import image_at
from roocontext.log.request import unbound
from roocontext.log.summary import hidden_in, hidden_line, without_hidden_line
from roocontext.programs.roo.condensing import _commands_in
from roocontext.reports.html_export import export_page
from support.dialogue import call, result, text
from support.steps import steps_of

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
MODEL = "claude-fable-5-1"
BLANKS = " " * 400_000
"""A time of their number squared would be longer than a test may take."""


def message(seq: int, role: str, content: Any, asked_at: int | None = None) -> Message:
    model = MODEL if role == "assistant" else None
    fields = ("anthropic", None, 0, None, None, model, (), asked_at)
    return Message(seq, Kind.MESSAGE, role, content, *fields)


def loop(count: int) -> tuple[Message, ...]:
    """A question, and replies that think and call a tool, each with its result."""
    rows = [message(1, "user", "Go on.")]
    for seq in range(2, 2 * count + 2, 2):
        asked = {**call(f"t{seq}"), "input": {}}
        rows.append(message(seq, "assistant", [THOUGHT, asked], seq - 1))
        rows.append(message(seq + 1, "user", [result(f"t{seq}", "found " * 9)]))
    return tuple(rows)


def sent_to_another_model(count: int) -> Callable[[], Any]:
    return partial(forms["anthropic"].compose, loop(count), model="another", complete=True)


def replies_in_a_row(count: int, *, form: str) -> Callable[[], Any]:
    rows = [message(seq, "assistant", [text(f"so {seq}")]) for seq in range(1, count)]
    return partial(forms[form].compose, rows, model=MODEL, complete=True)


def checked_after_a_clearing(count: int) -> Callable[[], Any]:
    rows = loop(count)
    last = rows[-1].seq + 1
    cleared = Control(last, Kind.CLEARING, clears=((3, 0),), placeholder="gone")
    return partial(unbound, rows, [cleared], last, lambda _: True, {})


def cleared_in_part(count: int) -> Callable[[], Any]:
    rows = loop(count)
    view = View("s", rows[-1].seq, rows[-1].seq, rows)
    return partial(Plan.clear, view, [(row.seq, 0) for row in rows[2::2]], keep=(5, 5))


def shown_in_part(count: int) -> Callable[[], Any]:
    blocks = [(seq, 0) for seq in range(1, 20 * count)]
    keeps = tuple(Kept(*block, 5, 5) for block in blocks)
    clearing = Control(20 * count, Kind.CLEARING, clears=tuple(blocks), keeps=keeps)
    return partial(shown_by, dict.fromkeys(blocks, clearing))


@pytest.mark.parametrize(
    "work",
    [
        *(partial(replies_in_a_row, form=form) for form in forms.known()),
        *(sent_to_another_model, checked_after_a_clearing, cleared_in_part, shown_in_part),
    ],
)
def test_twice_as_many_rows_take_about_twice_as_many_steps(work):
    work(10)()  # what is loaded or kept for later calls does not count
    few, many = (steps_of(work(count)) for count in (150, 300))
    assert many < 2.4 * few


def test_answers_on_an_exported_page_are_not_compared_with_every_call():
    steps = []
    with Store.open(":memory:") as store:
        for count in (400, 800):
            names = [f"t{number}" for number in range(count)]
            chat = store.create()
            chat.append("assistant", [call(name) for name in names])
            chat.append("user", [result(name, "found") for name in names])
            steps.append(steps_of(lambda chat=chat: b"".join(export_page([chat]))))
    assert steps[1] < 2.4 * steps[0]


def test_commands_of_roo_are_found_beside_any_number_of_their_beginnings():
    command = "<command>plan</command>"
    text = command + "<command>" * 100_000
    assert [*_commands_in(f"{text}</command> {command}")] == [
        command,
        f"{text[len(command) :]}</command>",
        command,
    ]
    assert [*_commands_in(text)] == [command]
    assert [*_commands_in(command + "<command" * 100_000)] == [command]


def test_line_of_blanks_is_wrapped_whatever_its_length():
    assert [*wrapped([(f"a\n{BLANKS}\nb", "")], 80)] == [[("a", "")], [], [("b", "")]]


def test_line_of_a_summary_is_found_beside_any_number_of_blanks():
    line = hidden_line((3, 9))
    text = f"a{BLANKS}b\n\n{line}"
    assert hidden_in(text) == (3, 9)
    assert without_hidden_line(text) == f"a{BLANKS}b"
    assert without_hidden_line(f"{text}c") == f"{text}c"


def test_url_of_data_without_a_comma_is_no_image():
    url = "data:image/png;base64" + "A" * len(BLANKS)
    assert image_at(url)["source"] == {"type": "url", "url": url}
