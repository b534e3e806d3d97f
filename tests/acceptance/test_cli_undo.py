"""`undo` undoes the last thing that changed the view, says what it did and how to reverse it."""

import shlex
from typing import Any

import pytest

from roocontext import Plan, Session, Store
from roocontext.cli.exit_codes import Code
from roocontext.log.entries import Control, Kind
from roocontext.reports.undo import last_change
from support.cli_process import CommandLine, Done


@pytest.fixture
def chat(database: str) -> Any:
    with Store.open(database) as store:
        chat = store.create("one")
        for number in range(1, 4):
            call = {"type": "tool_use", "id": f"t{number}", "name": "run", "input": {}}
            output = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x " * 50}
            chat.append("user", f"Question {number}")
            chat.append("assistant", [call])
            chat.append("user", [output])
        yield chat


def seqs(chat: Session) -> list[int]:
    return [message.seq for message in chat.view().messages]


def undone(run: CommandLine, *words: str) -> tuple[str, int]:
    document = run("undo", "one", *words, "--json").document
    assert document["changed"]
    return document["undone_kind"], document["undone"]


def line(done: Done) -> str:
    assert (done.code, done.err) == (0, "")
    return " ".join(done.out.split())


@pytest.mark.parametrize("kind", ["summary", "marker"])
def test_undo_of_a_plan_keeps_later_messages(kind, chat, run):
    make = Plan.condense if kind == "summary" else Plan.truncate
    seq = chat.commit(make(chat.view(), [4, 5, 6], "S")).seq
    chat.append("user", "Go on.")
    before = seqs(chat)
    shown = line(run("undo", "one"))
    assert shown.startswith(
        f"Undid {kind} {seq} of one. 1 message left the view, 3 came back."
        " Redo: `roocontext undo one`"
    )
    assert "The view ends with: 11 user Go on. Files of the project are untouched." in shown
    assert seqs(chat) == [*range(1, 10), 11]
    assert undone(run) == ("uncovering", 12)
    assert seqs(chat) == before
    assert undone(run) == ("rewind", 13)
    assert seqs(chat) == [*range(1, 10), 11]


def test_undo_of_a_rewind_with_later_messages_is_refused(chat, run):
    summary = chat.commit(Plan.condense(chat.view(), [4, 5, 6], "S")).seq
    chat.uncover(summary)
    chat.append("user", "One.")
    chat.pin(1)
    chat.append("user", "Two.")
    refused = run("undo", "one")
    assert refused.code == Code.REFUSED
    assert "2 entries came after uncovering 11, and undoing it would hide them" in refused.err
    assert run("undo", "one", "--dry-run").err == refused.err
    assert undone(run, "--force") == ("uncovering", 11)
    assert seqs(chat) == [1, 2, 3, 10, 7, 8, 9]
    chat.append("user", "Three.")
    refused = run("undo", "one")
    assert (refused.code, "1 entry came after rewind 15" in refused.err) == (Code.REFUSED, True)


def test_undo_with_a_stale_version_is_refused(chat, run):
    chat.commit(Plan.condense(chat.view(), [4, 5, 6], "S"))
    stale = run("undo", "one", "--expected-seq", "3")
    assert (stale.code, "Expected head 3" in stale.err) == (Code.REFUSED, True)


@pytest.mark.parametrize(
    "words", ["rewind one --to 4", "undo one", "uncover one 10", "rewind one --to 2"]
)
def test_dry_run_foresees_and_writes_nothing(words, chat, run):
    chat.commit(Plan.condense(chat.view(), [4, 5, 6], "S"))
    if words == "rewind one --to 2":
        chat.rewind(to=8)
    head = chat.head()
    foreseen = run(*shlex.split(words), "--dry-run", "--json").document
    screen = line(run(*shlex.split(words), "--dry-run"))
    assert screen.startswith("Would ")
    assert screen.endswith("Nothing was changed.")
    assert chat.head() == head
    done = run(*shlex.split(words), "--json").document
    assert (foreseen.pop("hash"), foreseen.pop("dry_run")) == (None, True)
    expected = {name: done[name] for name in foreseen if name != "last"}
    last = foreseen.pop("last")
    assert foreseen == expected
    assert last == (None if done["uncovered"] else done["last"])


def test_rewind_to_the_beginning_shows_an_empty_view(chat, run):
    assert "The view is empty." in run("rewind", "one", "--to", "0").out
    assert line(run("undo", "one")).startswith("Undid rewind 10 of one. 9 messages came back.")


def test_tools_output_is_shown_with_its_tool(chat, run):
    assert "ends with: 3 tool ← run (100 B) x x" in line(run("rewind", "one", "--to", "3"))
    chat.rewind(to=2)
    shown = run("diff", "one", "9").out
    assert "-     3 tool       ← run (100 B) x x" in shown
    assert "unknown" not in shown


def test_undo_takes_back_the_newest_change_of_the_view():
    hiding = Control(5, Kind.SUMMARY, hides=((2, 3),))
    log = [hiding, Control(6, Kind.UNCOVERING, uncovers=(5,))]
    assert last_change([]) is None
    assert last_change([hiding, Control(6, Kind.COMPANION)]) == hiding
    assert last_change(log) == log[1]
    back = Control(7, Kind.REWIND, to=5)
    assert last_change([*log, back]) == back
