"""What bringing sessions in and out holds in memory: no more for many entries than for few."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.formats import jsonl
from support.empty_files import empty_file

ENTRIES, SIZE = 4_000, 5_000
MOST = ENTRIES * SIZE // 2


def peak(work: Callable[[], object]) -> int:
    """The most bytes that some work holds at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def large(tmp_path: Path) -> Store:
    """A store with a session of 20 MB."""
    store = Store.open(empty_file(tmp_path / "large.db"), durability="normal")
    chat = store.create("large")
    for begin in range(0, ENTRIES, 500):
        chat.append_many(
            [{"role": "user", "content": f"{begin + n}" + SIZE * "x"} for n in range(500)]
        )
    return store


def test_a_log_that_comes_from_an_iterator_is_not_held(large: Store, tmp_path: Path) -> None:
    with large, Store.open(empty_file(tmp_path / "other.db")) as other:
        stored = large.session("large").stored()
        assert peak(lambda: other.restore("large", stored)) < MOST
        assert other.session("large").head() == large.session("large").head()


def test_a_file_is_neither_held_while_it_is_written_nor_while_it_is_read(
    large: Store, tmp_path: Path
) -> None:
    file = tmp_path / "large.jsonl"

    def write() -> None:
        with file.open("wb") as to:
            to.writelines(jsonl.export_session(large.session("large")))

    def read() -> None:
        assert [done.new for done in jsonl.restore_file(other, file)] == [ENTRIES]

    with large, Store.open(empty_file(tmp_path / "other.db")) as other:
        assert peak(write) < MOST
        assert peak(read) < MOST
