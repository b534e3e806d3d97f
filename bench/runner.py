"""Every line, in order: builds what it is measured on, measures, and says against what.

Both engines answer the same questions with the same code. What PostgreSQL reads, and what may not
grow with a session's length, is measured after VACUUM on it.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log2
from random import Random

from bench import crowd
from bench.data import (
    SEED,
    age,
    condensing,
    content,
    controls,
    encoded,
    grow,
    message,
    role,
)
from bench.report import Line
from bench.sites import PostgresSite, SqliteSite
from bench.spy import reading
from bench.timing import Samples, Step, alternate
from roocontext import Session, Store
from roocontext.log.draft import control_of
from roocontext.log.encoding import decode
from roocontext.log.spans import spans_of

LENGTH_BUDGET = 1.2
"""What "independent of the session's length" may cost, as for the append."""

Site = SqliteSite | PostgresSite
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is built, and how often it is measured."""

    long: int = 100_000
    short: int = 1_000
    middle: int = 20_000
    condensations: int = 100
    hidden: int = 10_000
    few: int = 100
    batch: int = 1_000
    listed: int = 1_000
    shown: int = 200
    controls: int = 1_000
    points: int = 12
    commits: int = 40
    reads: int = 40
    heavy: int = 8
    folds: int = 12
    imports: int = 9


FULL = Sizes()
QUICK = Sizes(
    long=10_000,
    middle=4_000,
    condensations=20,
    hidden=2_000,
    points=6,
    commits=15,
    reads=15,
    heavy=4,
    folds=6,
    imports=3,
)
TINY = Sizes(
    long=300,
    short=100,
    middle=100,
    condensations=4,
    hidden=60,
    few=20,
    batch=20,
    listed=20,
    shown=40,
    controls=100,
    points=2,
    commits=1,
    reads=1,
    heavy=1,
    folds=1,
    imports=1,
)


def lines(sqlite: SqliteSite, postgres: PostgresSite, sizes: Sizes, say: Say) -> Iterator[Line]:
    """Every line, as soon as it is measured."""
    for site in (sqlite, postgres):
        yield from _of_engine(site, sizes, say)
    say("16 threads")
    yield from crowd.lines(sqlite, sizes.heavy)
    say("spans_of")
    yield from _folding(sizes)
    say("import")
    yield _importing(sizes)


def _of_engine(site: Site, sizes: Sizes, say: Say) -> Iterator[Line]:
    say(f"{site.title}: building a session of {sizes.long:,}")
    long = grow(site.store("long").create("long"), sizes.long)
    short = grow(site.store("short").create("short"), sizes.short)
    for name in ("long", "short"):
        site.settle(name)
    say(f"{site.title}: append")
    yield from _appending(site, short, long, sizes)
    yield from _appending_many(site, sizes)
    say(f"{site.title}: rewind and condense")
    other = long.fork(sizes.long)
    yield from _rewinding(site, short, long, sizes)
    yield from _condensing(site, other, sizes)
    say(f"{site.title}: view")
    yield from _viewing(site, sizes)
    say(f"{site.title}: verify, fork, list")
    yield from _whole_sessions(site, sizes)
    yield _listing(site, sizes)


def _line(site: Site, key: str, *args: object, **options: object) -> Line:
    return Line(f"{site.name}.{key}", f"{site.title}: {args[0]}", *args[1:], **options)


# Appends


def _appending(site: Site, short: Session, long: Session, sizes: Sizes) -> Iterator[Line]:
    for durability in ("full", "normal") if isinstance(site, SqliteSite) else ("full",):
        options = {"synchronous": durability.upper()} if isinstance(site, SqliteSite) else {}
        floor = site.floor(f"floor_{durability}", **options)
        texts = [encoded(number) for number in range(10 * (sizes.commits + 1))]
        chats = {
            "short": site.store("short", durability=durability).session(short.id),
            "long": site.store("long", durability=durability).session(long.id),
        }
        times = alternate(
            [
                Step("raw", lambda number, floor=floor, texts=texts: floor.append(texts[number])),
                Step("short", _appender(chats["short"])),
                Step("long", _appender(chats["long"])),
            ],
            rounds=sizes.commits,
            batch=10,
        )
        named = durability.upper()
        yield _line(
            site,
            f"append.{durability}",
            f"append one 1 KiB message, {named}",
            "raw INSERT and COMMIT of its bytes",
            times["short"],
            times["raw"],
            *_append_budget(site, durability),
        )
        yield _line(
            site,
            f"append.{durability}.length",
            f"append at message {sizes.long:,}, {named}",
            f"at message {sizes.short:,}",
            times["long"],
            times["short"],
            LENGTH_BUDGET,
        )


def _append_budget(site: Site, durability: str) -> tuple[float, float | None]:
    if isinstance(site, PostgresSite):
        return 1.3, 1.1
    return (1.5, 1.3) if durability == "full" else (3.0, None)


def _appender(chat: Session) -> Callable[[int], object]:
    return lambda number: chat.append(role(number), content(number))


def _appending_many(site: Site, sizes: Sizes) -> Iterator[Line]:
    size, count = sizes.batch, sizes.batch * (sizes.heavy + 1)
    chat = site.store("many").create("many")
    source = grow(site.store("source").create("source"), count)
    floor = site.floor("many_floor")
    floor.twin(site.floor("source"))
    insert, rows = _entries(site, source, count)
    given = [message(number) for number in range(count)]
    times = alternate(
        [
            Step("raw", lambda n: floor.insert(insert, rows[n * size : (n + 1) * size])),
            Step("many", lambda n: chat.append_many(given[n * size : (n + 1) * size])),
        ],
        rounds=sizes.heavy,
    )
    yield _line(
        site,
        "append_many",
        f"append_many, {size:,} in one commit",
        "raw executemany of encoded rows, same columns and indexes",
        times["many"],
        times["raw"],
        2.5,
    )


def _entries(site: Site, chat: Session, count: int) -> tuple[str, list[tuple[object, ...]]]:
    """The rows of a session as the store keeps them, and the statement that inserts one."""
    floor = site.floor(chat.id)
    rows = floor.rows(
        f"SELECT * FROM entries WHERE session_id = {floor.holder} AND seq <= {floor.holder}"
        " ORDER BY seq",
        (chat.id, count),
    )
    holders = ", ".join([floor.holder] * len(rows[0]))
    return f"INSERT INTO entries VALUES ({holders})", rows


# Control rows


def _rewinding(site: Site, short: Session, long: Session, sizes: Sizes) -> Iterator[Line]:
    floor = site.floor("floor_full")
    text = encoded(0)
    ends = {"short": short.head_seq() - 10, "long": long.head_seq() - 10}
    for name in ("long", "short"):
        site.settle(name)
    times = alternate(
        [
            Step("raw", lambda _: floor.append(text)),
            Step("rewind short", lambda _: short.rewind(to=ends["short"])),
            Step("undo short", lambda _: short.undo()),
            Step("rewind long", lambda _: long.rewind(to=ends["long"])),
            Step("undo long", lambda _: long.undo()),
        ],
        rounds=sizes.folds,
    )
    for name, what in (("rewind", "rewind of the last 10"), ("undo", "undo of it")):
        here, there = times[f"{name} short"], times[f"{name} long"]
        yield _line(site, name, what, "one raw durable commit", here, times["raw"], 5.0)
        yield _line(
            site,
            f"{name}.length",
            f"{what}, of {sizes.long:,}",
            f"of {sizes.short:,}",
            there,
            here,
            LENGTH_BUDGET,
        )


class _Condenser:
    """Condenses the same messages of a session again and again; a rewind takes it back."""

    def __init__(self, chat: Session, lo: int, hi: int) -> None:
        self._chat = chat
        self._range = lo, hi
        self._before = self._head = chat.head_seq()

    def condense(self, _: int) -> None:
        """Hide them."""
        self._chat.commit(condensing(self._head, *self._range))

    def take_back(self, _: int) -> None:
        """Show them again."""
        self._head = self._chat.rewind(to=self._before).head_seq


def _condensing(site: Site, long: Session, sizes: Sizes) -> Iterator[Line]:
    hidden, few = sizes.hidden, sizes.few
    store = site.store("condensed")
    newest = sizes.long - hidden - 20
    long.commit(condensing(long.head_seq(), 1, newest))
    condensers = {
        "few": _Condenser(grow(store.create(), few + 20), 1, few),
        "many": _Condenser(grow(store.create(), hidden + 20), 1, hidden),
        "half": _Condenser(grow(store.create(), 2 * hidden), 1, hidden),
        "long": _Condenser(long, newest + 1, newest + hidden),
    }
    for name in ("long", "condensed"):
        site.settle(name)
    floor = site.floor("floor_full")
    text = encoded(0)
    steps = [Step("raw", lambda _: floor.append(text))]
    for name, condenser in condensers.items():
        steps += [Step(name, condenser.condense), Step(None, condenser.take_back)]
    times = alternate(steps, rounds=sizes.folds)
    what = f"condense hiding {hidden:,}"
    raw = "one raw durable commit"
    yield _line(site, "condense", f"{what}, 20 stay", raw, times["many"], times["raw"], 5.0)
    yield _line(
        site,
        "condense.half",
        f"{what}, {hidden:,} stay",
        raw,
        times["half"],
        times["raw"],
        5.0,
        note="either side holds much: the smaller is read",
    )
    yield _line(
        site,
        "condense.hidden",
        f"{what}, 20 stay",
        f"hiding {few:,}",
        times["many"],
        times["few"],
        LENGTH_BUDGET,
    )
    yield _line(
        site,
        "condense.length",
        f"{what}, 20 stay, of {sizes.long:,}",
        f"of {hidden + 20:,}",
        times["long"],
        times["many"],
        LENGTH_BUDGET,
    )


# Views


def _viewing(site: Site, sizes: Sizes) -> Iterator[Line]:
    store = site.store("aged")
    aged = age(
        store.create("aged"),
        messages=sizes.long,
        condensations=sizes.condensations,
        visible=20,
    )
    whole = grow(store.create(), 20)
    shown = grow(store.create("shown"), sizes.shown)
    points = Random(SEED).sample(range(1, sizes.long), sizes.points)
    peers = [grow(store.create(), len(aged.view(as_of=point).messages)) for point in points]
    past = _controls(site, aged)
    site.settle("aged")
    yield from _few_visible(site, aged, whole, sizes)
    yield _decoded(site, shown, sizes)

    def present(_: int) -> None:
        for point, peer in zip(points, peers, strict=True):
            peer.view()
            spans_of([control for control in past if control.seq <= point], point)

    def as_of(_: int) -> None:
        for point in points:
            aged.view(as_of=point)

    times = alternate([Step("now", present), Step("past", as_of)], rounds=sizes.heavy)
    yield _line(
        site,
        "view.as_of",
        f"views as of {len(points)} random seqs of {sizes.long:,}",
        "current views of as many rows, and spans_of",
        times["past"],
        times["now"],
        1.5,
        note=f"{len(past)} control rows",
    )


def _few_visible(site: Site, aged: Session, whole: Session, sizes: Sizes) -> Iterator[Line]:
    times = alternate(
        [Step("whole", lambda _: whole.view()), Step("aged", lambda _: aged.view())],
        rounds=sizes.reads,
        batch=10,
    )
    seen = len(aged.view().messages)
    yield _line(
        site,
        "view.few",
        f"effective history, {seen} visible of {sizes.long:,}",
        "20 of 20",
        times["aged"],
        times["whole"],
        1.3,
    )


def _decoded(site: Site, shown: Session, sizes: Sizes) -> Line:
    floor = site.floor("aged")
    query = f"SELECT content FROM entries WHERE session_id = {floor.holder} ORDER BY seq"
    times = alternate(
        [
            Step("raw", lambda _: floor.rows(query, (shown.id,))),
            Step("view", lambda _: shown.view()),
        ],
        rounds=sizes.reads,
        batch=5,
    )
    return _line(
        site,
        "view.decoded",
        f"{sizes.shown} visible rows, decoded",
        "raw fetch of the same contents",
        times["view"],
        times["raw"],
        3.0,
    )


def _controls(site: Site, chat: Session) -> list:
    floor = site.floor(chat.id)
    rows = floor.rows(
        f"SELECT seq, kind, details FROM entries WHERE session_id = {floor.holder}"
        " AND details IS NOT NULL ORDER BY seq",
        (chat.id,),
    )
    return [control_of(seq, kind, decode(details)) for seq, kind, details in rows]


def _folding(sizes: Sizes) -> Iterator[Line]:
    large, small = sizes.controls, sizes.controls // 10
    built = {count: controls(count) for count in (small, large)}
    times = alternate(
        [
            Step(str(count), lambda _, made=made, seq=seq: spans_of(made, seq))
            for count, (made, seq) in built.items()
        ],
        rounds=sizes.reads,
    )
    for count, limit in ((small, 0.001), (large, 0.020)):
        yield Line(
            f"spans_of.{'small' if count == small else 'large'}",
            f"spans_of, {count:,} control rows",
            f"{limit * 1000:.0f} ms",
            times[str(count)],
            Samples([limit]),
            1.0,
        )
    yield Line(
        "spans_of.growth",
        f"spans_of, {large:,} control rows",
        f"{small:,}",
        times[str(large)],
        times[str(small)],
        large * log2(large) / (small * log2(small)),
        note="the budget is n log n",
    )


# Whole sessions


def _whole_sessions(site: Site, sizes: Sizes) -> Iterator[Line]:
    count = sizes.middle
    chat = grow(site.store("middle").create("middle"), count)
    raw = sum(len(encoded(number)) + 300 for number in range(count))
    yield _line(
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
    yield _line(
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
    insert, rows = _entries(site, chat, at)
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
    return _line(
        site,
        "fork",
        f"fork at {at:,}",
        "raw INSERT .. SELECT of the same rows, same indexes",
        times["fork"],
        times["raw"],
        3.0,
    )


def _listing(site: Site, sizes: Sizes) -> Line:
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
    return _line(
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


# Imports


def _importing(sizes: Sizes) -> Line:
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
