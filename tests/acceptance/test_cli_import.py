"""Sessions of other agents in, and any session out again, on the command line."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from roocontext import NewMessage, Plan, Store
from roocontext.cli.exit_codes import Code
from support.transcripts import Transcript, use


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A transcript with a sub-agent, a task of Roo Code's, and files that hold no session."""
    file = Transcript(tmp_path / "home" / "-work" / "s-1.jsonl")
    file.user("Fix the parser")
    file.reply("m1", use("t1"), stop="tool_use")
    file.result("t1")
    agent = Transcript(file.path.parent / "s-1" / "subagents" / "agent-a1.jsonl")
    agent.user("look", isSidechain=True, agentId="a1")
    task = tmp_path / "home" / "tasks" / "0190"
    task.mkdir(parents=True)
    rows = [{"role": "user", "content": "hi", "ts": 5}]
    (task / "api_conversation_history.json").write_text(json.dumps(rows))
    (tmp_path / "home" / "empty.jsonl").write_text("")
    (tmp_path / "home" / "other.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "home" / "loop").symlink_to(tmp_path / "home")
    return tmp_path / "home"


def test_import_of_a_folder_takes_every_session(run, folder):
    dry = run("import", str(folder), "--dry-run", "--json")
    assert (dry.code, len(dry.document["sessions"])) == (Code.NO, 3)
    assert run("sessions", "--json").document["sessions"] == []
    done = run("import", str(folder), "--json")
    assert done.code == Code.NO  # one file is in no known format
    found = {one["session_id"]: one for one in done.document["sessions"]}
    assert {name: one["status"] for name, one in found.items()} == dict.fromkeys(
        ["claude-code:s-1", "claude-code:s-1/a1", "roo-code:0190"], "created"
    )
    assert found["claude-code:s-1"]["messages"] == 3
    skipped = {Path(one["path"]).name: one["is_problem"] for one in done.document["skipped"]}
    assert skipped == {"empty.jsonl": False, "other.jsonl": True}
    (folder / "other.jsonl").unlink()
    again = run("import", str(folder), "--json")
    assert (again.code, {one["status"] for one in again.document["sessions"]}) == (
        Code.DONE,
        {"unchanged"},
    )
    assert run("import", str(folder)).out.endswith("Imported 0 sessions, 3 unchanged.\n")
    only = run("import", str(folder), "--from", "roo-code", "--json").document
    assert [one["tool"] for one in only["sessions"]] == ["roo-code"]
    listed = run("sessions", "--where", "tool=claude-code", "--json").document
    assert len(json.dumps(listed)) > 10
    assert "claude-code:s-1" in json.dumps(listed)


def test_dry_run_needs_no_database(folder, command_line):
    run = command_line(str(folder / "none.db"))
    assert len(run("import", str(folder), "--dry-run", "--json").document["sessions"]) == 3
    assert not (folder / "none.db").exists()


def test_file_of_a_redacted_session_redacts_its_copies(tmp_path, command_line):
    here, there = (command_line(str(tmp_path / name)) for name in ("here.db", "there.db"))
    file = str(tmp_path / "one.jsonl")
    for run in (here, there):
        run("db", "upgrade")
    here("append", "new", "the secret", "--id", "one")
    here("export", "one", "-o", file)
    there("import", file)
    there("fork", "one")
    Path(file).unlink()
    here("redact", "one", "1", "--yes")
    here("export", "one", "-o", file)
    dry = there("import", file, "--dry-run", "--json").document["sessions"]
    assert "the secret" in there("search", "secret").out
    done = there("import", file, "--json").document["sessions"]
    assert dry == done
    assert (done[0]["status"], done[0]["redacted"]) == ("continued", 2)
    assert there("search", "secret", "--json").document["hits"] == []


def test_faulty_source_is_named(run, folder):
    (folder / "other.jsonl").unlink()
    file = folder / "-work" / "s-1.jsonl"
    file.write_text(file.read_text() + "nonsense\n")
    done = run("import", str(folder), env={"COLUMNS": "500"})
    assert done.code == Code.NO
    assert f"  {file}:4: " in done.out
    assert done.out.endswith("Imported 3 sessions, 0 unchanged.\n")
    for number in range(25):
        (folder / f"empty{number}.jsonl").touch()
        (folder / f"other{number}.jsonl").write_text("{}\n")
    again = run("import", str(folder), env={"COLUMNS": "500"})
    assert (again.out.count("it is empty."), again.out.count("format is not known.")) == (20, 25)
    assert again.out.endswith("Skipped 6 more files.\nImported 0 sessions, 3 unchanged.\n")
    os.mkfifo(folder / "pipe")
    for name, why in (("none", "there is no such file"), ("pipe", "it is not a regular file")):
        skipped = run("import", str(folder / name), env={"COLUMNS": "500"})
        assert skipped.out.startswith(f"Skipped {folder / name}: {why}.\n")
        assert skipped.code == Code.NO
    for words in ((), (str(folder), "--on-conflict", "x"), (str(folder), "--all")):
        assert run("import", *words).code == Code.USAGE
    assert run("import", "--from", "nobody").code == Code.USAGE
    assert run("import", "--from", "codex", "--all").code == Code.USAGE
    assert run("import", str(folder), "--from", "codec").code == Code.USAGE
    nothing = run("import", "--from", "codex", env={"HOME": str(folder), "CODEX_HOME": ""})
    assert nothing.code == Code.NOT_FOUND
    assert "codex has no sessions in its default locations" in nothing.err


def test_relative_path_is_the_same_source(run, folder):
    relative = os.path.relpath(folder / "-work", run.env["HOME"])  # where it runs
    run("import", relative)
    assert run("import", str(folder / "-work")).out == "Imported 0 sessions, 2 unchanged.\n"


def test_conflict_is_refused_or_forked(run, folder, database):
    file = folder / "-work" / "s-1.jsonl"
    run("import", str(file))
    with Store.open(database) as store:
        store.session("claude-code:s-1").append("user", "mine")
    transcript = Transcript(file)
    transcript.at, transcript.count = "u-3", 3
    transcript.user("theirs")
    refused = run("import", str(file), "--json")
    assert (refused.code, refused.document["sessions"][0]["status"]) == (Code.NO, "failed")
    forked = run("import", str(file), "--on-conflict", "fork", "--json")
    assert forked.document["sessions"][0]["session_id"] == "claude-code:s-1~2"


def story(database: str) -> None:
    with Store.open(database) as store:
        chat = store.create("one", title="The <b>parser</b>")
        chat.append_many(
            [NewMessage("user", "Why? ```` # x"), NewMessage("assistant", "So. " * 99)]
        )
        chat.commit(Plan.condense(chat.view(), [2, 3], "S"))
        chat.append("user", "Go on.")
        store.create("child", parent="one").append("user", "look")


def test_session_goes_out_and_comes_back(run, database, tmp_path, command_line):
    story(database)
    file = tmp_path / "one.jsonl"
    done = run("export", "one", "--family", "-o", str(file), "--json")
    assert (done.document["bytes"], done.document["files"]) == (file.stat().st_size, [str(file)])
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("export", "one", "-o", str(file)).code == Code.NOT_FOUND
    assert [one.name for one in tmp_path.iterdir() if "jsonl" in one.name] == ["one.jsonl"]
    other = command_line(str(tmp_path / "other.db"))
    restored = other("import", str(file), "--json").document
    assert [one["status"] for one in restored["sessions"]] == ["created", "created"]
    assert other("export", "one", "--family").out == file.read_text()
    assert other("verify").code == Code.DONE


def test_export_is_read_by_other_programs(run, database):
    story(database)
    for form, name in {"anthropic": "messages", "gemini": "contents", "openai": "messages"}.items():
        assert json.loads(run("export", "one", "--to", form).out)[name]
    page = run("export", "one", "--to", "markdown").out
    assert page.startswith("# The b parser /b\n")
    assert "`````text\nWhy? ```` # x\n`````" in page
    assert "hidden by entry 4" in page
    for words in (("--to", "nonsense"), ("--to", "gemini", "--family"), ("--to", "roo")):
        done = run("export", "one", *words)
        assert (done.code, done.out) == (Code.USAGE, "")


def test_transcripts_come_back(run, database, tmp_path, command_line):
    story(database)
    folder = tmp_path / "projects"
    done = run("export", "one", "--to", "claude-code", "--family", "-o", str(folder))
    assert (done.code, " and 1 more file, " in done.out) == (Code.DONE, True)
    imported = command_line(str(tmp_path / "other.db"))("import", str(folder), "--json").document
    assert [one["status"] for one in imported["sessions"]] == ["created", "created"]
    (file,) = folder.glob("*.jsonl")
    alone = run("export", "one", "--to", "claude-code")
    assert alone.out == file.read_text()
    # A folder that exists takes the file under the name that Claude Code wants.
    there = run("export", "one", "--to", "claude-code", "-o", str(tmp_path), "--json")
    assert there.document["files"] == [str(tmp_path / file.name)]


def test_html_export_is_a_page(run, database, tmp_path):
    story(database)
    page = run("export", "one", "--to", "html", "--family").out
    assert page.startswith("<!DOCTYPE html>")
    assert "The &lt;b&gt;parser&lt;/b&gt;" in page
    assert run("export", "one", "--to", "html", "-o", str(tmp_path)).code == Code.USAGE


def test_losses_of_a_format_are_listed_on_stderr(run, database):
    search = {"type": "web_search_call", "id": "ws", "status": "completed"}
    with Store.open(database) as store:
        chat = store.create("one")
        chat.append("user", "go")
        chat.append("assistant", [search], format="openai-responses")
    done = run("export", "one", "--to", "claude-code")
    assert (done.code, "web_search_call" in done.out) == (Code.DONE, False)
    assert done.err == (
        "Left out or made text, because only its provider knows it: one 2: web_search_call.\n"
    )
    assert run("export", "one").err == ""


def test_unresumable_session_is_refused(run, database, tmp_path):
    with Store.open(database) as store:
        store.create("empty")
    file = tmp_path / "new" / "file.jsonl"
    for words in ((), ("-o", str(file))):
        done = run("export", "empty", "--to", "claude-code", *words)
        assert (done.code, done.out) == (Code.USAGE, "")
        assert "Session 'empty' has no visible message" in done.err
    assert not file.parent.exists()


@contextmanager
def followed(file: Path, *words: str) -> Iterator[IO[str]]:
    """The lines that `import --watch` of a transcript prints until it is interrupted."""
    script = str(Path(sys.executable).with_name("roocontext"))
    database = str(file.parent.parent / "followed.db")
    command = [script, "import", str(file), "--watch", "--db", database, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout
        yield io.TextIOWrapper(run.stdout)
        run.send_signal(signal.SIGINT)
        run.wait()
    assert run.returncode == Code.INTERRUPTED


def goes_on(file: Path) -> None:
    transcript = Transcript(file)
    transcript.at, transcript.count = "u-3", 3
    transcript.user("more")


def test_watch_prints_new_messages_of_a_transcript(folder):
    file = folder / "-work" / "s-1.jsonl"
    with followed(file) as out:
        assert "3 messages" in out.readline()
        assert out.readline() == "Imported 1 session, 0 unchanged.\n"
        goes_on(file)
        assert "1 message," in out.readline()


def test_program_that_follows_reads_a_document_from_each_line(folder):
    file = folder / "-work" / "s-1.jsonl"
    with followed(file, "--json") as out:
        first = json.loads(out.readline())
        goes_on(file)
        second = json.loads(out.readline())
    found = [(one["status"], one["messages"]) for doc in (first, second) for one in doc["sessions"]]
    assert found == [("created", 3), ("continued", 1)]


def test_import_by_url_is_not_watched(run):
    refused = run("import", "postgresql://me:secret@127.0.0.1:1/app", "--watch")
    assert refused.code == Code.USAGE
    assert "leave out the URL" in refused.err
    done = run("import", "postgresql+asyncpg://me:secret@127.0.0.1:1/app", "--json")
    (skipped,) = done.document["skipped"]
    assert (done.code, skipped["is_problem"]) == (Code.NO, True)
    assert "postgresql://me@127.0.0.1:1/app" in skipped["why"]
    assert "secret" not in done.out + done.err
