"""Points of a session and arguments as people type them, and the answers that they get."""

import json
import sys
from typing import Any

import pytest

from roocontext import ContextManager, Store
from roocontext.cli.app import commands
from roocontext.cli.exit_codes import Code
from roocontext.errors import RecoveryExhausted
from roocontext.log.encoding import MAX_DEPTH
from support.cli_process import CommandLine, CommandLines, Done, ran, refused
from support.steady_sources import SetClock

NOON = 1_767_268_800_000  # 2026-01-01 12:00 UTC
MINUTE = 60_000


@pytest.fixture
def run(database: str, command_line: CommandLines) -> CommandLine:
    """Commands on a session whose agent's own times are an hour before the recording."""
    with Store.open(database, clock=SetClock(NOON, step=MINUTE)) as store:
        chat = store.create("parser", title="mended")
        for number in range(1, 6):
            ts = NOON + (number - 60) * MINUTE
            chat.append("user", f"Message {number}", ts=ts, message_id=f"m{number}")
        store.create("empty")
        quiet = store.create("quiet")
        quiet.append("user", "Without a time of the agent's")
    return command_line(database)


# Lists


def listed(done: Done) -> list[tuple[str, str | None]]:
    """The sessions of a list in JSON, and their parents."""
    assert done.code == 0, done
    return [(row["session_id"], row["parent"]) for row in json.loads(done.out)["sessions"]]


def test_sessions_are_listed_by_parent_and_metadata(run, database):
    with Store.open(database, clock=SetClock(NOON + MINUTE * MINUTE, step=MINUTE)) as store:
        store.create("one", parent="parser", metadata={"user": "ann", "expression": "a=b"})
        store.create("two", parent="empty", metadata={"user": "ann"})
        store.purge("empty")
    assert listed(run("sessions", "--parent", "pars", "--json")) == [("one", "parser")]
    assert listed(run("sessions", "--parent", "empty", "--json")) == [("two", "empty")]
    both = [("two", "empty"), ("one", "parser")]
    assert listed(run("sessions", "--where", "user=ann", "--json")) == both
    conditions = ("--where", "user=ann", "--where", "expression=a=b")
    assert listed(run("sessions", *conditions, "--json")) == both[1:]
    assert listed(run("sessions", "two", "--where", "user=ann", "--json")) == both[:1]
    assert run("sessions", "--where", "user=bob").out == "No session matches.\n"


def test_malformed_condition_is_refused(run):
    refused(run("sessions", "--where", "user"), Code.USAGE, "KEY=VALUE", "'user'")
    refused(run("sessions", "--where", "a=b", "--where", "a=c"), Code.USAGE, "each key once")
    refused(run("sessions", "--parent", "nobody"), Code.NOT_FOUND, "'nobody'")


# Times


def test_each_clock_is_used_as_the_help_says(run):
    """Entry 4 is of 11:03 by the agent, and was recorded at 12:03."""

    def seq(*words: str) -> int:
        return run("show", "parser", "--as-of", *words, "--json").document["seq"]

    assert seq("2026-01-01 11:03") == 4
    assert seq("2026-01-01 11:03", "--recorded") == 0
    assert seq("2026-01-01 12:03", "--recorded") == 4
    times = "2026-01-01 11:03", "2026-01-01 12:03"
    found = run("diff", "parser", *times, "--recorded", "--json").document
    assert (found["old"], found["new"]) == (0, 4)
    assert run("diff", "parser", *times, "--json").document["old"] == 4
    by_clock = run("rewind", "parser", "--to", "2026-01-01 12:02", "--recorded", "--dry-run")
    assert "entry 3, from 2026-01-01 12:02" in by_clock.out
    answer = run("rewind", "parser", "--to", "2026-01-01 11:03", "--json").document
    assert (answer["to"], answer["target"]) == (4, 4)
    assert answer["target_time"] == "2026-01-01T11:03:00.000+00:00"
    for words in ("show --help", "diff --help", "rewind --help"):
        shown = " ".join(run(*words.split(), env={"COLUMNS": "50"}).out.split())
        assert "happened later" in shown
        assert "--recorded" in shown


def test_rewind_says_which_message_it_found(run):
    for words, found in (
        ("--to m3", "entry 4, from 2026-01-01 11:03:00 UTC"),
        ("--to 2026-01-01T11:02:30", "entry 3, from 2026-01-01 11:02:00 UTC"),
        (f"--ts {NOON - 59 * MINUTE}", "entry 2, from 2026-01-01 11:01:00 UTC"),
    ):
        done = run("rewind", "parser", *words.split())
        assert (done.code, done.err) == (0, "")
        assert found in done.out
    answer = run("rewind", "parser", "--to", "6", "--json").document
    assert (answer["target"], answer["target_time"]) == (None, None)
    answer = run("rewind", "quiet", "--to", "now", "--json").document
    assert (answer["changed"], answer["target"]) == (False, 1)
    assert "from 2026-01-01" in run("rewind", "quiet", "--to", "now").out


def test_errors_of_times_use_local_time(run):
    early = run("rewind", "parser", "--to", "2026-01-01 10:00")
    words = ("as early as 2026-01-01 10:00:00 UTC", "entry 2, of 2026-01-01 11:01:00 UTC")
    refused(early, Code.NOT_FOUND, *words)
    assert str(NOON)[:6] not in early.err
    exactly = run("rewind", "parser", "--ts", str(NOON - 3_599_750))
    near = f"entry 2, of {NOON - 59 * MINUTE} ms (2026-01-01 11:01:00 UTC)"
    refused(exactly, Code.NOT_FOUND, "(2026-01-01 11:00:00.250 UTC)", near, " and entry 3, of ")
    refused(run("rewind", "quiet", "--ts", "5"), Code.NOT_FOUND, "none has one")
    refused(run("rewind", "parser", "--ts", str(2**62)), Code.NOT_FOUND, f"{2**62} ms")
    refused(run("rewind", "empty", "--to", "now"), Code.NOT_FOUND, "no live message")


def test_mistyped_time_is_not_taken_for_a_message_id(run):
    done = run("rewind", "parser", "--to", "yesterdy")
    hint = "neither an entry's number, `last` nor a time, such as 2026-01-31"
    refused(done, Code.NOT_FOUND, hint, "id 'yesterdy'; the nearest are '", " and '")
    assert not {"[", "("} & {*done.err}
    refused(run("rewind", "quiet", "--to", "x"), Code.NOT_FOUND, "id 'x'. `roocontext audit`")
    asked = run("rewind", "parser", "--message-id", "yesterday")
    refused(asked, Code.NOT_FOUND, "No live message has the id 'yesterday'")
    assert "neither" not in asked.err
    for words in ("show parser --as-of m0", "diff parser m0", "why parser m0", "pin parser m0"):
        refused(run(*words.split()), Code.NOT_FOUND, "neither", "'2h ago'", "has the id 'm0'; the")


def test_suggested_message_ids_are_live(run):
    assert run("rewind", "parser", "--to", "m2").code == 0
    done = run("rewind", "parser", "--to", "m44")
    refused(done, Code.NOT_FOUND, "the nearest are 'm2' and 'm1'.")
    refused(run("rewind", "parser", "--to", "m4"), Code.NOT_FOUND, "entry 5, which is not live")


# Numbers


def test_numbers_of_no_entry_are_refused(run):
    for number in ("9" * 19, "9" * 30):
        for words in (["show", "parser", "--as-of", number], ["redact", "parser", number]):
            refused(run(*words), Code.USAGE, "too large for an entry's number")
    refused(run("show", "parser", "--as-of", "-3"), Code.USAGE, "counted from 1")
    for words in ("diff last -1", "redact last -1", "pin last -3", "diff last -2h"):
        done = run(*words.split())
        refused(done, Code.USAGE, "an entry's number", "counted from 1", "--help")
        assert "option" not in done.err
    refused(run("diff", "last", "-x"), Code.USAGE, "No such option: -x")
    refused(run("rewind", "empty", "--to", "5"), Code.NOT_FOUND, "has no entry yet")
    refused(run("rewind", "parser", "--to", "50"), Code.NOT_FOUND, "holds 1 to 6")
    refused(run("fork", "parser", "--at", "50"), Code.NOT_FOUND, "holds 1 to 6")


def test_unknown_name_lists_the_known_ones(run):
    for words, known in (
        ("condense parser --policy x", "default, gemini"),
        ("condense parser --summariser x", "anthropic, extractive"),
        ("preview parser x --limit 900", "'manage', 'condense', 'truncate'"),
        ("append parser x --role x", "user, assistant"),
        ("append parser x --format x", "anthropic, bedrock-converse, gemini, langchain, openai"),
    ):
        done = run(*words.split())
        refused(done, Code.USAGE, known)
        assert not {"(", "[", "{"} & {*done.err}


@pytest.mark.parametrize(
    ("package", "words", "extra"),
    [
        ("psycopg", "sessions --db postgresql://nobody@localhost/none", "roocontext[postgres]"),
        ("anthropic", "condense parser --summariser anthropic", "roocontext[anthropic]"),
        ("mcp", "mcp", "roocontext[mcp]"),
        ("starlette", "serve", "roocontext[web]"),
    ],
)
def test_missing_extra_is_named(package, words, extra, tmp_path):
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.create("parser").append("user", "Hello")
    code = f"import sys; sys.modules[{package!r}] = None; from roocontext.cli import main; main()"
    command = [sys.executable, "-c", code, *words.split()]
    done = ran(*command, folder=tmp_path, ROOCONTEXT_DB=str(path))
    assert (done.code, done.out) == (Code.USAGE, "")
    assert done.err.endswith(f"Install the extra: pip install '{extra}'.\n")


def test_help_names_what_an_option_takes():
    def of(group: Any) -> Any:
        for command in group.commands.values():
            yield from of(command) if hasattr(command, "commands") else [command]

    for command in of(commands()):
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.is_flag:
                assert parameter.metavar, (command.name, parameter.name)
            assert parameter.help, (command.name, parameter.name)


@pytest.mark.parametrize("command", ["condense", "truncate", "clear", "preview"])
def test_unknown_window_has_to_be_given(command, run):
    refused(run(command, "quiet"), Code.USAGE, "names no model", "--model", "--limit")
    unknown = ("The model 'sonnet' is not known", "claude-sonnet-4", "--limit")
    refused(run(command, "quiet", "--model", "sonnet"), Code.USAGE, *unknown)
    refused(run(command, "quiet", env={"ROOCONTEXT_MODEL": "sonnet"}), Code.USAGE, *unknown)
    refused(run(command, "quiet", "--model", "sonnet", "--policy", "gemini"), Code.USAGE, *unknown)
    given = ("--model", "sonnet", "--limit", "9000")
    assert run(command, "quiet", *given).code in (Code.DONE, Code.NO)
    known = {"SONNET_MAX_CONTEXT_TOKENS": "9000"}
    assert run(command, "quiet", "--model", "sonnet", env=known).code in (Code.DONE, Code.NO)


@pytest.mark.parametrize("command", ["condense", "truncate", "clear", "preview"])
def test_window_that_a_provider_has_named_is_known(command, run, database):
    refusal = Exception("prompt is too long: 10000 tokens > 9000 maximum")
    with Store.open(database) as store, pytest.raises(RecoveryExhausted):
        ContextManager("sonnet").recover(store.session("quiet"), refusal)
    assert run(command, "quiet", "--model", "sonnet").code in (Code.DONE, Code.NO)


@pytest.mark.parametrize("words", ["show quiet", "usage quiet", "sessions"])
def test_reading_command_refuses_an_unknown_model(words, run):
    done = run(*words.split(), "--model", "gpt4o")
    refused(done, Code.USAGE, "The model 'gpt4o' is not known", "gpt-4o")
    assert "--limit" not in done.err


# What changes nothing


def test_repeated_pin_title_or_metadata_writes_nothing(run):
    def last() -> int:
        return int(run("head", "parser", "--json").document["seq"])

    before = last()
    for words in ("pin parser --remove 3", "title parser mended"):
        assert "Nothing changed" in run(*words.split()).out
    assert last() == before
    for words, changed, pins in (
        ("3 4", True, [3, 4]),
        ("4 3", False, [3, 4]),
        ("", None, [3, 4]),
        ("3 5", True, [3, 4, 5]),
        ("--remove 3", True, [4, 5]),
    ):
        answer = run("pin", "parser", *words.split(), "--json").document
        assert (answer["changed"], answer["pins"]) == (changed, pins)
    assert last() == before + 4
    assert run("title", "parser", "another", "--json").document["changed"] is True
    for words in ("pin parser", "title parser"):
        assert "Nothing changed" not in run(*words.split()).out


def nested(levels: int) -> Any:
    """A value of lists and objects, this many levels deep."""
    value: Any = 1
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


@pytest.mark.parametrize("database", ["file"], indirect=True)
def test_contents_as_deep_as_the_log_allows_are_shown(database, run):
    deep = MAX_DEPTH - 2  # there are two more levels around each
    results: Any = "inner"
    for _ in range(MAX_DEPTH // 2):
        results = [{"type": "tool_result", "tool_use_id": "t", "content": results}]
    with Store.open(database) as store:
        chat = store.create("deep", metadata=nested(deep))
        chat.append("assistant", [{"type": "odd", "v": nested(deep)}], usage=nested(deep))
        chat.append("user", results)
    for words in ("show deep", "audit deep", "audit deep --full", "diff deep 0", "usage deep"):
        assert run(*words.split()).code == 0, words
        assert run(*words.split(), "--json").code == 0, words
    assert run("sessions", "--json").code == 0
    shown = run("show", "deep", "--json").document["messages"]
    assert [message["content"] for message in shown] == [
        [{"type": "odd", "v": nested(deep)}],
        results,
    ]
