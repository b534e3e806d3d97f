"""Sessions as transcripts: what Claude Code would resume with is our effective history."""

import json
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings

from roocontext import NewMessage, Plan
from roocontext.errors import InvalidOption
from roocontext.formats import exports
from roocontext.formats.exporter import write_new
from roocontext.formats.exporters.anthropic_rows import AnthropicRows
from roocontext.formats.importers import claude_code
from roocontext.formats.player import play
from roocontext.log.forms import UNANSWERED
from roocontext.log.forms.parts import orphan
from support.dialogue import call, fill, result, text, work
from support.examples import examples
from support.histories import HISTORIES
from support.histories import play as happen
from support.rows_of_formats import histories, rows

Rows = list[tuple[str, list[Any]]]


def exported(store: Any, chat: Any, folder: Path, **options: Any) -> list[Path]:
    files, size = write_new(
        exports.exported_files(store, chat, "claude-code", output=folder, **options)
    )
    assert size == sum(one.stat().st_size for one in files)
    return files


def records(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def resumed(file: Path) -> Rows:
    """The rows that the tool resumes with: the newest and its ancestors."""
    rows = {one["uuid"]: one for one in records(file) if "uuid" in one}
    newest = max(rows.values(), key=lambda one: one["timestamp"])
    assert newest is list(rows.values())[-1]
    chain, at = [], newest["uuid"]
    while at is not None:
        chain.append(rows[at])
        at = rows[at]["parentUuid"]
    return [
        (one["type"], blocks_of(one["message"]["content"]))
        for one in reversed(chain)
        if one["type"] != "system"
    ]


def blocks_of(content: Any) -> list[Any]:
    return [text(content)] if isinstance(content, str) else content


def expected(chat: Any) -> Rows:
    """The view: after each run of replies their results, also those that nobody recorded.

    Other results are quoted. This is what our own form for the provider does, row by row.
    """
    read = AnthropicRows()
    rows = [read.read(message) for page in chat.internals.pages() for message in page.messages]
    shown = [(role, blocks_of(content)) for role, content in rows if content]
    ordered: Rows = []
    calls: list[str] = []
    for is_reply, group in groupby(shown, lambda row: row[0] == "assistant"):
        if is_reply:
            run = list(group)
            calls = [one["id"] for _, blocks in run for one in blocks if one["type"] == "tool_use"]
            ordered += run
        else:
            users = [(role, quoted(blocks, calls)) for role, blocks in group]
            ordered += [row for row in users if any(map(is_result, row[1]))]
            ordered += unanswered(calls)
            ordered += [row for row in users if not any(map(is_result, row[1]))]
            calls = []
    return ordered + unanswered(calls)


def unanswered(calls: list[str]) -> Rows:
    made = {"type": "tool_result", "content": UNANSWERED, "is_error": True}
    return [("user", [{**made, "tool_use_id": one} for one in calls])] if calls else []


def quoted(blocks: list[Any], calls: list[str]) -> list[Any]:
    """The blocks with results of no call as texts; the calls that they answer are removed."""
    found: list[Any] = []
    for block in blocks:
        if is_result(block) and block["tool_use_id"] not in calls:
            found += orphan(block)
        else:
            found.append(block)
            if is_result(block):
                calls.remove(block["tool_use_id"])
    return found


def is_result(block: Any) -> bool:
    return bool(block["type"] == "tool_result")


def check(fresh: Any, chat: Any, file: Path, name: str) -> None:
    """All that must be true of every export."""
    wanted = expected(chat)
    assert resumed(file) == wanted
    uuids = [one["uuid"] for one in records(file) if "uuid" in one]
    assert len(set(uuids)) == len(uuids) == len(list(map(UUID, uuids)))
    (source,) = claude_code.sources(file)
    if source.parent:
        fresh.open_session(source.parent)
    done = play(fresh, source)
    assert (done.problems, done.session_id) == ((), name)
    again = [
        (one.role, blocks_of(one.content)) for one in fresh.session(done.session_id).view().messages
    ]
    assert again == wanted
    assert play(fresh, source).new == 0


@given(first=histories, history=HISTORIES)
@pytest.mark.one_leg
@settings(max_examples=examples(25))
def test_any_session_is_resumed_with_its_view(shared, fresh, first, history):
    chat = shared.store.create()
    # Rows of all formats, and then what may happen to them.
    chat.append_many(
        [NewMessage(row.role, row.content, row.format, model=row.model) for row in rows(first)]
    )
    happen(chat, history)
    with TemporaryDirectory() as folder:
        if not chat.view().messages:
            with pytest.raises(InvalidOption):
                exported(shared.store, chat, Path(folder))
            assert list(Path(folder).iterdir()) == []
            return
        (file,) = exported(shared.store, chat, Path(folder))
        check(fresh, chat, file, f"claude-code:{file.stem}")


def test_plain_session_becomes_a_transcript(store, fresh, tmp_path):
    chat = store.create(title="The parser")
    chat.set_metadata({"folder": "/work", "branch": "main", "version": "2.1.81"})
    chat.append("user", "Fix it", ts=1_772_359_201_123)
    chat.append("assistant", [text("so")], model="claude-x", ts=5)
    usage = {"input_tokens": 3, "output_tokens": 4}
    chat.append("assistant", [call("t1")], model="claude-x", usage=usage)
    chat.append("user", [result("t1")])
    (file,) = exported(store, chat, tmp_path)
    first, second, third, fourth, title = records(file)
    assert list(first)[:3] == ["parentUuid", "isSidechain", "type"]
    assert (first["timestamp"], second["timestamp"]) == (
        *("2026-03-01T10:00:01.123Z", "2026-03-01T10:00:01.124Z"),
    )
    assert {one["sessionId"] for one in records(file)} == {file.stem}
    assert (first["cwd"], first["gitBranch"], first["version"]) == ("/work", "main", "2.1.81")
    # Rows of the assistant that follow each other are one answer.
    assert second["message"]["id"] == third["message"]["id"]
    assert (third["message"]["stop_reason"], third["message"]["usage"]) == ("tool_use", usage)
    assert fourth["sourceToolAssistantUUID"] == third["uuid"]
    assert title == {"type": "custom-title", "customTitle": "The parser", "sessionId": file.stem}
    check(fresh, chat, file, f"claude-code:{file.stem}")
    alone = b"".join(
        chunk for one in exports.exported_files(store, chat, "claude-code") for chunk in one.chunks
    )
    assert alone == file.read_bytes()


def test_fields_that_anthropic_refuses_are_left_out(store, tmp_path):
    chat = store.create()
    odd = {"call_id": "", "reasoning_details": None}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s", "own": 1}
    chat.append("user", [{**text("go"), **odd}])
    chat.append("assistant", [thinking, {**text("so"), **odd}, {**call("t1"), **odd}])
    inner = [{**text("done"), **odd}, {"query": "ls"}]
    chat.append("user", [{**result("t1", inner), "name": "ls", "is_error": None}])
    (file,) = exported(store, chat, tmp_path)
    assert [content for _, content in resumed(file)] == [
        [text("go")],
        [thinking, text("so"), call("t1")],
        [result("t1", [text("done"), {"query": "ls"}])],
    ]


def test_summaries_become_compactions(store, fresh, tmp_path):
    chat = store.create()
    fill(chat, 4)
    chat.commit(Plan.condense(chat.view(), [1, 2], "S1"))
    work(chat, ("t1",), "done")
    chat.commit(Plan.condense(chat.view(), [5, 3, 4], "S2"))
    chat.append("user", "more")
    (file,) = exported(store, chat, tmp_path)
    kinds = [one.get("subtype") or one.get("isCompactSummary") for one in records(file)]
    # Four rows; S1, the two that it kept and two new ones; S2, those two again and the last.
    assert kinds == [
        *[None] * 4,
        *("compact_boundary", True, *[None] * 4),
        *("compact_boundary", True, *[None] * 3),
    ]
    boundaries = [i for i, kind in enumerate(kinds) if kind == "compact_boundary"]
    rows = records(file)
    for index in boundaries:
        assert rows[index]["parentUuid"] is None
        assert rows[index]["logicalParentUuid"] == rows[index - 1]["uuid"]
        assert rows[index + 1]["parentUuid"] == rows[index]["uuid"]
        assert rows[index + 1]["message"]["content"] in ("S1", "S2")
    check(fresh, chat, file, f"claude-code:{file.stem}")


def test_rewound_and_cleared_rows_are_not_resumed(store, fresh, tmp_path):
    chat = store.create()
    work(chat, ("t1",), "a long output")
    chat.append("user", "not this")
    chat.rewind(to=2)
    chat.commit(Plan.clear(chat.view(), [(2, 0)], "cleared"))
    (file,) = exported(store, chat, tmp_path)
    assert "not this" not in file.read_text()
    assert "a long output" not in file.read_text()
    check(fresh, chat, file, f"claude-code:{file.stem}")


def test_child_sessions_become_side_chains(store, fresh, tmp_path):
    chat = store.create()
    fill(chat, 2)
    child = store.create(parent=chat.id)
    fill(child, 1)
    grandchild = store.create(parent=child.id)
    fill(grandchild, 3)
    store.create(parent=chat.id)
    main, *agents = exported(store, chat, tmp_path, family=True)
    assert main.parent == tmp_path
    folder = tmp_path / main.stem / "subagents"
    assert sorted(folder.iterdir()) == sorted(agents)
    for file, session in zip(agents, (child, grandchild), strict=True):
        agent = file.stem.removeprefix("agent-")
        assert {(one["agentId"], one["isSidechain"]) for one in records(file)} == {(agent, True)}
        check(fresh, session, file, f"claude-code:{main.stem}/{agent}")
    with pytest.raises(InvalidOption):
        exports.exported_files(store, chat, "claude-code", family=True)
