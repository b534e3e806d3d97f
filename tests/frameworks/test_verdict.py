"""When a run of a framework's own tests over our adapter fails."""

from dataclasses import replace

import pytest

from frameworks.runs import Outcomes, Suite, suites
from frameworks.sources import pinned
from frameworks.verdict import judged

SUITE = Suite(
    name="suite",
    package="package",
    plugin="plugin",
    engine="sqlite",
    files=("tests",),
    options=(),
    collected=3,
    on_ours=2,
    expected=frozenset(),
)
PASSED = {"a": "passed", "b": "passed", "c": "passed"}
NOTHING = Outcomes({}, 0)


def over_ours(**others: str) -> Outcomes:
    return Outcomes(PASSED | others, on_ours=2)


def test_tests_that_pass_are_counted() -> None:
    verdict = judged(SUITE, over_ours(), NOTHING, NOTHING)
    assert verdict.faults == []
    assert verdict.line == (
        "suite: 3 passed (2 tests opened a store of ours), 0 expected failures, 0 not counted"
    )


def test_test_that_fails_only_over_ours_is_a_fault() -> None:
    verdict = judged(SUITE, over_ours(b="failed"), NOTHING, Outcomes({"b": "passed"}, 0))
    assert verdict.faults == ["b fails only over our store"]


def test_test_that_the_own_store_did_not_run_is_a_fault() -> None:
    verdict = judged(SUITE, over_ours(b="failed"), NOTHING, NOTHING)
    assert verdict.faults == ["b fails only over our store"]


def test_test_that_passes_alone_has_passed() -> None:
    verdict = judged(SUITE, over_ours(b="failed"), Outcomes({"b": "passed"}, 1), NOTHING)
    assert verdict.faults == []
    assert "3 passed" in verdict.line


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_what_also_happens_over_the_own_store_is_not_counted(outcome: str) -> None:
    verdict = judged(SUITE, over_ours(b=outcome), NOTHING, Outcomes({"b": outcome}, 0))
    assert verdict.faults == []
    assert "2 passed" in verdict.line
    assert "1 not counted" in verdict.line


def test_test_that_is_skipped_only_over_ours_is_a_fault() -> None:
    verdict = judged(SUITE, over_ours(b="skipped"), NOTHING, Outcomes({"b": "passed"}, 0))
    assert verdict.faults == ["b is skipped only over our store"]


def test_expected_failure_must_fail_over_ours_and_pass_over_the_own_store() -> None:
    suite = replace(SUITE, expected=frozenset({"b"}))
    right = judged(suite, over_ours(b="failed"), NOTHING, Outcomes({"b": "passed"}, 0))
    assert right.faults == []
    assert "2 passed" in right.line
    assert "1 expected failures" in right.line
    passes = judged(suite, over_ours(), NOTHING, NOTHING)
    assert passes.faults == ["b is listed as expected, and does not fail"]
    fails_there = judged(suite, over_ours(b="failed"), NOTHING, Outcomes({"b": "failed"}, 0))
    assert fails_there.faults == ["b is listed as expected, and fails over the own store too"]


def test_tests_that_are_not_run_and_a_store_that_is_not_replaced_are_faults() -> None:
    verdict = judged(SUITE, Outcomes({"a": "passed", "b": "passed"}, 1), NOTHING, NOTHING)
    assert verdict.faults == [
        "2 tests were run instead of 3",
        "1 tests opened a store of ours instead of 2",
    ]


def test_few_tests_may_fail() -> None:
    """At most 8 of LangGraph, 38 of the OpenAI Agents SDK and 8 of the Claude Agent SDK."""
    listed = {"langgraph": 0, "openai-agents": 0, "claude-agent-sdk": 0}
    for suite in suites():
        family = next(name for name in listed if suite.name.startswith(name))
        listed[family] += len(suite.expected)
        assert suite.package in pinned(), suite.name
    assert listed["langgraph"] <= 8
    assert listed["openai-agents"] <= 38
    assert listed["claude-agent-sdk"] <= 8
