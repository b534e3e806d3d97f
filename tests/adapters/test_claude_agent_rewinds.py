"""A rewind of ours in a transcript of the Claude Agent SDK: what the program resumes from."""

from contextlib import closing, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roocontext.errors import NothingToUndo
from support.claude_agent_driver import ClaudeAgentDriver, lines, seen
from support.examples import examples
from support.transcripts import Transcript

DRIVER = ClaudeAgentDriver


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


def test_rewind_gives_the_transcript_as_of_the_entry(driver, file):
    talk(file, "a", "b")
    before = lines(file)
    driver.append(*before)
    end = driver.chat().head().seq
    talk(file, "c", "d")
    driver.append(*lines(file)[len(before) :])
    chat = driver.chat()
    chat.rewind(place(chat, "d"), keep_target=False)
    assert texts(chat) == "aAbBcC"
    assert driver.load() == lines(file)[:-4]
    chat.rewind(end)
    assert driver.load() == before
    chat.undo()
    assert driver.load() == lines(file)[:-4]
    chat.rewind(chat.head().seq - 3)  # to before all of these
    assert driver.load() == lines(file)
    chat.rewind(0)
    assert driver.load() is None


def test_program_continues_from_a_rewind(driver, file):
    talk(file, "a")
    kept = lines(file)
    end = file.at
    talk(file, "b")
    driver.append(*lines(file))
    chat = driver.chat()
    chat.rewind(place(chat, "b"), keep_target=False)
    rewinds = kinds_of_rewinds(chat)
    assert driver.load() == kept
    more = len(lines(file))
    talk(file, "c", parent=end)
    driver.append(*lines(file)[more:-1])
    with closing(ClaudeAgentDriver(driver.url)) as another:  # which reads the log now
        another.append(*lines(file)[more:])
    assert texts(chat) == "aAcC"
    assert kinds_of_rewinds(chat) == rewinds
    assert driver.load() == kept + lines(file)[more:]
    assert chat.verify().ok


def kinds_of_rewinds(chat: Any) -> list[str]:
    return [one.entry.details["record"]["trigger"] for one in chat.audit() if one.kind == "rewind"]


@pytest.mark.parametrize("reads_anew", [False, True])
def test_program_that_runs_meanwhile_takes_the_rewind_back(driver, file, reads_anew):
    talk(file, "a", "b")
    driver.append(*lines(file))
    chat = driver.chat()
    chat.rewind(place(chat, "b"), keep_target=False)
    more = len(lines(file))
    talk(file, "c")
    with closing(ClaudeAgentDriver(driver.url)) as another:
        (another if reads_anew else driver).append(*lines(file)[more:])
    assert texts(chat) == "aAbBcC"
    assert driver.load() == lines(file)


def test_rewind_leaves_one_branch(driver, file):
    talk(file, "a")
    begun, end = len(lines(file)), file.at
    talk(file, "b")
    left = len(lines(file))
    talk(file, "c", parent=end)
    driver.append(*lines(file))
    chat = driver.chat()
    assert texts(chat) == "aAcC"
    assert driver.load() == lines(file)
    chat.rewind(place(chat, "c"), keep_target=False)  # to right after the rewind to its parent
    assert texts(chat) == "aA"
    assert driver.load() == lines(file)[:begun]
    chat.undo()
    assert driver.load() == lines(file)[:begun] + lines(file)[left:]
    more = len(lines(file))
    talk(file, "d")
    driver.append(*lines(file)[more:])
    assert texts(chat) == "aAcCdD"


def test_message_after_a_rewind_is_redacted(driver, file):
    talk(file, "a")
    end = file.at
    talk(file, "b")
    driver.append(*lines(file))
    chat = driver.chat()
    chat.rewind(place(chat, "b"), keep_target=False)
    more = len(lines(file))
    talk(file, "c", parent=end)
    driver.append(*lines(file)[more:])
    chat.redact(place(chat, "c"))
    (redacted,) = (one for one in driver.load() if one.get("uuid") == "u-7")
    assert (redacted["parentUuid"], redacted["message"]["content"]) == (end, "[redacted]")


def test_rewind_to_before_a_compaction_shows_the_messages_again(driver, file):
    talk(file, "a")
    before = lines(file)
    driver.append(*before)
    end = driver.chat().head().seq
    file.compact("S")
    talk(file, "b")
    driver.append(*lines(file)[len(before) :])
    assert texts(driver.chat()) == "SbB"
    driver.chat().rewind(end)
    assert texts(driver.chat()) == "aA"
    assert driver.load() == before


class Program:
    """Resumes from what `load` returns, as the program does: after the newest message."""

    def __init__(self, driver: ClaudeAgentDriver, key: Any) -> None:
        self._driver, self._key = driver, key
        self._count = 0
        self.chat: Any = None

    def rows(self) -> list[Any]:
        return [one for one in self._driver.load(self._key) or [] if "uuid" in one]

    def sends(self) -> list[str]:
        """The messages that it would send: the newest and its ancestors."""
        rows = {one["uuid"]: one for one in self.rows()}
        at = next((one["uuid"] for one in reversed(rows.values()) if "message" in one), None)
        sent: list[str] = []
        while at is not None:
            if "message" in rows[at]:
                sent.insert(0, rows[at]["message"]["content"])
            at = rows[at]["parentUuid"]
        return sent

    def turn(self, parent: str | None) -> None:
        """A question, an attachment, an answer of two rows, and rows of no message."""
        self._count += 1
        rows = []
        names = {"q": "user", "x": "attachment", "a": "assistant", "b": "assistant", "y": "system"}
        for name, kind in names.items():
            row = {"type": kind, "uuid": f"{name}{self._count}", "parentUuid": parent}
            if kind in ("user", "assistant"):
                row["message"] = {"role": kind, "content": row["uuid"], "id": f"m{self._count}"}
            rows.append(row)
            parent = row["uuid"]
        rows.insert(1, {"type": "last-prompt", "lastPrompt": f"q{self._count}"})
        self._driver.append(*rows, key=self._key)
        project, session = self._key["project_key"], self._key["session_id"]
        self.chat = self._driver.chat(f"claude-agent-sdk:{project}/{session}")


def test_program_sends_what_the_view_shows(quick):
    asked = iter(range(1_000_000))
    kinds = st.sampled_from(["turn", "turn", "branch", "rewind", "undo", "restart"])
    step = st.tuples(kinds, st.floats(0, 1))

    @settings(max_examples=examples(30))
    @given(st.lists(step, min_size=3, max_size=14))
    def check(steps: list[tuple[str, float]]) -> None:
        program = Program(quick, {"project_key": "p", "session_id": f"s{next(asked)}"})
        program.turn(None)
        for what, where in steps:
            rows = program.rows()
            if what == "rewind":
                program.chat.rewind(int(where * program.chat.head().seq))
            elif what == "undo":
                with suppress(NothingToUndo):
                    program.chat.undo(force=True)
            elif what == "restart":
                quick.restart()
            elif not rows:
                program.turn(None)
            elif what == "turn":
                program.turn(rows[-1]["uuid"])
            else:  # after any row except one in the middle of an answer, which is one unit
                ends = [row["uuid"] for row in rows if row["uuid"][0] != "a"]
                program.turn(ends[int(where * (len(ends) - 1))])
            assert program.sends() == [one.content for one in program.chat.view().messages]
        assert program.chat.verify().ok

    check()
