"""An evening at a terminal of 80 columns and 24 lines: each step comes from what the screen shows.

An agent was told a rule, which its summary lost. A person looks for the session, finds out why the
rule was forgotten, and takes back what went wrong.
"""

import re
import shlex
from pathlib import Path

from roocontext import Plan, Store
from roocontext.cli.exit_codes import Code
from support.cli_process import CommandLines
from support.steady_sources import SetClock
from support.terminal import LINES, Terminal, plain

NOW = 1_769_904_000_000
"""Shortly before the first command runs."""
HOUR = 3_600_000
MODEL = "claude-sonnet-4-5"
RULE = "The importer loses umlauts. Fix it, but never touch vendor/."


def build(url: str) -> None:
    """Yesterday's session among others: 6 is the summary, 7 breaks the rule of 1."""
    clock = SetClock(NOW - 30 * HOUR, step=1_000)
    with Store.open(url, clock=clock, durability="normal") as store:
        store.create(title="release notes").append("user", "Write the release notes.")
        clock.now = NOW - 26 * HOUR
        chat = store.create()
        chat.append("user", RULE)
        for number in (1, 2):
            call = {"type": "tool_use", "id": f"t{number}", "name": "read_file", "input": {}}
            output = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "x = 1\n" * 9}
            chat.append("assistant", [call], model=MODEL)
            chat.append("user", [output])
        summary = "The importer encodes names as ASCII. Two files were read."
        chat.commit(Plan.condense(chat.view(), range(1, 6), summary, trigger="auto"))
        call = {"type": "tool_use", "id": "t3", "name": "edit", "input": {"path": "vendor/x.py"}}
        reported = {"input_tokens": 61_500, "output_tokens": 500}
        chat.append("assistant", [call], model=MODEL)
        chat.append("user", [{"type": "tool_result", "tool_use_id": "t3", "content": "changed"}])
        chat.append("assistant", "Fixed in vendor/x.py.", model=MODEL, usage=reported)
        clock.now = NOW - HOUR
        store.create().append("user", "Draw the schema.")


class Person:
    """Types only commands that the screen shows, with another number at most."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._lines: list[str] = []

    @property
    def screen(self) -> str:
        """The 24 lines of the screen, the last of them with the prompt."""
        return "\n".join(self._lines[1 - LINES :])

    def types(self, command: str, *, code: int = 0) -> str:
        """Type a command; what it adds to the screen."""
        program, *words = shlex.split(command)
        assert program == "roocontext"
        lines = plain(self._terminal(*words)).splitlines()
        shown = [line for line in lines if "━" not in line]  # a bar is there for a moment only
        assert self._terminal.code == code, shown
        assert max(len(line) for line in shown if "pg_dump" not in line) <= 80
        self._lines += [f"$ {command}", *shown]
        return "\n".join(shown)

    def again(self, command: str) -> str:
        """The newest of the typed commands that begins like this."""
        prompt = f"$ roocontext {command} "
        return next(one for one in reversed(self._lines) if one.startswith(prompt))[2:]

    def reads(self, command: str) -> str:
        """The newest command on the screen that begins like this."""
        *_, found = re.finditer(rf"roocontext {command}\b[^`\n]*?(?=`|\n|  |$)", self.screen)
        return found[0]


def test_evening_of_an_agents_user_works_on_a_small_terminal(
    database: str, tmp_path: Path, command_line: CommandLines
) -> None:
    build(database)
    run = command_line(database, folder=tmp_path)
    run.env["PAGER"] = f"tail -n {LINES - 1}"  # what a pager shows of the newest end
    terminal = Terminal(run, columns=80)
    person = Person(terminal)

    person.types("roocontext")
    assert person.reads("sessions") == "roocontext sessions [TEXT]"
    listed = person.types("roocontext sessions umlauts")
    heading, row, _ = listed.splitlines()
    assert heading.split()[:3] == ["id", "age", "full"]
    assert row.split(maxsplit=5)[1:5] == ["1", "d", "31", "%"]
    assert RULE[:30] in row

    shown = person.types(person.reads("show"))
    assert "62,000 of 200,000 tokens, 31 %" in shown
    assert "reported with entry 9" in shown
    assert "7 assistant" in person.screen
    assert "vendor/x.py" in person.screen
    wrong = person.types(re.sub(r"9$", "7", person.reads("show")))  # an id may begin with 9
    assert re.search(r"7 .* assistant +visible", wrong)

    audit = person.types(person.reads("audit"))
    assert re.search(r"^ +1 .* user +in summary 6 +The importer", audit, re.MULTILINE)
    why = person.types(re.sub(r"[0-9]+$", "1", person.reads("why")))
    assert "Entry 1, user: the model does not see it." in why
    assert "Hidden by summary 6 since" in why
    assert "The importer encodes names as ASCII." in why
    assert "never touch" not in why

    rewound = person.types(person.reads("rewind"))
    assert "to entry 5. 4 messages left the view, 5 came back." in rewound
    assert "Files of the project are untouched." in rewound
    difference = person.types(person.reads("diff"))
    assert re.search(r"^- +9 assistant +Fixed in vendor/x.py", difference, re.MULTILINE)
    assert re.search(r"^\+ +1 user +The importer", difference, re.MULTILINE)
    undone = person.types(person.reads("undo"))
    assert "5 messages left the view, 4 came back." in undone
    assert "Fixed in vendor/x.py." in undone

    person.types(person.again("why"))
    uncovered = person.types(person.reads("uncover"))
    assert "Uncovered entry 6" in uncovered
    assert "5 came back." in uncovered
    assert "Entry 1, user: the model sees it." in person.types(person.again("why"))

    assert "roocontext help" in person.types("roocontext")
    assert re.search(r"^  backup +Copy the database", person.types("roocontext help"), re.MULTILINE)
    is_file = "://" not in database
    saved = person.types("roocontext backup evening.db", code=Code.DONE if is_file else Code.NO)
    terminal.close()
    if not is_file:
        assert "pg_dump" in saved
        return
    with Store.open(tmp_path / "evening.db") as copy:
        assert all(copy.session(info.session_id).verify().ok for info in copy.sessions())
