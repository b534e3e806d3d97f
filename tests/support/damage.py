"""Damage to a stored session, cell by cell, and everything that can be asked of it then.

Somebody with the file can store anything in it: SQLite keeps any type in any column once its checks
are ignored, texts that are not UTF-8 too. PostgreSQL keeps to its types.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Boolean, Integer, LargeBinary

from roocontext import NewMessage, Pin, Plan
from roocontext.log.counting import BYTES
from roocontext.store.counting.snapshot import SnapshotRows, Wanted
from roocontext.store.engine.schema import entries, metadata
from roocontext.store.sessions.excerpt import Extent
from roocontext.tokens import counter_for
from support.dialogue import fill, keep_estimate, work

WANTED = Wanted(
    counter=counter_for("gpt-4o", name="roo"),
    rows=SnapshotRows.VISIBLE,
    others=[BYTES],
    calls=64,
    estimates=lambda _: True,
    notes=["mine", "other"],
)
"""All that a snapshot can hold, by a counter that has counted nothing yet and by one that has."""
SECRET = "a secret that no error may quote"
OPEN_END = (1 << 62) - 1
REDACTED, REDACTION_ROW = 8, "seq = 17"
"""The redacted message of a session that `build` made, and where its redaction is."""


class Damage(NamedTuple):
    """A cell, and an SQL expression for what is put into it."""

    table: str
    column: str
    value: str
    row: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column} = {self.value} WHERE {self.row}"


NUMBERS = ("-1", "0", "{column} + 1", "{column} - 1", f"{OPEN_END}", f"{(1 << 63) - 1}")
TEXTS = (
    "'other words'",
    "''",
    "'message'",
    "'note'",
    "'rewind'",
    "'uncovering'",
    "'openai'",
    "'tool'",
    "'pin'",
    "'title'",
    "'metadata'",
    "'{{}}'",
    "'[]'",
    "'5'",
    "'null'",
    "'NaN'",
    "'[{{}}]'",
    "'[{{\"type\":5}},5]'",
    '\'[{{"type":"tool_result","tool_use_id":[],"content":5}}]\'',
    "'{{\"pinned\":1}}'",
    '\'{{"title":[],"metadata":[],"digest":5}}\'',
    "replace({column}, 'e', 'f')",
    "substr({column}, 2)",
)
CALL = {"type": "tool_use", "id": "new", "name": "run", "input": {}}
DETAILS = (
    '{{"to":{seq}}}',
    '{{"to":{OPEN_END}}}',
    '{{"to":-1}}',
    '{{"to":true}}',
    '{{"to":"1"}}',
    '{{"uncovers":[3]}}',
    '{{"uncovers":[13,{seq}]}}',
    '{{"uncovers":[]}}',
    '{{"hides":[[2,3],[3,4]],"position":4294967296}}',
    '{{"hides":[[3,2]],"position":4294967296}}',
    '{{"hides":[[2,{seq}]],"position":4294967296}}',
    '{{"hides":[],"position":4294967296}}',
    '{{"hides":[[2,3]]}}',
    '{{"hides":[[2,3]],"position":-4294967296}}',
    '{{"hides":[[2]],"position":4294967296}}',
    '{{"hides":5,"position":[]}}',
    '{{"clears":[]}}',
    '{{"clears":[[{seq},0]]}}',
    '{{"clears":[[2,0],[2,0]]}}',
    '{{"clears":[[2,-1]]}}',
    '{{"position":"x"}}',
    '{{"to":1,"record":5}}',
)
UNTYPED = ("1.5", "9e999", "x'00ff'", "CAST(x'ff41ff' AS TEXT)", "'one'", "7")
"""What only SQLite stores in a column of another type."""


def damages(engine: str, rows: Mapping[str, list[tuple[str, Any]]]) -> Iterator[Damage]:
    """Every damage to these rows: by table, how each is found and its seq."""
    for table, found in rows.items():
        for column in metadata.tables[table].columns:
            for where, seq in found:
                for value in _values(engine, table, column):
                    filled = value.format(column=column.name, seq=seq, OPEN_END=OPEN_END)
                    yield Damage(table, column.name, filled, where)


def _values(engine: str, table: str, column: Any) -> Iterator[str]:
    if column.nullable or (engine == "postgres" and not column.primary_key):
        yield "NULL"
    if engine != "postgres":
        yield from UNTYPED
    if isinstance(column.type, (BigInteger, Integer)):
        yield from NUMBERS if isinstance(column.type, BigInteger) else NUMBERS[:4]
    elif isinstance(column.type, Boolean):
        yield "NOT {column}"
    elif isinstance(column.type, LargeBinary):
        blob = "x'{{}}'" if engine != "postgres" else "'\\x{{}}'::bytea"
        yield blob.replace("{{}}", "")
        yield blob.replace("{{}}", "00" * 32)
    else:
        yield from TEXTS if engine != "postgres" else TEXTS[::3]
        if column is entries.c.details:
            yield from (f"'{details}'" for details in DETAILS)


def build(store: Any) -> Any:
    """A session with every kind of row in every table."""
    chat = store.create(title="t", metadata={"a": 1, "user": "ann"})
    said = fill(chat, 6)
    _, told = work(chat, output=f"{SECRET} " * 9)
    chat.append("user", SECRET, client_id="once", message_id="named", ts=1_000)
    usage = {"input_tokens": 5, "output_tokens": 7}
    facts = {"extra": {"id": SECRET}, "asked_at": told, "answers": (told - 1, 1)}
    answer = chat.append("assistant", SECRET, usage=usage, model="m", **facts).seq
    chat.pin(said[0])
    chat.tokens(BYTES)
    keep_estimate(chat, answer, BYTES, 5)
    chat.commit(Plan.clear(chat.view(), [(told, 0)], "gone"))
    chat.commit(Plan.condense(chat.view(), said[1:3], "S"))
    chat.commit(Plan.truncate(chat.view(), said[4:5], "M"))
    chat.redact(said[5])
    chat.note("mine", {"said": SECRET})
    chat.rewind(to=answer)
    chat.undo()
    fill(chat, 2)
    chat.uncover(14)
    chat.tokens(BYTES)
    return chat


REPLY = {"type": "message", "id": "msg_1", "content": [], "stop_reason": "end_turn"}
NOW = datetime(2025, 1, 1, tzinfo=UTC)


def _taken(feed: Any) -> Any:
    with feed:
        return feed.read(timeout=0)


def _in_turn(chat: Any) -> None:
    with chat.turn() as turn:
        turn.set_title("mine")


READING: dict[str, Callable[[Any, Any], Any]] = {
    "info": lambda _, chat: chat.info(),
    "children": lambda _, chat: chat.children(),
    "head_seq": lambda _, chat: chat.head_seq(),
    "newest_reply": lambda _, chat: chat.internals.newest_reply(),
    "uncovered_since": lambda _, chat: chat.internals.uncovered_since(0),
    "view": lambda _, chat: chat.view(),
    "view of the past": lambda _, chat: [chat.view(as_of=seq) for seq in range(0, 24, 5)],
    "view from the end": lambda _, chat: chat.view(last=3),
    "view of a time": lambda _, chat: chat.view(as_of=NOW),
    "pages": lambda _, chat: list(chat.internals.pages(2)),
    "messages": lambda _, chat: chat.messages(),
    "repairs": lambda _, chat: chat.repairs(),
    "counted": lambda _, chat: chat.internals.counted(BYTES),
    "unextracted": lambda _, chat: chat.internals.unextracted(),
    "family": lambda _, chat: chat.internals.family(),
    "hidden_by": lambda _, chat: chat.internals.hidden_by(13),
    "first_written": lambda _, chat: chat.internals.first_written("once"),
    "audit": lambda _, chat: list(chat.audit()),
    "audit_pages": lambda _, chat: list(chat.internals.audit_pages(3)),
    "audited": lambda _, chat: chat.internals.audited()(2, 9),
    "stored": lambda _, chat: list(chat.internals.stored()),
    "diff": lambda _, chat: chat.diff(3),
    "message": lambda _, chat: [chat.message(seq) for seq in (3, 4, 8, 11)],
    "message by its id": lambda _, chat: chat.message("named"),
    "originals": lambda _, chat: chat.internals.originals(),
    "notes": lambda _, chat: [chat.notes(kind) for kind in ("mine", "title", "redaction")],
    "notes_page": lambda _, chat: [
        chat.internals.notes_page(kind, newest=newest)
        for kind in ("mine", "redaction")
        for newest in (False, True)
    ],
    "pins": lambda _, chat: chat.pins(),
    "newest_notes": lambda _, chat: [chat.internals.newest_notes(kind) for kind in ("m", "t")],
    "noted": lambda _, chat: chat.internals.noted(["once", "other"]),
    "newest_note": lambda _, chat: [chat.newest_note(kind) for kind in ("mine", "title")],
    "stats": lambda _, chat: chat.stats(),
    "outline": lambda _, chat: chat.internals.outline(),
    "excerpt": lambda _, chat: [chat.internals.excerpt(extent) for extent in Extent],
    "excerpt of the past": lambda _, chat: chat.internals.excerpt(Extent.VIEW, as_of=11),
    "stored_content": lambda _, chat: chat.internals.stored_content(9),
    "envelopes": lambda _, chat: chat.internals.envelopes(after=3, limit=100),
    "overview": lambda store, _: store.overview(),
    "changes": lambda store, _: _taken(store.changes()),
    "change_cursor": lambda store, _: store.change_cursor(),
    "search": lambda store, _: [store.search(SECRET), store.search("room", among="visible")],
    "live": lambda _, chat: chat.internals.live(),
    "tokens": lambda _, chat: chat.tokens(BYTES),
    "tokens of the past": lambda _, chat: chat.tokens(BYTES, as_of=11),
    "calls": lambda _, chat: chat.internals.calls(),
    "usage": lambda _, chat: chat.usage(family=True),
    "usage of all": lambda store, _: store.usage(since=NOW, until=NOW),
    "usage by day": lambda store, _: store.usage(by="day", zone=None),
    "frame": lambda _, chat: chat.frame(),
    "restorable": lambda _, chat: chat.internals.restorable([BYTES]),
    "request of the past": lambda _, chat: chat.request(as_of=9, unanswered=True, prefill=True),
    "snapshot": lambda _, chat: chat.internals.snapshot(WANTED),
    "snapshot of what is live": lambda _, chat: chat.internals.snapshot(
        replace(WANTED, rows=SnapshotRows.LIVE)
    ),
    "head": lambda _, chat: chat.head(),
    "session": lambda store, chat: store.session(chat.id),
    "sessions": lambda store, _: store.sessions(),
    "sessions after": lambda store, _: store.sessions(after=store.sessions(limit=1).next),
    "purged": lambda store, _: store.purged(),
    "sessions since": lambda store, _: store.sessions(since=NOW, until=NOW),
    "sessions where": lambda store, chat: store.sessions(parent=chat.id, where={"user": "ann"}),
    "open_session": lambda store, chat: store.open_session(chat.id),
    "find": lambda store, chat: store.find(chat.id[:1]),
    "ping": lambda store, _: store.ping(60),
    "observed": lambda _, chat: _observed(chat),
    "purge by a rule in a dry run": lambda store, _: store.purge(
        where={"user": "ann"}, older_than=NOW, dry_run=True
    ),
    "purge in a dry run": lambda store, chat: store.purge(chat.id, dry_run=True),
    "redact in a dry run": lambda _, chat: chat.redact(4, dry_run=True),
    "commit in a dry run": lambda _, chat: chat.commit(_plan(chat), dry_run=True),
}
WRITING: dict[str, Callable[[Any, Any], Any]] = {
    "keep_counts": lambda _, chat: chat.internals.keep_counts(
        chat.internals.snapshot(WANTED).counted
    ),
    "keep_extract": lambda _, chat: chat.internals.keep_extract(
        chat.internals.hidden_by(13), "what was said"
    ),
    "restore": lambda store, chat: store.restore(chat.id, list(chat.internals.stored())),
    "restore elsewhere": lambda store, chat: store.restore("copy", list(chat.internals.stored())),
    "index": lambda store, _: [store.index(), store.search(SECRET)],
    "drop_index": lambda store, _: store.drop_index(),
    "append": lambda _, chat: chat.append("user", "more"),
    "append again": lambda _, chat: chat.append("user", SECRET, client_id="once"),
    "append an answer": lambda _, chat: chat.append(
        "user", "more", extra=[SECRET], asked_at=9, answers=(3, 0)
    ),
    "keep_frame": lambda _, chat: chat.internals.keep_frame(system="Be brief."),
    "request": lambda _, chat: chat.request(unanswered=True, prefill=True),
    "record": lambda _, chat: chat.record(REPLY),
    "waits_for": lambda _, chat: chat.waits_for(),
    "begin": lambda _, chat: chat.begin((9, 0)),
    "turn": lambda _, chat: _in_turn(chat),
    "answer": lambda _, chat: chat.answer((9, 0), "done"),
    "pending": lambda _, chat: [chat.append("assistant", [CALL]), chat.pending()],
    "append_many": lambda _, chat: chat.append_many([{"role": "user", "content": "m"}] * 2),
    "write_batch": lambda _, chat: chat.write_batch([NewMessage("user", "m"), Pin(4)]),
    "write_batch again": lambda _, chat: chat.write_batch(
        [NewMessage("user", SECRET, client_id="once")]
    ),
    "pin": lambda _, chat: chat.pin(4),
    "unpin": lambda _, chat: chat.unpin(3),
    "set_title": lambda _, chat: chat.set_title("u"),
    "set_metadata": lambda _, chat: chat.set_metadata({"b": 2}),
    "update_metadata": lambda _, chat: chat.update_metadata({"c": 3}, remove=["b"]),
    "note": lambda _, chat: chat.note("mine", {}),
    "commit": lambda _, chat: chat.commit(_plan(chat)),
    "clear": lambda _, chat: chat.commit(Plan.clear(chat.view(), [(10, 0)])),
    "rewind": lambda _, chat: chat.rewind(to=12),
    "rewind to a name": lambda _, chat: chat.rewind(to="named"),
    "rewind to no name": lambda _, chat: chat.rewind(to="nobody"),
    "rewind to a time": lambda _, chat: chat.rewind(to=NOW),
    "rewind to the agent's time": lambda _, chat: chat.rewind(ts=1_000),
    "undo": lambda _, chat: chat.undo(force=True),
    "uncover": lambda _, chat: chat.uncover(13),
    "uncover again": lambda _, chat: chat.uncover(14),
    "fork": lambda _, chat: chat.fork(),
    "redact": lambda _, chat: chat.redact(4),
    "rebuild": lambda _, chat: chat.rebuild(),
    "create": lambda store, chat: store.create(chat.id),
    "purge by a rule": lambda store, _: store.purge(older_than=timedelta(0)),
    "archive": lambda store, chat: store.archive(session=chat.id, put=lambda *_: None),
    "purge": lambda store, chat: store.purge(chat.id),
    "purge again": lambda store, chat: store.purge(chat.id),
}
CALLS = {"verify": lambda _, chat: chat.verify(), **READING, **WRITING}
OF_THE_STORE = {
    *("overview", "changes", "change_cursor", "search", "usage of all", "usage by day", "sessions"),
    *("sessions after", "sessions since", "sessions where", "purged", "find", "index", "ping"),
    *("drop_index", "purge by a rule", "purge by a rule in a dry run"),
}
"""The calls that name no session, or may name one that does not exist."""
SILENT = {"uncovered_since", "newest_notes", "noted", "answer", "first_written"}
"""The calls that find nothing in a session that does not exist, and do not ask for it."""


def _observed(chat: Any) -> Any:
    with chat.internals.observed("read") as note:
        note(chat.view())
    return chat.id


def _plan(chat: Any) -> Plan:
    shown = [message.seq for message in chat.view().messages]
    return Plan.condense(chat.view(), shown[1:2], "T")
