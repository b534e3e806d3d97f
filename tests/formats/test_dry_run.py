"""A dry run counts exactly what the import then writes, and writes nothing.

`support.transcripts.sent` compares both for each history of Claude Code.
"""

from pathlib import Path
from typing import Any

import pytest

from formats.test_damaged_files import claude_code, codex, gemini, opencode, roo
from roocontext import Plan
from roocontext.formats.imports import import_paths
from roocontext.formats.writing import SessionImport
from support.codex_rollouts import item, line, write
from support.transcripts import Transcript

MADE = [claude_code, codex, gemini, opencode, roo]


def imported(store: Any, path: Path, **options: Any) -> Any:
    """Import after a dry run, which must report the same."""
    before = [(one.session_id, one.last_seq) for one in store.sessions()]
    would = list(import_paths(store, [path], dry_run=True, **options))
    assert [(one.session_id, one.last_seq) for one in store.sessions()] == before
    done = list(import_paths(store, [path], **options))
    assert would == done
    again = list(import_paths(store, [path], dry_run=True, **options))
    taken = [one for one in again if isinstance(one, SessionImport)]
    assert all(one.messages == one.notes == one.controls == 0 for one in taken)
    return done


@pytest.mark.parametrize("made", MADE)
def test_dry_run_of_every_tool_equals_the_import(store, tmp_path, made):
    (done, *_) = imported(store, made(tmp_path))
    assert done.messages


def test_dry_run_of_a_second_file_equals_the_import(store, tmp_path):
    for folder, texts in (("a", ["one"]), ("b", ["one", "two"]), ("c", ["one"]), ("d", ["other"])):
        file = Transcript(tmp_path / folder / "s.jsonl")
        for text in texts:
            file.user(text)
    (_, longer, equal, other) = imported(store, tmp_path)
    for one in (longer, other):
        assert ("taken with other messages from" in one.why, one.is_problem) == (True, True)
    assert ("taken from" in equal.why, equal.is_problem) == (True, False)


def test_dry_run_of_a_second_file_with_own_entries_equals_the_import(store, tmp_path):
    Transcript(tmp_path / "a" / "s.jsonl").user("one")
    (done,) = imported(store, tmp_path)
    store.session(done.session_id).append("user", "mine")
    second = Transcript(tmp_path / "b" / "s.jsonl")
    second.user("one")
    second.user("two")
    (_, longer) = imported(store, tmp_path)
    assert (longer.why.count("with other messages"), longer.is_problem) == (1, True)


def test_dry_run_of_a_sub_agent_without_its_parent_equals_the_import(store, tmp_path):
    for folder in "ab":
        path = tmp_path / folder / "s" / "subagents" / "agent-q1.jsonl"
        Transcript(path).user("one", isSidechain=True, agentId="q1")
    (done, second) = imported(store, tmp_path)
    assert (done.messages, second.is_problem) == (1, False)


def test_dry_run_reports_messages_that_the_store_refuses(store, tmp_path):
    deep: Any = {}
    for _ in range(600):
        deep = {"a": deep}
    file = Transcript(tmp_path / "s.jsonl")
    file.user("one")
    file.user([{"type": "text", "text": "x", "deep": deep}])
    file.user("two", deep=deep)
    (done,) = imported(store, tmp_path)
    assert len(done.problems) == 2


def test_dry_run_of_a_session_with_own_entries_equals_the_import(store, tmp_path):
    path = tmp_path / "rollout-x.jsonl"
    write(path, line("session_meta", id="aa"), item("user", "one"), item("assistant", "two"))
    imported(store, path)
    chat = store.session("codex:aa")
    chat.commit(Plan.condense(chat.view(), [chat.view().messages[0].seq], "S"))
    write(path, item("user", "three"))
    (would,) = import_paths(store, [path], dry_run=True)
    (done,) = import_paths(store, [path])
    assert (would, done.failed) == (done, True)
    (done,) = imported(store, path, on_conflict="fork")
    assert (done.forked_from, done.session_id) == ("codex:aa", "codex:aa~2")
    write(path, item("user", "four"))
    (done,) = imported(store, path, on_conflict="fork")
    assert (done.session_id, done.messages) == ("codex:aa~2", 1)
