"""Imports and exports hold no more memory for many entries than for few."""

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.formats import jsonl
from roocontext.formats.events import Source
from roocontext.formats.importers import claude_code, codex, gemini_cli
from roocontext.formats.player import play
from support.empty_files import empty_file
from support.transcripts import Transcript, use

ENTRIES, SIZE = 4_000, 3_000
MOST = ENTRIES * SIZE // 2


def peak(work: Callable[[], object]) -> int:
    """The most bytes that some work holds at once."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def large(tmp_path: Path) -> Store:
    """A store with a session of 12 MB."""
    store = Store.open(empty_file(tmp_path / "large.db"), durability="normal")
    chat = store.create("large")
    for begin in range(0, ENTRIES, 500):
        chat.append_many(
            [{"role": "user", "content": f"{begin + n}" + SIZE * "x"} for n in range(500)]
        )
    return store


def test_file_is_neither_held_when_written_nor_when_read(large, tmp_path):
    file = tmp_path / "large.jsonl"

    def write() -> None:
        with file.open("wb") as to:
            to.writelines(jsonl.export_session(large.session("large")))

    def read() -> None:
        assert [done.new for done in jsonl.restore_file(other, file)] == [ENTRIES]

    with large, Store.open(empty_file(tmp_path / "other.db")) as other:
        assert peak(write) < MOST
        assert peak(read) < MOST


def claude_code_file(path: Path, count: int) -> Iterable[Source]:
    transcript = Transcript(path / "s-1.jsonl")
    for number in range(count // 4):
        transcript.user("go on")
        transcript.reply(f"m{number}", use(f"t{number}"), stop="tool_use")
        transcript.result(f"t{number}")
        transcript.reply(f"n{number}", "done", stop="end_turn")
    return claude_code.sources(transcript.path)


def busy_claude_code_file(path: Path, count: int) -> Iterable[Source]:
    """One prompt, and parallel calls after it."""
    transcript = Transcript(path / "s-1.jsonl")
    transcript.user("work")
    for number in range(count // 4):
        calls = [f"t{number}", f"s{number}"]
        rows = [transcript.reply(f"m{number}", use(call)) for call in calls]
        for call, row in zip(calls, rows, strict=True):
            transcript.result(call, parent=row)
    return claude_code.sources(transcript.path)


def codex_file(path: Path, count: int) -> Iterable[Source]:
    file = path / "rollout.jsonl"
    with file.open("w") as lines:
        for number in range(count):
            role = ("user", "assistant")[number % 2]
            payload = {"type": "message", "role": role, "id": f"msg-{number}", "content": []}
            line = {"type": "response_item", "timestamp": "2026-03-01T10:00:00Z"}
            lines.write(json.dumps({**line, "payload": payload}) + "\n")
    return codex.sources(file)


def gemini_file(path: Path, count: int) -> Iterable[Source]:
    file = path / "session-1.jsonl"
    with file.open("w") as lines:
        for number in range(count):
            role, text = ("user", "gemini")[number % 2], f"{number}" + 1_000 * "x"
            lines.write(json.dumps({"id": f"m{number}", "type": role, "content": text}) + "\n")
    return gemini_cli.sources(file)


FEW, MANY = 300, 1_300


@pytest.mark.parametrize(
    ("written", "most"),
    [
        (claude_code_file, 1_500),
        (busy_claude_code_file, 1_500),
        (codex_file, 1_500),
        (gemini_file, 3_500),
    ],
)
def test_import_keeps_little_memory_of_a_line(written, most, tmp_path):
    """About its place in the file, whether it is new or was imported before; no content.

    Only a recording of Gemini CLI is held, because any line may change what came before.
    """
    peaks = {}
    with Store.open(empty_file(tmp_path / "store.db"), durability="normal") as store:
        for count in (50, FEW, MANY):  # the first one loads what an import needs
            folder = tmp_path / str(count)
            folder.mkdir()
            sources = [replace(one, session_id=str(count)) for one in written(folder, count)]
            for again in (False, True):
                peaks[count, again] = peak(lambda: [play(store, one) for one in sources])  # noqa: B023
        for again in (False, True):
            assert (peaks[MANY, again] - peaks[FEW, again]) / (MANY - FEW) < most
