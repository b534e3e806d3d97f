"""Search: how fast its index is made, what a query costs, and that appends pay nothing for it."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.data import content, grow, message, role
from bench.report import Line
from bench.sites import Site, SqliteSite, line_of
from bench.sizes import Sizes
from bench.timing import Samples, Step, alternate
from roocontext import Store
from roocontext.store.engine.schema import sessions

SESSIONS = 20
RATE = 5_000
"""How many messages are indexed in a second, at least."""
TEXTS = 64
"""After so many messages, the words come again."""

_FTS5 = """
    SELECT session_id, seq, snippet(texts, 2, '[', ']', '...', 20) FROM texts
    WHERE texts MATCH ? ORDER BY rank LIMIT 20
"""
_TSVECTOR = """
    SELECT session_id, seq, ts_headline('simple', content, query)
    FROM (
        SELECT session_id, seq, content, query FROM texts, CAST(%s AS tsquery) AS query
        WHERE words @@ query ORDER BY ts_rank(words, query) DESC LIMIT 20
    ) AS best
"""

_NAMES = ", ".join(column.name for column in sessions.columns if column.name != "session_id")
# To create so many took minutes.
_COPIES = f"""
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {{count}})
    INSERT INTO sessions (session_id, {_NAMES})
    SELECT session_id || n, {_NAMES} FROM sessions CROSS JOIN numbers WHERE session_id = 'empty'
"""


def searching(site: Site, sizes: Sizes) -> Iterator[Line]:
    store = site.store("searched", durability="normal")
    count = sizes.long // SESSIONS
    for _ in range(SESSIONS):
        grow(store.create(), count)
    yield _indexing(site, store, SESSIONS * count)
    raw = _raw(site, count)
    site.settle("searched")
    met = Counter(word for number in range(TEXTS) for word in set(_text(number).split()))
    words = {
        "rare": f"{count // 2:09}",  # the number of one message in each session
        "middling": next(word for word in _text(0).split()[1:] if met[word] == 1),
        "common": met.most_common(1)[0][0],
    }
    for name, word in words.items():
        yield _query(site, store, raw, name, word, sizes)
    yield _in_one_session(site, sizes)
    yield _over_all_sessions(site, sizes)
    yield _appending(site, sizes)


def _indexing(site: Site, store: Store, count: int) -> Line:
    begun = time.perf_counter()
    store.index()
    each = Samples([(time.perf_counter() - begun) / count])
    return line_of(
        site,
        "search.index",
        f"index {count:,} messages, per message of 1 KiB",
        f"{1e6 / RATE:.0f} us, that is {RATE:,} a second",
        each,
        Samples([1 / RATE]),
        1.0,
        note=f"{1 / each.p50:,.0f} a second",
    )


def _query(site: Site, store: Store, raw: Any, name: str, word: str, sizes: Sizes) -> Line:
    statement = _FTS5 if isinstance(site, SqliteSite) else _TSVECTOR
    times = alternate(
        [
            Step("raw", lambda _: raw.rows(statement, (word,))),
            Step("ours", lambda _: store.search(word)),
        ],
        rounds=sizes.reads,
    )
    return line_of(
        site,
        f"search.{name}",
        f"the best 20 messages with a {name} word",
        "the engine's own ranked query, with its snippets",
        times["ours"],
        times["raw"],
        3.0,
    )


def _in_one_session(site: Site, sizes: Sizes) -> Line:
    store = site.store("search_one", durability="normal")
    for name, count in (("long", sizes.middle), ("short", sizes.short)):
        grow(store.create(name), count)
    store.index()
    site.settle("search_one")
    word = f"{0:09}"  # the number of the first message
    times = alternate(
        [
            Step(name, lambda _, name=name: store.search(word, session=name))
            for name in ("long", "short")
        ],
        rounds=sizes.reads,
    )
    return line_of(
        site,
        "search.session",
        f"a word of one message in a session of {sizes.middle:,}",
        f"in one of {sizes.short:,}",
        times["long"],
        times["short"],
        2.0,
    )


def _over_all_sessions(site: Site, sizes: Sizes) -> Line:
    few = min(1_000, sizes.searched)
    stores = {}
    for name, count in (("few", few), ("all", sizes.searched)):
        store = stores[name] = copied(site, f"search_{name}", count)
        grow(store.create(), sizes.few)
        store.index()
        site.settle(f"search_{name}")
    word = f"{0:09}"
    times = alternate(
        [Step(name, lambda _, store=store: store.search(word)) for name, store in stores.items()],
        rounds=sizes.reads,
    )
    return line_of(
        site,
        "search.sessions",
        f"a word of one message over {sizes.searched:,} sessions",
        f"over {few:,}",
        times["all"],
        times["few"],
        2.0,
    )


def copied(site: Site, name: str, count: int) -> Store:
    """A store with so many empty sessions."""
    store = site.store(name, durability="normal")
    store.create("empty")
    site.floor(name).change(_COPIES.format(count=count), ())
    return store


def _raw(site: Site, count: int) -> Any:
    """The same messages in the engine's own full text search."""
    floor = site.floor("searched_floor")
    rows = [
        (str(session), number + 1, _text(number))
        for session in range(SESSIONS)
        for number in range(count)
    ]
    if isinstance(site, SqliteSite):
        columns = "session_id UNINDEXED, seq UNINDEXED, content"
        floor.change(f"CREATE VIRTUAL TABLE texts USING fts5 ({columns})", ())
        floor.insert("INSERT INTO texts VALUES (?, ?, ?)", rows)
    else:
        columns = "session_id text, seq bigint, content text, words tsvector"
        floor.change(f"CREATE TABLE texts ({columns})", ())
        floor.insert("INSERT INTO texts VALUES (%s, %s, %s)", rows)
        floor.change("UPDATE texts SET words = to_tsvector('simple', content)", ())
        floor.change("CREATE INDEX texts_words ON texts USING gin (words)", ())
    site.settle("searched_floor")
    return floor


def _text(number: int) -> str:
    said = content(number)
    return said if isinstance(said, str) else said[0]["text"]


def _appending(site: Site, sizes: Sizes) -> Line:
    """Two stores: one is indexed in each round, and its appends are timed behind that."""
    used = site.store("search_used", durability="normal")
    chats = used.create(), site.store("search_unused", durability="normal").create()
    for chat in chats:
        grow(chat, sizes.short)

    def append(chat: Any) -> Any:
        return lambda number: chat.append(role(number), message(number).content)

    times = alternate(
        [
            Step(None, lambda _: used.index()),
            Step("used", append(chats[0])),
            Step("unused", append(chats[1])),
        ],
        rounds=10 * sizes.commits,
    )
    return line_of(
        site,
        "search.append",
        "append in a store that is indexed in between",
        "in a store without an index",
        times["used"],
        times["unused"],
        1.1,
    )
