"""`roocontext usage` without a session: what the calls of all sessions have cost."""

import pytest

from roocontext import Store
from roocontext.cli.exit_codes import Code
from support import showcase
from support.cli_process import CommandLine, CommandLines
from support.steady_sources import SetClock


@pytest.fixture
def run(database: str, command_line: CommandLines) -> CommandLine:
    showcase.build(database)
    with Store.open(database, clock=SetClock(showcase.START + 86_400_000)) as store:
        hostile = {"input_tokens": 5, "output_tokens": 1}
        store.create().append("assistant", "x", model="m\x1b[31m", usage=hostile)
    return command_line(database)


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_usage_of_all_sessions_is_summed_up(columns: int, run: CommandLine) -> None:
    env = {"COLUMNS": str(columns)}
    shown = run("usage", "--until", "2026-01-02", env=env).out
    assert "2026-01-01" in shown
    words = " ".join(shown.split())
    assert "5 calls in 1 session: $0.0420, as recorded or by the prices of" in words
    by_model = run("usage", "--by", "model", env=env).out
    assert "claude-sonnet-4-5" in by_model
    assert "m\\x1b[31m" in by_model
    assert "without 1 call," in " ".join(by_model.split())
    for out in (shown, by_model, run("usage", "--by", "session", env=env).out):
        assert max(map(len, out.splitlines())) <= columns
    assert run("usage", "--since", "now").out == "No usage was recorded.\n"


def test_spending_document_has_the_numbers_of_the_screen(run: CommandLine) -> None:
    answer = run("usage", "--by", "session", "--json").document
    assert (answer["by"], answer["sessions"], answer["calls"]) == ("session", 2, 6)
    assert answer["rows"][0]["name"] == "parser"
    assert run("usage", "last~1", "--json").document["session_id"] == "build"


def test_options_of_one_session_are_refused_for_all(run: CommandLine) -> None:
    for words in ("--all", "--family", "parser --by day", "parser --since 7d", "--by week"):
        done = run("usage", *words.split())
        assert (done.code, done.out, done.err.count("\n")) == (Code.USAGE, "", 1)
