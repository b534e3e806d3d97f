"""OpenCode's functions answer as recorded, and a store that its policies work on agrees."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from roocontext import Store
from roocontext.programs.opencode.policy import OpenCode, OpenCodeUpstream
from roocontext.programs.opencode.prune import (
    OUTPUT_MAX,
    SPARED_NEWER,
    Estimate,
    PastMessage,
    estimate_length,
    estimate_upstream,
    prunable,
)
from roocontext.tokens.limits import switches
from vectors import opencode_store
from vectors.replay import Through, load, replay, through_store

OUTPUT = "OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX"


def output_max(given: Any) -> int:
    told = str(given["env"].get(OUTPUT, ""))
    return int(told) if told.isdecimal() and int(told) else OUTPUT_MAX


def overflow_through(policy: type[OpenCode | OpenCodeUpstream]) -> Through:
    def through(store: Store, given: Any, wanted: Any) -> str | None:
        if given["tokens"]["cache"]["write"]:
            return "tokens written to a cache, which are part of the input in a store"
        most = output_max(given)
        reserved = min(given["limit"]["output"], most) or most
        if not policy.compat and given["limit"]["context"] < 2 * reserved:
            return "a reserve of more than half of the window"
        chosen = policy(
            autocompact=switches(given["env"]).autocompact, output_max=most, prune=False
        )
        assert opencode_store.overflows(store, given, chosen) is wanted
        return None

    return through


def prune_through(policy: type[OpenCode | OpenCodeUpstream], **settings: Any) -> Through:
    def through(store: Store, given: Any, wanted: Any) -> str | None:
        if reason := opencode_store.unlike(given["messages"], compat=policy.compat):
            return reason
        chosen = policy(prune=not given["disablePrune"], **settings)
        found = opencode_store.pruning(store, given, chosen)
        if wanted["prunedPartIds"]:
            told = {"total": wanted["total"], "pruned": wanted["pruned"]}
            assert found == told | {"parts": set(wanted["prunedPartIds"])}
        else:
            assert found is None
        return None

    return through


def filter_through(*, despite_errors: bool) -> Through:
    def through(store: Store, given: Any, wanted: Any) -> str | None:
        messages = given["messages"]
        if reason := opencode_store.unheld(messages, despite_errors=despite_errors):
            return reason
        told = opencode_store.Told(store.create(), despite_errors).all(messages)
        assert told.shown() == wanted
        assert told.chat.verify().ok
        return None

    return through


def tail_through(store: Store, given: Any, wanted: Any) -> str | None:
    parts = [part for message in given["messages"] for part in message["parts"]]
    if any("tail_start_id" in part for part in parts):
        return "a tail, which no policy keeps"
    return filter_through(despite_errors=False)(store, given, wanted)


def part_through(store: Store, given: Any, wanted: Any) -> str | None:
    if given["part"]["state"]["status"] not in ("completed", "error"):
        return "a call without a result, which a store answers in its own words"
    if (given["part"]["state"].get("metadata") or {}).get("interrupted"):
        return "the output of a call that was interrupted"
    assert opencode_store.seen(store, given["part"]) == wanted
    return None


def prune(given: Any) -> Any:
    steps = [opencode_store.step_of(message) for message in given["messages"]]
    ran = not given["disablePrune"]

    def walked(steps: list[PastMessage[str]], rule: Estimate, spared: frozenset[str]) -> Any:
        found = prunable(steps if ran else [], rule, spared=spared)
        told = {"total": found.total, "pruned": found.pruned, "ran": ran}
        return told | {"prunedPartIds": list(found.refs)}

    return {
        "seed_ceil_estimate": walked(steps, estimate_length, frozenset()),
        "upstream_round_estimate": walked(steps, estimate_upstream, frozenset()),
        "newer_protected_skill": walked(steps, estimate_upstream, SPARED_NEWER),
    }


PRUNE: dict[str, Through] = {
    "seed_ceil_estimate": prune_through(OpenCode),
    "upstream_round_estimate": prune_through(OpenCodeUpstream),
    "newer_protected_skill": prune_through(OpenCodeUpstream, spared=SPARED_NEWER),
}

THROUGH: dict[str, Mapping[str, Through]] = {
    "opencode/is_overflow": {
        "seed": overflow_through(OpenCode),
        "seed_upstream": overflow_through(OpenCodeUpstream),
    },
    "opencode/prune": PRUNE,
    "opencode/filter_compacted": {
        "seed": filter_through(despite_errors=True),
        "newer_error_check": filter_through(despite_errors=False),
        "newest_tail": tail_through,
    },
    "opencode/cleared_tool_output": {
        "seed_model_part": part_through,
        "newer_model_part": part_through,
    },
}
"""How a store gives the recorded answers, by the versions of the program that gave them."""


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(":memory:", durability="normal") as opened:
        yield opened


def test_every_pruning_is_reproduced():
    assert replay("opencode/prune", prune)


@pytest.mark.parametrize("name", THROUGH)
def test_every_recording_is_reproduced_through_the_store(name, store, capsys):
    for column, through in THROUGH[name].items():
        done = through_store(name, store, through, column.removesuffix("_upstream"))
        with capsys.disabled():
            sys.stdout.write(f"\n{name}, {column}: {done} ")


def asked_with_tools(messages: Any) -> Any:
    """A history in which the tools of each answer stand in the user's message before it."""
    moved = []
    for message in messages:
        tools = [part for part in message["parts"] if part["type"] == "tool"]
        before = moved[-1] if moved else None
        asked = before and before["info"]["role"] == "user"
        if tools and asked and not message["info"].get("summary"):
            rest = [part for part in message["parts"] if part["type"] != "tool"]
            moved[-1] = {**before, "parts": [*before["parts"], *tools]}
            moved.append({**message, "parts": rest or [{"type": "text", "text": "so"}]})
        else:
            moved.append(message)
    return moved


@pytest.mark.parametrize("column", PRUNE)
def test_tools_in_a_message_of_the_user_are_pruned_as_the_program_does(store, column):
    told = held = 0
    for case in load("opencode/prune"):
        given = case["input"] | {"messages": asked_with_tools(case["input"]["messages"])}
        wanted = prune(given)[column]
        held += PRUNE[column](store, given, wanted) is None
        users = (one for one in given["messages"] if one["info"]["role"] == "user")
        parts = {part["id"] for one in users for part in one["parts"] if part["type"] == "tool"}
        told += not parts.isdisjoint(wanted["prunedPartIds"])
    assert held > 40
    assert told > 10
