"""Killed at each statement of each operation: it happened wholly or not at all.

On SQLite the process dies right before a statement. On PostgreSQL a proxy kills it before a request
reaches the server, and after the server has replied to one.
"""

import shutil
from itertools import product
from typing import Any

import pytest
from sqlalchemy import make_url

from roocontext import Store
from support.dumps import dump
from support.empty_files import empty_file
from support.examples import TORTURE, everyday
from torture.operating import OPERATIONS, REPEATABLE, operate, prepare
from torture.processes import Nursery
from torture.wire import wait_until_left, wire

KILLED = [-9]
ENDED = [0]
MOST = 10_000 if TORTURE else 20
JOB = operate.__name__
STRIDE = 1 if TORTURE else 17
"""The everyday run takes every seventeenth point, and begins at another one for each operation."""

EACH = [name for name in OPERATIONS if name != "nothing"]


@pytest.mark.parametrize("operation", everyday(EACH[::5], EACH))
def test_kill_before_each_statement_on_sqlite(nursery, tmp_path, operation, record_property):
    prepared = empty_file(tmp_path / "prepared.db")
    prepare(prepared)
    outcomes = _Outcomes(operation, dump(prepared))
    url = str(tmp_path / "store.db")

    def run(statement: int | None) -> list[int]:
        shutil.copy(prepared, url)
        job = (JOB, {"url": url, "operation": operation, "statement": statement})
        return nursery.run(job).ends

    assert run(None) == ENDED
    outcomes.expect(url)
    for statement in range(1 + _first(operation), MOST, STRIDE):
        if run(statement) == ENDED:
            break
        outcomes.check(url)
        outcomes.repeat(nursery, url)
        for leftover in tmp_path.glob("store.db*"):
            leftover.unlink()
    assert outcomes.kills or not TORTURE
    record_property("runs", outcomes.kills)


@pytest.mark.parametrize(
    ("operation", "is_delivered"),
    everyday([("append", True), ("condense", False)], [*product(EACH, [False, True])]),
)
def test_kill_at_each_request_on_postgres(
    nursery,
    postgres,
    tmp_path,
    operation,
    is_delivered,
    record_property,
):
    prepared = postgres.fresh()
    prepare(prepared)
    outcomes = _Outcomes(operation, dump(prepared))
    template = f"TEMPLATE {make_url(prepared).database} STRATEGY file_copy"

    def run(name: str, fatal: int | None = None) -> tuple[list[int], str]:
        url = postgres.empty(template)
        passing.again(fatal, is_delivered=is_delivered)
        through = make_url(passing.url).set(database=make_url(url).database)
        job = {"url": through.render_as_string(hide_password=False), "operation": name}
        return nursery.run((JOB, job)).ends, url

    with wire(prepared, tmp_path) as passing:
        ends, url = run("nothing")
        assert ends == ENDED
        wait_until_left(url)
        opening = passing.requests
        postgres.drop(url)
        ends, url = run(operation)
        assert ends == ENDED
        outcomes.expect(url)
        postgres.drop(url)
        # One too early: an opening that had to repeat a request would hide the operation's first.
        for fatal in range(opening + _first(operation), MOST, STRIDE):
            ends, url = run(operation, fatal)
            wait_until_left(url)
            if ends == KILLED:
                outcomes.check(url)
                outcomes.repeat(nursery, url)
            postgres.drop(url)
            if ends == ENDED:
                break
    postgres.drop(prepared)
    assert outcomes.kills or not TORTURE
    record_property("runs", outcomes.kills)


def _first(operation: str) -> int:
    return list(OPERATIONS).index(operation) % STRIDE


class _Outcomes:
    """The rows before an operation and after it, which are the only ones that may be found."""

    def __init__(self, operation: str, before: Any) -> None:
        self._operation = operation
        self._before = before
        self._after: Any = None
        self.kills = 0

    def expect(self, url: str) -> None:
        """Take what an undisturbed run left."""
        self._after = dump(url)

    def check(self, url: str) -> None:
        """The killed run left all of it or nothing, and a store that works."""
        self.kills += 1
        rows = dump(url)
        assert rows in (self._before, self._after), f"half of {self._operation} at {self.kills}"
        with Store.open(url) as store:
            for info in store.sessions():
                if info.archived_at is None:
                    verification = store.session(info.session_id).verify()
                    assert verification.ok, verification.problem
            assert list(store.search("message"))

    def repeat(self, nursery: Nursery, url: str) -> None:
        """Carried out again, it is there once."""
        if self._operation in REPEATABLE:
            assert nursery.run((JOB, {"url": url, "operation": self._operation})).ends == ENDED
            assert dump(url) == self._after
