"""Importing a transcript: how fast, and what it keeps in memory of each line."""

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bench.data import content, role
from bench.report import Line
from bench.sites import SqliteSite, line_of
from bench.sizes import Sizes
from bench.timing import Samples, Step, alternate
from roocontext import NewMessage, Store
from roocontext.formats.importers import claude_code
from roocontext.formats.player import play

BATCH = 250
HELD = 1_500
"""How many bytes a line may keep in memory: its place in the tree, its entry, its digest."""


def transcripts(site: SqliteSite, sizes: Sizes) -> Iterator[Line]:
    count = sizes.middle
    path = site.path("transcript").with_suffix(".jsonl")
    rows = _written(path, count)
    ours, floor = (
        site.store(name, durability="normal") for name in ("transcript", "transcript_floor")
    )

    def bring(number: int) -> None:
        (again,) = claude_code.sources(path)
        play(ours, replace(again, session_id=f"run-{number}"))

    def append(_: int) -> None:
        chat = floor.create()
        for at in range(0, count, BATCH):
            chat.append_many(rows[at : at + BATCH])

    times = alternate([Step("bring", bring), Step("append", append)], rounds=sizes.imports)
    each = Samples([value / count for value in times["bring"].values])
    yield line_of(
        site,
        "transcript",
        f"import a transcript of {count:,} lines, per line of 2 KiB",
        "append_many of the same rows",
        each,
        Samples([value / count for value in times["append"].values]),
        1.5,
        note=f"{1 / each.p50:,.0f} lines a second",
    )
    short = path.with_name("short.jsonl")
    _written(short, count // 2)
    held = (_held(ours, path) - _held(ours, short)) / (count - count // 2)
    yield line_of(
        site,
        "transcript.memory",
        "import a transcript, bytes that each line keeps in memory",
        f"{HELD:,} bytes: its place in the tree, its entry, its digest",
        Samples([max(held, 1.0)]),
        Samples([float(HELD)]),
        1.0,
        unit="B",
    )


def _held(store: Store, path: Path) -> int:
    """How many bytes are held at most while a transcript is imported."""
    tracemalloc.start()
    try:
        (source,) = claude_code.sources(path)
        play(store, replace(source, session_id=f"held-{path.stem}"))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _written(path: Path, count: int) -> list[NewMessage]:
    """Write a transcript, and return the messages that an import makes of it."""
    rows = []
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            record, row = _line(number)
            file.write(json.dumps(record) + "\n")
            rows.append(row)
    return rows


def _line(number: int) -> tuple[dict[str, Any], NewMessage]:
    body = content(number)
    message: dict[str, Any] = {"role": role(number)}
    if message["role"] == "assistant":
        usage = {"input_tokens": 1_000, "output_tokens": 100}
        message |= {"id": f"msg-{number}", "model": "claude-opus-4-6", "usage": usage}
        message["stop_reason"] = "end_turn"
    record = {
        "parentUuid": f"row-{number - 1}" if number else None,
        "isSidechain": False,
        "cwd": "/work",
        "sessionId": "transcript",
        "version": "2.1.81",
        "gitBranch": "main",
        "type": message["role"],
        "uuid": f"row-{number}",
        "timestamp": "2026-03-01T10:00:00.123Z",
        "toolUseResult": "x" * 500,
    }
    # As random as the client ids of an import, which the index of the store notices.
    digest = blake2b(str(number).encode(), digest_size=12).hexdigest()
    row = NewMessage(
        str(message["role"]),
        body,
        ts=1_772_359_200_123,
        message_id=f"row-{number}",
        client_id=f"import#0#{digest}#1#row-{number}",
        model=message.get("model"),
        usage=message.get("usage"),
        extra={"record": {**record, "message": message}},
    )
    return {**record, "message": {**message, "content": body}}, row
