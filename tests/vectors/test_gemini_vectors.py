"""Gemini CLI's compression answers as the real program answered, and leaves the same history."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from roocontext import Store
from roocontext.errors import InvalidOption
from roocontext.programs.gemini_cli.policy import (
    DEFAULT_ALIAS,
    INSTRUCTION,
    CompressionStatus,
    alias_for,
    attempt,
    compressed,
    curated,
    split_point,
    verdict,
    weights,
)
from vectors import gemini_store
from vectors.replay import Through, load, replay, through_store


def split_through(store: Store, given: Any, wanted: Any) -> str | None:
    """The fraction is a setting of the policy, and what it hides is what it would compress."""
    if reason := gemini_store.unheld(given["contents"]):
        return reason
    if "error" in wanted:
        with pytest.raises(InvalidOption):
            gemini_store.GeminiUpstream(fraction=given["fraction"])
        return "a fraction that is no setting"
    if len(curated(given["contents"])) < len(given["contents"]):
        return "a history of which a part is not sent"
    assert gemini_store.split(store, given["contents"], given["fraction"]) == wanted["splitPoint"]
    return None


def compress_through(store: Store, given: Any, wanted: Any) -> str | None:
    """The policy decides, the plan is committed, and the view is the new history."""
    if reason := gemini_store.unheld(given["history"]):
        return reason
    if len(curated(given["history"])) < len(given["history"]):
        return "a history of which a part is not sent"
    found = gemini_store.compress(store, given)
    empty = gemini_store.is_empty(given) and found["summarizerCalled"]
    if empty:
        assert found.pop("status") == CompressionStatus.EMPTY_SUMMARY
    assert found.items() <= wanted.items()
    return "an empty summary, which no store holds" if empty else None


def latch_through(store: Store, given: Any, wanted: Any) -> str | None:
    """The manager keeps the latch in a note, and tells the policy of it."""
    assert gemini_store.latch(store, given["steps"]) == wanted["steps"]
    return None


def curated_through(store: Store, given: Any, wanted: Any) -> str | None:
    """The messages that the summariser is asked about are those that would be sent."""
    if reason := gemini_store.unheld(given["history"]):
        return reason
    chat = gemini_store.told(store, given["history"])
    assert curated(gemini_store.history(chat)) == wanted["keptIndices"]
    return None


def alias_through(store: Store, given: Any, wanted: Any) -> str | None:
    """The policy asks for the model that sums up for this one."""
    case = {**TALK, "model": given["model"]}
    assert gemini_store.compress(store, case)["summarizerModelAlias"] == wanted["alias"]
    return None


def split(given: Any) -> Any:
    try:
        found = split_point(given["contents"], given["fraction"])
    except InvalidOption as error:
        return {"error": error.fact}
    return {"splitPoint": found}


def compress(given: Any) -> Any:
    contents, forced = given["history"], given["force"]
    tried = attempt(
        contents,
        given["lastPromptTokenCount"],
        window=gemini_store.window(given["model"]),
        forced=forced,
        failed=given["hasFailedCompressionAttempt"],
        threshold=gemini_store.threshold(given),
    )
    after, history, status = tried.tokens, None, CompressionStatus.NOOP
    if tried.split:
        history = compressed(contents, tried.split, given["summary"] or "")
        after = gemini_store.counting(given)(history)
        status = verdict(tried.tokens, after)
    return {
        "status": str(status),
        "statusValue": gemini_store.NUMBERS[status],
        "originalTokenCount": tried.tokens,
        "newTokenCount": after,
        "newHistory": history if status is CompressionStatus.COMPRESSED else None,
        "hooksFired": gemini_store.hooks(given, told=tried.notifies),
        "summarizerCalled": bool(tried.split),
        "summarizerModelAlias": alias_for(given["model"]) if tried.split else None,
        "summarizerContentCount": tried.split + 1 if tried.split else None,
        "summarizerLastUserText": INSTRUCTION if tried.split else None,
    }


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "gemini/split_point": split,
    "gemini/compress": compress,
}

THROUGH: dict[str, Through] = {
    "gemini/split_point": split_through,
    "gemini/compress": compress_through,
    "gemini/failure_latch": latch_through,
    "gemini/curated_history": curated_through,
    "gemini/compression_model_alias": alias_through,
}


def recordings(name: str, function: Callable[[Any], Any]) -> None:
    """Replay them. The lengths of contents, which some cuts were recorded with, are apart."""
    if name != "gemini/split_point":
        replay(name, function)
        return
    recorded = load(name)
    for case in recorded:
        wanted = dict(case["output"])
        if lengths := wanted.pop("charCounts", None):
            assert weights(case["input"]["contents"]) == lengths, case["name"]
        assert function(case["input"]) == wanted, case["name"]
    assert recorded


TALK = {
    "history": [
        {"role": role, "parts": [{"text": text}]}
        for role, text in [("user", "why " * 50), ("model", "because"), ("user", "and now?")]
    ],
    "lastPromptTokenCount": 1_000,
    "force": True,
    "hasFailedCompressionAttempt": False,
    "threshold": None,
    "summary": "S",
    "apiTokens": 0,
    "environmentText": "",
}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open(":memory:", durability="normal") as opened:
        yield opened


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_recording_is_reproduced(name):
    recordings(name, FUNCTIONS[name])


@pytest.mark.parametrize("name", THROUGH)
def test_every_recording_is_reproduced_through_the_store(name, store, capsys):
    done = through_store(name, store, THROUGH[name])
    with capsys.disabled():
        sys.stdout.write(f"\n{name}: {done} ")


def test_model_that_is_not_in_the_table_has_the_default():
    assert alias_for("gemini-9-ultra") == DEFAULT_ALIAS == alias_for("")
