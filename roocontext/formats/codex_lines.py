"""The lines of a Codex CLI rollout, ahead of them those of the rollouts that it continues.

Since 2026 a forked thread holds only what is new. Its first record names the thread that it was
forked from, and the number of the first record there that it does not share.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from roocontext.formats.events import Problem
from roocontext.formats.lines import SourceLine, read_lines

_THREAD = re.compile(r"[\w-]+")
# Tuples: what a damaged record holds in the place of a name need not be hashable.
ENVELOPES = ("session_meta", "response_item", "turn_context", "compacted", "event_msg")


class Placed(NamedTuple):
    """A line, its file, and its number as a name that no line of another file has."""

    path: Path
    line: SourceLine
    name: str


def read_threads(
    path: Path,
    problems: list[Problem],
    *,
    end: int | None = None,
    above: tuple[Path, ...] = (),
) -> Iterator[Placed]:
    """The lines of a rollout in their order, behind those of its base; `end` is not read."""
    is_begun = False
    for line in read_lines(path, problems):
        record = line.record if isinstance(line.record, dict) else {}
        ordinal = record.get("ordinal")
        if end is not None and type(ordinal) is int and ordinal >= end:
            return
        if not is_begun and record.get("type") == "session_meta":
            is_begun = True
            yield from _base(record.get("payload"), line, problems, end, (*above, path))
        name = f"{path.stem}:{line.number}" if above else f"{line.number}"
        yield Placed(path, line, name)


def _base(
    facts: Any,
    line: SourceLine,
    problems: list[Problem],
    end: int | None,
    above: tuple[Path, ...],
) -> Iterator[Placed]:
    """The lines that a thread shares with the one that it was forked from."""
    match facts:
        case {"history_base": {"thread_id": str(thread), "end_ordinal_exclusive": int(last)}}:
            path = above[-1]
            found = _rollout(path, thread) if _THREAD.fullmatch(thread) else None
            if found is None or found in above:
                what = "the thread that it was forked from is not here, so its history is missing"
                problems.append(Problem(path, line.number, what))
                return
            last = last if end is None else min(last, end)
            yield from read_threads(found, problems, end=last, above=above)


def _rollout(path: Path, thread: str) -> Path | None:
    """The rollout of another thread: in the same folder, or where the program keeps them all."""
    name = f"rollout-*-{thread}.jsonl"
    homes = [folder.parent for folder in path.parents if folder.name.endswith("sessions")][:1]
    places = [path.parent.glob(name)]
    for home in homes:
        places += [home.glob(f"sessions/*/*/*/{name}"), home.glob(f"archived_sessions/{name}")]
    return next((found for place in places for found in sorted(place)), None)


def opened_line(record: Any) -> tuple[str, dict[str, Any]]:
    """The type and the payload of a line, of those without an envelope too."""
    if not isinstance(record, dict):
        return "unknown", {}
    payload = record.get("payload")
    if isinstance(payload, dict):
        return str(record.get("type") or "unknown"), payload
    if "payload" in record or record.get("type") in ENVELOPES:
        return "unknown", {}
    if "record_type" in record:
        return "state", record
    if "type" in record:
        return "response_item", record
    return "session_meta", record
