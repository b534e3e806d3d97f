"""Rows of a Claude Code transcript that come late, or without a parent: what the tool sends.

As recorded with 2.1.330.
"""

import pytest

from roocontext.formats.importers import claude_code
from roocontext.formats.player import play
from support.transcripts import sent, use

NEW = "2.1.330"


def test_text_on_the_path_from_a_call_to_its_result_is_sent(store, file):
    file.user("go")
    file.reply("m1", use("t1"), use("t2"), stop="tool_use")
    file.result("t1")
    file.user("wait")
    file.user("please")
    file.result("t2")
    file.reply("m2", "done", stop="end_turn")
    assert sent(store, file) == "go t1 t2 =t1 =t2 wait please done"


def test_reply_on_the_path_from_a_call_to_its_result_is_sent(store, file):
    file.user("go")
    file.reply("m1", use("t1"))
    file.user("wait")
    file.reply("m2", "sure", stop="end_turn")
    file.result("t1", sourceToolAssistantUUID="u-2")
    file.reply("m3", "done", stop="end_turn")
    assert sent(store, file) == "go t1 =t1 wait sure done"


def test_text_off_the_path_from_a_call_to_its_result_is_a_branch(store, file):
    file.user("go")
    reply = file.reply("m1", use("t1"), stop="tool_use")
    file.user("wait")
    file.result("t1", parent=reply)
    assert sent(store, file) == "go t1 =t1"
    file.reply("m2", "done", stop="end_turn")
    assert sent(store, file) == "go t1 =t1 done"


def test_text_off_the_path_is_sent_if_the_session_continues_after_it(store, file):
    file.user("go")
    reply = file.reply("m1", use("t1"), stop="tool_use")
    words = file.user("wait")
    file.result("t1", parent=reply)
    file.reply("m2", "done", stop="end_turn", parent=words)
    assert sent(store, file) == "go t1 =t1 wait done"


@pytest.mark.parametrize("kind", ["system", "attachment"])
def test_branch_with_the_newest_note_is_the_live_one(store, file, kind):
    at = file.user("go")
    file.user("one")
    first = file.reply("m1", "first", stop="end_turn")
    file.user("two", parent=at)
    file.reply("m2", "second", stop="end_turn")
    file.row("progress", parent=first)
    assert sent(store, file) == "go two second"
    file.row(kind, parent=first)
    assert sent(store, file) == "go one first"


@pytest.mark.parametrize("metadata", ["preservedMessages", "preservedSegment"])
@pytest.mark.parametrize("on_call", [True, False])
def test_result_of_a_call_kept_by_a_compaction_is_sent(store, file, metadata, on_call):
    file.user("go")
    reply = file.reply("m1", use("t1"), stop="tool_use")
    segment = {"headUuid": reply, "tailUuid": reply, "anchorUuid": "u-4"}
    listed = {"uuids": [reply], "anchorUuid": "u-4"}
    file.compact(**{metadata: segment if metadata == "preservedSegment" else listed})
    file.result("t1", **({"parent": reply} if on_call else {}))
    file.reply("m2", "done", stop="end_turn")
    assert sent(store, file) == "S t1 =t1 done"


@pytest.mark.parametrize("version", ["2.0.11", "2.1.81", NEW, None])
def test_row_with_a_missing_parent_follows_the_row_before_it(store, file, version):
    file.version = version
    file.user("go")
    file.reply("m1", "yes", stop="end_turn")
    file.row("system", subtype="turn_duration")
    file.user("again", parent="gone")
    file.reply("m2", "done", stop="end_turn")
    assert sent(store, file) == "go yes again done"


def test_newest_version_in_the_file_counts(store, file):
    file.user("go")
    file.version = NEW
    file.reply("m1", "yes", stop="end_turn")
    sent(store, file)
    assert store.session("claude-code:s-1").info().metadata["version"] == NEW


def test_note_with_a_missing_parent_leaves_the_chain_whole(store, file):
    file.version = NEW
    file.user("go")
    file.reply("m1", "yes", stop="end_turn")
    file.row("attachment", parent="gone")
    file.user("again")
    assert sent(store, file) == "go yes again"


def test_row_with_a_missing_parent_after_a_compaction_follows_it(store, file):
    file.version = NEW
    file.user("go")
    file.compact()
    file.user("again", parent="gone")
    file.reply("m2", "done", stop="end_turn")
    assert sent(store, file) == "S again done"


def test_first_row_without_its_parent_begins_the_history(store, file):
    file.version = NEW
    file.user("go", parent="gone")
    file.reply("m1", "yes", stop="end_turn")
    assert sent(store, file) == "go yes"


@pytest.mark.parametrize(
    "metadata",
    [
        {"preservedMessages": {"uuids": ["gone", "u-3", "u-4"], "anchorUuid": "u-6"}},
        {"preservedMessages": {"uuids": ["u-3", "u-4", "gone"], "anchorUuid": "u-6"}},
        {"preservedSegment": {"headUuid": "gone", "tailUuid": "u-4", "anchorUuid": "u-6"}},
        {"preservedSegment": {"headUuid": "u-3", "tailUuid": "gone", "anchorUuid": "u-6"}},
        {"preservedSegment": {"headUuid": "u-4", "tailUuid": "u-3", "anchorUuid": "u-6"}},
    ],
)
def test_compaction_that_keeps_a_missing_row_keeps_none(store, file, metadata):
    file.user("go")
    file.reply("m1", "yes", stop="end_turn")
    file.user("kept")
    file.reply("m2", "too", stop="end_turn")
    file.compact(**metadata)
    file.user("again")
    assert sent(store, file) == "S again"


MESSAGES = {"preservedMessages": {"anchorUuid": "c", "uuids": ["u", "a"]}}
SEGMENT = {"preservedSegment": {"anchorUuid": "c", "headUuid": "u", "tailUuid": "a"}}
LATE = {"preservedMessages": {"anchorUuid": "c", "uuids": ["a"]}}
LATE_SEGMENT = {"preservedSegment": {"anchorUuid": "c", "headUuid": "a", "tailUuid": "a"}}


@pytest.mark.parametrize(
    ("metadata", "above", "below", "seen"),
    [
        (MESSAGES, "c", "a", "S one two three"),
        (MESSAGES, "u", "a", "S one two three"),
        (MESSAGES, "c", "c", "S one two three"),
        ({**MESSAGES, **SEGMENT}, "c", "a", "S one two three"),
        (SEGMENT, "u", "a", "S one two three"),
        (SEGMENT, "c", "a", "S two three"),
        (LATE, "c", "a", "S two three"),
        (LATE_SEGMENT, "c", "a", "S two three"),
        ({}, "c", "a", "S two three"),
    ],
)
def test_kept_row_written_after_the_compaction_is_taken(store, file, metadata, above, below, seen):
    file.version = NEW
    file.user("one", uuid="u")
    boundary = {"trigger": "auto", **metadata}
    file.row(
        "system",
        uuid="b",
        parent=None,
        subtype="compact_boundary",
        logicalParentUuid="a",
        compactMetadata=boundary,
    )
    file.user("S", uuid="c", isCompactSummary=True)
    file.reply("m1", "two", uuid="a", parent=above, stop="end_turn")
    file.user("three", parent=below)
    (source,) = claude_code.sources(file.path)
    assert play(store, source).problems == ()
    assert sent(store, file) == seen


def test_segment_is_read_as_it_is_in_the_file(store, file):
    head = file.user("one")
    tail = file.reply("m1", "two", stop="end_turn")
    file.compact("S0", preservedSegment={"headUuid": head, "tailUuid": tail, "anchorUuid": "u-4"})
    file.user("three", parent=tail)
    last = file.reply("m2", "four", stop="end_turn")
    file.compact("S1", preservedSegment={"headUuid": head, "tailUuid": last, "anchorUuid": "u-8"})
    file.user("five", parent=last)
    assert sent(store, file) == "S1 one two three four five"
