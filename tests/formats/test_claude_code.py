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
from support.transcripts import Transcript, say, sent, use, words


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


# Attachments, as the tool sends them after a resume: recorded with 2.1.261 to 2.1.330

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def work(file: Transcript) -> str:
    """A call and its result."""
    file.user("go")
    file.reply("m1", use("t1"), stop="tool_use")
    return file.result("t1")


def done(file: Transcript, **fields: Any) -> None:
    file.reply("m2", "done", stop="end_turn", **fields)


def test_text_typed_while_the_agent_worked_is_a_message(store, file):
    work(file)
    file.queued("wait")
    file.queued([IMAGE, say("see")])
    done(file)
    sent(store, file)
    chat = chat_of(store)
    words, blocks = chat.view().messages[3:5]
    assert (words.role, words.content) == ("user", "wait")
    assert blocks.content == [say("see"), IMAGE]
    assert words.message_id == "u-4"
    kept = [one.entry.extra["record"] for one in chat.audit() if one.entry.message_id == "u-4"]
    assert kept[0]["attachment"]["prompt"] == "wait"


@pytest.mark.parametrize(
    ("rendered", "content"),
    [
        ([{"content": "R"}], "R"),
        ([{"content": [say("R")]}], [say("R")]),
        ([{"content": "R"}, {"content": [IMAGE]}], [say("R"), IMAGE]),
        ([], "wait"),
        ([5, {"content": None}], "wait"),
    ],
)
def test_rows_marked_as_sent_are_sent_again(store, file, rendered, content):
    work(file)
    file.queued("wait", rendered=rendered)
    sent(store, file)
    assert [one.content for one in chat_of(store).view().messages[3:]] == [content]


@pytest.mark.parametrize(
    "attachment",
    [
        {"type": "queued_command"},
        {"type": "queued_command", "prompt": ""},
        {"type": "queued_command", "prompt": [5]},
        {"type": "file", "content": {"type": "text", "file": {"content": "x"}}},
        {"type": "skill_listing", "content": "x"},
        {"type": ["queued_command"], "prompt": "x"},
        "queued_command",
    ],
)
def test_other_attachments_are_notes(store, file, attachment):
    work(file)
    file.queued("", attachment=attachment)
    done(file)
    sent(store, file)
    chat = chat_of(store)
    assert len(chat.view().messages) == 4
    notes = [one.content for one in chat.notes("imported")]
    kept = [one["record"]["attachment"] for one in notes if one["kind"] == "attachment"]
    assert kept == [attachment]


@pytest.mark.parametrize(("kind", "seen"), [("file", "go R done"), ("skill_listing", "go done")])
def test_mentioned_file_is_sent_as_its_row_says(store, file, kind, seen):
    file.user("go")
    file.queued("", attachment={"type": kind}, rendered=[{"content": "R"}])
    done(file)
    assert sent(store, file) == seen


# Branches: rows come late, without a parent, or beside the path to others, as in 2.1.330


@pytest.mark.parametrize(
    ("subtype", "printed", "seen"),
    [
        ("local_command", "<local-command-stdout>out</local-command-stdout>", True),
        ("local_command", "", False),
        ("stop_hook_summary", "out", False),
    ],
)
def test_output_of_a_local_command_is_sent(store, file, subtype, printed, seen):
    file.user("go")
    file.row("system", subtype=subtype, content=printed, level="info")
    done(file)
    assert sent(store, file) == " ".join(["go", *([printed] if seen else []), "done"])
    entries = [one.entry for one in chat_of(store).audit() if one.entry.message_id == "u-2"]
    assert [entry.extra["record"]["content"] for entry in entries] == [printed] * seen
    assert chat_of(store).info().first_prompt == "go"


def test_output_of_a_local_command_beside_the_path_is_sent(store, file):
    file.user("go")
    call = file.reply("m1", use("t1"), stop="tool_use")
    file.row("system", subtype="local_command", content="printed")
    file.result("t1", parent=call)
    done(file)
    assert sent(store, file) == "go t1 =t1 printed done"


HISTORIES = {
    "results between the rows of an answer": ("go <t1 =t1 &t2^2 =t2", "go t1 t2 =t1 =t2"),
    "text between a call and its result": (
        "go <t1,t2 =t1 wait =t2 >end",
        "go t1 t2 =t1 =t2 wait end",
    ),
    "text beside the path from a call to its result is a branch": (
        ("go <t1 wait =t1^2", ">done"),
        ("go t1 =t1", "go t1 =t1 done"),
    ),
    "text beside the path, continued": ("go <t1 wait =t1^2 >done^3", "go t1 =t1 wait done"),
    **{
        f"newest {note} marks the live branch": (
            ("go one >first two^1 >second !progress^3", f"!{note}^3"),
            ("go two second", "go one first"),
        )
        for note in ("system", "attachment")
    },
    "row with a missing parent follows": ("go >yes !system again^0 >done", "go yes again done"),
    "note with a missing parent leaves the chain whole": ("go >yes !attachment^0 on", "go yes on"),
    "row with a missing parent after a compaction": ("go ~S again^0 >done", "S again done"),
    "first row without its parent": ("go^0 >yes", "go yes"),
    "text typed beside the path from a result is sent after it": (
        "go <t1 =t1 +one +two +three^3 >done^3",
        "go t1 =t1 one two three done",
    ),
    "text typed next to others on the path": (
        "go <t1 =t1 +one +two >end^4",
        "go t1 =t1 one two end",
    ),
    "text typed late beside the path is sent": (
        ("go <t1 =t1 >done +wait^3", "more^4"),
        ("go t1 =t1 wait", "go t1 =t1 wait done more"),
    ),
    "text typed next to a prompt is a branch": (
        "go +left <t1^1 =t1 +left-too this >done^4",
        "go t1 =t1 done",
    ),
    "text typed on the path to a late result": (
        "go <t1 &t2 =t1^2 +wait =t2 >done",
        "go t1 t2 =t1 =t2 wait done",
    ),
}


@pytest.mark.parametrize(("rows", "wanted"), HISTORIES.values(), ids=HISTORIES)
def test_history_is_what_the_tool_sends(store, file, rows, wanted):
    stages = [(rows, wanted)] if isinstance(rows, str) else zip(rows, wanted, strict=True)
    for more, seen in stages:
        file.write(more)
        assert sent(store, file) == seen


def test_answer_between_a_call_and_its_result_is_sent_after_it(store, file):
    file.write("go <t1 wait >sure")
    file.result("t1", sourceToolAssistantUUID="u-2")
    file.write(">done")
    assert sent(store, file) == "go t1 =t1 wait sure done"


def test_text_in_a_growing_file_is_placed_as_in_the_whole(store, file, tmp_path):
    file.write("go <t1 =t1 +one +two^3 >done more")
    whole = sent(store, file)
    growing = Transcript(tmp_path / "-grown" / "s-1.jsonl")
    with Store.open(":memory:") as grown:
        for line in file.path.read_text().splitlines(keepends=True):
            with growing.path.open("a") as end:
                end.write(line)
            seen = sent(grown, growing)
    assert seen == whole == "go t1 =t1 one two done more"


def test_newest_version_in_the_file_counts(store, file):
    file.write("go")
    file.version = "2.1.330"
    file.write(">yes")
    sent(store, file)
    assert store.session("claude-code:s-1").info().metadata["version"] == "2.1.330"


def test_removed_ids_do_not_merge_rows(store, file):
    removed = {"uuid": "REDACTED", "parent": "REDACTED"}
    file.user("one", **removed)
    for _ in range(2):
        file.reply("REDACTED", use("REDACTED"), stop="tool_use", **removed)
        file.result("REDACTED", **removed)
    assert sent(store, file) == "one REDACTED =REDACTED REDACTED =REDACTED"


@pytest.mark.parametrize(
    ("rows", "seen"),
    [("one^2 two^1 three^3", ""), ("<t1 one^3 two^2 =t1^3", "t1 =t1")],
    ids=["of texts", "with a result below it"],
)
def test_cycle_of_parents_is_cut(store, file, rows, seen):
    file.write(rows)
    (source,) = claude_code.sources(file.path)
    assert any("cycle" in one.what for one in play(store, source).problems)
    assert sent(store, file).endswith(seen)
    audit = store.session("claude-code:s-1").audit()
    assert sum(one.kind == "message" for one in audit) == len(rows.split())


# Compactions: what they hide, and which of the rows before them they keep


def messages(anchor: str, *uuids: str) -> dict[str, Any]:
    """The metadata of a compaction that keeps these rows."""
    return {"preservedMessages": {"anchorUuid": anchor, "uuids": list(uuids)}}


def segment(anchor: str, head: str, tail: str) -> dict[str, Any]:
    """The metadata of a compaction that keeps the rows from one to another."""
    return {"preservedSegment": {"anchorUuid": anchor, "headUuid": head, "tailUuid": tail}}


def imported(store: Any, file: Transcript) -> tuple[SessionImport, str]:
    """An import, and what a model would see after it and after a second one."""
    (source,) = claude_code.sources(file.path)
    return play(store, source), sent(store, file)


def test_compaction_becomes_a_summary(store, file):
    file.write("one >two ~S1 three ~S2 four")
    assert sent(store, file) == "S2 four"
    kinds = [one.kind for one in store.session("claude-code:s-1").audit() if one.kind != "note"]
    assert kinds == ["message", "message", "summary", "message", "summary", "message"]


def test_file_that_begins_with_a_compaction_begins_with_its_summary(store, file):
    file.at = "not-here"
    file.write("~S more")
    done, seen = imported(store, file)
    assert (seen, done.problems) == ("S more", ())


@pytest.mark.parametrize("attached", [True, False])
def test_compaction_without_a_summary_hides_all_before_it(store, file, attached):
    file.write("one ~S")
    lines = file.path.read_text().splitlines(keepends=True)
    file.path.write_text("".join(lines[:2]))
    file.at = json.loads(lines[1])["uuid"]
    file.write("!attachment more" if attached else "more")
    assert sent(store, file) == "more"


def test_micro_compaction_clears(store, file):
    file.write("go <t1")
    file.result("t1", "long " * 50)
    cleared = {"trigger": "auto", "compactedToolIds": ["t1", "gone"]}
    file.row("system", subtype="microcompact_boundary", microcompactMetadata=cleared)
    file.write(">done")
    sent(store, file)
    view = store.session("claude-code:s-1").view().messages
    (result,) = [message for message in view if message.cleared]
    assert result.content[0]["content"] == claude_code.CLEARED


TWO_TURNS = "one >two kept >too"
ALL_CALLS = "one <t1 &t2 =t1^2 =t2^3"
KEPT = {
    "rows": (TWO_TURNS, messages("u-6", "u-3", "u-4"), "more^4", "S kept too more"),
    "rows of a segment": (TWO_TURNS, segment("u-6", "u-3", "u-4"), "more^4", "S kept too more"),
    "segment before": ("kept >too hid", segment("u-4", "u-1", "u-2"), "more", "kept too S more"),
    "segment after": ("kept >too hid", segment("u-5", "u-1", "u-2"), "more", "S kept too more"),
    "all results": (ALL_CALLS, segment("u-7", "u-2", "u-5"), "", "S t1 t2 =t1 =t2"),
    "call, answered": ("go <t1", messages("u-4", "u-2"), "=t1 >done", "S t1 =t1 done"),
    "call, answered below it": ("go <t1", messages("u-4", "u-2"), "=t1^2 >done", "S t1 =t1 done"),
    "segment of a call": ("go <t1", segment("u-4", "u-2", "u-2"), "=t1 >done", "S t1 =t1 done"),
    "segment of a call, answered below it": (
        *("go <t1", segment("u-4", "u-2", "u-2")),
        *("=t1^2 >done", "S t1 =t1 done"),
    ),
    "typed text": ("go <t1 =t1 +wait >done", messages("u-7", "u-4", "u-5"), "", "S wait done"),
    "first row missing": (TWO_TURNS, messages("u-6", "gone", "u-3", "u-4"), "again", "S again"),
    "last row missing": (TWO_TURNS, messages("u-6", "u-3", "u-4", "gone"), "again", "S again"),
    "head missing": (TWO_TURNS, segment("u-6", "gone", "u-4"), "again", "S again"),
    "tail missing": (TWO_TURNS, segment("u-6", "u-3", "gone"), "again", "S again"),
    "tail before the head": (TWO_TURNS, segment("u-6", "u-4", "u-3"), "again", "S again"),
}


@pytest.mark.parametrize(("before", "metadata", "after", "seen"), KEPT.values(), ids=KEPT)
def test_kept_rows_stay_visible_unless_one_is_missing(store, file, before, metadata, after, seen):
    file.write(before)
    file.compact("S", **metadata)
    file.write(after)
    assert sent(store, file) == seen


def test_compaction_keeps_rows_after_its_logical_parent(store, file):
    file.write("one kept >too")
    file.compact("S", logical="u-1", **segment("u-5", "u-2", "u-3"))
    file.write("more")
    done, seen = imported(store, file)
    # They are no branch, and need not be written again.
    assert (seen, done.again, done.controls) == ("S kept too more", 0, 1)


def test_kept_rows_are_written_again_after_the_summary(store, file):
    file.write("one kept too hidden ~S")
    file.user("kept", uuid="u-2", parent=file.at, timestamp="2026-03-01T09:00:00.000Z")
    file.user("too", uuid="u-3", parent="u-2")
    file.write("more")
    done, seen = imported(store, file)
    # The rows come after the summary, so they are hidden where they are, and written again.
    assert (done.again, seen) == (2, "S kept too more")
    file.write("and-more")
    done, seen = imported(store, file)
    assert (done.messages, seen) == (1, "S kept too more and-more")


@pytest.mark.parametrize(
    ("between", "kept", "after", "seen"),
    [
        ("late", ("u-1", "u-5"), "more^5", "S2 kept late more"),
        ("", ("u-4", "u-1"), "more", "S2 kept S1 more"),
    ],
    ids=["hidden row", "summary and a row that it hides"],
)
def test_what_an_earlier_compaction_hides_is_written_again(store, file, between, kept, after, seen):
    file.write(f"kept >two ~S1 {between}")
    file.compact("S2", **messages(f"u-{file.count + 2}", *kept))
    file.write(after)
    done, found = imported(store, file)
    assert (found, done.again, done.problems) == (seen, 2, ())


def test_hidden_row_kept_before_a_summary_is_reported(store, file):
    file.write("hidden ~S1 kept")
    file.compact("S2", **messages("u-5", "u-1", "u-4"))
    done, seen = imported(store, file)
    assert seen == "kept S2"
    assert [(one.line, one.what) for one in done.problems] == [
        (6, "an earlier compaction hides 1 of the messages that it keeps")
    ]


@pytest.mark.parametrize(
    ("metadata", "above", "below", "seen"),
    [
        (messages("c", "u", "a"), "c", "a", "S one two three"),
        (messages("c", "u", "a"), "u", "a", "S one two three"),
        (messages("c", "u", "a"), "c", "c", "S one two three"),
        ({**messages("c", "u", "a"), **segment("c", "u", "a")}, "c", "a", "S one two three"),
        (segment("c", "u", "a"), "u", "a", "S one two three"),
        (segment("c", "u", "a"), "c", "a", "S two three"),
        (messages("c", "a"), "c", "a", "S two three"),
        (segment("c", "a", "a"), "c", "a", "S two three"),
        ({}, "c", "a", "S two three"),
    ],
)
def test_kept_row_written_after_the_compaction_is_taken(store, file, metadata, above, below, seen):
    file.user("one", uuid="u")
    boundary = {"logicalParentUuid": "a", "compactMetadata": {"trigger": "auto", **metadata}}
    file.row("system", uuid="b", parent=None, subtype="compact_boundary", **boundary)
    file.user("S", uuid="c", isCompactSummary=True)
    file.reply("m1", "two", uuid="a", parent=above, stop="end_turn")
    file.user("three", parent=below)
    done, found = imported(store, file)
    assert (found, done.problems) == (seen, ())


def test_segment_is_read_as_it_is_in_the_file(store, file):
    file.write("one >two")
    file.compact("S0", **segment("u-4", "u-1", "u-2"))
    file.write("three^2 >four")
    file.compact("S1", **segment("u-8", "u-1", "u-6"))
    file.write("five^6")
    assert sent(store, file) == "S1 one two three four five"
