"""The command line as a person has it: in a terminal, through a pager, in pipes, with completion.

What depends on how a process starts or ends is tried with the console script itself.
"""

import _thread
import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, redirect_stdout
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.cli.app import run
from roocontext.cli.exit_codes import Code
from support import showcase
from support.cli_process import CommandLines, ran
from support.empty_files import empty_file
from support.terminal import END, Terminal, plain

SCRIPT = Path(sys.executable).with_name("roocontext")


@pytest.fixture
def terminal(tmp_path: Path, command_line: CommandLines) -> Iterator[Callable[..., Terminal]]:
    """Opens a terminal of so many columns, with these variables, on the test's store."""
    with ExitStack() as opened:

        def make(columns: int = 80, **env: str) -> Terminal:
            run = command_line(folder=tmp_path)
            run.env |= env
            return opened.enter_context(closing(Terminal(run, columns)))

        yield make


def test_whole_session_by_commands_alone(tmp_path, terminal):
    data = {"XDG_DATA_HOME": str(tmp_path / "data"), "PAGER": "sed s/^/|/"}
    (tmp_path / "long.txt").write_text("The parser drops the last token. " * 40)
    run = terminal(**data)
    run("append", "new", "--id", "parser", "--title", "mend it", "--file", "long.txt")
    assert run.code == 0
    assert (tmp_path / "data" / "roocontext").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "roocontext" / "roocontext.db").stat().st_mode & 0o777 == 0o600
    assert "There is no content" in run("append", "last")
    assert run.code == Code.USAGE
    run("append", "last", "--role", "assistant", "The loop ends one step too early. " * 9)
    run("append", "last", "Then mend it, please.")
    assert re.search(r"^.parser +1 min .* 3  mend it$", plain(run("sessions")), re.MULTILINE)
    assert "Replaced " in plain(run("condense", "parser", "--limit", "200"))
    audit = plain(run("audit", "parser"))
    assert all(line.startswith("|") for line in audit.splitlines())
    assert "in summary 5" in audit
    assert "Rewound parser to entry 3." in plain(run("rewind", "parser", "--to", "3"))
    assert "Undid rewind 6" in plain(run("undo", "parser"))
    for answer in ("n", END):
        assert "Nothing was changed." in plain(run("redact", "parser", "2", answer=answer))
        assert run.code == Code.NO
    assert "Erased the content" in plain(run("redact", "parser", "2", answer="y"))
    assert "ok  parser" in plain(run("verify"))
    purged = plain(run("purge", "parser", answer="y"))
    assert "  Title: mend it\n  First prompt: Then mend it, please.\n" in purged
    assert "This would delete the content of parser: " in purged
    assert "\nDelete it for good? [y/N]" in purged
    assert "Deleted the content of parser" in purged
    assert "was purged" in plain(run("show", "parser"))
    assert run.code == Code.NOT_FOUND


def test_colours_are_for_terminals_that_want_them(tmp_path, terminal):
    showcase.build(str(tmp_path / "store.db"))
    run = terminal(columns=60, ROOCONTEXT_DB="store.db", PAGER="")
    coloured = run("show", "parser")
    assert "\x1b[36muser\x1b[0m" in coloured
    assert run("show", "parser", NO_COLOR="1") == plain(coloured)
    assert max(map(len, plain(coloured).splitlines())) <= 60
    assert "\x1b" not in run("sessions", TERM="dumb")


def test_pager_that_is_left_early_is_no_error(long_url, terminal):
    run = terminal(ROOCONTEXT_DB=long_url, PAGER="head -n 3")
    shown = plain(run("audit", "long"))
    assert (run.code, len(shown.splitlines())) == (0, 3)
    assert plain(run("audit", "long", "--no-pager")).count(" Message ") == 3_000


@pytest.mark.parametrize("words", ["show parser", "audit parser"])
def test_pager_opens_at_the_newest_end(words, tmp_path, terminal):
    showcase.build(str(tmp_path / "store.db"))
    pager = tmp_path / "less"
    pager.write_text('#!/bin/sh\necho "$@"\ncat > /dev/null\n')
    pager.chmod(0o755)
    run = terminal(ROOCONTEXT_DB="store.db", PAGER=str(pager))
    assert run(*words.split()) == "-R +G\n"
    assert run(*words.split(), "--reverse") == "-R\n"
    assert run("tree", "parser") == "-R\n"
    assert run("tree", "parser", PAGER=f"{pager} -i", LESS="-i") == "-i -R\n"


@pytest.fixture(scope="module")
def long_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with a session of 3,000 messages."""
    url = str(tmp_path_factory.mktemp("long") / "store.db")
    with Store.open(url, durability="normal") as store:
        chat = store.create("long")
        chat.append_many([{"role": "user", "content": f"Message {n}"} for n in range(3_000)])
    return url


@pytest.mark.parametrize(
    "words",
    ["audit long", "audit long --json", "show long --json", "export long", "stats", "--help"],
)
def test_closed_pipe_is_no_error(words, long_url, tmp_path):
    with subprocess.Popen(
        [str(SCRIPT), *words.split()],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ROOCONTEXT_DB": long_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        if "long" in words:
            assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("closed", ["stderr", "stdout and stderr"])
def test_closed_pipe_does_not_end_a_write(closed, tmp_path):
    with Store.open(str(tmp_path / "store.db")) as store:
        chat = store.create("one")
        for number in range(20):
            chat.append("user" if number % 2 == 0 else "assistant", f"{number}. word " * 200)
        for _ in range(2):  # reports so far from the estimates that condense warns of them
            chat.append("assistant", "ok", model="gpt-4o", usage={"prompt_tokens": 5})
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [str(SCRIPT), "condense", "one", "--limit", "4000"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "ROOCONTEXT_DB": "store.db"},
            stdout=writer if "stdout" in closed else subprocess.PIPE,
            stderr=writer,
            check=False,
            timeout=60,
        )
        os.close(writer)
        assert done.returncode == 0
        assert chat.head_seq() == 23


def test_python_m_and_the_script_are_the_same(tmp_path):
    one, other = (
        ran(*command, folder=tmp_path, COLUMNS="80")
        for command in ([SCRIPT], [sys.executable, "-m", "roocontext"])
    )
    assert one == other
    assert (one.code, one.err) == (0, "")
    assert "roocontext rewind SESSION" in one.out


def test_interpreter_ends_without_looking_for_garbage(tmp_path):
    code = (
        "import atexit, gc; from roocontext.cli import main;"
        "atexit.register(lambda: print(gc.get_freeze_count() > 1_000, gc.get_threshold()[0]));"
        "main(['--version'])"
    )
    done = ran(sys.executable, "-c", code, folder=tmp_path)
    assert (done.code, done.out.splitlines()[1]) == (0, "True 50000")


@pytest.mark.parametrize(
    ("redirected", "code", "told"),
    [
        (">&-", 0, ""),
        (">/dev/full", Code.DATABASE, "No space left on device"),
        ("--nobody 2>&-", Code.USAGE, ""),
        ("<&-", 0, ""),
    ],
)
def test_closed_or_full_standard_files_are_reported(redirected, code, told, shown_url, tmp_path):
    done = ran("sh", "-c", f"{SCRIPT} sessions --db {shown_url} {redirected}", folder=tmp_path)
    assert (done.code, told in done.err) == (code, True)
    assert done.err.count("\n") == bool(told)


def test_unwritable_output_does_not_report_a_failed_write(tmp_path, command_line):
    untold = (
        "roocontext: The change was made, but the output could not be written: No space left on"
        " device.\n"
    )
    run, told = command_line("store.db", folder=tmp_path), tmp_path / "told.txt"

    def full(words: str) -> int:
        told.write_text("")
        run.begin(words.split(), ["/dev/null", "/dev/full", str(told)])
        return run.ended()

    empty_file(tmp_path / "store.db")
    assert run("append", "new", "Hello", "--id", "one").code == 0
    writing = ("append last again --json", "title last T", "pin last 1", "backup copy.db")
    for words in (*writing, "export last -o one.jsonl"):
        assert (full(words), told.read_text()) == (Code.UNCERTAIN, untold)
    for words in ("title last", "pin last", "redact last 1 --dry-run", "show last"):
        assert full(words) == Code.DATABASE
    again = f"{SCRIPT} append last again --db store.db >/dev/full"
    assert ran("sh", "-c", again, folder=tmp_path) == (Code.UNCERTAIN, "", untold)
    with Store.open(str(tmp_path / "store.db")) as store:
        chat = store.session("one")
        assert (chat.stats().messages, chat.info().title, chat.pins()) == (3, "T", {1})


def test_arguments_that_are_no_text_are_refused(tmp_path, command_line):
    run = command_line(str(tmp_path / "store.db"))
    for words in (("append", "new", "\udcff"), ("show", "x\udc80"), ("stats", "--db", "\udcfe.db")):
        done = run(*words)
        assert (done.code, done.out) == (Code.USAGE, "")
        assert done.err == f"roocontext: Argument {len(words)} of `roocontext` is not UTF-8.\n"
    done = run("stats", env={"ROOCONTEXT_MODEL": "\udcff"})
    assert (done.code, done.err) == (Code.USAGE, "roocontext: ROOCONTEXT_MODEL is not UTF-8.\n")
    empty_file(tmp_path / "store.db")
    assert run("append", "new", "é 漢 \U0001f600").code == 0


def test_common_options_may_stand_before_the_command(tmp_path, command_line):
    for name in ("one", "two"):
        with Store.open(str(tmp_path / f"{name}.db")) as store:
            store.create(name)
    run = command_line("one.db", folder=tmp_path)

    def found(*words: str) -> str:
        (row,) = run(*words).document["sessions"]
        return str(row["session_id"])

    assert found("sessions", "--json") == "one"
    assert found("--db", "two.db", "sessions", "--json") == "two"
    assert found("--json", "--db", "two.db", "sessions") == "two"
    assert found("--db", "two.db", "--json", "sessions", "--db", "one.db") == "one"
    assert run("--db", "two.db", "--json", "db", "current").document["current"]
    assert "Traceback" in run("--debug", "show", "none").err
    assert run("--db", "two.db", "demo").code == Code.USAGE
    shell = {"_ROOCONTEXT_COMPLETE": "complete_bash", "COMP_CWORD": "4"}
    assert run(env={**shell, "COMP_WORDS": "roocontext\n--db\ntwo.db\nshow\ntw"}).out == "two\n"
    assert "--db, --owner, --json, --utc and --debug may be given before" in run("--help").out


def test_assumed_window_is_reported(tmp_path, command_line):
    with Store.open(str(tmp_path / "store.db")) as store:
        chat = store.create("one")
        chat.append("user", "Hello")
        chat.append("assistant", "Hello", model="nonsense", usage={"input_tokens": 1})
    run = command_line(str(tmp_path / "store.db"))
    told = "of 128,000 tokens (default; nonsense is not known), 0 %"
    assert " 1 tok " in run("sessions").out
    assert "~0 %" in run("sessions", "--model", "gpt-4o").out
    for words in ("show last", "usage last"):
        assert told in " ".join(run(*words.split(), env={"COLUMNS": "150"}).out.split())
        assert "default;" not in run(*words.split(), "--model", "gpt-4o").out
    limit = {"NONSENSE_MAX_CONTEXT_TOKENS": "4096"}
    assert "default;" not in run("show", "last", env=limit).out
    gauge = run("show", "last", "--json").document["context"]
    assert (gauge["limit"], gauge["limit_source"]) == (128_000, "default")


@pytest.mark.parametrize("columns", [56, 80, 120])
def test_help_fits_the_terminal(columns, command_line):
    run = command_line()
    for words in ("", "preview", "append", "pin", "show", "db", "db upgrade", "diff", "title"):
        shown = run(*words.split(), "--help", env={"COLUMNS": str(columns)}).out
        assert max(map(len, shown.splitlines())) <= columns
        assert not re.search(r"<bool>|\[\[|<int|…|\w\.\.\.", shown)
        assert "Show this message and exit." in " ".join(shown.split())


def test_version_is_printed(command_line):
    from importlib.metadata import version  # noqa: PLC0415

    assert command_line()("--version").out == f"roocontext {version('roocontext')}\n"


def test_asking_for_help_loads_no_database(tmp_path):
    heavy = "sqlalchemy alembic psycopg tiktoken anthropic mcp".split()  # noqa: SIM905 - a list of words
    code = (
        "import sys; from roocontext.cli.app import run; run(['--help']);"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    done = ran(sys.executable, "-c", code, folder=tmp_path)
    assert (done.code, done.err) == (0, "[]\n")


# In pipes, whatever the encoding


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_encoding_with_few_characters_escapes_the_others(encoding, shown_url, command_line):
    run = command_line(shown_url)
    for words in ("sessions", "show evil", "audit parser", "tree parser", "usage parser"):
        done = run(*words.split(), env={"PYTHONIOENCODING": encoding})
        assert (done.code, done.err) == (0, "")
        assert "\\u2026" not in done.out
        assert "\\u2192" not in done.out
    assert "..." in run("audit", "parser", env={"PYTHONIOENCODING": encoding}).out


def test_colours_in_a_pipe_are_there_when_asked_for(shown_url, command_line):
    run = command_line(shown_url)
    assert "\x1b" not in run("show", "parser", env={"TERM": "xterm-256color"}).out
    forced = {"TERM": "xterm-256color", "FORCE_COLOR": "1"}
    assert "\x1b[36muser" in run("show", "parser", env=forced).out


def test_lines_for_a_program_are_neither_wrapped_nor_cut(tmp_path, command_line):
    url = empty_file(tmp_path / "store.db")
    name, text = f"codex:{'0123456789' * 6}", "many words " * 30
    with Store.open(url) as store:
        store.create(name, title=text.strip()).append("user", text.strip())
    run = command_line(url)
    piped = {"COLUMNS": ""}
    assert f"    {text.strip()}\n" in run("show", "last", env=piped).out
    for command in ("sessions", "audit last", "search many", "stats last"):
        assert name in run(*command.split(), env=piped).out
    assert text.strip() in run("sessions", env=piped).out
    assert max(map(len, run("show", "last").out.splitlines())) <= 80


def test_command_leaves_the_process_as_it_was(tmp_path, caplog, capsys):
    """Its errors are lines on stderr, and the library's warnings reach the program afterwards."""
    database = empty_file(tmp_path / "store.db")
    with Store.open(database) as store, redirect_stdout(io.StringIO()) as shown:
        chat = store.create()
        chat.append("user", "Find the needle.")
        assert run(["search", "needle", "--session", chat.id, "--db", database]) == 0
        assert run(["uncover", chat.id, "1", "--db", database]) == 4
        assert run(["nonsense"]) == 2
        chat.append("user", "And the next one.")
    assert "Find the needle." in shown.getvalue()
    assert capsys.readouterr().err.count("roocontext: ") == 2
    logging.getLogger("roocontext.context").warning("It is full.")
    assert caplog.messages == ["It is full."]


class InterruptedReader(io.StringIO):
    """Takes output, and interrupts the process once it has read a text."""

    def write(self, text: str) -> int:
        if "Follow me." in text:
            _thread.interrupt_main()
        return super().write(text)


def test_interrupt_in_a_called_command_is_raised(tmp_path):
    database = empty_file(tmp_path / "store.db")
    with Store.open(database) as store:
        chat = store.create()
        chat.append("user", "Follow me.")
        with redirect_stdout(InterruptedReader()), pytest.raises(KeyboardInterrupt):
            run(["audit", chat.id, "--follow", "--db", database])
        chat.append("user", "And the next one.")
        assert chat.stats().messages == 2
