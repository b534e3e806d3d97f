"""What changes a log: appends, rewinds, condensations."""

from collections.abc import Callable, Iterator

from bench.data import (
    condensing,
    content,
    encoded,
    grow,
    message,
    role,
)
from bench.report import Line
from bench.sites import LENGTH_BUDGET, PostgresSite, Site, SqliteSite, line_of, stored_rows
from bench.sizes import Sizes
from bench.timing import Step, alternate
from roocontext import Session


def appending(site: Site, short: Session, long: Session, sizes: Sizes) -> Iterator[Line]:
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
        yield line_of(
            site,
            f"append.{durability}",
            f"append one 1 KiB message, {named}",
            "raw INSERT and COMMIT of its bytes",
            times["short"],
            times["raw"],
            *_append_budget(site, durability),
        )
        yield line_of(
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


def appending_many(site: Site, sizes: Sizes) -> Iterator[Line]:
    size, count = sizes.batch, sizes.batch * (sizes.heavy + 1)
    chat = site.store("many").create("many")
    source = grow(site.store("source").create("source"), count)
    floor = site.floor("many_floor")
    floor.twin(site.floor("source"))
    insert, rows = stored_rows(site, source, count)
    given = [message(number) for number in range(count)]
    times = alternate(
        [
            Step("raw", lambda n: floor.insert(insert, rows[n * size : (n + 1) * size])),
            Step("many", lambda n: chat.append_many(given[n * size : (n + 1) * size])),
        ],
        rounds=sizes.heavy,
    )
    yield line_of(
        site,
        "append_many",
        f"append_many, {size:,} in one commit",
        "raw executemany of encoded rows, same columns and indexes",
        times["many"],
        times["raw"],
        2.5,
    )


def rewinding(site: Site, short: Session, long: Session, sizes: Sizes) -> Iterator[Line]:
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
        yield line_of(site, name, what, "one raw durable commit", here, times["raw"], 5.0)
        yield line_of(
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


def condensations(site: Site, long: Session, sizes: Sizes) -> Iterator[Line]:
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
    yield line_of(site, "condense", f"{what}, 20 stay", raw, times["many"], times["raw"], 5.0)
    yield line_of(
        site,
        "condense.half",
        f"{what}, {hidden:,} stay",
        raw,
        times["half"],
        times["raw"],
        5.0,
        note="either side holds much: the smaller is read",
    )
    yield line_of(
        site,
        "condense.hidden",
        f"{what}, 20 stay",
        f"hiding {few:,}",
        times["many"],
        times["few"],
        LENGTH_BUDGET,
    )
    yield line_of(
        site,
        "condense.length",
        f"{what}, 20 stay, of {sizes.long:,}",
        f"of {hidden + 20:,}",
        times["long"],
        times["many"],
        LENGTH_BUDGET,
    )
