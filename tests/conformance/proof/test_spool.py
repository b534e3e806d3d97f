"""Entries from an iterator are kept in a temporary file while they are restored."""

import tempfile
from typing import Any

import pytest

from roocontext.errors import StoreUnavailable
from roocontext.store.proof import restore
from support.dialogue import fill

BIG = "word " * 300_000


@pytest.mark.one_leg
def test_unwritable_temporary_file_is_a_typed_error(
    store: Any, chat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(chat, 2)
    chat.append("user", BIG)
    entries = list(chat.internals.stored())
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", "/dev/null/none")
        with pytest.raises(StoreUnavailable, match="TMPDIR") as raised:
            store.restore("spooled", iter(entries))
        assert "word" not in f"{raised.value} {raised.value.facts}"
        assert store.find("spooled") == []
        assert store.restore("spooled", entries).new == 3


def test_error_of_the_iterator_is_raised_unchanged() -> None:
    def entries() -> Any:
        yield from ()
        raise ConnectionError("of the caller")

    with pytest.raises(ConnectionError, match="of the caller"), restore.repeatable(entries()):
        pass
