"""Compactions of Claude Code: what they hide, and which of the rows before them they keep."""

import json
from typing import Any

import pytest

from roocontext.formats.importers import claude_code
from roocontext.formats.player import play
from roocontext.formats.writing import SessionImport
from support.transcripts import Transcript, sent


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
