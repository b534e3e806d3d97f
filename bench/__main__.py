"""`python -m bench`: print every line, and how many are within their budget.

It always ends well when it could measure: a budget that is not met is a fact to read, not a
failure, because times on a shared machine are no test.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import service
from bench.report import HEADING, Line, NotRun, environment, load
from bench.runner import Say, lines
from bench.sites import PostgresSite, SqliteSite, sites
from bench.sizes import FULL, QUICK, TINY, Sizes

CITUS = "ROOCONTEXT_TEST_CITUS_URL"
Measure = Callable[[SqliteSite, PostgresSite, Sizes, Say], Iterator[Line | NotRun]]


def main(measure: Measure = lines, *, prog: str = "python -m bench") -> None:
    """Measure and print."""
    arguments = _arguments(prog)
    if arguments.distributed:
        _distributed(_sizes(arguments))
        return
    if arguments.service:
        measure = service.measure
    begun = time.perf_counter()
    with sites() as (sqlite, postgres):
        facts = environment(postgres.version())
        print("  ".join(f"{name} {value}" for name, value in facts.items()))
        print("PostgreSQL: growth and reads after VACUUM.")
        print(HEADING, flush=True)
        found: list[Line] = []
        not_run: list[NotRun] = []
        for line in measure(sqlite, postgres, _sizes(arguments), _tell):
            if isinstance(line, NotRun):
                not_run.append(line)
            else:
                found.append(line)
            _tell("")
            print(line.to_text(), flush=True)
    facts |= {"load at the end": load(), "seconds": f"{time.perf_counter() - begun:.0f}"}
    print(_summary(found), f"Load at the end {load()}, {facts['seconds']} s.")
    if arguments.json:
        shown = {
            "environment": facts,
            "lines": [line.to_json() for line in found],
            "not_run": [line.to_json() for line in not_run],
        }
        arguments.json.write_text(json.dumps(shown, indent=2) + "\n")


def _distributed(sizes: Sizes) -> None:
    """What a cluster costs, which takes one to measure it on."""
    from bench import distributed  # noqa: PLC0415 - asked for by itself

    print(HEADING, flush=True)
    for line in distributed.lines(sizes):
        print(line.to_text(), flush=True)
    print(f"Load at the end {load()}.")


def _arguments(prog: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=prog, description=main.__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="shorter sessions, fewer samples")
    size.add_argument("--tiny", action="store_true", help="only whether everything runs")
    parser.add_argument(
        "--distributed", action="store_true", help=f"only a Citus cluster: {CITUS} names it"
    )
    parser.add_argument(
        "--service", action="store_true", help="only what a service of many users adds"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write JSON to this file too")
    return parser.parse_args()


def _sizes(arguments: argparse.Namespace) -> Sizes:
    if arguments.tiny:
        return TINY
    return QUICK if arguments.quick else FULL


def _summary(found: list[Line]) -> str:
    missed = [line.key for line in found if not line.met]
    kept = len(found) - len(missed)
    told = f"{kept} of {len(found)} lines are within their budget, or have none."
    return f"{told} Not met: {', '.join(missed)}." if missed else told


def _tell(what: str) -> None:
    """Say on a terminal what is being done; nothing wipes it out."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
