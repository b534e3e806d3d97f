"""Recorded inputs and outputs of real programs, and how they are replayed.

The folder is `tests/vectors`, or that of ROOCONTEXT_VECTORS: other recordings, with the same names
and in the same form. A file may be compressed with gzip.
"""

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roocontext import Store

Through = Callable[[Store, Any, Any], str | None]
"""Compares one recorded answer with what a store makes of it, or says why it cannot."""

FOLDER = Path(os.environ.get("ROOCONTEXT_VECTORS") or Path(__file__).parent)


def load(name: str) -> list[dict[str, Any]]:
    """The recordings of one function, `roo/tiktoken` for one."""
    plain = FOLDER / f"{name}.json"
    packed = FOLDER / f"{name}.json.gz"
    text = gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
    return json.loads(text)


def replay(name: str, function: Callable[[Any], Any]) -> int:
    """Give the function every recorded input; how many there were, all with their output."""
    recorded = load(name)
    results = [(case, function(case["input"])) for case in recorded]
    wrong = [
        f"{case['name']}: {got!r} instead of {case['output']!r}"
        for case, got in results
        if got != case["output"] or type(got) is not type(case["output"])
    ]
    assert not wrong, f"{len(wrong)} of {len(recorded)} differ:\n" + "\n".join(wrong[:20])
    assert recorded, f"{name} is empty"
    return len(recorded)


def through_store(name: str, store: Store, compare: Through, column: str | None = None) -> str:
    """Compare every recorded output with what a store makes of it, and say how many it could."""
    recorded = load(name)
    reasons: Counter[str] = Counter()
    for case in recorded:
        wanted = case["output"] if column is None else case["output"][column]
        try:
            reason = compare(store, case["input"], wanted)
        except AssertionError as error:
            raise AssertionError(f"{case['name']}: {error}") from error
        reasons.update([reason] if reason else [])
    left = "; ".join(f"{number} {reason}" for reason, number in reasons.items()) or "none"
    done = len(recorded) - reasons.total()
    return f"{done} of {len(recorded)} through the store; reasons: {left}"
