"""The views for plain SQL say what the library says: the same rows, in the same order."""

from collections.abc import Iterator
from typing import Any

import pytest

from migration.conftest import Raw
from migration.golden_histories import HISTORIES, make_all
from roocontext import Store
from roocontext.log.encoding import decode, encode

SESSIONS = [*HISTORIES, "forked-fork", "child"]
TAGS = ("condense_parent", "truncation_parent", "rewound_by", "uncovered_by")


@pytest.fixture(scope="module")
def raw(shared_stored: Raw) -> Raw:
    """A database that no test of this file changes."""
    return shared_stored


@pytest.fixture(scope="module")
def store(raw: Raw) -> Iterator[Store]:
    """A store with a session of each history."""
    with Store.open(raw.url) as store:
        make_all(store)
        yield store


def test_effective_history_equals_the_view(raw, store):
    for name in SESSIONS:
        rows = raw.run(
            "SELECT seq, kind, role, format, ts, recorded_at, message_id, condense_id,"
            " truncation_id, content, cleared_blocks"
            f" FROM effective_history WHERE session_id = '{name}'"
        )
        view = store.session(name).view()
        assert len(rows) == len(view.messages), name
        for row, message in zip(rows, view.messages, strict=True):
            *fields, content, cleared = row
            own = {message.kind: message.compaction_id}
            known = [message.seq, message.kind, message.role, message.format, message.ts]
            known += [message.recorded_at, message.message_id]
            assert fields == [*known, own.get("summary"), own.get("marker")], name
            assert cleared == (",".join(map(str, message.cleared)) or None)
            stored = store.session(name).message(message.seq).content
            assert content == encode(stored)
            assert decode(content) == stored
            assert (stored == message.content) is (cleared is None)


def test_effective_history_of_all_sessions_equals_each_view(raw, store):
    rows = raw.run("SELECT session_id, seq FROM effective_history")
    by_session: dict[str, list[int]] = {}
    for session, seq in rows:
        by_session.setdefault(session, []).append(seq)
    views = {name: [m.seq for m in store.session(name).view().messages] for name in SESSIONS}
    assert by_session == {name: seqs for name, seqs in views.items() if seqs}


def test_messages_view_has_every_message_with_its_tags(raw, store):
    """Every message ever written, with its tags under the names that agents know."""
    for name in SESSIONS:
        audit = list(store.session(name).audit())
        ids = {entry.seq: entry.entry.compaction_id for entry in audit}
        expected = []
        for entry in audit:
            if entry.kind in ("message", "summary", "marker", "companion"):
                own = {entry.kind: ids[entry.seq]}
                of_summary = (own.get("summary"), ids.get(entry.condense_parent or 0))
                of_marker = (own.get("marker"), ids.get(entry.truncation_parent or 0))
                ends = (entry.rewound_by, entry.uncovered_by, encode(entry.content))
                kinds = ("summary" in own, "marker" in own)
                expected.append((entry.seq, entry.kind, *of_summary, *of_marker, *kinds, *ends))
        rows = raw.run(
            "SELECT seq, kind, condense_id, condense_parent, truncation_id, truncation_parent,"
            " is_summary, is_marker, rewound_by, uncovered_by, content FROM messages"
            f" WHERE session_id = '{name}' ORDER BY seq"
        )
        assert rows == expected, name


def test_visible_rows_of_messages_are_the_effective_history(raw, store):
    visible = raw.run(
        "SELECT session_id, seq, position FROM messages WHERE condense_parent IS NULL"
        " AND truncation_parent IS NULL AND rewound_by IS NULL AND uncovered_by IS NULL"
        " ORDER BY session_id, position, seq"
    )
    assert visible == raw.run("SELECT session_id, seq, position FROM effective_history")
    assert len({row[::2] for row in visible}) == len(visible), "no two stand at one place"


def test_histories_of_these_tests_have_hidden_and_cleared_rows(raw, store):
    """Each kind of row and of tag is there, hidden and visible."""
    seen: set[Any] = set()
    for name in SESSIONS:
        for entry in store.session(name).audit():
            seen.add(entry.kind.value)
            seen |= {tag for tag in TAGS if getattr(entry, tag)}
            seen |= {"cleared"} if entry.cleared else set()
            seen |= {"redacted"} if entry.redacted else set()
            seen |= {"twice hidden"} if entry.condense_parent and entry.truncation_parent else set()
    assert seen >= {
        *("message", "summary", "marker", "companion", "clearing", "rewind", "note"),
        *("uncovering", "cleared", "redacted", *TAGS),
    }
