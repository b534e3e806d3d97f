"""Usage reported by each provider is read alike, and compared with the estimates."""

import anthropic.types
import pytest

from roocontext.tokens import Drift, Usage, drift, last_request, usage_tokens

ANTHROPIC = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 20,
    "cache_read_input_tokens": 30,
    "output_tokens": 5,
}
CHAT = {
    "prompt_tokens": 60,
    "completion_tokens": 5,
    "total_tokens": 65,
    "prompt_tokens_details": {"cached_tokens": 30},
    "completion_tokens_details": {"reasoning_tokens": 4},
}
RESPONSES = {
    "input_tokens": 60,
    "input_tokens_details": {"cached_tokens": 30},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 4},
    "total_tokens": 65,
}
GEMINI = {
    "promptTokenCount": 58,
    "toolUsePromptTokenCount": 2,
    "cachedContentTokenCount": 30,
    "candidatesTokenCount": 1,
    "thoughtsTokenCount": 4,
    "totalTokenCount": 65,
}
GEMINI_PYTHON = {
    "prompt_token_count": 60,
    "cached_content_token_count": 30,
    "candidates_token_count": 5,
    "thoughts_token_count": None,
}


@pytest.mark.parametrize("usage", [ANTHROPIC, CHAT, RESPONSES, GEMINI, GEMINI_PYTHON])
def test_every_shape_of_usage_is_read_alike(usage):
    assert usage_tokens(usage)[:3] == (60, 5, 30)


def test_cache_writes_and_thinking_are_read_where_they_are_reported():
    created = {"ephemeral_5m_input_tokens": 13, "ephemeral_1h_input_tokens": 7}
    usage = usage_tokens({**ANTHROPIC, "cache_creation": created})
    assert usage == Usage(60, 5, 30, written=20, written_1h=7)
    for reported in (CHAT, RESPONSES, GEMINI):
        assert usage_tokens(reported) == Usage(60, 5, 30, thinking=4)
    assert usage_tokens({"prompt_tokens": 1}).thinking is None


def test_details_that_only_some_servers_report_are_read():
    anthropic = {"input_tokens": 5, "output_tokens": 9}
    thinking = {"output_tokens_details": {"thinking_tokens": 4}}
    assert usage_tokens({**anthropic, **thinking}).thinking == 4
    requests = [{"type": "message", **anthropic, **thinking}] * 2
    assert usage_tokens({**anthropic, "iterations": requests}).thinking == 8
    sent = {"prompt_tokens": 5, "completion_tokens": 9}
    details = {"prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 2}}
    assert usage_tokens({**sent, **details})[:4] == (5, 9, 1, 2)
    for name in ("prompt_cache_hit_tokens", "cached_tokens"):
        assert usage_tokens({**sent, name: 3}).cached == 3


def test_call_costs_all_of_its_requests_and_its_context_is_that_of_the_last_answered_one():
    compacting = {"type": "compaction", "input_tokens": 200, "output_tokens": 20}
    usage = {**ANTHROPIC, "iterations": [compacting, {"type": "message", **ANTHROPIC}]}
    assert usage_tokens(usage) == Usage(260, 25, 30, written=20)
    assert last_request(usage) == Usage(60, 5, 30, written=20)
    # A call that only compacted.
    alone = {"input_tokens": 0, "output_tokens": 0, "iterations": [compacting]}
    assert last_request(alone) == usage_tokens(alone) == Usage(200, 20, 0)
    for unusable in (None, [], "x", [1]):
        assert usage_tokens({**ANTHROPIC, "iterations": unusable}) == Usage(60, 5, 30, written=20)
    for reported in (ANTHROPIC, CHAT, RESPONSES, GEMINI):
        assert last_request(reported) == usage_tokens(reported)


def test_model_of_the_sdk_is_read():
    assert usage_tokens(anthropic.types.Usage(**ANTHROPIC)) == Usage(60, 5, 30, written=20)


def test_missing_and_mistyped_numbers_are_nothing():
    assert usage_tokens({"input_tokens": 3}) == Usage(3, 0, 0)
    assert usage_tokens({"input_tokens": True, "output_tokens": "5"}) == Usage(0, 0, 0)
    assert usage_tokens({"prompt_tokens": -1, "prompt_tokens_details": None}) == Usage(0, 0, 0)


@pytest.mark.parametrize("usage", [None, {}, [], "60", 60, {"tokens": 3}, {1: 2}])
def test_malformed_usage_is_none(usage):
    assert usage_tokens(usage) is None


def test_drift_is_summed_for_each_model():
    calls = [("a", 100, 150), ("b", 10, 10), ("a", 100, 90)]
    assert drift(calls) == {"a": Drift(2, 200, 240), "b": Drift(1, 10, 10)}
    assert drift(calls)["a"].ratio == 1.2
    assert drift([]) == {}


@pytest.mark.parametrize(
    ("estimated", "reported", "exceeds"),
    [(100, 120, False), (100, 121, True), (120, 100, False), (121, 100, True), (0, 0, False)],
)
def test_drift_exceeds_in_both_directions(estimated, reported, exceeds):
    assert Drift(1, estimated, reported).exceeds(1.2) is exceeds


def test_without_an_estimate_there_is_no_ratio():
    assert Drift(1, 0, 10).ratio is None
    assert Drift(1, 0, 10).exceeds(100)
