"""The verdict on our adapter from the runs of a suite."""

from dataclasses import dataclass

from frameworks.runs import Outcomes, Suite


@dataclass(frozen=True)
class Verdict:
    """A suite's closing line, and the faults that it found."""

    line: str
    faults: list[str]


def judged(suite: Suite, ours: Outcomes, alone: Outcomes, own: Outcomes) -> Verdict:
    """The verdict of three runs: of all tests, of what failed alone, and over the own store.

    The own store runs only what can change the verdict: a test that passes over ours counts as
    passed, whatever it does over the own one.
    """
    failed = ours.which("failed") - alone.which("passed")
    fails_there = {test for test, found in own.of.items() if found == "failed"}
    skipped = ours.which("skipped")
    listed = suite.expected & failed
    not_counted = (failed - listed) & fails_there | skipped
    faults = [
        *_faults("fails only over our store", failed - listed - fails_there),
        *_faults("is listed as expected, and does not fail", suite.expected - failed),
        *_faults("is listed as expected, and fails over the own store too", listed & fails_there),
        *_faults("is skipped only over our store", skipped - own.which("skipped")),
    ]
    if len(ours.of) != suite.collected:
        faults.append(f"{len(ours.of)} tests were run instead of {suite.collected}")
    if ours.on_ours < suite.on_ours:
        faults.append(f"{ours.on_ours} tests opened a store of ours instead of {suite.on_ours}")
    passed = len(ours.of) - len(failed) - len(skipped)
    line = (
        f"{suite.name}: {passed} passed ({ours.on_ours} tests opened a store of ours),"
        f" {len(listed)} expected failures, {len(not_counted)} not counted"
    )
    return Verdict(line, faults)


def _faults(what: str, tests: set[str]) -> list[str]:
    return [f"{test} {what}" for test in sorted(tests)]
