"""Two processes write to the same session at once: nothing is lost, and nothing is doubled."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.framework_writers import WRITERS
from support.two_writers import ROUNDS, writers, written_by


@pytest.fixture(scope="module")
def write() -> Iterator[Any]:
    with writers() as program:
        yield program


@pytest.mark.parametrize("engine", ["file", "postgres"])
@pytest.mark.parametrize("framework", WRITERS)
def test_two_processes_lose_nothing(opened, write, engine, framework):
    with opened(engine, "sync") as lab:
        done = write(framework, str(lab.url))
        # In each round both have read the same. The frameworks that check that refuse one of them.
        assert sum(done["refused"]) == (ROUNDS if WRITERS[framework].REFUSES else 0)
        written = sorted(written_by("a") + written_by("b"))
        assert sorted(done["found"]) == written
        for name in "ab":
            own = [text for text in done["found"] if text.startswith(name)]
            assert own in (written_by(name), written_by(name)[::-1])
        chat = lab.store.session(WRITERS[framework].SESSION)
        contents = [str(one.content) for one in chat.audit() if one.kind == "message"]
        assert [text for text in written if sum(text in one for one in contents) != 1] == []
        assert chat.verify().ok
