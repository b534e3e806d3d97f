"""What takes a whole session, or all of them: verify, audit, fork, list; opening, importing."""

import os
import sqlite3
import subprocess
import sys
import tempfile
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from bench.data import (
    LARGE,
    Ticking,
    content,
    encoded,
    grow,
    large,
    role,
)
from bench.floors import PRAGMAS
from bench.report import Line
from bench.sites import PostgresSite, Site, SqliteSite, line_of, stored_rows
from bench.sizes import Sizes
from bench.spy import reading
from bench.timing import Samples, Step, alternate
from roocontext import Session, Store
from roocontext.cli.screens import timeline
from roocontext.cli.screens.screen import Screen
from roocontext.reports import history

AUDIT_PAGE = 500
"""How many entries the audit reads at once."""
VIEW_PAGE = 200
"""How many messages of a view are read at once."""


def whole_sessions(site: Site, sizes: Sizes) -> Iterator[Line]:
    count = sizes.middle
    chat = grow(site.store("middle").create("middle"), count)
    raw = sum(len(encoded(number)) + 300 for number in range(count))
    yield line_of(
        site,
        "storage",
        f"storage of {count:,} messages",
        "their JSON bytes and 300 a row",
        Samples([site.size("middle")]),
        Samples([raw]),
        1.3,
        unit="B",
    )
    # Of one that does not fit a page twice, each page may hold one.
    grow(site.store("large").create("large"), count, large)
    yield line_of(
        site,
        "storage.large",
        f"storage of {count:,} messages of 2,100 bytes",
        "their JSON bytes and 300 a row",
        Samples([site.size("large")]),
        Samples([count * (LARGE + 300)]),
        1.3,
        unit="B",
    )
    times = alternate([Step("verify", lambda _: chat.verify())], rounds=sizes.heavy)
    each = Samples([value / count for value in times["verify"].values])
    yield line_of(
        site,
        "verify",
        "verify, per entry of 1 KiB",
        "10 us, that is 100,000 a second",
        each,
        Samples([1e-5]),
        1.0,
        note=f"{1 / each.p50:,.0f} a second",
    )
    yield _audited(site, chat, count, sizes)
    yield _drawn(site, chat, count, sizes)
    yield _forking(site, chat, count // 2, sizes)


def _audited(site: Site, chat: Session, count: int, sizes: Sizes) -> Line:
    times = alternate([Step("audit", lambda _: _stream(chat.audit()))], rounds=sizes.heavy)
    each = Samples([value / count for value in times["audit"].values])
    page, whole = (_held(islice(chat.audit(), most)) for most in (AUDIT_PAGE, None))
    return line_of(
        site,
        "audit",
        "audit, streamed, per entry of 1 KiB",
        "10 us, that is 100,000 a second",
        each,
        Samples([1e-5]),
        1.0,
        holds=whole < 2 * page,
        note=f"{1 / each.p50:,.0f} a second; holds {whole >> 10:,} KiB, a page {page >> 10:,} KiB",
    )


def _drawn(site: Site, chat: Session, count: int, sizes: Sizes) -> Line:
    times = alternate([Step("show", lambda _: _stream(_drawing(chat)))], rounds=sizes.heavy)
    each = Samples([value / count for value in times["show"].values])
    page, whole = (_held(islice(_drawing(chat), most)) for most in (VIEW_PAGE, None))
    return line_of(
        site,
        "show",
        "show, wrapped to 80 columns, per message of 1 KiB",
        "100 us, that is 10,000 a second",
        each,
        Samples([1e-4]),
        1.0,
        holds=whole < 2 * page,
        note=f"{1 / each.p50:,.0f} a second; holds {whole >> 10:,} KiB, a page {page >> 10:,} KiB",
    )


def _drawing(chat: Session) -> Iterator[object]:
    """Draw the whole view, and yield each message when the next one is asked for."""
    _, rows = history.streamed_history(chat, None)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - nothing is read or kept
        screen = Screen(nowhere)
        screen.width = 80
        for row in rows:
            timeline.draw_messages(screen, [row], full=False)
            yield row


def _stream(stream: Iterator[object]) -> None:
    """Read all of it and keep nothing."""
    deque(stream, maxlen=0)


def _held(stream: Iterator[object]) -> int:
    """How many bytes are held at most while it is read."""
    tracemalloc.start()
    try:
        _stream(stream)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _forking(site: Site, chat: Session, at: int, sizes: Sizes) -> Line:
    floor = site.floor("fork_floor")
    floor.twin(site.floor("middle"))
    insert, rows = stored_rows(site, chat, at)
    floor.insert(insert, rows)
    site.settle("fork_floor")
    columns = "seq, kind, format, role, ts, recorded_at, message_id, client_id, model, usage,"
    columns += " compaction_id, note, target, asked_at, answers_seq, answers_block, size,"
    columns += (
        " messages_total, bytes_total, latest_happened, salt, content_digest, hash, tools, details,"
    )
    columns += " extra, content"
    copy = (
        f"INSERT INTO entries (session_id, {columns}) SELECT {floor.holder}, {columns}"
        f" FROM entries WHERE session_id = {floor.holder} AND seq <= {floor.holder}"
    )
    times = alternate(
        [
            Step("raw", lambda number: floor.change(copy, (f"copy {number}", chat.id, at))),
            Step("fork", lambda _: chat.fork(at)),
        ],
        rounds=sizes.heavy,
    )
    return line_of(
        site,
        "fork",
        f"fork at {at:,}",
        "raw INSERT .. SELECT of the same rows, same indexes",
        times["fork"],
        times["raw"],
        3.0,
    )


def listing(site: Site, sizes: Sizes) -> Line:
    store = site.store("listed", durability="normal")
    for number in range(sizes.listed):
        store.create(title=f"session {number}").append(role(number), content(number))
    site.settle("listed")
    floor = site.floor("listed")
    query = (
        "SELECT session_id, title, metadata, created_at, updated_at, head_seq, last_seq, messages,"
        " bytes, first_prompt, parent FROM sessions WHERE purged_at IS NULL"
        f" ORDER BY updated_at DESC, session_id LIMIT {sizes.listed}"
    )
    times = alternate(
        [
            Step("raw", lambda _: floor.rows(query)),
            Step("list", lambda _: store.sessions(limit=sizes.listed)),
        ],
        rounds=sizes.reads,
    )
    holds, note = _frugal(site, sizes.listed)
    return line_of(
        site,
        "list",
        f"list {sizes.listed:,} sessions",
        "raw SELECT of the same columns",
        times["list"],
        times["raw"],
        None,
        holds=holds,
        note=note,
    )


def _frugal(site: Site, count: int) -> tuple[bool, str]:
    """Whether a list is one query that reads no entry; SQLite tells what it was asked for."""
    if isinstance(site, PostgresSite):
        return True, "the queries are those counted on SQLite"
    with reading() as seen:
        store: Store = site.store("listed")
        seen.forget()
        store.sessions(limit=count)
    alone = seen.tables == {"sessions"}
    note = f"{seen.queries} query, of {', '.join(sorted(seen.tables))}"
    return seen.queries == 1 and alone, note


def newest(site: Site, sizes: Sizes) -> Line:
    few = min(100, sizes.sessions)
    stores = {}
    for name, count in (("few", few), ("all", sizes.sessions)):
        clock = Ticking(10_000)
        stores[name] = site.store(f"newest_{name}", durability="normal", clock=clock)
        for _ in range(count):
            stores[name].create()
        site.settle(f"newest_{name}")
    times = alternate(
        [
            Step(name, lambda _, store=store: store.sessions(limit=20))
            for name, store in stores.items()
        ],
        rounds=sizes.reads,
    )
    return line_of(
        site,
        "list.newest",
        f"the newest 20 of {sizes.sessions:,} sessions",
        f"of {few}",
        times["all"],
        times["few"],
        1.5,
        note="a session every 10 s",
    )


def opening(site: SqliteSite, sizes: Sizes) -> Line:
    with Store.open(site.path("opened")) as store:
        chat = grow(store.create(), 20)
    query = "SELECT seq, role, content FROM entries WHERE session_id = ? ORDER BY seq"

    def raw(_: int) -> None:
        connection = sqlite3.connect(site.path("opened"), isolation_level=None)
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma.format(synchronous='FULL')}")
        connection.execute(query, (chat.id,)).fetchall()
        connection.close()

    def ours(_: int) -> None:
        with Store.open(site.path("opened")) as store:
            store.session(chat.id).view()

    times = alternate([Step("raw", raw), Step("open", ours)], rounds=sizes.reads)
    return line_of(
        site,
        "open",
        "open a store, read a view of 20 and close it",
        "sqlite3.connect, pragmas, the same rows, close",
        times["open"],
        times["raw"],
        6.0,
    )


def importing(sizes: Sizes) -> Line:
    heavy = "{'anthropic', 'tiktoken', 'psycopg'} & sys.modules.keys()"
    bare = "import sys, sqlalchemy"
    ours = f"{bare}, roocontext; roocontext.Store; sys.exit(bool({heavy}))"

    def run(code: str, env: Mapping[str, str]) -> Callable[[int], object]:
        return lambda _: codes.append(
            subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode
        )

    codes: list[int] = []
    with tempfile.TemporaryDirectory(prefix="roocontext-bench-") as kept:
        env = dict(os.environ)
        if sys.dont_write_bytecode:  # else every import would compile its modules
            env |= {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": kept}
        times = alternate(
            [Step("bare", run(bare, env)), Step("ours", run(ours, env))], rounds=sizes.imports
        )
    more = times["ours"].p50 - times["bare"].p50
    return Line(
        "import",
        "import roocontext and its Store, more than Python and SQLAlchemy",
        "150 ms",
        Samples([more]),
        Samples([0.150]),
        1.0,
        holds=not any(codes),
        note=f"{times['ours'].p50 * 1000:.0f} - {times['bare'].p50 * 1000:.0f} ms;"
        f" {'something heavy' if any(codes) else 'no SDK and no driver'} loaded",
    )
