"""Run the frameworks' own tests over our adapters: `make test-frameworks`.

A test that fails over our store and passes over the framework's own is a defect of ours, unless a
suite lists it as expected, with the reason.
"""

import sys
from pathlib import Path

from frameworks.runs import Outcomes, Suite, SuiteFailed, run, suites
from frameworks.sources import unpacked
from frameworks.verdict import Verdict, judged


def judge(suite: Suite, source: Path) -> Verdict:
    """Run a suite over our store, and again what its verdict depends on."""
    ours = run(suite, source, "ours")
    unexpected = ours.which("failed") - suite.expected
    nothing = Outcomes({}, 0)
    # A test that depends on time may fail when others run.
    alone = run(suite, source, "ours", only=unexpected, alone=True) if unexpected else nothing
    asked = (ours.which("failed") | ours.which("skipped")) - alone.which("passed")
    own = run(suite, source, "own", only=asked) if asked else nothing
    return judged(suite, ours, alone, own)


def main(names: list[str]) -> int:
    """Run these suites, or all; the exit code."""
    known = {suite.name: suite for suite in suites()}
    if unknown := set(names) - set(known):
        sys.stderr.write(f"No suite is called {min(unknown)}. There are: {', '.join(known)}\n")
        return 2
    folders = unpacked()
    verdicts = []
    for suite in [known[name] for name in names or known]:
        try:
            verdict = judge(suite, folders[suite.package])
        except SuiteFailed as failed:
            verdict = Verdict(f"{suite.name}: not run", [str(failed)])
        sys.stdout.write("".join(f"{line}\n" for line in [verdict.line, *verdict.faults]))
        sys.stdout.flush()
        verdicts.append(verdict)
    sys.stdout.write("\n" + "".join(f"{verdict.line}\n" for verdict in verdicts))
    return int(any(verdict.faults for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
