"""Sessions as Roo's task folders: what both programs would send next is our effective history."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings

from roocontext import NewMessage, Plan, Store
from roocontext.formats import exports
from roocontext.formats.exporter import write_new
from roocontext.formats.exporters.anthropic_rows import AnthropicRows
from roocontext.formats.importers import roo
from roocontext.formats.player import play
from roocontext.programs.roo.history import since_summary_2025, since_summary_2026
from support.dialogue import fill, text
from support.examples import examples
from support.histories import HISTORIES
from support.histories import play as happen
from support.rows_of_formats import histories, rows
from vectors.programs.roo_history import effective_2025, effective_2026


def exported(store: Any, chat: Any, folder: Path, **options: Any) -> list[Path]:
    files, size = write_new(exports.exported_files(store, chat, "roo", output=folder, **options))
    assert size == sum(one.stat().st_size for one in files)
    return sorted({one.parent for one in files})


def api_of(task: Path) -> list[Any]:
    rows: list[Any] = json.loads((task / roo.API).read_text())
    return rows


def shown(rows: Any) -> list[tuple[str, Any]]:
    return [(row["role"], row["content"]) for row in rows]


def expected(chat: Any) -> list[tuple[str, Any]]:
    read = AnthropicRows()
    rows = [read.read(message) for page in chat.internals.pages() for message in page.messages]
    return [(role, content) for role, content in rows if content != []]


def sent_2026(rows: list[Any]) -> list[tuple[str, Any]]:
    return shown(since_summary_2026(effective_2026(rows)))


def check(fresh: Any, chat: Any, task: Path) -> None:
    """All that must be true of every export."""
    rows, wanted = api_of(task), expected(chat)
    assert shown(since_summary_2025(effective_2025(rows), now=0)) == wanted
    # The program of 2026 leaves out results without a call if there is a summary.
    plain = [{"role": role, "content": content} for role, content in wanted]
    begins = any(row.get("isSummary") for row in rows)
    assert sent_2026(rows) == sent_2026(
        [{**plain[0], "isSummary": True}, *plain[1:]] if begins else plain
    )
    (source,) = roo.sources(task)
    done = play(fresh, source)
    assert done.problems == ()
    if wanted:
        again = fresh.session(done.session_id)
        assert [(one.role, one.content) for one in again.view().messages] == wanted
    assert play(fresh, source).new == 0


@given(first=histories, history=HISTORIES)
@pytest.mark.one_leg
@settings(max_examples=examples(25))
def test_any_session_is_a_task_with_its_view(shared, fresh, first, history):
    chat = shared.store.create()
    # Rows of all formats, and then what may happen to them.
    chat.append_many(
        [NewMessage(row.role, row.content, row.format, model=row.model) for row in rows(first)]
    )
    happen(chat, history)
    with TemporaryDirectory() as folder:
        (task,) = exported(shared.store, chat, Path(folder))
        check(fresh, chat, task)


def test_leading_summary_is_one_of_roos(store, fresh, tmp_path):
    chat = store.create()
    fill(chat, 4)
    chat.commit(Plan.condense(chat.view(), [1, 2, 3], "S", compaction_id="c1"))
    fill(chat, 2)
    (task,) = exported(store, chat, tmp_path)
    rows = api_of(task)
    assert [row.get("condenseParent") for row in rows] == ["c1"] * 3 + [None] * 4
    assert (rows[3]["isSummary"], rows[3]["condenseId"]) == (True, "c1")
    screen = json.loads((task / "ui_messages.json").read_text())
    (event,) = [one for one in screen if one["say"] == "condense_context"]
    assert (event["contextCondense"]["condenseId"], event["contextCondense"]["summary"]) == (
        *("c1", "S"),
    )
    check(fresh, chat, task)


def test_summary_after_kept_messages_becomes_a_marker(store, fresh, tmp_path):
    chat = store.create()
    fill(chat, 6)
    chat.commit(Plan.condense(chat.view(), [2, 3], "S", compaction_id="c1", at_end=True))
    chat.commit(Plan.truncate(chat.view(), [4], "M", compaction_id="t1"))
    (task,) = exported(store, chat, tmp_path)
    rows = api_of(task)
    assert [row.get("truncationParent") for row in rows][1:4] == ["c1", "c1", "t1"]
    assert not any("isSummary" in row for row in rows)
    screen = json.loads((task / "ui_messages.json").read_text())
    events = [one["contextTruncation"] for one in screen if "contextTruncation" in one]
    assert sorted((one["truncationId"], one["messagesRemoved"]) for one in events) == [
        *(("c1", 2), ("t1", 1)),
    ]
    check(fresh, chat, task)


def test_child_sessions_become_subtasks(store, fresh, tmp_path):
    chat = store.create(title="The parser")
    chat.set_metadata({"folder": "/work"})
    fill(chat, 2)
    child = store.create(parent=chat.id)
    fill(child, 1)
    tasks = exported(store, chat, tmp_path, family=True)
    items = {one.name: json.loads((one / "history_item.json").read_text()) for one in tasks}
    (mother,) = [item for item in items.values() if "parentTaskId" not in item]
    assert (mother["task"], mother["workspace"]) == ("The parser", "/work")
    assert [items[name]["parentTaskId"] for name in mother["childIds"]] == [mother["id"]]
    for task in tasks:
        check(fresh, chat if task.name == mother["id"] else child, task)


def test_reasoning_item_is_a_whole_message(store, tmp_path):
    chat = store.create()
    item = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
    chat.append("user", "hi", ts=5)
    chat.append_many([NewMessage("assistant", item, "openai-responses", ts=6)])
    (task,) = exported(store, chat, tmp_path)
    assert api_of(task)[1] == {"role": "assistant", **item, "ts": 6}


def test_task_that_was_imported_keeps_its_fields(tmp_path):
    task = tmp_path / "there" / "0190"
    task.mkdir(parents=True)
    fields = {"reasoning_content": "hm", "condenseParent": "gone"}
    rows = [
        {"role": "user", "content": "hi", "ts": 5},
        {"role": "assistant", "content": [text("so")], "ts": 6, **fields},
    ]
    (task / roo.API).write_text(json.dumps(rows))
    (source,) = roo.sources(task)
    with Store.open(":memory:") as other:
        chat = other.session(play(other, source).session_id)
        (again,) = exported(other, chat, tmp_path / "new")
    del rows[1]["condenseParent"]
    assert api_of(again) == rows
