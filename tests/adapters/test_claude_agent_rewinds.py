"""A rewind of ours in a transcript of the Claude Agent SDK: what the program resumes from."""

from contextlib import closing
from typing import Any

import pytest

from support.claude_desk import Desk, lines, seen
from support.transcripts import Transcript

DESK = Desk


@pytest.fixture
def file(tmp_path: Any) -> Transcript:
    return Transcript(tmp_path / "-work" / "s-1.jsonl")


def talk(file: Transcript, *texts: str, parent: Any = ...) -> None:
    """Questions with their answers, the attachments between them, and a row without an id."""
    for number, text in enumerate(texts):
        file.user(text, **({} if number or parent is ... else {"parent": parent}))
        file.row("attachment", attachment={"type": "date"})
        file.reply(f"m-{text}", text.upper(), stop="end_turn")
        file.line({"type": "last-prompt", "lastPrompt": text, "leafUuid": file.at})


def texts(chat: Any) -> str:
    return "".join(text for _, text in seen(chat))


def place(chat: Any, text: str) -> int:
    """The entry of a question."""
    return next(one.seq for one in chat.audit() if one.role and one.content == text)


def test_the_transcript_is_what_it_was_right_after_that_entry(desk, file):
    talk(file, "a", "b")
    before = lines(file)
    desk.append(*before)
    end = desk.chat().head().seq
    talk(file, "c", "d")
    desk.append(*lines(file)[len(before) :])
    chat = desk.chat()
    chat.rewind(place(chat, "d"), keep_target=False)
    assert texts(chat) == "aAbBcC"
    assert desk.load() == lines(file)[:-4]
    chat.rewind(end)
    assert desk.load() == before
    chat.undo()
    assert desk.load() == lines(file)[:-4]
    chat.rewind(chat.head().seq - 3)  # to before all of these
    assert desk.load() == lines(file)
    chat.rewind(0)
    assert desk.load() is None


def test_the_program_goes_on_from_there(desk, file):
    talk(file, "a")
    kept = lines(file)
    end = file.at
    talk(file, "b")
    desk.append(*lines(file))
    chat = desk.chat()
    chat.rewind(place(chat, "b"), keep_target=False)
    rewinds = kinds_of_rewinds(chat)
    assert desk.load() == kept
    more = len(lines(file))
    talk(file, "c", parent=end)
    desk.append(*lines(file)[more:-1])
    with closing(Desk(desk.url)) as another:  # which reads the log now
        another.append(*lines(file)[more:])
    assert texts(chat) == "aAcC"
    assert kinds_of_rewinds(chat) == rewinds
    assert desk.load() == kept + lines(file)[more:]
    assert chat.verify().ok


def kinds_of_rewinds(chat: Any) -> list[str]:
    return [one.entry.details["record"]["trigger"] for one in chat.audit() if one.kind == "rewind"]


@pytest.mark.parametrize("reads_anew", [False, True])
def test_a_program_that_runs_meanwhile_takes_the_rewind_back(desk, file, reads_anew):
    talk(file, "a", "b")
    desk.append(*lines(file))
    chat = desk.chat()
    chat.rewind(place(chat, "b"), keep_target=False)
    more = len(lines(file))
    talk(file, "c")
    with closing(Desk(desk.url)) as another:
        (another if reads_anew else desk).append(*lines(file)[more:])
    assert texts(chat) == "aAbBcC"
    assert desk.load() == lines(file)


def test_of_branches_only_the_one_that_was_gone_back_to_is_left(desk, file):
    talk(file, "a")
    begun, end = len(lines(file)), file.at
    talk(file, "b")
    left = len(lines(file))
    talk(file, "c", parent=end)
    desk.append(*lines(file))
    chat = desk.chat()
    assert texts(chat) == "aAcC"
    assert desk.load() == lines(file)
    chat.rewind(place(chat, "c"), keep_target=False)  # to right after the rewind to its parent
    assert texts(chat) == "aA"
    assert desk.load() == lines(file)[:begun]
    chat.undo()
    assert desk.load() == lines(file)[:begun] + lines(file)[left:]
    more = len(lines(file))
    talk(file, "d")
    desk.append(*lines(file)[more:])
    assert texts(chat) == "aAcCdD"


def test_a_rewind_to_before_a_compaction(desk, file):
    talk(file, "a")
    before = lines(file)
    desk.append(*before)
    end = desk.chat().head().seq
    file.compact("S")
    talk(file, "b")
    desk.append(*lines(file)[len(before) :])
    assert texts(desk.chat()) == "SbB"
    desk.chat().rewind(end)
    assert texts(desk.chat()) == "aA"
    assert desk.load() == before
