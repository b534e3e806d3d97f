"""`roocontext search`: its options, its index, and what can be done with its answer."""

import json
import shlex

import pytest

from roocontext import Plan, Store
from support.cli_process import CommandLine, CommandLines


@pytest.fixture
def run(database: str, command_line: CommandLines) -> CommandLine:
    """Commands on a session with a summary, and on a child of it."""
    with Store.open(database) as store:
        chat = store.create("lead", metadata={"branch": "main"})
        for number in range(2, 8):
            chat.append("user" if number % 2 else "assistant", f"needle {number} " + "hay " * 30)
        chat.commit(Plan.condense(chat.view(), [2, 3, 4], "Short."))
        store.create("child", parent="lead").append("user", "a needle\nin\nlines")
    return command_line(database)


def hits(run: CommandLine, *words: str) -> list[tuple[str, int]]:
    """The hits that a search prints as JSON."""
    done = run("search", *words, "--json")
    assert (done.code, done.err) == (0, "")
    return [(hit["session_id"], hit["seq"]) for hit in json.loads(done.out)["hits"]]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["needle", "4"], [("lead", 4)]),
        (['"needle 4"'], [("lead", 4)]),
        (["needle", "--family", "lead", "-n", "1"], [("lead", 2)]),
        (
            ["needle", "--session", "lead", "--among", "hidden"],
            [("lead", 2), ("lead", 3), ("lead", 4)],
        ),
        (
            ["needle", "--where", "branch=main", "--role", "assistant", "--among", "visible"],
            [("lead", 6)],
        ),
        (["needle", "--tool", "run"], []),
        (["needle", "--until", "2020-01-01"], []),
        (["needle", "--session", "child", "--since", "1d"], [("child", 1)]),
    ],
)
def test_search_filters_select_hits(run, words, expected):
    assert hits(run, *words, "--order", "oldest") == expected


def test_next_page_continues_after_the_last_hit(run):
    first = json.loads(run("search", "needle", "-n", "4", "--json").out)
    rest = hits(run, "needle", "-n", "4", "--after", first["next"])
    assert len(first["hits"]) == 4
    assert len(rest) == 3
    assert not {(hit["session_id"], hit["seq"]) for hit in first["hits"]} & set(rest)


def test_command_under_a_hit_shows_the_message(run):
    lines = run("search", "needle", "3").out.splitlines()
    assert any("Hidden by summary 8 since" in line for line in lines)
    (command,) = [line for line in lines if "roocontext show" in line]
    assert "needle 3" in run(*shlex.split(command)[1:]).out


def test_search_indexes_what_is_new_if_it_can(run, database):
    def index() -> int:
        with Store.open(database) as store:
            return store.index()

    hits(run, "needle")
    assert index() == 0
    run("append", "lead", "another needle")
    assert ("lead", 9) in hits(run, "needle")
    assert index() == 0
