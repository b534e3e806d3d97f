"""Completion: what each shell is offered when Tab is pressed, and what then stands in the line."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.cli.completion import join_words
from support import showcase
from support.cli_process import CommandLine, CommandLines

SUMMARISERS = ["anthropic", "extractive", "gemini", "openai", "openai-responses"]
FORMATS = [
    *("anthropic", "bedrock-converse", "gemini", "langchain"),
    *("openai", "openai-responses", "pydantic-ai"),
]
AIMS = ["manage", "condense", "truncate", "clear"]
SCRIPT = Path(sys.executable).with_name("roocontext")

PLAIN = ["Plain_2", "plain-1.x", "codex:019d-a", "codex:019d-b", "cline:177"]
REFUSED = [
    *("$(reboot)", "a;b", "a`b`", "it's", 'say "x"', "a\\b", "a|b", "a&b"),
    *("<a>", "a*", "a[1]", "a!"),
    *("-dash", "a  b", " a", "a\nb", "a\x1b[31m", "a\u202eb", "a\u3164b", "a\u00a0b"),
    *("x/y@host#1", "my session", "café two", "日本", "~home", "#hash", "=lit"),
]


def completed(run: CommandLine, words: str, shell: str = "bash", **env: str) -> list[str]:
    """The lines that a shell is answered for words between spaces, the last of them begun."""
    parts = words.split(" ")
    asked = {
        "_ROOCONTEXT_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "\n".join(parts),
        "COMP_CWORD": str(len(parts) - 1),
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "_TYPER_COMPLETE_WORD_TO_COMPLETE": parts[-1],
    }
    done = run(env={**asked, **env})
    assert (done.code, done.err) == (0, "")
    return [line for line in done.out.splitlines() if line]


@pytest.fixture
def many(tmp_path: Path, command_line: CommandLines) -> CommandLine:
    """Commands on a store whose ids are of all kinds."""
    path = str(tmp_path / "store.db")
    with Store.open(path) as store:
        title = 'The "title": $(reboot) \\$(reboot) [red]of[/red]\n it\x1b[31m'
        for name in [*PLAIN, *REFUSED]:
            store.create(name, title=title)
    return command_line(path, folder=tmp_path)


def test_commands_options_and_sessions_are_completed(database, command_line):
    showcase.build(database)
    run = command_line(database)
    assert completed(run, "roocontext re") == ["rewind", "redact"]
    family = "current upgrade distribute grants secure history"
    assert completed(run, "roocontext db ") == family.split()
    assert completed(run, "roocontext verify --re") == ["--rebuild"]
    assert completed(run, "roocontext show la") == ["last"]
    for command in ("show", "append", "verify", "stats", "purge"):
        assert completed(run, f"roocontext {command} pars") == ["parser", "parsley"], command
    everything = completed(run, "roocontext audit ")
    assert set(everything) == {"last", "parser", "parsley", "build", "empty", "foreign"}
    assert completed(run, "roocontext append ne") == ["new"]


def test_options_are_offered_to_a_word_that_begins_like_one(many):
    for words in ("show ", "show plain-1.x ", "append plain-1.x ", "rewind plain-1.x --before "):
        assert not [one for one in completed(many, f"roocontext {words}") if one.startswith("-")]
    assert "--as-of" in completed(many, "roocontext show plain-1.x -")


def test_completion_without_a_database_is_silent(tmp_path, command_line):
    run = command_line(str(tmp_path / "none.db"))
    assert completed(run, "roocontext show x") == []
    assert list(tmp_path.glob("*.db")) == []
    showcase.build(str(tmp_path / "other.db"))
    assert completed(run, f"roocontext show --db {tmp_path}/other.db fore") == ["foreign"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_gets_its_script(shell, command_line):
    done = command_line()(env={"_ROOCONTEXT_COMPLETE": f"source_{shell}"})
    assert (done.code, done.err) == (0, "")
    assert "_ROOCONTEXT_COMPLETE" in done.out


# Values


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("condense last --policy gem", ["gemini", "gemini-upstream"]),
        ("condense last --summariser ", SUMMARISERS),
        ("preview last ", AIMS),
        ("append last x --format ", FORMATS),
        ("append last x --role ", ["user", "assistant"]),
        ("append last x --format gemini --role ", ["user", "model", "function", "system"]),
        ("append last x --model gpt-4o", ["gpt-4o"]),
        ("show last --model claude-opus-4-5", ["claude-opus-4-5"]),
    ],
)
def test_values_of_options_are_completed(words, offered, many):
    found = completed(many, f"roocontext {words}")
    assert [one for one in found if one in offered] == offered
    if words.endswith(" "):
        assert found == offered


def test_every_offered_name_is_accepted(many):
    assert many("append", "plain-1.x", "hello").code == 0
    for policy in completed(many, "roocontext preview last --policy "):
        assert many("preview", "plain-1.x", "--limit", "900", "--policy", policy).code == 0
    for aim in AIMS:
        assert many("preview", "plain-1.x", aim, "--limit", "900").code == 0
    for role in completed(many, "roocontext append last x --role "):
        assert many("append", "plain-1.x", "x", "--role", role).code == 0


# What reaches a shell


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_only_ids_that_are_words_are_offered(shell, encoding, many):
    lines = completed(many, "roocontext show ", shell, PYTHONIOENCODING=encoding)
    offered = "\n".join(lines).removeprefix("_arguments '*: :((")
    for name in REFUSED:
        assert name not in offered
    assert not {*"$`;|&<>*\x1b\u202e"} & {*offered}
    for name in ("last", *PLAIN):
        assert name in offered.replace("\\\\:", ":")  # as zsh wants it


def test_titles_are_shown_by_shells_that_can(many):
    title = "The title reboot reboot red of /red it 31m"
    # The list closes after its last id, and sessions of the same moment come in any order.
    zsh = [line.removesuffix("))'") for line in completed(many, "roocontext show ", "zsh")]
    assert f'"plain-1.x":"{title}"' in zsh
    fish = completed(many, "roocontext show ", "fish")
    assert f"plain-1.x\t{title}" in fish
    assert "last\tthe one with the newest entry" in fish


# bash, with the key itself


PLAIN_TERMINAL = {"TERM": "dumb", "LC_ALL": "C.UTF-8"}


class Bash:
    """An interactive bash in a terminal, with the completion that the program gives it."""

    def __init__(self, folder: Path, script: str) -> None:
        (folder / "completion.bash").write_text(script)
        path = f"{SCRIPT.parent}:{os.environ['PATH']}"
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env={"PATH": path, "HOME": str(folder), "ROOCONTEXT_DB": "store.db", **PLAIN_TERMINAL},
            start_new_session=True,
        )
        os.close(slave)
        self._type(". ./completion.bash; bind 'set enable-bracketed-paste off'; printf '[%s]' on\n")
        self._read("[on]")

    def tab(self, line: str) -> list[str]:
        """The words of a line after Tab was pressed at its end."""
        self._type(f"{line}\t\x01printf '[%s]' \x05 END\n")
        return self._read("[END]").rpartition("[roocontext]")[2].removesuffix("[END]").split("][")

    def close(self) -> None:
        self._process.kill()  # an interactive bash heeds nothing less
        self._process.wait()
        os.close(self._master)

    def _type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def _read(self, mark: str) -> str:
        shown = b""
        while mark.encode() not in shown:
            assert select.select([self._master], [], [], 60)[0], shown
            shown += os.read(self._master, 65_536)
        return shown.decode().partition(mark)[0] + mark


@pytest.fixture
def bash(many: CommandLine, tmp_path: Path) -> Iterator[Bash]:
    """A bash in the folder of that store."""
    shell = Bash(tmp_path, many(env={"_ROOCONTEXT_COMPLETE": "source_bash"}).out)
    yield shell
    shell.close()


def test_tab_completes_the_line_in_bash(bash):
    for typed, words in (
        ("show pl", "show plain-1.x"),
        ("show la", "show last"),
        ("show pla", "show plain-1.x"),
        ("show cod", "show codex:019d-"),
        ("show codex:", "show codex:019d-"),
        ("show codex:0", "show codex:019d-"),
        ("show codex:019d-a", "show codex:019d-a"),
        ("show cli", "show cline:177"),
        ("show cline:1", "show cline:177"),
        ("show 17", "show 177"),
        ("show 019d-", "show 019d-"),
        ("diff cline:1", "diff cline:177"),
        ("search x --session cline:1", "search x --session cline:177"),
        ("condense last --policy hyb", "condense last --policy hybrid"),
        ("show --db store.db pl", "show --db store.db plain-1.x"),
    ):
        begun = bash.tab(f"roocontext {typed}")
        assert " ".join(word for word in begun if word).strip("[]") == words, typed


def test_words_that_bash_splits_at_colons_are_joined():
    for words, place, joined, begun in (
        (["roocontext", "show", "codex", ":", "01"], 4, ["roocontext", "show", "01"], "codex:"),
        (["roocontext", "show", "codex", ":"], 3, ["roocontext", "show", ""], "codex:"),
        (["roocontext", "show", "codex", ":", ""], 4, ["roocontext", "show", "codex:", ""], None),
        (["roocontext", "show", "codex:01"], 2, ["roocontext", "show", "codex:01"], None),
        (["x", "--db", "pg", ":", "//h/d", "sh"], 5, ["x", "--db", "pg://h/d", "sh"], None),
        (["x", "a", ":", "b", "::", "c"], 5, ["x", "c"], "a:b::"),
    ):  # fmt: skip
        environ = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(place)}
        join_words(environ)
        assert environ["COMP_WORDS"].split("\n") == joined
        assert environ["COMP_CWORD"] == str(len(joined) - 1)
        assert environ.get("_ROOCONTEXT_BEGINNING") == begun
