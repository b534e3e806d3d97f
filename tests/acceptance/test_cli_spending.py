"""`roocontext usage` without a session: what the calls of all sessions have cost."""

import pytest

from roocontext.cli.exit_codes import Code
from support import showcase
from support.cli_process import CommandLine, CommandLines


@pytest.fixture
def run(database: str, command_line: CommandLines) -> CommandLine:
    showcase.build(database)
    return command_line(database)


def test_spending_document_has_the_numbers_of_the_screen(run: CommandLine) -> None:
    answer = run("usage", "--by", "session", "--json").document
    assert (answer["by"], answer["sessions"], answer["calls"]) == ("session", 1, 5)
    assert answer["rows"][0]["name"] == "parser"
    assert run("usage", "last", "--json").document["session_id"] == "build"


def test_options_of_one_session_are_refused_for_all(run: CommandLine) -> None:
    for words in ("--all", "--family", "parser --by day", "parser --since 7d", "--by week"):
        done = run("usage", *words.split())
        assert (done.code, done.out, done.err.count("\n")) == (Code.USAGE, "", 1)
