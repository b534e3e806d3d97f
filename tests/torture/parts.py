"""The parts of `make torture`: each shows a promise of docs/guarantees.md by tests of its own."""

from typing import NamedTuple

TIMES = 10
"""By how much a part multiplies the examples of the daily run, unless it says otherwise."""


class Part(NamedTuple):
    """Tests, and the promise that they show. `needs` is a variable without which it cannot run."""

    name: str
    promise: str
    tests: tuple[str, ...]
    times: int = TIMES
    needs: str = ""


PARTS = (
    Part(
        "kills",
        "A process that is killed at any moment loses nothing that a call had returned",
        ("torture/test_crashes.py", "torture/test_loops.py", "torture/test_slow_summariser.py"),
    ),
    Part(
        "points",
        "An operation that is killed at one of its statements happened completely or not at all",
        ("torture/test_commit_points.py",),
    ),
    Part(
        "order",
        "One order of the log explains the answers that processes, threads and tasks got",
        ("torture/test_histories.py", "torture/test_concurrency.py"),
    ),
    Part(
        "connections",
        "A lost connection or server is a typed error, and nothing that was returned is lost",
        ("torture/test_outages.py", "torture/test_slow_connections.py", "conformance/engine"),
    ),
    Part(
        "forks",
        "After a fork or an interrupt no later call waits, and nothing is lost",
        ("torture/test_forks.py", "torture/test_interrupts.py"),
    ),
    Part(
        "turns",
        "One worker at a time holds a turn, and the feed of changes misses no session",
        ("conformance/loop/test_turn.py", "conformance/sessions/test_changes.py"),
    ),
    Part(
        "disks",
        "A full, read-only or foreign disk is a typed error, and nothing is changed",
        ("migration", "store"),
    ),
    Part(
        "damage",
        "Every change of a stored row is found by `verify()`, and every damage is a typed error",
        ("conformance/proof", "torture/test_bit_flips.py"),
    ),
    Part(
        "erasure",
        "Redacted and purged content is in no row and in no file of the store",
        ("conformance/writing/test_erase.py", "conformance/search", "acceptance/test_cli_erase.py"),
    ),
    Part(
        "fuzz",
        "Hostile files, contents and queries are refused or kept as they are",
        ("formats", "log", "tokens", "vectors"),
        times=4,
    ),
    Part(
        "laws",
        "Random operations leave what the fold says, with every policy, in every form",
        (
            *("conformance/test_machine.py", "conformance/test_machine_travels.py"),
            *("conformance/test_forms.py", "conformance/context", "policies", "summarisers"),
        ),
        times=4,
    ),
    Part(
        "legs",
        "Every operation does the same on every engine and with both interfaces",
        ("conformance",),
        times=1,
    ),
    Part(
        "sizes",
        "A long log, many sessions and a large file are as correct as small ones",
        ("torture/test_sizes.py", "torture/test_imports.py"),
    ),
    Part(
        "cluster",
        "A lost node or a rebalanced cluster loses nothing that was returned",
        ("distributed/test_faults.py",),
        needs="ROOCONTEXT_CITUS_KIT",
    ),
)
