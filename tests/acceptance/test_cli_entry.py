"""One entry whole, why it is not seen, and the part of a session that was asked for."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roocontext import Plan, Store, reports
from roocontext.cli.exit_codes import Code
from roocontext.log.spans import spans_of
from roocontext.store.reading import audit
from support.cli_process import CommandLine
from support.dialogue import text, work
from support.replies import claude

SCRIPT = Path(sys.executable).with_name("roocontext")


@pytest.fixture
def chat(database: str) -> Any:
    """Entries 1 to 8: two questions with a tool's call, its output and an answer each."""
    with Store.open(database) as store:
        chat = store.create("one")
        for number in (1, 2):
            call = {"type": "tool_use", "id": f"t{number}", "name": "run", "input": {}}
            output = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x" * 2_000}
            chat.append("user", f"Question {number}")
            chat.append("assistant", [call])
            chat.append("user", [output])
            chat.append("assistant", f"Answer {number}")
        yield chat


def why(run: CommandLine, seq: int) -> tuple[str, str]:
    """The verdict, and the commands that bring the entry back."""
    back, *_ = run("why", "one", str(seq)).out.split("To go back to before")
    _, verdict, *lines = back.splitlines()
    commands = [line.strip() for line in lines if line.startswith("  roocontext ")]
    return verdict, "; ".join(commands)


def test_chain_of_summaries_is_explained_with_one_reading_of_what_hides_what(monkeypatch):
    with Store.open(":memory:") as store:
        chat = store.create()
        chat.append("user", "x" * 2_000)
        for number in range(1, 21):
            summary = "x" * (2_000 - 90 * number)
            chat.commit(Plan.condense(chat.view(), [number], summary))
        computed: list[int] = []

        def counted(*given: Any) -> Any:
            computed.append(1)
            return spans_of(*given)

        monkeypatch.setattr(audit, "spans_of", counted)
        reasons = reports.why.why(chat, 1).reasons
    assert [reason.uncover for reason in reasons] == [*range(21, 1, -1)]
    assert len(computed) == 2  # for the entry itself, and for the chain


def seqs(run: CommandLine, *words: str) -> list[int]:
    done = run(*words, "--json")
    rows = done.document["messages"] if words[0] == "show" else done.documents
    return [row["seq"] for row in rows]


def test_why_names_what_hides_an_entry_and_the_command_that_undoes_it(chat, run):
    assert why(run, 2) == ("Entry 2, assistant: the model sees it.", "")
    chat.commit(Plan.clear(chat.view(), [(3, 0)]))
    assert why(run, 3) == (
        "Entry 3, tool: the model sees it, with cleared output.",
        "roocontext uncover one 9",
    )
    chat.commit(Plan.condense(chat.view(), [1, 2, 3, 4], "Question 1 was answered."))
    chat.commit(Plan.truncate(chat.view(), [10, 5], "[cut]"))
    assert why(run, 1)[1] == "roocontext uncover one 11; roocontext uncover one 10"
    assert why(run, 5)[1] == "roocontext uncover one 11"
    assert why(run, 9)[0] == "Entry 9, clearing: no model ever sees a clearing."
    missing = run("why", "one", "99")
    assert (missing.code, missing.out) == (Code.NOT_FOUND, "")
    assert "the log holds 1 to 11" in missing.err


def test_shortened_output_is_not_shown_as_cleared(chat, run):
    clearing = chat.commit(Plan.clear(chat.view(), [(7, 0)], keep=(30, 20))).seq
    verdict, back = why(run, 7)
    assert verdict == "Entry 7, tool: the model sees it, with shortened output."
    assert back == f"roocontext uncover one {clearing}"
    middle = f"The middle of its output is cleared by clearing {clearing} since"
    assert middle in run("why", "one", "7").out
    assert "output shortened" in run("show", "one").out
    (row,) = [row for row in run("show", "one", "--json").document["messages"] if row["seq"] == 7]
    assert (row["cleared"], row["shortened"]) == ([0], [0])
    whole = chat.commit(Plan.clear(chat.view(), [(7, 0)])).seq
    verdict, both = why(run, 7)
    assert verdict == "Entry 7, tool: the model sees it, with cleared output."
    assert both == f"roocontext uncover one {whole}; {back}"
    assert f"Its output is cleared by clearing {whole}" in run("why", "one", "7").out
    _, both = work(chat, ("a", "b"), "x" * 2_000)
    chat.commit(Plan.clear(chat.view(), [(both, 0)], keep=(30, 20)))
    chat.commit(Plan.clear(chat.view(), [(both, 1)]))
    assert why(run, both)[0].endswith("with cleared output.")


def test_commands_of_why_bring_the_entry_back(chat, run):
    def shown_again(seq: int) -> list[int]:
        for command in why(run, seq)[1].split("; "):
            assert run(*command.split()[1:]).code == 0
        return [message.seq for message in chat.view().messages]

    chat.commit(Plan.condense(chat.view(), [1, 2, 3, 4], "S"))
    chat.commit(Plan.truncate(chat.view(), [9, 5], "[cut]"))
    assert shown_again(1) == [*range(1, 9)]
    chat.rewind(to=3)
    assert shown_again(8) == [*range(1, 9)]
    reply = chat.record(claude({"type": "compaction", "content": "C"}, text("So.")))
    chat.commit(Plan.condense(chat.view(), [reply.seq], "S"))
    chat.rewind(to=3)
    assert shown_again(8) == [*range(1, 9), reply.seq]


def test_entry_is_shown_whole(chat, run):
    assert "x" * 2_000 in run("show", "one", "3").out
    row = run("show", "one", "3", "--json").document
    assert [row] == [one for one in run("audit", "one", "--json").documents if one["seq"] == 3]
    assert run("show", "one", "0").code == Code.NOT_FOUND


def test_entry_is_named_in_four_ways(chat, run, database):
    chat.append("user", "Question 3", message_id="m-3")
    for name in ("9", "last", "m-3", "2200-01-01"):
        assert run("show", "one", name, "--json").document["seq"] == 9
        assert run("why", "one", name, "--json").document["seq"] == 9
    assert seqs(run, "show", "one", "--as-of", "last") == [*range(1, 10)]
    assert seqs(run, "audit", "one", "--after", "m-3") == []
    assert run("diff", "one", "1", "last", "--json").document["new"] == 9
    assert run("pin", "one", "m-3", "--json").document["pins"] == [9]
    assert run("fork", "one", "--at", "m-3", "--id", "two", "--json").code == 0
    assert run("show", "two", "last", "--json").document["content"] == "Question 3"
    assert run("rewind", "one", "--to", "last", "--before", "--json").document["to"] == 8
    assert run("why", "one", "m-3").code == 0  # also if a rewind took it back
    assert run("rewind", "one", "--to", "m-3").code == Code.NOT_FOUND
    assert run("undo", "one", "--of", "last", "--json").document["undone"] == 11
    summary = chat.commit(Plan.condense(chat.view(), [1, 2, 3, 4], "S")).seq
    assert run("uncover", "one", "last", "--json").document["uncovered"] == summary
    assert run("redact", "one", "m-3", "--dry-run", "--json").document["seq"] == 9
    unknown = run("show", "one", "m-4")
    assert (unknown.code, unknown.out) == (Code.NOT_FOUND, "")
    assert "No message has the id 'm-4'; the nearest are 'm-3'." in unknown.err
    with Store.open(database) as store:
        store.create("empty")
    assert "there is no last one" in run("show", "empty", "last").err


def test_block_of_an_entry_is_selected(chat, run):
    assert seqs(run, "show", "one", "-n", "2") == [7, 8]
    assert seqs(run, "audit", "one", "--tail", "3", "--reverse") == [8, 7, 6]
    assert seqs(run, "audit", "one", "--role", "tool") == [3, 7]
    assert seqs(run, "show", "one", "--role", "user", "--role", "tool") == [1, 3, 5, 7]
    assert seqs(run, "audit", "one", "--role", "user", "-n", "1") == [5]
    chat.rewind(to=6)
    assert seqs(run, "audit", "one", "--kind", "rewind") == [9]
    assert seqs(run, "audit", "one", "--after", "6", "--kind", "message") == [7, 8]
    assert seqs(run, "audit", "one", "--since", "2000-01-01") == [*range(1, 10)]
    assert seqs(run, "show", "one", "--since", "2200-01-01") == []
    assert "None of the 9 entries matches." in run("audit", "one", "--kind", "summary").out
    unknown = run("audit", "one", "--kind", "x")
    assert unknown.code == Code.USAGE
    assert "'message', 'summary'" in unknown.err
    newest = run("show", "one", "-n", "2").out
    assert "the model sees 6 messages. These are 2 of them." in newest


def test_prompts_and_tool_outputs_have_different_labels(chat, run):
    shown = run("show", "one").out
    assert "3 tool  " in shown
    assert "← run (2 kB)" in shown
    bold = run("show", "one", env={"FORCE_COLOR": "1", "TERM": "xterm"}).out
    assert "\x1b[1mQuestion 1" in bold
    assert "\x1b[1mAnswer 1" not in bold


@pytest.mark.parametrize("words", ["audit one -f", "show one -f", "audit one --follow --json"])
def test_follow_prints_new_messages(words, chat, database):
    env = {**os.environ, "ROOCONTEXT_DB": database, "COLUMNS": "80"}
    command = [str(SCRIPT), *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout
        until(process, "Answer 2")
        for number in (3, 4):
            chat.append("user", f"Question {number}")
            until(process, f"Question {number}")
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().count("Question") == 0
    assert process.returncode == Code.INTERRUPTED


def until(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdout
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"{text} never came")


def test_follow_of_a_past_view_is_refused(chat, run):
    for words in ("show one -f --json", "show one -f --as-of 2"):
        assert run(*words.split()).code == Code.USAGE
