"""Every line, in order: builds what it is measured on, measures, and says against what.

Both engines answer the same questions with the same code. What PostgreSQL reads, and what may not
grow with a session's length, is measured after VACUUM on it.
"""

from collections.abc import Callable, Iterator

from bench import crowd, service
from bench.answering import answering
from bench.changing import condensations, coverings, rewinding, rewinding_by_time, rewriting
from bench.data import grow
from bench.looking import folding, viewing
from bench.managing import cutting, keeping
from bench.report import Line, NotRun
from bench.searching import searching
from bench.sites import PostgresSite, Site, SqliteSite
from bench.sizes import Sizes
from bench.starting import starting
from bench.transcripts import transcripts
from bench.web import serving
from bench.whole import importing, listing, newest, opening, whole_sessions
from bench.writing import appending, appending_many

Say = Callable[[str], None]


def lines(
    sqlite: SqliteSite, postgres: PostgresSite, sizes: Sizes, say: Say
) -> Iterator[Line | NotRun]:
    """Every line, as soon as it is measured."""
    for site in (sqlite, postgres):
        yield from _of_engine(site, sizes, say)
    say("open")
    yield opening(sqlite, sizes)
    say("16 threads")
    yield from crowd.lines(sqlite, sizes.heavy)
    say("spans_of")
    yield from folding(sizes)
    say("transcripts")
    yield from transcripts(sqlite, sizes)
    say("import")
    yield importing(sizes)
    say("start of a command")
    yield from starting(sizes)
    say("web server")
    yield from serving(sqlite, sizes)


def _of_engine(site: Site, sizes: Sizes, say: Say) -> Iterator[Line]:
    say(f"{site.title}: building a session of {sizes.long:,}")
    long = grow(site.store("long").create("long"), sizes.long)
    short = grow(site.store("short").create("short"), sizes.short)
    for name in ("long", "short"):
        site.settle(name)
    say(f"{site.title}: append")
    yield from appending(site, short, long, sizes)
    yield from appending_many(site, sizes)
    yield from answering(site, sizes)
    say(f"{site.title}: rewind and condense")
    other = long.fork(sizes.long)
    yield from rewinding(site, short, long, sizes)
    yield from condensations(site, other, sizes)
    yield from coverings(site, sizes)
    yield from rewriting(site, sizes)
    yield from rewinding_by_time(site, sizes)
    say(f"{site.title}: view")
    yield from viewing(site, sizes)
    say(f"{site.title}: manage, stats, info")
    yield from keeping(site, sizes)
    yield from cutting(site, sizes)
    say(f"{site.title}: verify, audit, fork, list")
    yield from whole_sessions(site, sizes)
    yield listing(site, sizes)
    yield newest(site, sizes)
    say(f"{site.title}: search")
    yield from searching(site, sizes)
    say(f"{site.title}: what a service adds")
    yield from service.lines(site, sizes)
