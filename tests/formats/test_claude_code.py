"""Claude Code's transcripts, imported: what the tool would send next, and all that the file has."""

import json
from pathlib import Path
from typing import Any

import pytest

from roocontext import Store
from roocontext.errors import SourceDiverged
from roocontext.formats.importers import claude_code
from roocontext.formats.imports import import_paths
from roocontext.formats.player import play
from roocontext.formats.writing import SessionImport
from roocontext.log.forms import Rule
from support.transcripts import Transcript, sent, use, words


def take(store: Any, path: Path, **options: Any) -> list[SessionImport]:
    """Import a transcript. A second import, which changes nothing, follows each."""
    sources = list(claude_code.sources(path))
    done = [play(store, one, **options) for one in sources]
    assert [play(store, one, **options).new for one in sources] == [0] * len(sources)
    return done


def chat_of(store: Any, name: str = "claude-code:s-1") -> Any:
    return store.session(name)


def words_of(store: Any) -> str:
    return words(chat_of(store))


def records(chat: Any) -> list[Any]:
    """Every record of the source that the log holds."""
    return [
        entry.entry for entry in chat.audit() if (entry.entry.client_id or "").startswith("imp")
    ]


def test_plain_session_becomes_messages(store, file):
    file.user("hello")
    file.reply("m1", {"type": "thinking", "thinking": "hm", "signature": "x"})
    file.reply("m1", "let me see", use("t1"), stop="tool_use")
    file.result("t1")
    file.reply("m2", "done", stop="end_turn")
    file.line({"type": "ai-title", "aiTitle": "A title", "sessionId": "s-1"})
    (done,) = take(store, file.path)
    assert (done.created, done.messages, done.problems) == (True, 5, ())
    chat = chat_of(store)
    assert [message.message_id for message in chat.view().messages] == [
        f"u-{n}" for n in range(1, 6)
    ]
    assert chat.info().title == "A title"
    metadata = chat.info().metadata
    assert (metadata["tool"], metadata["branch"], metadata["version"]) == (
        *("claude-code", "main"),
        "2.1.81",
    )
    assert [one.session_id for one in store.sessions(where={"folder": "/work"})] == [chat.id]
    # One answer in two rows has one usage.
    assert [one.seq for one in chat.internals.calls()] == [
        message.seq for message in chat.view().messages if message.message_id in ("u-3", "u-5")
    ]
    assert chat.view().messages[0].ts == 1772359201123
    assert chat.verify().ok
    assert {repair.rule for repair in chat.repairs()} == {Rule.MERGED}


def test_parallel_calls_are_no_branches(store, file):
    file.user("go")
    first = file.reply("m1", use("t1"))
    second = file.reply("m1", use("t2"), stop="tool_use")
    file.row("progress", parent=first, move=False, data={"type": "bash_progress"})
    file.result("t1", parent=first, sourceToolAssistantUUID=first)
    file.result("t2", parent=second)
    file.reply("m2", "done", stop="end_turn")
    take(store, file.path)
    chat = chat_of(store)
    assert words(chat) == "go t1 t2 =t1 =t2 done"
    roles = [message.role for message in chat.view().messages]
    assert roles == ["user", *["assistant"] * 2, *["user"] * 2, "assistant"]
    assert not [entry for entry in chat.audit() if entry.kind == "rewind"]
    assert {repair.rule for repair in chat.repairs()} == {Rule.MERGED}
    assert len(records(chat)) == 7 + 1  # with the metadata


def test_results_between_the_rows_of_a_reply_come_after_it(store, file):
    file.user("go")
    first = file.reply("m1", use("t1"))
    file.result("t1", parent=first, move=False)
    second = file.reply("m1", use("t2"), parent=first, stop="tool_use")
    file.result("t2", parent=second)
    assert sent(store, file) == "go t1 t2 =t1 =t2"


def test_edited_prompt_is_a_rewind(store, file):
    file.user("hello")
    at = file.reply("m1", "yes", stop="end_turn")
    file.user("left")
    file.reply("m2", "gone", stop="end_turn")
    take(store, file.path)
    file.user("instead", parent=at)
    (done,) = take(store, file.path)
    assert (words_of(store), done.messages) == ("hello yes instead", 1)
    with Store.open(":memory:") as fresh:  # all at once gives the same
        assert sent(fresh, file) == "hello yes instead"
        audits = [len(list(chat_of(one).audit())) for one in (fresh, store)]
    assert audits[0] == audits[1]


def test_compaction_becomes_a_summary(store, file):
    file.user("one")
    file.reply("m1", "two", stop="end_turn")
    file.compact("S1")
    file.user("three")
    file.compact("S2")
    file.user("four")
    assert sent(store, file) == "S2 four"
    kinds = [entry.kind for entry in chat_of(store).audit() if entry.kind != "note"]
    assert kinds == ["message", "message", "summary", "message", "summary", "message"]


@pytest.mark.parametrize("newer", [True, False])
def test_compaction_that_keeps_rows_leaves_them_visible(store, file, newer):
    file.user("one")
    file.reply("m1", "two", stop="end_turn")
    head = file.user("kept")
    tail = file.reply("m2", "kept too", stop="end_turn")
    kept = {"preservedMessages": {"anchorUuid": "u-6", "uuids": [head, tail]}}
    segment = {"preservedSegment": {"headUuid": head, "anchorUuid": "u-6", "tailUuid": tail}}
    file.compact("S", **(kept if newer else segment))
    file.user("more", parent=tail)
    assert sent(store, file) == "S kept kept too more"


def test_file_that_begins_with_a_compaction_begins_with_its_summary(store, file):
    file.at = "not-here"
    file.compact("S")
    file.user("more")
    (done,) = take(store, file.path)
    assert (words_of(store), done.problems) == ("S more", ())


@pytest.mark.parametrize("attached", [True, False])
def test_compaction_without_a_summary_hides_all_before_it(store, file, attached):
    file.user("one")
    file.compact("S")
    lines = file.path.read_text().splitlines(keepends=True)
    file.path.write_text("".join(lines[:2]))
    file.at = json.loads(lines[1])["uuid"]
    if attached:
        file.row("attachment", attachment={"type": "skill_listing"})
    file.user("more")
    assert sent(store, file) == "more"


def test_micro_compaction_clears(store, file):
    file.user("go")
    file.reply("m1", use("t1"), stop="tool_use")
    file.result("t1", "long " * 50)
    file.row(
        "system",
        subtype="microcompact_boundary",
        microcompactMetadata={"trigger": "auto", "compactedToolIds": ["t1", "gone"]},
    )
    file.reply("m2", "done", stop="end_turn")
    take(store, file.path)
    chat = chat_of(store)
    (result,) = [m for m in chat.view().messages if m.cleared]
    assert result.content[0]["content"] == claude_code.CLEARED


def test_rows_are_taken_once(store, file):
    file.user("one")
    file.user("two")
    text = file.path.read_text()
    file.path.write_text(text + text.replace('"two"', '"changed"'))
    assert sent(store, file) == "one two"


def test_two_records_on_a_line_are_both_taken(store, file):
    file.user("one")
    file.path.write_text(file.path.read_text().rstrip("\n"))
    file.line({"type": "summary", "summary": "T", "leafUuid": "u-1"})
    file.user("two")
    (done,) = take(store, file.path)
    assert (words_of(store), done.problems) == ("one two", ())
    assert chat_of(store).info().title == "T"


def test_bad_lines_are_named_and_the_rest_is_taken(store, file):
    file.user("one")
    with file.path.open("a") as text:
        text.write("nonsense\n\n[1]\n" + "[" * 100_000 + "\n")
    file.row("user", message={"role": "user", "content": [{"type": "function_call"}]})
    file.user("two", parent="u-1")
    file.row("hologram", parent="u-3")
    file.line({"type": "never-seen", "x": [1]})
    (done,) = take(store, file.path)
    assert [one.line for one in done.problems] == [2, 4, 5, 6]
    assert words_of(store).endswith(" two")
    kinds = [note.content["kind"] for note in chat_of(store).notes("imported")]
    assert {"refused", "hologram", "never-seen"} <= set(kinds)


def test_transcript_of_which_no_row_can_be_read_has_failed(store, file):
    file.user("hello")
    file.path.write_text(file.path.read_text()[:-20])
    (done,) = import_paths(store, [file.path])
    assert (done.status, [str(one) for one in done.problems]) == (
        "failed",
        [f"{file.path}:1: the line is cut off"],
    )
    assert store.sessions() == []


def test_invalid_json_in_an_unused_field_is_reported(store, file):
    file.user("one")
    with file.path.open("a") as text:
        text.write('{"type": "odd", "a": NaN}\n{"type": "user", "uuid": "x", "a": NaN}\n')
    file.user("two")
    (done,) = take(store, file.path)
    assert [one.line for one in done.problems] == [2, 3]
    assert words_of(store) == "one two"


def test_record_nested_too_deeply_is_reported_and_a_message_is_kept_as_text(store, file):
    deep: Any = 1
    for _ in range(600):
        deep = [deep]
    file.user("one", toolUseResult=deep)
    file.line({"type": "odd", "deep": deep})
    file.user([{"type": "text", "text": "two", "deep": deep}])
    file.user("three")
    (done,) = take(store, file.path)
    assert [one.line for one in done.problems] == [1, 2, 3]
    assert words_of(store) == "one three"
    refused = [n for n in chat_of(store).notes("imported") if n.content["kind"] == "refused"]
    assert any("two" in note.content["text"] for note in refused)


def test_cycle_of_parents_is_cut(store, file):
    file.user("one", parent="u-2")
    file.user("two", parent="u-1")
    file.user("three", parent="u-3")
    (done,) = take(store, file.path)
    assert any("cycle" in one.what for one in done.problems)
    assert len([e for e in chat_of(store).audit() if e.kind == "message"]) == 3


def test_result_below_a_cycle_of_texts_is_taken(store, file):
    file.reply("m1", use("t1"))
    file.user("one", parent="u-3")
    file.user("two", parent="u-2")
    file.result("t1", parent="u-3")
    assert sent(store, file) == "t1 =t1"
    assert len([e for e in chat_of(store).audit() if e.kind == "message"]) == 4


def test_side_chains_are_child_sessions(store, file):
    file.user("one")
    file.reply("m1", use("t1"), stop="tool_use")
    file.user("do it", parent=None, isSidechain=True, agentId="a1", move=False)
    file.reply("m9", "did", parent="u-3", isSidechain=True, agentId="a1", move=False)
    file.result("t1")
    folder = file.path.parent / "s-1" / "subagents"
    agent = Transcript(folder / "agent-a2.jsonl")
    agent.user("look", isSidechain=True, agentId="a2")
    take(store, file.path)
    take(store, agent.path)
    assert words_of(store) == "one t1 =t1"
    children = chat_of(store).children()
    assert [one.session_id for one in children] == ["claude-code:s-1/a1", "claude-code:s-1/a2"]
    assert words(store.session("claude-code:s-1/a1")) == "do it did"


def test_errors_of_the_api_are_not_sent(store, file):
    file.user("one")
    file.reply("m1", "API Error: 529", isApiErrorMessage=True)
    file.user("two")
    assert sent(store, file) == "one two"


def test_entries_of_others_are_never_rewound(store, file):
    file.user("one")
    take(store, file.path)
    chat = chat_of(store)
    chat.append("user", "mine")
    file.user("two")
    before = chat.head()
    with pytest.raises(SourceDiverged):
        take(store, file.path)
    assert chat.head() == before
    (done,) = take(store, file.path, on_conflict="fork")
    assert (done.forked_from, done.session_id) == (chat.id, "claude-code:s-1~2")
    assert words(store.session(done.session_id)) == "one two"
    assert words(chat) == "one mine"
    file.user("three")
    (done,) = take(store, file.path)
    assert (done.session_id, done.messages) == ("claude-code:s-1~2", 1)


def test_source_that_was_rewritten_and_restored_is_followed(store, file):
    file.user("one")
    file.user("two")
    file.user("three")
    old = file.path.read_text()
    take(store, file.path)
    file.path.write_text(old.replace('"two"', '"changed"'))
    (done,) = take(store, file.path)
    assert (done.rewound, done.messages) == (True, 2)
    assert words_of(store) == "one changed three"
    file.path.write_text(old)
    (done,) = take(store, file.path)
    assert (done.rewound, done.messages) == (True, 0)
    assert words_of(store) == "one two three"
    assert chat_of(store).verify().ok


def test_file_that_grows_line_by_line_equals_the_whole(store, file):
    file.user("go")
    first = file.reply("m1", use("t1"))
    second = file.reply("m1", use("t2"), stop="tool_use")
    file.result("t1", parent=first)
    file.result("t2", parent=second)
    file.reply("m2", "ok", stop="end_turn")
    file.compact("S1")
    file.user("more")
    at = file.reply("m3", "yes", stop="end_turn")
    file.user("left")
    file.reply("m4", "bye", stop="end_turn")
    file.user("again", parent=at)
    file.compact("S2")
    file.user("end")
    lines = file.path.read_text().splitlines(keepends=True)
    for number in range(1, len(lines) + 1):
        file.path.write_text("".join(lines[:number]))
        (grown,) = take(store, file.path)
        assert grown.problems == ()
        whole = file.path.with_name(f"whole-{number}.jsonl")
        whole.write_text("".join(lines[:number]))
        take(store, whole)
        assert words_of(store) == words(store.session(f"claude-code:whole-{number}"))
    # Nothing was written twice on the way: sixteen rows, one rewind, and the metadata.
    assert chat_of(store).head().seq == len(lines) + 2
    assert chat_of(store).verify().ok


def test_every_record_is_in_the_log(store, file):
    """As many entries as records: the exact duplicates and the metadata apart."""
    file.user("one")
    file.row("progress", data={"type": "hook_progress"})
    file.reply("m1", "two", stop="end_turn")
    file.compact("S")
    file.line({"type": "queue-operation", "operation": "enqueue"})
    file.line({"type": "queue-operation", "operation": "enqueue"})
    file.path.write_text(file.path.read_text() + file.path.read_text().splitlines()[0] + "\n")
    take(store, file.path)
    assert len(records(chat_of(store))) == 7 + 1


def test_kept_row_is_written_again_after_the_summary(store, file):
    file.user("one")
    kept = file.user("kept")
    file.user("hidden")
    summary = file.compact("S")
    file.user("kept", uuid=kept, parent=summary, timestamp="2026-03-01T09:00:00.000Z")
    file.user("more", parent=kept)
    (done,) = take(store, file.path)
    # The row comes after the summary, so it is hidden where it is, and written again.
    assert words_of(store) == "S kept more"
    assert done.again == 1
    file.user("and more")
    assert take(store, file.path)[0].messages == 1
    assert words_of(store) == "S kept more and more"


def test_kept_row_hidden_by_an_earlier_compaction_is_written_again(store, file):
    first = file.user("kept at last")
    file.user("one")
    file.compact("S1")
    tail = file.user("kept")
    file.compact("S2", preservedMessages={"anchorUuid": "u-8", "uuids": [first, tail]})
    file.user("more", parent=tail)
    (done,) = take(store, file.path)
    assert words_of(store) == "S2 kept at last kept more"
    assert (done.again, done.problems) == (2, ())


def test_earlier_summary_and_a_row_that_it_hides_may_be_kept(store, file):
    one = file.user("one")
    file.reply("m1", "two", stop="end_turn")
    file.compact("S1")
    summary = file.at
    uuids = [summary, one]
    file.compact("S2", preservedMessages={"anchorUuid": f"u-{file.count + 2}", "uuids": uuids})
    file.user("three")
    (done,) = take(store, file.path)
    assert (done.problems, done.again) == ((), 2)
    assert words_of(store) == "S2 one S1 three"


def test_hidden_row_kept_before_a_summary_is_reported(store, file):
    first = file.user("hidden for good")
    file.compact("S1")
    head = file.user("kept")
    file.compact("S2", preservedMessages={"anchorUuid": "u-5", "uuids": [first, head]})
    (done,) = take(store, file.path)
    assert words_of(store) == "kept S2"
    assert [(one.line, one.what) for one in done.problems] == [
        (6, "an earlier compaction hides 1 of the messages that it keeps")
    ]


@pytest.mark.parametrize(
    ("anchor", "seen"), [("u-4", "kept kept too S more"), ("u-5", "S kept kept too more")]
)
def test_segment_is_kept_before_or_after_the_summary_as_its_anchor_says(store, file, anchor, seen):
    head = file.user("kept")
    tail = file.reply("m1", "kept too", stop="end_turn")
    file.user("hidden")
    file.compact("S", preservedSegment={"headUuid": head, "anchorUuid": anchor, "tailUuid": tail})
    file.user("more")
    assert sent(store, file) == seen


def test_kept_segment_has_all_results(store, file):
    file.user("one")
    head = file.reply("m1", use("t1"))
    other = file.reply("m1", use("t2"), stop="tool_use")
    file.result("t1", parent=head, move=False)
    tail = file.result("t2", parent=other)
    segment = {"headUuid": head, "anchorUuid": "u-7", "tailUuid": tail}
    file.compact("S", preservedSegment=segment)
    assert sent(store, file) == "S t1 t2 =t1 =t2"


def test_branch_after_an_empty_micro_compaction_is_followed(store, file):
    file.user("one")
    at = file.row("system", subtype="microcompact_boundary", microcompactMetadata={})
    file.user("left")
    file.user("instead", parent=at)
    (done,) = take(store, file.path)
    assert (done.problems, words_of(store)) == ((), "one instead")


def test_removed_ids_do_not_merge_rows(store, file):
    removed = {"uuid": "REDACTED", "parent": "REDACTED"}
    file.user("one", **removed)
    file.reply("REDACTED", use("REDACTED"), stop="tool_use", **removed)
    file.result("REDACTED", **removed)
    file.reply("REDACTED", use("REDACTED"), stop="tool_use", **removed)
    file.result("REDACTED", **removed)
    (done,) = take(store, file.path)
    assert done.messages == 5
    assert words_of(store) == "one REDACTED =REDACTED REDACTED =REDACTED"


def test_duplicate_with_another_version_becomes_a_note(store, file):
    file.user("one")
    file.user("one", uuid="u-1", parent=None, version="2.1.99")
    assert sent(store, file) == "one"
    (note,) = [one for one in chat_of(store).notes("imported") if one.content["kind"] == "user"]
    assert note.content["record"]["version"] == "2.1.99"


def test_files_next_to_a_transcript_become_notes(store, file):
    file.user("one")
    outputs = file.path.with_suffix("") / "tool-results"
    outputs.mkdir(parents=True)
    (outputs / "toolu_1.txt").write_bytes(b"long \xff")
    take(store, file.path)
    (note,) = [one for one in chat_of(store).notes("imported") if one.content["kind"] == "file"]
    assert note.content["record"] == {"name": "toolu_1.txt", "text": "long \udcff"}


def test_compaction_keeps_rows_after_its_logical_parent(store, file):
    last = file.user("one")
    head = file.user("kept")
    tail = file.reply("m1", "kept too", stop="end_turn")
    segment = {"headUuid": head, "anchorUuid": "u-5", "tailUuid": tail}
    file.compact("S", logical=last, preservedSegment=segment)
    file.user("more")
    assert sent(store, file) == "S kept kept too more"


def test_branch_after_a_refused_message_is_followed(store, file):
    file.user("one")
    at = file.user([{"type": "function_call"}])
    file.user("left")
    file.user("instead", parent=at)
    (done,) = take(store, file.path)
    assert [one.line for one in done.problems] == [2]
    assert words_of(store) == "one instead"


def test_parent_in_another_file_is_not_looked_for(store, file):
    leaf = file.user("one")
    resumed = Transcript(file.path.with_name("s-2.jsonl"), "s-2")
    resumed.at, resumed.count = leaf, 10
    resumed.user("two")
    take(store, resumed.path)
    assert words(chat_of(store, "claude-code:s-2")) == "two"


@pytest.mark.parametrize("clears", [False, True])
def test_compaction_leaves_out_only_what_is_bound_to_a_pin(store, tmp_path, clears):
    file = Transcript(tmp_path / "s-1.jsonl")
    file.user("go")
    for call in ("t1", "t2"):
        file.reply(f"m-{call}", use(call))
        file.result(call)
    sent(store, file)
    chat = store.session("claude-code:s-1")
    chat.pin(next(row.seq for row in chat.view().messages if row.role == "assistant"))
    if clears:
        metadata = {"compactedToolIds": ["t1", "t2"]}
        file.row("system", subtype="microcompact_boundary", microcompactMetadata=metadata)
    else:
        file.compact("in short")
    sent(store, file)
    cleared = [len(row.cleared) for row in chat.view().messages if row.cleared]
    assert (cleared, words(chat)) == (
        ([1], "go t1 =t1 t2 =t2") if clears else ([], "t1 =t1 in short")
    )
