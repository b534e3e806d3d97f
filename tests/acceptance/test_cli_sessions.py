"""`roocontext sessions`: one row for each session, found by what it is about, its age or family."""

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Iterator

import pytest

from roocontext import Plan, Store
from roocontext.cli.exit_codes import Code
from roocontext.reports.times import age
from support.cli_process import CommandLine, CommandLines, Done, refused
from support.steady_sources import SetClock

NOW = 1_769_904_000_000
"""Shortly before the first command runs."""
HOUR = 3_600_000
MODEL = "claude-sonnet-4-5"
LONG_ID = "0f3a77c1d2e94b5f8a6b7c8d9e0f1a2b"


@pytest.fixture
def run(database: str, command_line: CommandLines) -> CommandLine:
    clock = SetClock(NOW - 50 * 24 * HOUR, step=1)
    with Store.open(database, clock=clock) as store:
        store.create("old-one", title="an old title").append("user", "about birds")
        clock.now = NOW - 26 * HOUR
        chat = store.create(LONG_ID, metadata={"branch": "main"})
        chat.append("user", "Why does the  parser\ndrop the last token? \x1b[31m")
        usage = {"input_tokens": 80_000, "output_tokens": 2_000}
        chat.append("assistant", "It ends early.", model=MODEL, usage=usage)
        clock.now = NOW - HOUR
        store.create("0f3a77c1-other", parent=LONG_ID)
        store.create("gone").append("user", "secret birds")
        store.purge("gone")
    return command_line(database)


def rows(done: Done) -> list[list[str]]:
    """The rows of a list below its headings, in columns."""
    assert done.code == 0, done
    return [line.split("  ") for line in done.out.splitlines()[1:]]


def ids(done: Done) -> list[str]:
    return [row[0].strip() for row in rows(done)]


@pytest.mark.parametrize("columns", [20, 40, 56, 80, 120])
def test_session_is_one_row_on_every_screen(run, columns):
    lines = run("sessions", env={"COLUMNS": str(columns)}).out.splitlines()
    assert len(lines) == 4
    assert max(map(len, lines)) <= columns
    assert all("0f3a77c1" in line or "old-one" in line for line in lines[1:])


def test_session_is_found_by_its_id_title_or_first_prompt(run):
    assert ids(run("sessions", "PARSER drop")) == ["0f3a77c1d"]
    assert ids(run("sessions", "old TITLE")) == ["old-one"]
    assert ids(run("sessions", "0F3A")) == ["0f3a77c1-other", "0f3a77c1d"]
    assert ids(run("sessions", "about birds")) == ["old-one"]
    expected = "No session has 'fish' in its id, title or first prompt.\n"
    assert run("sessions", "fish").out == expected


def test_short_id_names_its_session(run):
    found = run("sessions", "--json").document["sessions"]
    for row in found:
        assert run("show", row["short_id"], "--json").document["session_id"] == row["session_id"]
    assert [row["short_id"] for row in found] == ["0f3a77c1-other", "0f3a77c1d", "old-one"]


def test_short_id_goes_beyond_the_name_of_the_tool(run, database):
    with Store.open(database) as store:
        store.create("claude-code:5f2c31aa-0000").append("user", "hello")
    (row, *_) = run("sessions", "--json").document["sessions"]
    assert row["short_id"] == "claude-code:5f2c31"
    assert run("show", row["short_id"], "--json").document["session_id"] == row["session_id"]
    assert "claude-code:5f2c31 " in run("rewind", row["session_id"], "--to", "0").out


def test_commands_to_copy_have_the_short_id(run):
    assert "Rewound 0f3a77c1d to entry 1." in run("rewind", LONG_ID, "--to", "1").out
    assert run("undo", "0f3a77c1d").out.startswith("Undid rewind 4 of 0f3a77c1d.")
    assert "`roocontext diff 0f3a77c1d 5`" in run("undo", "0f3a77c1d").out
    assert "`roocontext why 0f3a77c1d 2`" in run("show", LONG_ID, "2").out
    assert "  roocontext rewind 0f3a77c1d --to 5\n" in run("why", LONG_ID, "2").out


@pytest.mark.every_leg
def test_sessions_are_filtered_by_age(run):
    assert ids(run("sessions", "--since", "2h")) == ["0f3a77c1-other"]
    assert ids(run("sessions", "--since", "3 days ago")) == ["0f3a77c1-other", "0f3a77c1d"]
    assert ids(run("sessions", "--older-than", "30d")) == ["old-one"]
    assert ids(run("sessions", "--older-than", "2h", "--since", "2d")) == ["0f3a77c1d"]
    assert run("sessions", "--since", "now").out == "No session matches.\n"
    done = run("sessions", "--since", "some day")
    assert (done.code, "some day" in done.err, "30d" in done.err) == (Code.USAGE, True, True)


def test_purged_sessions_are_listed(run):
    done = run("sessions", "--purged")
    assert ids(done) == ["gone"]
    assert "1  14 B in 1 entry" in done.out
    assert "birds" not in done.out
    (row,) = run("sessions", "--purged", "--json").document["purged"]
    assert (row["session_id"], row["messages"]) == ("gone", 1)
    nothing = "No purged session matches.\n"
    assert run("sessions", "fish", "--purged").out == nothing
    assert run("sessions", "--purged", "--older-than", "2h").out == nothing
    assert run("sessions", "--purged", "--where", "a=b").code == Code.USAGE


def test_fill_level_is_the_reported_one(run, database):
    def context() -> tuple[int, bool, int | None]:
        row = run("sessions", LONG_ID, "--json").document["sessions"][0]["context"]
        return row["tokens"], row["exact"], row["reported"]

    assert context() == (82_000, True, 82_000)
    assert " 41 % " in run("sessions").out
    with Store.open(database) as store:
        chat = store.session(LONG_ID)
        chat.append("user", "x" * 3_998)
        assert context() == (83_000, False, 82_000)
        assert " ~42 % " in run("sessions").out
        chat.commit(Plan.condense(chat.view(), [2], "In short."))
        assert context()[1:] == (False, None)


@pytest.fixture
def screen() -> Iterator[tuple[int, int]]:
    ends = pty.openpty()
    fcntl.ioctl(ends[1], termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    yield ends
    for end in ends:
        os.close(end)


def test_terminal_shows_as_many_rows_as_it_holds(tmp_path, command_line, screen):
    with Store.open(tmp_path / "store.db", durability="normal") as store:
        for number in range(40):
            store.create(f"s{number}")
    run = command_line(str(tmp_path / "store.db"))
    run.env |= {"TERM": "xterm", "PAGER": "sed s/^/|/", "NO_COLOR": "1"}
    del run.env["COLUMNS"]

    def lines(*words: str) -> list[str]:
        run.begin(["sessions", *words], [os.ttyname(screen[1])] * 3)
        assert run.ended() == 0
        return os.read(screen[0], 65_536).decode().replace("\r\n", "\n").splitlines()

    shown = lines()
    assert len(shown) == 22
    assert shown[-2].startswith("|There are more")
    assert shown[-1].startswith("|What the model sees of one: `roocontext show s")
    assert len(lines("--limit", "40")) == 42
    assert len(run("sessions").out.splitlines()) == 22


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3_599, "59 min"),
        (3_600, "1 h"),
        (86_399, "23 h"),
        (86_400, "1 d"),
        (13 * 86_400, "13 d"),
        (14 * 86_400, "2 wk"),
        (63 * 86_400, "2 mo"),
        (364 * 86_400, "11 mo"),
        (365 * 86_400, "1 y"),
        (800 * 86_400, "2 y"),
    ],
)
def test_ages_are_short(seconds, shown):
    assert age(NOW - round(seconds * 1_000), NOW) == shown


def test_session_is_named_by_its_place_in_the_list(run):
    def named(name: str) -> str:
        found: str = run("show", name, "--json").document["session_id"]
        return found

    listed = [row["session_id"] for row in run("sessions", "--json").document["sessions"]]
    assert [named(name) for name in ("last", "last~0", "last~1", "last~2")] == [listed[0], *listed]
    done = run("show", "last~3")
    assert (done.code, "oldest of 3 sessions is last~2" in done.err) == (Code.NOT_FOUND, True)
    assert run("append", "last~2", "hello").code == 0
    assert named("last") == listed[2]
    for name in ("last~", "last~x", "last~-1", "=last~1", "last~1234567"):
        assert run("show", name).code == Code.NOT_FOUND


@pytest.mark.parametrize(
    "given",
    [
        ["x", "--role", "robot"],
        ["[1]", "--content-json"],
        ["[]", "--content-json", "--format", "nonsense"],
        ["x", "--ts", str(1 << 70)],
        ["x", "--model", "m" * 2_000],
        ["x", "--expected-seq", "3"],
        ["x", "--expected-seq", "3", "--title", "one"],
    ],
)
def test_refused_first_message_leaves_no_session(run, given):
    run("append", "new", "kept", "--id", "kept")
    assert run("append", "new", "--id", "empty", *given).code != Code.DONE
    listed = run("sessions", "--json").document["sessions"]
    assert "empty" not in [one["session_id"] for one in listed]
    last = run("append", "last", "more", "--json").document["session_id"]
    assert last == listed[0]["session_id"]
    assert run("append", "new", "x", "--id", "empty", "--expected-seq", "0").code == Code.DONE


def test_repeated_first_message_begins_one_session(run):
    words = ("append", "new", "hello", "--id", "begun", "--client-id", "k")
    first = run(*words, "--json").document
    assert run(*words, "--json").document == first | {"new": False}
    refused(run(*words[:2], "other", *words[3:]), Code.REFUSED, "Use another --client-id")
    for others in (("--client-id", "l"), ("--owner", "another")):
        refused(run(*words, *others), Code.REFUSED, "Session 'begun' exists")
