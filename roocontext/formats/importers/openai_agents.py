"""Sessions of the OpenAI Agents SDK: SQLiteSession, SQLAlchemySession, AdvancedSQLiteSession.

docs/formats/openai-agents.md. The SDK keeps each item as a row. The items that the model returned
in one step are one message, as in the SDK's adapter; every output of a tool is a message, because
the SDK may store one of them later than the others.

The names of the tables are the application's choice, so a table is recognised by its columns.
"""

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple

from roocontext.errors import UnreadableSource
from roocontext.formats.databases import Rows, SourceDatabase, Tables, decoded, utc_ms
from roocontext.formats.events import Added, Event, Problem, ServerUrl, Source, WentBack
from roocontext.formats.files import report
from roocontext.formats.importer import Importer
from roocontext.formats.response_items import role_of_item, storable_item
from roocontext.log.entries import NewMessage
from roocontext.log.readings.openai_responses import type_of

NAME: Final = "openai-agents"
_FORMAT: Final = "openai-responses"
_USUAL: Final = "agent_messages"
"""The SDK's own name of the table; sessions in a table with another name have it in their id."""
_BRANCHES: Final = "message_structure"


class _Row(NamedTuple):
    """A stored item."""

    number: int
    item: Any
    ts: int | None


class _Message(NamedTuple):
    """Items that are one message."""

    name: str
    role: str
    items: list[dict[str, Any]]
    ts: int | None


def _is_database(tables: Tables) -> bool:
    return any(map(_holds_items, tables.values()))


def _holds_items(columns: frozenset[str]) -> bool:
    return {"session_id", "message_data"} <= columns


def sources(database: SourceDatabase, tables: Tables) -> Iterator[Source]:
    """The sessions of a database, table by table."""
    own = sorted(name for name, columns in tables.items() if _holds_items(columns))
    for table in own:
        database.check_columns(tables, table, "id", "created_at", by="the OpenAI Agents SDK")
        quoted = table.replace('"', '""')
        query = f'SELECT DISTINCT session_id FROM "{quoted}" ORDER BY session_id'  # noqa: S608 - a table of the database
        with database.reading() as rows:
            sessions = [session for (session,) in rows(query)]
        has_branches = _BRANCHES in tables and own[0] == own[-1]
        for session in sessions:
            yield database.source(
                NAME,
                str(session) if table == _USUAL else f"{table}:{session}",
                partial(_events, database, quoted, session, has_branches=has_branches),
                session=session,
                table=None if table == _USUAL else table,
            )


def _events(
    database: SourceDatabase,
    table: str,
    session: str,
    problems: list[Problem],
    *,
    has_branches: bool,
) -> Iterator[Event]:
    # As the SDK reads them: a server's transactions may commit in another order than they began.
    order = "created_at, id" if isinstance(database.place, ServerUrl) else "id"
    query = (
        f'SELECT id, message_data, created_at FROM "{table}"'  # noqa: S608 - a table of the database
        f" WHERE session_id = ? ORDER BY {order}"
    )
    with database.reading() as rows:
        items = _items(database, rows(query, (session,)), problems)
        if not has_branches:
            yield from map(_added, _messages(items))
            return
        yield from _branched(items, _branches(rows, session))


def _items(
    database: SourceDatabase, rows: Iterator[tuple[Any, ...]], problems: list[Problem]
) -> Iterator[_Row]:
    for number, text, created in rows:
        try:
            item = decoded(text)
        except ValueError:
            # The SDK passes over such a row too.
            report(problems, Problem(database.place, None, f"item {number} is not JSON"))
            continue
        if isinstance(item, dict) and "__enc__" in item:
            raise UnreadableSource(
                "its items are encrypted: decrypt them with the SDK's EncryptedSession",
                path=str(database.place),
                advice="",
            )
        yield _Row(number, item, utc_ms(created))


def _messages(rows: Iterator[_Row]) -> Iterator[_Message]:
    """Group the items that the model returned in one step; any other is a message of its own."""
    pairs = ((row, storable_item(row.item)) for row in rows)
    steps = groupby(
        pairs, key=lambda pair: None if role_of_item(pair[1]) == "assistant" else pair[0].number
    )
    for _, run in steps:
        kept, items = zip(*run, strict=True)
        yield _Message(str(kept[0].number), role_of_item(items[0]), [*items], kept[0].ts)


def _added(message: _Message) -> Added:
    is_alone = type_of(message.items[0]) == "message" and message.role != "assistant"
    content = message.items[0] if is_alone else message.items
    return Added(message.name, NewMessage(message.role, content, _FORMAT, ts=message.ts))


# Branches: a new one has the rows before its first turn in common with the one that it left.


def _branches(rows: Rows, session: str) -> dict[int, list[str]]:
    """The branches that hold each item, the one that it was written in first."""
    query = (
        f"SELECT message_id, branch_id FROM {_BRANCHES}"  # noqa: S608 - a constant
        " WHERE session_id = ? ORDER BY id"
    )
    branches: dict[int, list[str]] = {}
    for number, branch in rows(query, (session,)):
        branches.setdefault(number, []).append(branch)
    return branches


def _branched(items: Iterator[_Row], branches: dict[int, list[str]]) -> Iterator[Event]:
    """The items of each run in one branch, with a rewind wherever the branch changes."""
    ends: dict[str, str] = {}
    current: str | None = None
    run: list[_Row] = []

    def written() -> Iterator[Event]:
        for message in _messages(iter(run)):
            for branch in branches.get(int(message.name), ()):
                ends[branch] = message.name
            yield _added(message)
        run.clear()

    for row in items:
        branch = next(iter(branches.get(row.number, ())), current)
        if branch != current:
            yield from written()
            if current is not None:
                yield WentBack(f"branch {row.number}", ends.get(branch or ""), ts=row.ts)
            current = branch
        run.append(row)
    yield from written()


IMPORTER: Final = Importer(tool=NAME, database=sources, is_database=_is_database)
