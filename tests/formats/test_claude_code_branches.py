"""The branch of a Claude Code transcript that the tool sends, however its rows are linked.

Rows come late, without a parent, or beside the path to others, as recorded with 2.1.330.
"""

import pytest

from roocontext import Store
from roocontext.formats.importers import claude_code
from roocontext.formats.player import play
from support.transcripts import Transcript, sent, use

HISTORIES = {
    "results between the rows of an answer come after it": (
        "go <t1 =t1 &t2^2 =t2",
        "go t1 t2 =t1 =t2",
    ),
    "text between a call and its result is sent after it": (
        "go <t1,t2 =t1 wait please =t2 >done",
        "go t1 t2 =t1 =t2 wait please done",
    ),
    "text beside the path from a call to its result is a branch": (
        ("go <t1 wait =t1^2", ">done"),
        ("go t1 =t1", "go t1 =t1 done"),
    ),
    "text beside the path is sent if the session continues after it": (
        "go <t1 wait =t1^2 >done^3",
        "go t1 =t1 wait done",
    ),
    "newest system note marks the live branch": (
        ("go one >first two^1 >second !progress^3", "!system^3"),
        ("go two second", "go one first"),
    ),
    "newest attachment marks the live branch": (
        ("go one >first two^1 >second !progress^3", "!attachment^3"),
        ("go two second", "go one first"),
    ),
    "row with a missing parent follows the row before it": (
        "go >yes !system again^0 >done",
        "go yes again done",
    ),
    "note with a missing parent leaves the chain whole": (
        "go >yes !attachment^0 again",
        "go yes again",
    ),
    "row with a missing parent after a compaction follows it": (
        "go ~S again^0 >done",
        "S again done",
    ),
    "first row without its parent begins the history": ("go^0 >yes", "go yes"),
    "text typed beside the path from a result is sent after it": (
        "go <t1 =t1 +one +two +three^3 >done^3",
        "go t1 =t1 one two three done",
    ),
    "text typed beside the path next to others on it is sent": (
        "go <t1 =t1 +one +two >done^4",
        "go t1 =t1 one two done",
    ),
    "text typed late beside the path is sent": (
        ("go <t1 =t1 >done +wait^3", "more^4"),
        ("go t1 =t1 wait", "go t1 =t1 wait done more"),
    ),
    "text typed next to a prompt is a branch": (
        "go +left <t1^1 =t1 +left-too this >done^4",
        "go t1 =t1 done",
    ),
    "text typed on the path to a late result is sent": (
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
