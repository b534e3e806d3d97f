"""Any session that the machine makes goes from SQLite to PostgreSQL and back without a change.

And into an archive and back.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from conformance.test_machine import SessionMachine
from roocontext import ArchiveFolder, Store
from roocontext.formats import jsonl
from support.dialogue import everything
from support.examples import TORTURE, examples
from support.steady_sources import CountedIds, SetClock

EVERYDAY, STEPS = 2, 25


class Traveller(SessionMachine):
    """At the end of an example the whole family is exported, restored elsewhere, and comes back.

    Then it is archived there, and comes back from the files.
    """

    there: Any
    back: Any
    file: Path

    def it_is_what_the_oracle_says(self) -> None:
        """Only the end is compared here: the machine itself compares each step."""

    def teardown(self) -> None:
        exported = [self._moved(chat, self.there) for chat, _ in self.family]
        twins = [self.there.session(chat.id) for chat, _ in self.family]
        for (chat, _), twin, written in zip(self.family, twins, exported, strict=True):
            assert everything(twin) == everything(chat)
            assert b"".join(jsonl.export_session(twin)) == written
            assert twin.verify(chat.head()).ok
            assert twin.rebuild() == 0
        for twin in twins:
            written = self._moved(twin, self.back)
            again = self.back.session(twin.id)
            assert b"".join(jsonl.export_session(again)) == written
            assert again.head() == twin.head()
            assert again.view() == twin.view()
        self._archive(twins)

    def _archive(self, twins: list[Any]) -> None:
        before = [everything(twin) for twin in twins]
        put = ArchiveFolder(self.file.parent)
        files = [self.there.archive(session=twin.id, put=put).archived[0].file for twin in twins]
        assert all(self.there.find(twin.id)[0].archived_at for twin in twins)
        for file in reversed(files):
            (done,) = jsonl.restore_file(self.there, Path(file))
            assert (done.problem, done.redacted) == (None, ())
        assert [everything(self.there.session(twin.id)) for twin in twins] == before

    def _moved(self, chat: Any, store: Any) -> bytes:
        written = b"".join(jsonl.export_session(chat))
        self.file.write_bytes(written)
        (done,) = jsonl.restore_file(store, self.file)
        assert (done.problem, done.entries) == (None, chat.head().seq)
        return written


@pytest.fixture
def stores(opened: Any, postgres: Any) -> Iterator[tuple[Any, Any]]:
    """A store of each engine, for all examples of a test: the ids of both begin at 1."""
    with opened("file", "sync") as one, opened("postgres", "sync") as other:
        yield one.store, other.store


@pytest.mark.parametrize("outward", [True, False], ids=["to PostgreSQL", "to SQLite"])
def test_any_session_comes_back_from_export_and_restore(stores, outward, tmp_path):
    home, there = stores if outward else reversed(stores)
    with Store.open(":memory:", clock=SetClock(), ids=CountedIds()) as back:
        members = {"store": home, "there": there, "back": back, "file": tmp_path / "x.jsonl"}
        machine = type("Machine", (Traveller,), members)
        run_state_machine_as_test(
            machine if TORTURE else seed(int(outward))(machine),
            settings=settings(
                max_examples=examples(EVERYDAY),
                stateful_step_count=STEPS,
                report_multiple_bugs=False,
            ),
        )
