"""The demo as a whole: what it tells has happened, and its screens are as they were.

`python tests/acceptance/test_cli_demo.py` writes its golden screens anew.
"""

import re
import shlex
import tempfile
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.cli.exit_codes import Code
from roocontext.log.entries import Kind
from roocontext.tokens import counter_for
from support.cli_process import CommandLine, preloaded
from support.examples import everyday

GOLDEN = Path(__file__).with_name("golden_cli")
MODES = ("40", "80", "json")


def played(run: CommandLine, mode: str) -> str:
    """The demo's screen or document, without what is another number at each run."""
    done = run("demo", f"demo-{mode}", *(["--json"] if mode == "json" else []), env=WIDTHS[mode])
    assert (done.code, done.err) == (0, "")
    return re.sub("[0-9]", "#", re.sub("[0-9a-f]{16,}", "#", done.out))


WIDTHS = {"40": {"COLUMNS": "40"}, "80": {"COLUMNS": "80"}, "json": {}}


@pytest.mark.parametrize("mode", everyday(("80", "json"), MODES))
def test_demo_screen_matches_the_golden_one(mode, tmp_path, command_line):
    golden = (GOLDEN / f"demo-{mode}.txt").read_text()
    assert played(command_line(folder=tmp_path), mode) == golden


def test_demo_writes_what_it_prints(tmp_path, command_line):
    run = command_line(folder=tmp_path)
    done = run("demo", "here and there")
    assert (done.code, done.err) == (0, "")
    commands = [line.strip() for line in done.out.splitlines() if line.startswith("  roocontext ")]
    assert len(commands) == 4
    (exported,) = [line for line in done.out.splitlines() if line.startswith("  export ")]
    name, _, place = shlex.split(exported)[1].partition("=")
    for command in commands:
        assert run(*shlex.split(command)[1:], env={name: place}).code == 0
    project = tmp_path / "here and there" / "project"
    assert "range(len(words))" in (project / "parser.py").read_text()
    assert (project / "GUIDE.md").exists()


def test_demo_as_json_has_its_numbers(tmp_path, command_line):
    done = command_line(folder=tmp_path)("demo", "a" * 60, "--json")
    answer = done.document
    happened = ["cleared", "condensed", "truncated", "rewound", "undone"]
    assert [*dict.fromkeys(answer["did"])] == happened
    assert answer["ok"]
    assert answer["context"]["tokens"] < answer["context"]["limit"]
    with Store.open(tmp_path / answer["database"]) as store:
        chat = store.session(answer["session_id"])
        assert chat.verify().ok
        before = next(one.seq for one in chat.audit() if one.kind is Kind.SUMMARY) - 1
        rewind = next(one for one in chat.audit() if one.kind is Kind.REWIND)
        assert rewind.entry.details["to"] == before
        assert chat.view(as_of=rewind.seq).messages == chat.view(as_of=before).messages
        assert chat.view(as_of=rewind.seq - 1).messages == chat.view().messages
        said = str([message.content for message in chat.view(as_of=before).messages])
        assert "exit code 0" in said
        system = answer["context"]["tokens"] - chat.tokens(counter_for(""))
    told = command_line(folder=tmp_path)("demo", "again").out
    last = f"~{answer['context']['tokens']:,}"
    assert len(re.findall(rf"{last} of 2,400 tokens", told)) == 3
    assert f"→ {last} tokens" in told  # what the truncation left
    assert f"~{answer['context']['tokens'] - system:,} of them are the messages" in told
    assert 0 < system < 100


def test_demo_in_an_unusable_folder_says_so(tmp_path, command_line):
    (tmp_path / "taken").write_text("")
    done = command_line(folder=tmp_path)("demo", "taken")
    assert (done.code, done.out) == (Code.NOT_FOUND, "")
    assert done.err.startswith("roocontext: The folder 'taken' cannot be used")


if __name__ == "__main__":
    for mode in MODES:
        with preloaded() as process, tempfile.TemporaryDirectory() as folder:
            run = CommandLine(process, Path(folder), None)
            (GOLDEN / f"demo-{mode}.txt").write_text(played(run, mode))
