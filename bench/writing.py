"""What makes a log longer: appends, one or many in a commit."""

from collections.abc import Callable, Iterator

from bench.data import (
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
        steps = [
            Step("raw", lambda number, floor=floor, texts=texts: floor.append(texts[number])),
            Step("short", appender(chats["short"])),
            Step("long", appender(chats["long"])),
        ]
        if durability == "normal":
            steps.append(Step("work", _worker(site)))
        times = alternate(steps, rounds=sizes.commits, batch=10)
        named = durability.upper()
        what, ours = f"append one 1 KiB message, {named}", times["short"]
        raw = "raw INSERT and COMMIT of its bytes"
        if durability == "normal":
            work = "the same durable work, raw"
            yield line_of(site, "append.normal", what, work, ours, times["work"], 2.5)
            insert = "append.normal.insert"
            yield line_of(site, insert, what, raw, ours, times["raw"], None, 3.0)
        else:
            budget = (1.8, 1.3) if isinstance(site, PostgresSite) else (1.5, 1.3)
            yield line_of(site, "append.full", what, raw, ours, times["raw"], *budget)
        yield line_of(
            site,
            f"append.{durability}.length",
            f"append at message {sizes.long:,}, {named}",
            f"at message {sizes.short:,}",
            times["long"],
            times["short"],
            LENGTH_BUDGET,
        )


def _worker(site: SqliteSite) -> Callable[[int], object]:
    chat = site.store("worked").create("worked")
    work = site.work("worked", chat.id, synchronous="NORMAL")
    return lambda number: work.append(role(number), content(number))


def appender(chat: Session) -> Callable[[int], object]:
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
