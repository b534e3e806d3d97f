"""The plans: whatever is asked of one session costs what that session shows, not what all hold.

Each statement is caught as the driver gets it, with its parameters, while a store works on a long
session among many short ones; then the database is asked how it would run it. PostgreSQL may plan
a statement anew each time or once for all parameters, with or without statistics: in none of
these may it read the log from end to end, or join it by hashing.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from roocontext import Counts, NewMessage, Pin, Plan, Rewind, Session, Store
from roocontext.log.counting import BYTES, Size
from roocontext.log.plan import Action
from roocontext.store.counting.snapshot import SnapshotRows, Wanted
from roocontext.store.engine.schema import metadata
from roocontext.store.engine.transaction import Transaction
from roocontext.store.sessions.excerpt import Anchor, Extent
from support.dialogue import counts_of, keep_estimate
from support.query_plans import LONG, Catcher, Caught, explain, fill_postgres, fill_sqlite, nodes
from support.steady_sources import SetClock

PARENT = "p7"
"""The parent of ten sessions, as it is of every ten."""

LATE = 1 << 42
MOMENT = datetime.fromtimestamp((LONG - 15) / 1_000, UTC)

REPLY = {"type": "message", "id": "msg_1", "content": [], "stop_reason": "end_turn"}

REMARKS = ["remark", "other"]
WANTED = Wanted(counter=BYTES, rows=SnapshotRows.LIVE, calls=64, estimates=bool, notes=REMARKS)

OPERATIONS: dict[str, Callable[[Store, Session], Any]] = {
    "view": lambda _, chat: chat.view(),
    "rest of the view": lambda _, chat: chat.view(after=LONG - 5),
    "page": lambda _, chat: chat.view(limit=10),
    "newest page": lambda _, chat: chat.view(last=10),
    "page before": lambda _, chat: chat.view(last=10, before=LONG - 5),
    "view of the past": lambda _, chat: chat.view(as_of=LONG - 100),
    "append": lambda _, chat: chat.append("user", "hello"),
    "append with a client id": lambda _, chat: chat.append("user", "hello", client_id="one"),
    "append again": lambda _, chat: chat.append("user", "hello", client_id="one"),
    "append on a version": lambda _, chat: chat.append(
        "user", "hello", expected_seq=chat.head_seq()
    ),
    "append_many": lambda _, chat: chat.append_many([{"role": "user", "content": "hello"}] * 3),
    "append_many with client ids": lambda _, chat: chat.append_many(
        [NewMessage("user", "hello", client_id=f"many-{number}") for number in range(9)]
    ),
    "condense": lambda _, chat: condense(chat),
    "append with a ts": lambda _, chat: chat.append("user", "hello", ts=LATE),
    "view at a time": lambda _, chat: chat.view(as_of=MOMENT, limit=10),
    "rewind to a ts": lambda _, chat: chat.rewind(ts=LATE, keep_target=False),
    "rewind to a time": lambda _, chat: chat.rewind(MOMENT),
    "rewind": lambda _, chat: chat.rewind(LONG - 20),
    "rewind to a message id": lambda _, chat: chat.rewind(f"m{LONG - 30}"),
    "undo": lambda _, chat: chat.undo(),
    "uncover": lambda _, chat: chat.uncover(condense(chat).seq),
    "restorable": lambda _, chat: chat.internals.restorable([BYTES]),
    "uncovered since": lambda _, chat: chat.internals.uncovered_since(LONG - 30),
    "list": lambda store, _: store.sessions(),
    "find by its beginning": lambda store, _: store.find("s"),
    "next list": lambda store, _: store.sessions(after=store.sessions(limit=5).next),
    "list by recording": lambda store, _: store.sessions(recorded=True),
    "overview": lambda store, _: store.overview(limit=20),
    "list of a parent": lambda store, _: store.sessions(parent=PARENT),
    "list by metadata": lambda store, _: store.sessions(where={"user": "u7"}),
    "list by both": lambda store, _: store.sessions(parent=PARENT, where={"user": "u7", "a": "b"}),
    "list since": lambda store, _: store.sessions(since=MOMENT, until=MOMENT),
    "overview since": lambda store, _: store.overview(since=MOMENT, until=MOMENT),
    "overview by metadata": lambda store, _: store.overview(limit=20, where={"user": "u7"}),
    "search": lambda store, _: store.search("hello"),
    "search in some sessions": lambda store, _: [
        store.search("hello", session="long", among="visible"),
        store.search("hello", family="p7", tool="run"),
        store.search("hello", where={"user": "u7"}, order="oldest"),
    ],
    "index": lambda store, _: store.index(),
    "children": lambda store, _: store.session("s7").children(),
    "open": lambda store, chat: store.open_session(chat.id),
    "create a child": lambda store, chat: store.create(parent=chat.id, metadata={"user": "u7"}),
    "find": lambda store, chat: store.session(chat.id),
    "info": lambda _, chat: chat.info(),
    "head": lambda _, chat: chat.head(),
    "outline": lambda _, chat: chat.internals.outline(),
    "stats": lambda _, chat: chat.stats(),
    "message": lambda _, chat: chat.message(LONG // 2),
    "message by its id": lambda _, chat: chat.message("m5"),
    "tokens": lambda _, chat: chat.tokens(BYTES),
    "tokens of the past": lambda _, chat: chat.tokens(BYTES, as_of=LONG - 10),
    "tokens of each": lambda _, chat: counts_of(chat, BYTES),
    "calls": lambda _, chat: chat.internals.calls(last=64),
    "usage": lambda _, chat: chat.usage(),
    "usage of all": lambda store, _: store.usage(since=MOMENT),
    "usage where": lambda store, _: store.usage(where={"user": "ann"}),
    "usage of a family": lambda store, _: store.session("s7").usage(family=True),
    "snapshot": lambda _, chat: chat.internals.snapshot(WANTED),
    "estimate": lambda _, chat: keep_estimate(chat, LONG - 1, BYTES, 7),
    "pin": lambda _, chat: chat.pin(LONG - 40),
    "pins": lambda _, chat: chat.pins(),
    "rename": lambda _, chat: chat.set_title("long"),
    "note": lambda _, chat: [chat.note("remark", {"n": n}) for n in range(20)],
    "note about a message": lambda _, chat: chat.note("remark", {}, target=LONG - 40),
    "newest note": lambda _, chat: chat.newest_note("remark"),
    "newest note about a message": lambda _, chat: chat.newest_note("remark", target=LONG - 40),
    "notes by client id": lambda _, chat: chat.internals.noted(["one", "two"]),
    "page of notes": lambda _, chat: chat.internals.notes_page("remark", limit=3),
    "notes by the beginning of their kind": lambda _, chat: chat.internals.newest_notes(
        "re", limit=3
    ),
    "batch": lambda _, chat: chat.write_batch(batch_of(chat), expected_seq=chat.head_seq()),
    "batch again": lambda _, chat: chat.write_batch(
        [NewMessage("user", "one", client_id="batch-1")]
    ),
    "frame": lambda _, chat: chat.internals.keep_frame(system="Be brief.", tools=[]),
    "request": lambda _, chat: chat.request(system="Be long."),
    "request of the past": lambda _, chat: chat.request(as_of=LONG - 10),
    "record": lambda _, chat: chat.record(REPLY, extra={}),
    "record again": lambda _, chat: chat.record(REPLY),
    "loop": lambda _, chat: loop_of(chat),
    "diff": lambda _, chat: chat.diff(LONG - 30, LONG - 10),
    "fork": lambda _, chat: chat.fork(5, session_id="fork"),
    "redact": lambda _, chat: chat.redact(LONG - 50),
    "audit": lambda _, chat: next(chat.internals.audit_pages(10)),
    "excerpt": lambda _, chat: [chat.internals.excerpt(extent) for extent in Extent],
    "excerpt of the past": lambda _, chat: chat.internals.excerpt(
        Extent.LIVE, Anchor(at=LONG // 2), as_of=LONG - 10
    ),
    "envelopes": lambda _, chat: chat.internals.envelopes(after=LONG - 5, limit=10),
    "verify": lambda _, chat: chat.verify(),
    "rebuild": lambda _, chat: chat.rebuild(),
}


def condense(chat: Session) -> Any:
    """Hide what is between the oldest and the newest messages."""
    seqs = [message.seq for message in chat.view().messages[2:-4]]
    return chat.commit(Plan.condense(chat.view(), seqs, "short"))


def batch_of(chat: Session) -> list[Any]:
    """A batch of each sort of item, on the head as it is."""
    last = chat.info().last_seq
    return [
        NewMessage("user", "one", client_id="batch-1"),
        NewMessage("user", "two"),
        Plan(
            head_seq=last + 2,
            action=Action.CONDENSE,
            hides=((last + 1, last + 2),),
            rows=(NewMessage("user", "short", client_id="batch-2"),),
            counts=Counts("given", Size(2), Size(1)),
            compaction_id="condense-1",
        ),
        Pin(last + 3, client_id="batch-3"),
        Rewind(last + 2, client_id="batch-4"),
    ]


def loop_of(chat: Session) -> None:
    """Calls that wait, one of which is answered by name, and one by its id."""
    calls = [{"type": "tool_use", "id": name, "name": "run", "input": {}} for name in "ab"]
    seq = chat.append("assistant", calls).seq
    for call in chat.pending():
        chat.begin(call)
        chat.answer(call, "done")
        chat.answer(call, "again")
    assert (chat.waits_for(), chat.head_seq()) == ("model", seq + 4)


def work(store: Store, catcher: Catcher) -> None:
    """Do everything to the long session, of which the model sees little."""
    chat = store.session("long")
    view = chat.view()
    chat.commit(Plan.condense(view, [m.seq for m in view.messages[: LONG - 60]], "short"))
    for name, operation in OPERATIONS.items():
        catcher.operation = name
        operation(store, chat)
    catcher.operation = None


VIEWS = ("view", "rest of the view", "page", "view of the past")
INDEXES = {
    "entries.client_id =": "entries_client_id",
    "entries.client_id IN": "entries_client_id",
    "entries.message_id =": "entries_message_id",
    "entries.note =": "entries_notes",
    "entries.note >=": "entries_notes",
    "entries.answers_seq =": "entries_answers",
    "entries.details IS NOT NULL": "entries_control",
    "sessions.parent =": "sessions_parent",
    "sessions.unindexed = TRUE": "sessions_unindexed",
    "fact_0.value =": "facts_value",
}


def _expected_index(text: str) -> set[str]:
    """The indexes that find the few wanted rows, however many there are: one of these."""
    if "FROM search_rows" in text:  # its words find the few rows
        return set()
    if "sessions.parent =" in text and "fact_0.value =" in text:
        return {"sessions_parent", "facts_value"}
    if "sessions.archived_at IS NOT NULL" in text and "fact_0.value =" in text:
        return {"sessions_archived", "facts_value"}
    found = next((index for part, index in INDEXES.items() if part in text), None)
    return set() if found is None else {found}


def _shows_content(text: str) -> bool:
    """True if messages are read, which nothing may sort; the few notes may be."""
    selected = text.split("FROM", maxsplit=1)[0]
    is_of_notes = "entries.note =" in text or "entries.note >=" in text
    return bool(re.search(r"(entries|shown)\.content", selected)) and not is_of_notes


# SQLite


@dataclass
class Explained:
    """A connection to an SQLite file that a store worked on, and what it ran there."""

    connection: sqlite3.Connection
    catcher: Catcher

    def steps(self, caught: Caught) -> list[str]:
        """The plan of a statement."""
        rows = self.connection.execute(f"EXPLAIN QUERY PLAN {caught.text}", caught.params)
        return [row[3] for row in rows]


@pytest.fixture(scope="module")
def sqlite_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explained]:
    """A store on an SQLite file, and what it ran."""
    path, catcher = tmp_path_factory.mktemp("plans") / "store.db", Catcher()
    Store.open(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        fill_sqlite(connection.execute)

    with pytest.MonkeyPatch.context() as patch:
        catcher.watch_sqlite(patch)
        with Store.open(path, durability="normal") as store:
            work(store, catcher)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield Explained(connection, catcher)


@pytest.fixture(params=["SELECT 1", "ANALYZE"], ids=["before ANALYZE", "after ANALYZE"])
def analyzed(sqlite_work: Explained, request: pytest.FixtureRequest) -> Iterator[Explained]:
    """The same without statistics and with them."""
    sqlite_work.connection.execute("BEGIN")
    sqlite_work.connection.execute(request.param)
    yield sqlite_work
    sqlite_work.connection.execute("ROLLBACK")


def test_sqlite_searches_and_never_scans(analyzed):
    seen = set()
    for caught in analyzed.catcher.each_text():
        plan = analyzed.steps(caught)
        for step in plan:
            assert not re.match(r"SCAN (entries|spans|clearings|counts|fact)", step), (caught, plan)
        if _shows_content(caught.text):
            assert not any("TEMP B-TREE" in step for step in plan), (caught, plan)
        indexes = _expected_index(caught.text)
        used = {index for index in indexes for step in plan if f" {index} " in step}
        assert used or not indexes, (caught, plan)
        seen.update(plan)
    found = " ".join(seen)
    for index in ("spans_visible", *INDEXES.values()):
        assert f"INDEX {index} " in found


def test_sqlite_reads_a_view_by_its_spans(sqlite_work):
    plans = [sqlite_work.steps(caught) for caught in sqlite_work.catcher.of("view")]
    assert ["SEARCH spans USING INDEX spans_visible (session_id=?)"] in plans
    key = "sqlite_autoindex_entries_1 (session_id=? AND seq>? AND seq<?)"
    spans = "SEARCH spans USING INDEX spans_visible (session_id=?)"
    assert [spans, f"SEARCH entries USING INDEX {key}"] in [plan[:2] for plan in plans]


@pytest.mark.parametrize("operation", ["excerpt", "excerpt of the past"])
def test_sqlite_reads_an_excerpt_by_ranges_of_seq(sqlite_work, operation):
    plans = [sqlite_work.steps(caught) for caught in sqlite_work.catcher.of(operation)]
    steps = [step for plan in plans for step in plan if "sqlite_autoindex_entries_1" in step]
    assert steps
    assert all("seq>" in step or "seq=" in step for step in steps)


def test_sqlite_sums_up_only_the_sessions_of_the_page(sqlite_work):
    (overview,) = sqlite_work.catcher.of("overview")
    assert {*sqlite_work.steps(overview)} & {"CO-ROUTINE page", "MATERIALIZE page"}


def test_sqlite_finds_children_by_their_index(sqlite_work):
    family = sqlite_work.catcher.of("usage of a family")
    children = [caught for caught in family if "sessions.parent IN" in caught.text]
    assert children
    for caught in children:
        steps = [step for step in sqlite_work.steps(caught) if " sessions " in step]
        assert steps == ["SEARCH sessions USING INDEX sessions_parent (parent=?)"]


def test_sqlite_finds_terms_by_their_indexes(analyzed):
    for caught in _of_terms(analyzed.catcher):
        steps = [step for step in analyzed.steps(caught) if " search_rows " in step]
        is_large = "terms IS NULL" in caught.text
        key = "INDEX search_rows_unindexed" if is_large else "INTEGER PRIMARY KEY"
        assert [step.split(" (")[0] for step in steps] == [f"SEARCH search_rows USING {key}"]


# PostgreSQL

MODES = ("force_custom_plan", "force_generic_plan")
"""Left to itself, the server takes one of the two."""


@dataclass
class Planned:
    """A connection to a server that a store worked on, and what it ran there."""

    admin: psycopg.Connection
    catcher: Catcher

    def plan(self, caught: Caught) -> Any:
        """The plan of a statement."""
        return explain(self.admin, caught.text, caught.params)


@pytest.fixture(scope="module")
def postgres_work(postgres: Any) -> Iterator[Planned]:
    """A store on PostgreSQL that has no statistics yet, and what it ran."""
    url, catcher = postgres.fresh(), Catcher()
    with psycopg.connect(url, autocommit=True) as admin:
        for table in metadata.tables:
            admin.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = false)")
        fill_postgres(admin.execute)
        with pytest.MonkeyPatch.context() as patch:
            catcher.watch_postgres(patch)
            with Store.open(url, durability="normal") as store:
                work(store, catcher)
        yield Planned(admin, catcher)
    postgres.drop(url)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest, postgres_work: Planned) -> None:
    """The server plans in one of these ways."""
    postgres_work.admin.execute(f"SET plan_cache_mode = {request.param}")


@pytest.fixture(params=[False, True], ids=["before VACUUM", "after VACUUM"])
def vacuumed(request: pytest.FixtureRequest, postgres_work: Planned) -> bool:
    """True if the server has statistics."""
    if request.param:
        postgres_work.admin.execute("VACUUM ANALYZE")
    return bool(request.param)


@pytest.mark.usefixtures("mode")
def test_postgres_searches_and_never_scans(postgres_work, vacuumed):
    for caught in postgres_work.catcher.each_text():
        operation, text, _ = caught
        plan = postgres_work.plan(caught)
        for node in nodes(plan):
            kind, table = node["Node Type"], node.get("Relation Name")
            if table in ("entries", "clearings", "counts", "facts"):
                assert kind != "Seq Scan", (text, plan)
            # What is counted is a cache: its few rows may be hashed where statistics say so.
            if kind in ("Hash Join", "Merge Join", "Hash") and "tokens" not in operation:
                assert "entries" not in _tables(node), (text, plan)
            if vacuumed or operation in VIEWS:
                is_of_content = _shows_content(text) and "entries" in _tables(node)
                assert not (kind == "Sort" and is_of_content), (text, plan)
        indexes = _expected_index(text)
        if vacuumed and indexes:
            assert indexes & {node.get("Index Name") for node in nodes(plan)}, (text, plan)


@pytest.mark.usefixtures("mode", "vacuumed")
def test_postgres_finds_terms_by_their_indexes(postgres_work):
    for caught in _of_terms(postgres_work.catcher):
        plan = postgres_work.plan(caught)
        names = {node.get("Index Name") or node.get("Relation Name") for node in nodes(plan)}
        index = "search_rows_unindexed" if "terms IS NULL" in caught.text else "search_rows_terms"
        assert index in names, (caught, plan)
        assert "search_rows_pkey" not in names, (caught, plan)


@pytest.mark.usefixtures("mode", "vacuumed")
def test_postgres_reads_a_view_by_its_spans(postgres_work):
    views = postgres_work.catcher.of("view")
    (view,) = [caught for caught in views if _shows_content(caught.text)]
    plan = postgres_work.plan(view)
    (found,) = [node for node in nodes(plan) if node.get("Relation Name") == "entries"]
    # Both ends of a span are conditions of the index, not a filter of what it finds.
    assert found["Node Type"] == "Index Scan", plan
    assert "seq >= spans.lo) AND (seq <= spans.hi" in found["Index Cond"], plan


def test_postgres_plans_once_and_compiles_nothing(postgres):
    url = postgres.fresh()
    chosen = make_url(url).update_query_dict({"options": "-c plan_cache_mode=force_custom_plan"})
    for asked, mode in ((url, "force_generic_plan"), (chosen, "force_custom_plan")):
        with Store.open(asked) as store:
            shown = [
                store._database.single(Transaction.command, f"SHOW {name}")
                for name in ("plan_cache_mode", "jit")
            ]
        assert shown == [(mode,), ("off",)]
    postgres.drop(url)


def test_postgres_appends_by_one_statement(postgres_work):
    (append,) = postgres_work.catcher.of("append")
    assert append.text.startswith("SELECT * FROM roocontext_append_v1($1, $2, ")


def test_postgres_lists_the_newest_by_their_minute(postgres_work):
    postgres_work.admin.execute("VACUUM ANALYZE")
    listed = dict.fromkeys(("list", "next list"), "sessions_listed")
    for operation, index in (*listed.items(), ("list by recording", "sessions_updated")):
        plan = postgres_work.plan(postgres_work.catcher.of(operation)[-1])
        assert index in {node.get("Index Name") for node in nodes(plan)}, plan


def test_append_stays_off_the_indexes_of_sessions(postgres):
    """A HOT update writes no index: the minute that is indexed stays what it was."""
    url = postgres.fresh()
    clock = SetClock(now=1_700_000_040_000, step=1_000)
    with Store.open(url, durability="normal", clock=clock) as store:
        chat = store.create()
        for number in range(240):
            chat.append("user", f"message {number}")
            chat.set_title(f"title {number}")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SELECT pg_stat_force_next_flush()")
        updates, hot = admin.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'sessions'"
        ).fetchone()
    postgres.drop(url)
    # Each rename updates the row twice; each of the eight minutes moves one index entry.
    assert updates == 720
    assert hot >= updates - 8 - updates // 20


# Both


@pytest.fixture(params=["sqlite_work", "postgres_work"])
def catcher(request: pytest.FixtureRequest) -> Catcher:
    """The statements that a store ran on an engine."""
    catcher: Catcher = request.getfixturevalue(request.param).catcher
    return catcher


def test_list_of_sessions_is_one_query_of_one_table(catcher):
    (listed,) = catcher.of("list")
    assert re.findall(r"(?:FROM|JOIN) (\w+)", listed.text) == ["sessions"]
    assert all("entries" not in caught.text for caught in catcher.of("next list"))


def test_client_ids_of_many_messages_are_looked_up_together(catcher):
    texts = [caught.text for caught in catcher.of("append_many with client ids")]
    assert len([text for text in texts if re.search(r"entries\.client_id (IN|= ANY)", text)]) == 1


@pytest.mark.parametrize("operation", ["newest note", "newest note about a message"])
def test_newest_note_is_one_row_by_its_index(catcher, operation):
    (read,) = [caught for caught in catcher.of(operation) if "entries.note =" in caught.text]
    assert "LIMIT" in read.text


@pytest.mark.parametrize("operation", ["newest page", "page before"])
def test_page_from_the_newest_end_reads_few_rows(catcher, operation):
    caught = catcher.of(operation)
    cleared = [one.text for one in caught if "FROM clearings" in one.text]
    assert all("clearings.seq BETWEEN" in text for text in cleared)
    assert sum("entries.content" in one.text for one in caught) <= 3


def test_hidden_contents_are_not_read(catcher):
    """Whoever wants no content asks for none: it may be many pages long."""
    reads = ("list", "overview", "outline", "find", "info", "head", "stats", "pins")
    for operation in (*reads, "rewind", "undo"):
        for caught in catcher.of(operation):
            assert not _shows_content(caught.text), (operation, caught.text)


def test_every_table_of_a_view_is_explained(catcher):
    """The explained statements are all that a view runs."""
    tables = {
        table
        for name in ("view", "view of the past")
        for caught in catcher.of(name)
        for table in re.findall(r"(?:FROM|JOIN) (\w+)", caught.text)
    }
    assert tables - {"LATERAL"} == {"sessions", "spans", "entries", "clearings"}


def _of_terms(catcher: Catcher) -> list[Caught]:
    """The statements that ask the index for messages: of each search one for the large ones."""
    searches = [*catcher.of("search"), *catcher.of("search in some sessions")]
    found = [caught for caught in searches if "FROM search_rows" in caught.text]
    assert sum("terms IS NULL" in caught.text for caught in found) == len(found) / 2 == 4
    return found


def _tables(plan: dict[str, Any]) -> set[str]:
    return {node["Relation Name"] for node in nodes(plan) if "Relation Name" in node}


def test_audit_reads_the_control_rows_once(catcher):
    read = [caught for caught in catcher.of("audit") if "details IS NOT NULL" in caught.text]
    assert len(read) == 1
