"""Roo Code's context management answers as both versions of the program did, also in a store."""

import sys
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from vectors.replay import FOLDER, load
from vectors.roo_operations import OPERATIONS, wanted
from vectors.roo_program import FUNCTIONS
from vectors.roo_store import Shelf, Unheld

ELSEWHERE = {"tiktoken"}
"""Recordings of a counter, which the counters' tests replay."""


@pytest.fixture(scope="module")
def shelf() -> Iterator[Shelf]:
    """An open store."""
    opened = Shelf()
    yield opened
    opened.store.close()


def runs(name: str) -> list[tuple[str, Any, str, Any]]:
    """Each recording once for each version that gave it: name, input, version and output."""
    return [
        (f"{case['name']} of {version}", case["input"], version, _spelt_out(case))
        for case in load(f"roo/{name}")
        for version in case["versions"]
    ]


def _spelt_out(case: Any) -> Any:
    """The output with the input's messages where it says that they are unchanged."""
    output = case["output"]
    if isinstance(output, dict) and output.get("result", {}).get("messages") == "<unchanged>":
        return {**output, "result": {**output["result"], "messages": case["input"]["messages"]}}
    return output


def test_every_recorded_function_is_replayed():
    recorded = {path.name.split(".")[0] for path in (FOLDER / "roo").glob("*.json*")}
    assert recorded == {*FUNCTIONS, *OPERATIONS, *ELSEWHERE}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_recording_is_reproduced(name, capsys):
    recorded = runs(name)
    for told, given, version, output in recorded:
        before = deepcopy(given)
        assert FUNCTIONS[name](given, version) == output, told
        assert given == before, told
    assert recorded
    _tell(f"{len(recorded)} of {len(recorded)} pure", name, capsys)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_recording_is_reproduced_through_a_store(name, shelf, capsys):
    recorded = runs(name)
    reasons: Counter[str] = Counter()
    for told, given, version, output in recorded:
        try:
            got = OPERATIONS[name](shelf, given, version)
        except Unheld as unheld:
            reasons[str(unheld)] += 1
            continue
        assert wanted(got) == wanted(output), told
    done = len(recorded) - reasons.total()
    assert done
    left = "; ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "none"
    _tell(f"{done} of {len(recorded)} through the store; left out: {left}", name, capsys)


def _tell(what: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nroo/{name}: {what} ")
