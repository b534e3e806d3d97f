"""When a run of a framework's own tests over our adapter fails."""

from dataclasses import replace

import pytest

from frameworks.runs import Outcomes, Suite, suites
from frameworks.sources import pinned
from frameworks.verdict import judged

SUITE = Suite("suite", "package", "plugin", "sqlite", ("tests",), (), 3, 2, frozenset())
PASSED = {"a": "passed", "b": "passed", "c": "passed"}
NOTHING = Outcomes({}, 0)


def over_ours(**others: str) -> Outcomes:
    return Outcomes(PASSED | others, on_ours=2)


def test_tests_that_pass_are_counted():
    verdict = judged(SUITE, over_ours(), NOTHING, NOTHING)
    assert verdict.faults == []
    assert verdict.line == (
        "suite: 3 passed (2 tests opened a store of ours), 0 expected failures, 0 not counted"
    )


EXPECTED, NOT_COUNTED = "1 expected failures, 0 not", "0 expected failures, 1 not counted"
ONLY = "fails only over our store"
VERDICTS = {
    "fails only over ours": ("failed", "", "passed", ONLY, "2 passed"),
    "not run over the own store": ("failed", "", "", ONLY, "2 passed"),
    "passes alone": ("failed", "passed", "", "", "3 passed"),
    "fails over both": ("failed", "", "failed", "", NOT_COUNTED),
    "skipped over both": ("skipped", "", "skipped", "", NOT_COUNTED),
    "skipped over ours": ("skipped", "", "passed", "is skipped only over our store", "2 passed"),
    "expected, fails only over ours": ("failed", "", "passed", "", EXPECTED),
    "expected, passes": ("passed", "", "", "is listed as expected, and does not fail", "3 passed"),
    "expected, fails over both": (
        *("failed", "", "failed"),
        *("is listed as expected, and fails over the own store too", EXPECTED),
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_verdict_on_a_test_depends_on_its_outcomes(case):
    ours, alone, own, fault, line = VERDICTS[case]
    suite = replace(SUITE, expected=frozenset({"b"} if case.startswith("expected") else ()))
    found = [Outcomes({"b": outcome} if outcome else {}, 0) for outcome in (alone, own)]
    verdict = judged(suite, over_ours(b=ours), *found)
    assert verdict.faults == ([f"b {fault}"] if fault else [])
    assert line in verdict.line


def test_tests_that_are_not_run_and_a_store_that_is_not_replaced_are_faults():
    verdict = judged(SUITE, Outcomes({"a": "passed", "b": "passed"}, 1), NOTHING, NOTHING)
    assert verdict.faults == [
        "2 tests were run instead of 3",
        "1 tests opened a store of ours instead of 2",
    ]


def test_few_tests_may_fail():
    """At most 8 of LangGraph, 38 of the OpenAI Agents SDK and 8 of the Claude Agent SDK."""
    listed = {"langgraph": 0, "openai-agents": 0, "claude-agent-sdk": 0}
    for suite in suites():
        family = next(name for name in listed if suite.name.startswith(name))
        listed[family] += len(suite.expected)
        assert suite.package in pinned(), suite.name
    assert listed["langgraph"] <= 8
    assert listed["openai-agents"] <= 38
    assert listed["claude-agent-sdk"] <= 8
