"""Run the conformance tests and those of this folder on a Citus cluster: `make test-distributed`.

The cluster is the one whose coordinator ROOCONTEXT_TEST_CITUS_URL names, or a throw-away one that
the programs `start` and `stop` of the folder ROOCONTEXT_CITUS_KIT make.
"""

import os
import subprocess
import sys
from pathlib import Path

from support.citus_server import GIVEN, KIT, started

TESTS = Path(__file__).parents[1]
EVERYTHING = [str(TESTS / "conformance"), str(TESTS / "distributed")]


def main(arguments: list[str]) -> int:
    """Run the tests with these arguments of pytest; the exit code."""
    if os.environ.get(GIVEN):
        return _tested(arguments)
    if not os.environ.get(KIT):
        sys.stderr.write(
            f"There is no cluster to test on. Give the URL of a coordinator in {GIVEN}, or in {KIT}"
            " a folder with the programs `start` and `stop`.\n"
        )
        return 2
    with started() as cluster:
        os.environ[GIVEN] = cluster.url
        return _tested(arguments)


def _tested(arguments: list[str]) -> int:
    # `python -m pytest` of the same environment, from the top of the checkout.
    options = ["-n", "2", "--dist", "worksteal", "-m", "not torture", "--distributed"]
    command = [sys.executable, "-m", "pytest", *options, *(arguments or EVERYTHING)]
    return subprocess.run(command, cwd=TESTS.parent, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
