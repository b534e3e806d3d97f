"""What takes a whole session, or all of them: verify, fork, list; and the import."""

import subprocess
import sys
from collections.abc import Callable, Iterator

from bench.data import (
    content,
    encoded,
    grow,
    role,
)
from bench.report import Line
from bench.sites import PostgresSite, Site, line_of, stored_rows
from bench.sizes import Sizes
from bench.spy import reading
from bench.timing import Samples, Step, alternate
from roocontext import Session, Store


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
    yield _forking(site, chat, count // 2, sizes)


def _forking(site: Site, chat: Session, at: int, sizes: Sizes) -> Line:
    floor = site.floor("fork_floor")
    floor.twin(site.floor("middle"))
    insert, rows = stored_rows(site, chat, at)
    floor.insert(insert, rows)
    site.settle("fork_floor")
    columns = "seq, kind, format, role, ts, recorded_at, message_id, client_id, model, usage,"
    columns += " compaction_id, note, target, size, messages_total, bytes_total, salt,"
    columns += " content_digest, hash, details, content"
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
        " bytes FROM sessions WHERE purged_at IS NULL ORDER BY updated_at DESC, session_id"
        f" LIMIT {sizes.listed}"
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


def importing(sizes: Sizes) -> Line:
    heavy = "{'anthropic', 'tiktoken', 'psycopg'} & sys.modules.keys()"
    bare = "import sys, sqlalchemy"
    ours = f"{bare}, roocontext; roocontext.Store; sys.exit(bool({heavy}))"

    def run(code: str) -> Callable[[int], object]:
        return lambda _: codes.append(
            subprocess.run([sys.executable, "-c", code], check=False).returncode
        )

    codes: list[int] = []
    times = alternate([Step("bare", run(bare)), Step("ours", run(ours))], rounds=sizes.imports)
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
