"""What a service of many users adds to a call; `python -m bench --service` measures it alone."""

from collections.abc import Callable, Iterator
from typing import Any

from bench.data import content, grow
from bench.report import Line
from bench.searching import copied
from bench.sites import PostgresSite, Site, SqliteSite, line_of
from bench.sizes import Sizes
from bench.timing import Step, alternate
from bench.writing import appender
from roocontext import Store

USERS = 20
"""As many sessions hold the messages that are searched."""


_AGED = "UPDATE sessions SET changed_minute = changed_minute - 1440"


class _Counting:
    """An observer that does what one costs at least."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def started(self, operation: Any) -> None:
        """Nothing to do before the operation."""

    def finished(self, operation: Any) -> None:
        """Add up the times."""
        self.seconds += operation.duration


def lines(site: Site, sizes: Sizes) -> Iterator[Line]:
    yield from _appends(site, sizes)
    yield from _changes(site, sizes)
    if isinstance(site, PostgresSite):
        yield from _secured(site, sizes)


def _appends(site: Site, sizes: Sizes) -> Iterator[Line]:
    plain = site.store("plain").create("plain")
    observed = site.store("observed", observer=_Counting()).create("observed")
    owned = site.store("owned", owner="acme").create("owned")
    with site.store("taken").create("taken").turn(lease=3_600) as turn:
        times = alternate(
            [
                Step("plain", appender(plain)),
                Step("turn", appender(turn)),
                Step("owner", appender(owned)),
                Step("observer", appender(observed)),
            ],
            rounds=sizes.commits,
            batch=10,
        )
    for name, what in (
        ("turn", "by the holder of a turn"),
        ("owner", "with an owner"),
        ("observer", "with an observer"),
    ):
        shown = f"append one 1 KiB message {what}, FULL"
        yield line_of(site, f"append.{name}", shown, "without", times[name], times["plain"], None)


def _changes(site: Site, sizes: Sizes) -> Iterator[Line]:
    """A reader that has read all, and reads again after one session was written."""
    few = min(1_000, sizes.searched)
    steps = []
    for name, count in (("few", few), ("all", sizes.searched)):
        store = copied(site, f"changes_{name}", count)
        # As if they had been written a day ago.
        site.floor(f"changes_{name}").change(_AGED, ())
        site.settle(f"changes_{name}")
        steps += [
            Step(None, appender(store.create("written"))),
            Step(name, _reader(store, store.change_cursor())),
        ]
    times = alternate(steps, rounds=sizes.reads)
    yield line_of(
        site,
        "changes",
        f"what changed since a cursor, of {sizes.searched:,} sessions",
        f"of {few:,}",
        times["all"],
        times["few"],
        2.0,
    )


def _reader(store: Store, cursor: str) -> Callable[[int], object]:
    def read(_: int) -> None:
        with store.changes(cursor) as feed:
            assert [change.session_id for change in feed.read(timeout=0)] == ["written"]

    return read


def _secured(site: PostgresSite, sizes: Sizes) -> Iterator[Line]:
    """Half of the messages are those of another owner."""
    stores: dict[str, Store] = {"open": site.store("unsecured", durability="normal")}
    owners = {name: site.store("secured", owner=name, durability="normal") for name in ("a", "b")}
    for number in range(USERS):
        count = sizes.long // USERS
        grow(stores["open"].create(), count)
        grow(owners["ab"[number % 2]].create(), count)
    for store in (stores["open"], *owners.values()):
        store.index()
    for name in ("unsecured", "secured"):
        site.settle(name)
    stores["secured"] = site.secured("secured", owner="a")
    for name, word in (
        ("rare", f"{sizes.long // USERS // 2:09}"),
        ("common", str(content(0)).split()[3]),
    ):
        times = alternate(
            [
                Step(kind, lambda _, store=store, word=word: store.search(word))
                for kind, store in stores.items()
            ],
            rounds=sizes.reads,
        )
        yield line_of(
            site,
            f"search.secured.{name}",
            f"the best 20 messages with a {name} word, under row-level security",
            "without it and without owners",
            times["secured"],
            times["open"],
            3.0,
        )


def measure(
    sqlite: SqliteSite, postgres: PostgresSite, sizes: Sizes, say: Callable[[str], None]
) -> Iterator[Line]:
    """These lines alone."""
    for site in (sqlite, postgres):
        say(site.title)
        yield from lines(site, sizes)
