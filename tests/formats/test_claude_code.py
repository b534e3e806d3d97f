"""Claude Code's transcripts, imported: what the tool would send next, and all that the file has."""

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
    file.write("go <t1 &t2 !progress^2 =t1^2 =t2^3 >done")
    take(store, file.path)
    chat = chat_of(store)
    assert words(chat) == "go t1 t2 =t1 =t2 done"
    roles = [message.role for message in chat.view().messages]
    assert roles == ["user", *["assistant"] * 2, *["user"] * 2, "assistant"]
    assert not [entry for entry in chat.audit() if entry.kind == "rewind"]
    assert {repair.rule for repair in chat.repairs()} == {Rule.MERGED}


def test_edited_prompt_is_a_rewind(store, file):
    file.write("hello >yes left >gone")
    take(store, file.path)
    file.write("instead^2")
    (done,) = take(store, file.path)
    assert (words_of(store), done.messages) == ("hello yes instead", 1)
    with Store.open(":memory:") as fresh:  # all at once gives the same
        assert sent(fresh, file) == "hello yes instead"
        audits = [len(list(chat_of(one).audit())) for one in (fresh, store)]
    assert audits[0] == audits[1]


def test_rows_are_taken_once(store, file):
    file.write("one two")
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


@pytest.mark.parametrize("field", ["isApiErrorMessage", "isVirtual"])
def test_replies_that_are_only_shown_are_not_sent(store, file, field):
    file.user("one")
    file.reply("m1", "API Error: 529", **{field: True})
    file.user("two")
    assert sent(store, file) == "one two"


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


@pytest.mark.parametrize("blocks", [["(no content)"], [THOUGHT, "(no content)"]])
def test_answer_without_content_is_not_sent(store, file, blocks):
    file.user("one")
    for block in blocks:
        file.reply("m1", block)
    sent(store, file)  # the answer is not complete
    file.user("two")
    file.reply("m2", "(no content)")
    file.reply("m2", use("t1"), stop="tool_use")
    file.result("t1")
    assert sent(store, file) == "one two (no content) t1 =t1"
    kept = [note.content["record"] for note in store.session("claude-code:s-1").notes("imported")]
    assert [one["message"]["id"] for one in kept] == ["m1"] * len(blocks)


def test_entries_of_others_are_never_rewound(store, file):
    file.write("one")
    take(store, file.path)
    chat = chat_of(store)
    chat.append("user", "mine")
    file.write("two")
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
    file.write("one two three")
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


def test_branch_after_an_empty_micro_compaction_is_followed(store, file):
    file.user("one")
    at = file.row("system", subtype="microcompact_boundary", microcompactMetadata={})
    file.user("left")
    file.user("instead", parent=at)
    (done,) = take(store, file.path)
    assert (done.problems, words_of(store)) == ((), "one instead")


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
