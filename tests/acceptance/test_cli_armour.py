"""Nothing that was stored reaches a terminal as it is, whichever command prints it."""

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from roocontext import NewMessage, Plan, Store
from roocontext.formats.exports import EXPORTERS
from support.cli_process import CommandLines
from support.empty_files import empty_file
from support.terminal import Terminal

NASTY = "a\x1b[31m \x1b]0;owned\x07 \x9b2J \x7f \u202eright\u2066 left\r"
"""Colours, a window's title, a control sequence of one character, and text that runs backwards."""

RAW = "\x1b\x07\x7f\r\x9b\u202e\u2066"


def is_harmless(text: str) -> bool:
    """True if nothing in the text acts on a terminal."""
    kinds = {unicodedata.category(one) for one in text} if not text.isascii() else set()
    return not kinds & {"Cf", "Cs", "Zl", "Zp"} and not any(
        unicodedata.category(one) == "Cc" and one != "\n" for one in text
    )


def build(url: str) -> str:
    """A session whose every name and text is nasty; its id."""
    used = {"prompt_tokens": 30, "completion_tokens": 4, NASTY: NASTY}
    call = {"type": "tool_use", "id": NASTY, "name": NASTY, "input": {NASTY: NASTY}}
    result = {"type": "tool_result", "tool_use_id": NASTY, "content": NASTY}
    with Store.open(url) as store:
        name = f"{NASTY} id"
        chat = store.create(name, title=NASTY, metadata={NASTY: NASTY})
        chat.append(
            "user", f"{NASTY} swordfish{' word' * 9_000}", message_id=f"{NASTY}1", client_id=NASTY
        )
        chat.append("assistant", [call], model=NASTY, usage=used, extra={NASTY: NASTY})
        chat.append("user", [result], message_id=f"{NASTY}2")
        chat.append_many([NewMessage("user", NASTY), NewMessage("assistant", NASTY, model=NASTY)])
        chat.note(NASTY, {NASTY: NASTY}, target=3)
        record = {"policy": NASTY, "trigger": NASTY, "counter": NASTY, "before": 3, "after": 2}
        chat.commit(Plan.condense(chat.view(), [3], f"{NASTY}\n{NASTY * 99}", record=record))
        chat.pin(7)
        store.create(f"{NASTY} child", parent=name).append("user", NASTY)
    return name


@pytest.fixture
def terminal(tmp_path: Path, command_line: CommandLines) -> Iterator[Terminal]:
    """A terminal without colours, so that every escape that it is sent is a stored one."""
    run = command_line(empty_file(tmp_path / "store.db"), folder=tmp_path)
    run.env |= {"NO_COLOR": "1", "PAGER": "cat"}
    opened = Terminal(run, 80)
    opened.add_variables(TERM="dumb")
    yield opened
    opened.close()


def commands(name: str) -> list[list[str]]:
    """Command lines that print, those that change something last."""
    shown: list[list[str]] = [
        ["sessions"],
        ["show", name],
        ["show", name, "--full"],
        *(["show", name, str(seq)] for seq in (3, 4, 8)),
        ["audit", name],
        ["audit", name, "--full"],
        ["why", name, "3"],
        ["tree", name],
        ["diff", name, "4"],
        ["usage", name, "--all"],
        ["usage", "--by", "model"],
        ["usage", "--by", "session"],
        ["stats", name],
        ["head", name],
        ["verify", name],
        ["search", "swordfish"],
        ["preview", name, "condense", "--limit", "90"],
        *(["export", name, "--family", "--to", to] for to in ("jsonl", "html", "markdown")),
        *(["export", name, "--to", to] for to in (*EXPORTERS, "html")),
    ]
    printed = [[*words, "--json"] for words in shown if words[0] in ("sessions", "search", "usage")]
    wrong = [
        [NASTY],
        ["show", NASTY],
        ["show", NASTY, "--debug"],
        ["show", name, NASTY],
        ["show", name, "--model", NASTY],
        ["show", name, f"--{NASTY}"],
        ["export", name, "--to", NASTY],
        ["export", name, "-o", f"{NASTY}/{NASTY}"],
        ["append", name, "--role", NASTY, "x", "--debug"],
        ["sessions", "--db", NASTY],
        ["import", NASTY],
    ]
    acting = [
        ["append", name, NASTY, "--client-id", NASTY],
        ["append", name, "Hello", "--client-id", NASTY, "--debug"],
        ["title", name, NASTY],
        ["pin", name, "7"],
        ["condense", name, "--limit", "90"],
        ["rewind", name, "--to", "5"],
        ["undo", name],
        ["fork", name, "--id", f"{NASTY}fork"],
        ["redact", name, "3", "--dry-run"],
        ["redact", name, "3"],
        ["purge", name, "--dry-run"],
        ["purge", name],
        ["purge", name, "--yes"],
        ["show", name],
    ]
    return [*shown, *printed, *wrong, *acting]


def test_no_command_prints_anything_that_acts_on_a_terminal(terminal, tmp_path):
    name = build(str(tmp_path / "store.db"))
    for words in commands(name):
        shown = terminal(*words, answer="n" if words[0] in ("redact", "purge") else "")
        assert shown, words
        assert is_harmless(shown), words


def test_pipe_gets_the_exact_bytes(tmp_path, command_line):
    url = empty_file(tmp_path / "store.db")
    name, run = build(url), command_line(url)
    lines = [json.loads(line) for line in run("export", name).out.splitlines()]
    entries = [one for one in lines if one.get("message_id")]
    assert entries[0]["message_id"] == f"{NASTY}1"
    assert entries[0]["client_id"] == NASTY
    file = tmp_path / "page.md"
    assert run("export", name, "--to", "markdown", "-o", str(file)).code == 0
    written = file.read_bytes().decode()
    assert all(one in written for one in RAW.replace("\r", ""))


def test_json_on_a_terminal_is_the_same_document(terminal, tmp_path):
    name = build(str(tmp_path / "store.db"))
    shown = terminal("show", name, "3", "--json")
    assert json.loads(shown)["message_id"] == f"{NASTY}1"
    assert json.loads(terminal("head", name))["session_id"] == name
