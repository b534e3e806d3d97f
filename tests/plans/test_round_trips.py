"""How often an operation waits for the PostgreSQL server, which may be far away."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.pq import PipelineStatus

from roocontext import Session, Store
from support.steady_sources import SetClock

ROWS = 40


class Waits:
    """Counts the statements that are answered one by one, and the requests of several."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for kind, name, inside in (
            (psycopg.Connection, "execute", False),
            (psycopg.Connection, "pipeline", False),
            (psycopg.Cursor, "executemany", False),
            (psycopg.Cursor, "fetchone", True),
            (psycopg.Cursor, "fetchall", True),
        ):
            patch.setattr(kind, name, self._counted(getattr(kind, name), inside=inside))

    def of(self, operation: Callable[[], object]) -> int:
        """How often an operation waits."""
        self.count = 0
        operation()
        return self.count

    def _counted(self, method: Callable[..., Any], *, inside: bool) -> Callable[..., Any]:
        def counting(one: Any, *args: Any, **options: Any) -> Any:
            connection = getattr(one, "connection", one)
            is_together = connection.pgconn.pipeline_status != PipelineStatus.OFF
            self.count += is_together == inside
            return method(one, *args, **options)

        return counting


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Waits:
    """What counts from here on."""
    return Waits(monkeypatch)


@pytest.fixture
def chat(postgres: Any, waits: Waits) -> Iterator[Session]:
    """A session with a message each millisecond, on connections whose waits are counted."""
    assert not waits.count
    clock = SetClock()
    with Store.open(postgres.fresh(), clock=clock) as store:
        chat = store.create()
        for number in range(ROWS):
            clock.now = number
            chat.append("user", "hello")
        yield chat


def moment(milliseconds: int) -> datetime:
    """A time of the log."""
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)


def test_an_append_waits_once(chat: Session, waits: Waits) -> None:
    assert waits.of(lambda: chat.append("user", "hello")) == 1


def test_a_view_waits_for_what_is_shown_then_for_its_rows(chat: Session, waits: Waits) -> None:
    # and for the end of its snapshot
    assert waits.of(chat.view) == 3


def test_a_rewind_and_its_undo(chat: Session, waits: Waits) -> None:
    # the lock, the end of the log, what is live in it, how much it holds, the rows, the commit
    assert waits.of(lambda: chat.rewind(ROWS - 10)) == 6
    # the newest rewind in place of what is live
    assert waits.of(chat.undo) == 6


def test_a_rewind_to_a_time(chat: Session, waits: Waits) -> None:
    assert waits.of(lambda: chat.rewind(moment(ROWS - 10))) == 8
    chat.undo()
