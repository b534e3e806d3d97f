"""A million entries, a hundred thousand sessions, and a file of twenty gigabytes."""

import shutil
from collections.abc import Callable
from itertools import islice

import pytest

from roocontext import NewMessage, Plan, Store

pytestmark = pytest.mark.torture

ENTRIES, BATCH = 1_000_000, 5_000
SESSIONS = 100_000
PAGE = 1_000
LARGE, IMAGE = 20 << 30, 8 << 20
Recorder = Callable[[str, object], None]


def test_log_of_a_million_entries_is_proved_rewound_and_read(url, record_property):
    with Store.open(url, durability="normal") as store:
        chat = store.create("long")
        for first in range(1, ENTRIES + 1, BATCH):
            roles = ("assistant", "user")
            said = [NewMessage(roles[n % 2], f"message {n}") for n in range(first, first + BATCH)]
            assert chat.append_many(said)[-1].seq == first + BATCH - 1
        hidden = range(2, ENTRIES - 9)
        done = chat.commit(Plan.condense(chat.view(), hidden, "what was said"))
        assert done.hidden == len(hidden)
        visible = [message.seq for message in chat.view().messages]
        assert visible == [1, ENTRIES + 1, *range(ENTRIES - 9, ENTRIES + 1)]
        chat.rewind(ENTRIES // 2)
        assert chat.stats().visible_messages == ENTRIES // 2
        chat.undo()
        assert chat.stats().visible_messages == ENTRIES - len(hidden) + 1
        assert sum(1 for _ in chat.audit()) == ENTRIES + 3
        assert chat.view(as_of=ENTRIES // 3, last=2).messages[-1].seq == ENTRIES // 3
        verification = chat.verify()
        assert verification.ok, verification.problem
    record_property("runs", ENTRIES)


def test_hundred_thousand_sessions_are_listed_found_and_reported(postgres_url, record_property):
    with Store.open(postgres_url, durability="normal") as store:
        for number in range(SESSIONS):
            store.create(f"s-{number}").append("user", f"needle{number} in the hay")
        page = store.sessions(limit=PAGE)
        listed = {info.session_id for info in page}
        while page.next is not None:
            page = store.sessions(limit=PAGE, after=page.next)
            listed |= {info.session_id for info in page}
        assert len(listed) == SESSIONS
        (hit,) = store.search(f"needle{SESSIONS // 2}")
        assert hit.session_id == f"s-{SESSIONS // 2}"
        with store.changes() as changes:
            changed = {change.session_id for change in islice(changes, SESSIONS)}
        assert len(changed) == SESSIONS
    record_property("runs", SESSIONS)


def test_file_of_twenty_gigabytes_is_proved_and_read(tmp_path, record_property):
    assert shutil.disk_usage(tmp_path).free > 2 * LARGE, "it takes room for the file and its log"
    data = "QUJD" * (IMAGE // 4)
    with Store.open(tmp_path / "store.db", durability="normal") as store:
        chat = store.create("large")
        for number in range(LARGE // IMAGE):
            source = {"type": "base64", "media_type": "image/png", "data": f"{number:08}{data}"}
            chat.append("user", [{"type": "image", "source": source}])
        assert (tmp_path / "store.db").stat().st_size > LARGE
        (last,) = chat.view(last=1).messages
        assert last.content[0]["source"]["data"].startswith(f"{LARGE // IMAGE - 1:08}")
        assert chat.redact(LARGE // IMAGE // 2).seq
        verification = chat.verify()
        assert verification.ok, verification.problem
    record_property("runs", LARGE // IMAGE)
