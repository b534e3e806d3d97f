"""Attachments and printed commands as Claude Code sends them after a resume.

Recorded with 2.1.261 to 2.1.332.
"""

from typing import Any

import pytest

from support.transcripts import Transcript, say, sent, use, words

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def imported(store: Any, file: Transcript) -> Any:
    sent(store, file)
    return store.session("claude-code:s-1")


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
    chat = imported(store, file)
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
    seen = [one.content for one in imported(store, file).view().messages[3:]]
    assert seen == [content]


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
    chat = imported(store, file)
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
    chat = imported(store, file)
    assert words(chat) == " ".join(["go", *([printed] if seen else []), "done"])
    kept = [
        one.entry.extra["record"]["content"]
        for one in chat.audit()
        if one.entry.message_id == "u-2"
    ]
    assert kept == [printed] * seen
    assert chat.info().first_prompt == "go"


def test_output_of_a_local_command_beside_the_path_is_sent(store, file):
    file.user("go")
    call = file.reply("m1", use("t1"), stop="tool_use")
    file.row("system", subtype="local_command", content="printed")
    file.result("t1", parent=call)
    done(file)
    assert sent(store, file) == "go t1 =t1 printed done"
