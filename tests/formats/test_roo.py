"""Task folders of Roo Code and Cline, imported: what the tool would send next, and all it had."""

import json
from pathlib import Path
from typing import Any

import pytest

from roocontext.formats.importers import roo
from roocontext.formats.player import play
from roocontext.formats.writing import SessionImport
from vectors.replay import load


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "tasks" / "0190-task"


def task(folder: Path, rows: Any, screen: Any = (), **item: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / roo.API).write_text(json.dumps(rows))
    (folder / "ui_messages.json").write_text(json.dumps(list(screen)))
    if item:
        (folder / "history_item.json").write_text(json.dumps({"id": folder.name, **item}))


def row(role: str, said: str, ts: int | None, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": said}]
    return {"role": role, "content": content, **({} if ts is None else {"ts": ts}), **fields}


def take(store: Any, folder: Path, **options: Any) -> SessionImport:
    """Import a task. A second import, which changes nothing, follows each."""
    (source,) = roo.sources(folder)
    done = play(store, source, **options)
    assert play(store, source, **options).new == 0
    return done


def seen(store: Any, done: SessionImport) -> str:
    texts = [one.content[0]["text"] for one in store.session(done.session_id).view().messages]
    return " ".join(texts)


def talk(count: int, start: int = 1_000) -> list[dict[str, Any]]:
    return [row("user" if n % 2 == 0 else "assistant", f"m{n}", start + n) for n in range(count)]


def tagged(rows: list[Any], lo: int, hi: int, **tags: Any) -> list[Any]:
    return [{**one, **tags} if lo <= n < hi else one for n, one in enumerate(rows)]


def test_task_becomes_messages(store, folder):
    screen = [
        {"ts": 999, "type": "say", "say": "text", "text": "Fix the parser"},
        {"ts": 1_000, "type": "say", "say": "api_req_started", "text": "{}"},
    ]
    task(folder, talk(4), screen, workspace="/work", mode="code")
    done = take(store, folder)
    chat = store.session(done.session_id)
    assert (done.session_id, done.problems) == ("roo-code:0190-task", ())
    assert seen(store, done) == "m0 m1 m2 m3"
    assert [m.ts for m in chat.view().messages] == [1_000, 1_001, 1_002, 1_003]
    info = chat.info()
    found = (info.title, info.metadata["tool"], info.metadata["folder"])
    assert found == ("Fix the parser", "roo-code", "/work")
    assert [n.content["record"] for n in chat.notes("imported")][:2] == screen
    task(folder, talk(5), screen, workspace="/work", mode="code")
    assert take(store, folder).messages == 1


def test_condense_of_december_2025_becomes_a_summary(store, folder):
    rows = tagged(talk(8), 1, 5, condenseParent="c1")
    summary = row("assistant", "S", 1_004, isSummary=True, condenseId="c1")
    task(folder, [*rows[:5], summary, *rows[5:]])
    done = take(store, folder)
    assert seen(store, done) == "S m5 m6 m7"
    (kept,) = [e for e in store.session(done.session_id).audit() if e.kind == "summary"]
    assert kept.entry.details["record"]["condenseId"] == "c1"


def test_condense_of_2026_becomes_a_summary(store, folder):
    rows = tagged(talk(4), 0, 4, condenseParent="c1")
    first = row("user", "S1", 1_004, isSummary=True, condenseId="c1", condenseParent="c2")
    later = tagged(talk(2, 2_000), 0, 2, condenseParent="c2")
    second = row("user", "S2", 2_003, isSummary=True, condenseId="c2")
    task(folder, [*rows, first, *later, second, row("assistant", "go on", 3_000)])
    assert seen(store, take(store, folder)) == "S2 go on"


def test_condense_without_ids_becomes_a_summary(store, folder):
    old = {"role": "assistant", "content": "S", "ts": 1_000, "isSummary": True}
    task(folder, [row("user", "m0", 1_000), old, row("user", "m7", 1_007)])
    done = take(store, folder)
    contents = [m.content for m in store.session(done.session_id).view().messages]
    assert contents == ["S", row("user", "m7", 1_007)["content"]]


def test_view_is_what_the_program_of_2026_sends(store, folder):
    recorded = load("roo/getEffectiveApiHistory")
    for number, case in enumerate(one for one in recorded if "roo-2026-04" in one["versions"]):
        task(place := folder.with_name(str(number)), case["input"]["messages"])
        done = take(store, place)
        messages = store.session(done.session_id).view().messages if done.new else ()
        assert [(m.role, m.content) for m in messages] == [
            (m["role"], m["content"]) for m in case["output"]
        ], case["name"]


@pytest.mark.parametrize("at", [1, 5], ids=["of the first days", "today's"])
def test_truncation_becomes_a_marker(store, folder, at):
    rows = tagged(talk(8), 1, 5, truncationParent="t1")
    marker = row("user", "[hidden]", 1_004, isTruncationMarker=True, truncationId="t1")
    task(folder, [*rows[:at], marker, *rows[at:]])
    done = take(store, folder)
    assert seen(store, done) == "m0 [hidden] m5 m6 m7"
    assert [e.kind for e in store.session(done.session_id).audit()].count("marker") == 1


def test_marker_that_hides_an_unstorable_message_hides_no_other(store, folder):
    rows = tagged(talk(4), 1, 3, truncationParent="t1")
    rows[1]["content"] = 5
    marker = row("user", "[hidden]", 1_002, isTruncationMarker=True, truncationId="t1")
    task(folder, [*rows[:3], marker, rows[3]])
    assert seen(store, take(store, folder)) == "m0 [hidden] m3"


def test_tags_without_their_summary_hide_nothing(store, folder):
    task(folder, tagged(talk(3), 0, 3, condenseParent="gone", truncationParent="gone too"))
    assert seen(store, take(store, folder)) == "m0 m1 m2"


def test_tags_of_a_marker_before_the_last_summary_hide_nothing_after_it(store, folder):
    rows = [
        *tagged(talk(2), 1, 2, truncationParent="t1"),
        row("user", "[hidden]", 1_002, isTruncationMarker=True, truncationId="t1"),
        row("user", "S", 1_003, isSummary=True, condenseId="c1"),
        row("user", "late", 1_004, truncationParent="t1"),
    ]
    task(folder, rows)
    assert seen(store, take(store, folder)) == "S late"


def test_compaction_after_an_import_is_a_rewind_and_a_new_tail(store, folder):
    task(folder, talk(8))
    take(store, folder)
    rows = tagged(talk(8), 1, 5, condenseParent="c1")
    task(folder, [*rows[:5], row("assistant", "S", 9, isSummary=True, condenseId="c1"), *rows[5:]])
    done = take(store, folder)
    assert done.rewound
    assert seen(store, done) == "S m5 m6 m7"
    assert store.session(done.session_id).verify().ok


def test_rows_that_cline_leaves_out_are_hidden(store, folder):
    screen = [
        {"ts": 1, "text": "t", "lastCheckpointHash": "x", "conversationHistoryIndex": -1},
        {"ts": 2, "conversationHistoryDeletedRange": [2, 3]},
        {"ts": 3, "conversationHistoryDeletedRange": [2, 5]},
    ]
    rows = [{k: v for k, v in one.items() if k != "ts"} for one in talk(9)]
    rows[1]["modelInfo"] = {"modelId": "claude-x", "providerId": "p", "mode": "act"}
    task(folder, rows, screen)
    done = take(store, folder)
    assert done.session_id == "cline:0190-task"
    assert seen(store, done) == "m0 m1 m6 m7 m8"
    entries = [e for e in store.session(done.session_id).audit() if e.kind == "message"]
    assert [e.content[0]["text"] for e in entries] == [f"m{n}" for n in range(9)]
    assert entries[1].entry.model == "claude-x"


def test_rows_with_equal_times_and_unknown_rows_are_kept(store, folder):
    rows: list[Any] = [row("user", "a", 5), row("user", "a", 5), row("user", "b", 5)]
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": "x", "role": "assistant"}
    task(folder, [*rows, 7, {"role": "robot", "content": "x"}, {**reasoning, "ts": 6}])
    done = take(store, folder)
    ids = [m.message_id for m in store.session(done.session_id).view().messages]
    assert ids == ["5:1", "5:2", "5:3", "6:1"]


CUT = json.dumps(talk(3)).encode()[:-30]
DAMAGE = {"empty": (b"", 0), "no list": (b'{"a":1}', 0), "nonsense": (b"\xff\xfe", 0)}
DAMAGE |= {"cut off": (CUT, 2)}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file_is_named_and_the_rest_taken(store, folder, damage):
    task(folder, talk(3), [{"ts": 1, "type": "say", "text": "title"}])
    text, kept = DAMAGE[damage]
    (folder / roo.API).write_bytes(text)
    done = take(store, folder)
    assert [problem.path.name for problem in done.problems] == [roo.API]
    assert (done.messages, done.notes) == (kept, 3)
    assert (folder / roo.API).read_bytes() == text


def test_old_name_of_the_screen_file_is_found(store, folder):
    task(folder, talk(2))
    (folder / "ui_messages.json").rename(folder / "claude_messages.json")
    assert take(store, folder).problems == ()
    assert (folder / "claude_messages.json").exists()


def test_subtask_is_a_child(store, folder):
    task(folder, talk(2))
    take(store, folder)
    other = folder.parent / "0191-task"
    other.mkdir()
    task(other, talk(2), parentTaskId="0190-task")
    take(store, other)
    (child,) = store.session("roo-code:0190-task").children()
    assert child.session_id == "roo-code:0191-task"


def test_results_of_calls_that_a_summary_hides_are_not_sent(store, folder):
    def result(call: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": call, "content": call}

    called = {"type": "tool_use", "id": "t2", "name": "f", "input": {}}
    summary = row("user", "S", 5, isSummary=True, condenseId="c1")
    rows = [
        *tagged(talk(2), 0, 2, condenseParent="c1"),
        summary,
        {"role": "user", "content": [result("t1")], "ts": 6},
        {"role": "assistant", "content": [called], "ts": 7},
        {"role": "user", "content": [result("t1"), result("t2")], "ts": 8},
        row("assistant", "done", 9),
        {"role": "user", "content": [], "ts": 10},
    ]
    task(folder, rows)
    done = take(store, folder)
    messages = store.session(done.session_id).view().messages
    kept = [summary["content"], [called], [result("t2")], rows[6]["content"]]
    assert [message.content for message in messages] == kept
    kinds = [entry.kind for entry in store.session(done.session_id).audit()]
    assert kinds.count("message") + kinds.count("summary") == len(rows) + 1


def test_message_without_its_result_is_hidden_by_a_later_marker(store, folder):
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
    answer = row("user", "and go on", 6)
    answer["content"].insert(0, result)
    rows = [
        *tagged(talk(2), 0, 2, condenseParent="c1"),
        row("user", "S", 5, isSummary=True, condenseId="c1"),
        {**answer, "truncationParent": "t1"},
        row("assistant", "m1", 7, truncationParent="t1"),
        row("user", "[hidden]", 7, isTruncationMarker=True, truncationId="t1"),
        row("user", "m2", 8),
    ]
    task(folder, rows)
    assert seen(store, take(store, folder)) == "S [hidden] m2"


def test_edits_recorded_by_cline_are_kept(store, folder):
    task(folder, talk(2))
    (folder / "context_history.json").write_text("[[1, [0, []]]]")
    take(store, folder)
    kinds = [note.content["kind"] for note in store.session("roo-code:0190-task").notes("imported")]
    assert "context_history" in kinds


def edit(message: int, block: int, *texts: str) -> list[Any]:
    """The texts that replace a block's, as Cline keeps them."""
    return [message, [0, [[block, [[9, "text", [text], []] for text in texts]]]]]


def test_texts_replaced_by_cline_are_sent(store, folder):
    answer = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "f"}]}
    rows = [*talk(6), {"role": "user", "content": [answer], "ts": 7}]
    rows[4]["content"].insert(0, {**answer, "tool_use_id": "left out"})
    screen = [{"ts": 1, "lastCheckpointHash": "x", "conversationHistoryDeletedRange": [2, 3]}]
    task(folder, rows, screen)
    edits = [edit(0, 0, "first"), edit(1, 0, "older", "notice"), edit(2, 0, "-"), edit(6, 0, "g")]
    odd = [7, [1], [1, [0, [[5, []], [0, [[1, "text", []]]]]]], edit(99, 0, "-")]
    (folder / "context_history.json").write_text(json.dumps([*edits, *odd]))
    done = take(store, folder)
    messages = store.session(done.session_id).view().messages
    texts = [message.content[0].get("text") for message in messages]
    assert texts == ["first", "notice", "m4", "m5", None]
    assert messages[-1].content[0]["content"][0]["text"] == "g"
    assert [one.what for one in done.problems] == []


def test_task_list_of_cline_is_read(store, tmp_path):
    folder = tmp_path / ".cline" / "data" / "tasks" / "17"
    folder.mkdir(parents=True)
    task(folder, talk(7), [{"ts": 1, "conversationHistoryDeletedRange": [2, 3]}])
    about = {"environment_history": [{"cline_version": "3.1"}, {"cline_version": "3.78.0"}]}
    (folder / "task_metadata.json").write_text(json.dumps(about))
    item = {"id": "17", "task": "Fix it", "cwdOnTaskInitialization": "/work"}
    state = tmp_path / ".cline" / "data" / "state"
    state.mkdir()
    items = [{"id": "16"}, 5, {**item, "conversationHistoryDeletedRange": [2, 5]}]
    (state / "taskHistory.json").write_text(json.dumps(items))
    assert seen(store, take(store, folder)) == "m0 m1 m6"
    info = store.session("cline:17").info()
    assert info.title == "Fix it"
    assert (info.metadata["folder"], info.metadata["version"]) == ("/work", "3.78.0")
    (state / "taskHistory.json").write_text("[")
    assert seen(store, take(store, folder)) == "m0 m1 m4 m5 m6"


def test_impossible_edits_are_ignored(store, folder):
    edits = [edit(-1, 0, "-"), edit(-9, 0, "-"), edit(2, -1, "-"), edit(1, 0, "edited")]
    task(folder, talk(3), [{"ts": 1, "lastCheckpointHash": "x"}])
    (folder / "context_history.json").write_text(json.dumps(edits))
    assert seen(store, take(store, folder)) == "m0 edited m2"


@pytest.mark.parametrize(
    ("odd", "deleted", "said"),
    [
        (None, [2, 99], "m0 m1"),
        (None, [50, 99], "m0 m1 m2 m3 m4 m5"),
        (2, [3, 4], "m0 m1 m4 m5"),
        (4, [2, 3], "m0 m1 m4 m5"),
    ],
)
def test_range_is_followed_beyond_the_end_and_around_a_row_that_is_no_message(
    store, folder, odd, deleted, said
):
    rows: list[Any] = talk(6)
    if odd is not None:
        rows.insert(odd, 7)
    screen = {"ts": 1, "lastCheckpointHash": "x", "conversationHistoryDeletedRange": deleted}
    task(folder, rows, [screen])
    assert seen(store, take(store, folder)) == said
