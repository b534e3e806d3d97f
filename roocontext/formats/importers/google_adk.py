"""Sessions of Google ADK's DatabaseSessionService and SqliteSessionService, as events.

docs/formats/google-adk.md. An event's content is a message, a compaction hides the events of its
time, and a rewind goes back to before its invocation, as in ADK's adapter.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace as with_fields

from roocontext.errors import InvalidMessage, UnreadableSource
from roocontext.formats.databases import SourceDatabase, Tables, decoded, utc_ms
from roocontext.formats.events import (
    Added,
    Event,
    Hid,
    Noted,
    Problem,
    ServerUrl,
    Source,
    WentBack,
)
from roocontext.formats.files import non_empty, report
from roocontext.formats.importer import Importer
from roocontext.log.entries import NewMessage
from roocontext.log.readings import reader
from roocontext.log.readings.blocks import as_dict
from roocontext.log.readings.gemini import camel

NAME: Final = "adk-sessions"
_FORMAT: Final = "gemini"
_VERSIONS: Final = "adk_internal_metadata"
_KNOWN: Final = "1"
_KEY: Final = ("app_name", "user_id")


def _is_database(tables: Tables) -> bool:
    return all({*_KEY} <= tables.get(table, frozenset()) for table in ("sessions", "events"))


def sources(database: SourceDatabase, tables: Tables) -> Iterator[Source]:
    """The sessions of a database, by app and user."""
    if "event_data" not in tables["events"] and "actions" in tables["events"]:
        raise UnreadableSource(
            f"{database.place} was written by an older release of Google ADK, which pickled its"
            " events: upgrade it with 'adk migrate session' first.",
            path=str(database.place),
            advice="",
        )
    needs = ("id", "session_id", "invocation_id", "timestamp", "event_data")
    database.check_columns(tables, "events", *_KEY, *needs, by="Google ADK")
    database.check_columns(tables, "sessions", *_KEY, "id", "state", by="Google ADK")
    with database.reading() as rows:
        if _VERSIONS in tables:
            query = f"SELECT value FROM {_VERSIONS} WHERE key = 'schema_version'"  # noqa: S608 - a constant
            for (version,) in rows(query):
                _check_version(database, str(version))
        query = "SELECT app_name, user_id, id, state FROM sessions ORDER BY app_name, user_id, id"
        sessions = list(rows(query))
    # Events of one time: SqliteSessionService, which has files and stores no version, sends them as
    # they were written, and DatabaseSessionService by their ids.
    is_server = isinstance(database.place, ServerUrl)
    order = "timestamp, id" if is_server or _VERSIONS in tables else "timestamp, rowid"
    for app, user, name, state in sessions:
        key = (app, user, name)
        yield database.source(
            NAME,
            "/".join(quote(part, safe=" @:+") or "%" for part in key),
            partial(_events, database, key, state, order),
            app=app,
            user=user,
            session=name,
        )


def _check_version(database: SourceDatabase, version: str) -> None:
    if version != _KNOWN:
        raise UnreadableSource(
            f"{database.place} has version {version} of Google ADK's tables, and this release of"
            f" roocontext knows version {_KNOWN}.",
            path=str(database.place),
            advice="",
        )


def _events(
    database: SourceDatabase,
    key: tuple[str, str, str],
    state: Any,
    order: str,
    problems: list[Problem],
) -> Iterator[Event]:
    conversation = _Conversation()
    query = (
        "SELECT id, invocation_id, timestamp, event_data FROM events"  # noqa: S608 - constants
        f" WHERE app_name = ? AND user_id = ? AND session_id = ? ORDER BY {order}"
    )
    with database.reading() as rows:
        for name, invocation, at, data in rows(query, key):
            try:
                record = as_dict(decoded(data))
            except ValueError:
                report(problems, Problem(database.place, None, f"event {name} is not JSON"))
                continue
            seconds = record.get("timestamp")
            is_exact = type(seconds) in (int, float)  # the column may have lost the time's zone
            ts = utc_ms(seconds if is_exact else at)
            yield from conversation.take(name, invocation, record, ts)
    with suppress(ValueError):
        if kept := as_dict(decoded(state)):
            yield Noted(None, "state", kept)


@dataclass(slots=True)
class _Conversation:
    """The state of a session so far: its place, and the ids that later events may name."""

    tip: str | None = None
    summed: tuple[tuple[int, int], ...] = ()
    """The times of the summaries that are not rewound."""
    before: dict[str, tuple[str | None, tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    """The last event before each invocation, and the summaries then."""
    times: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The time of each message, and of what each summary stands for, in milliseconds."""

    def take(
        self, name: str, invocation: str, record: dict[str, Any], ts: int | None
    ) -> Iterator[Event]:
        """The events of a record: of its compaction, its rewind and its content."""
        actions = as_dict(record.get("actions"))
        self.before.setdefault(invocation, (self.tip, self.summed))
        noted = {key: value for key, value in record.items() if key != "content"}
        about = {"event": noted}
        hid = self._hid(f"{name}:summary", as_dict(actions.get("compaction")), ts, about)
        if hid is not None:
            self.tip = hid.id
            yield hid
        rewinds = actions.get("rewind_before_invocation_id")
        if isinstance(rewinds, str) and rewinds in self.before:
            to, self.summed = self.before[rewinds]
            self.tip = f"{name}:rewind"
            yield WentBack(self.tip, to, ts=ts)
        by = "user" if record.get("author") == "user" else "model"
        if (message := content_message(record.get("content"), by)) is not None:
            self.tip = name
            self.times[name] = (ts or 0, ts or 0)
            usage = as_dict(record.get("usage_metadata"))
            yield Added(
                name,
                with_fields(
                    message,
                    ts=ts,
                    message_id=name,
                    model=non_empty(record.get("model_version")),
                    # The names of Gemini's API, which the counts of tokens are read by.
                    usage={camel(key): value for key, value in usage.items()} or None,
                    extra=about,
                ),
            )
        elif hid is None:
            yield Noted(name, "event", record, ts)

    def _hid(
        self, name: str, compaction: dict[str, Any], ts: int | None, about: dict[str, Any]
    ) -> Hid | None:
        """What a compaction hides, by its summary; None if it has none, or hides nothing."""
        summary = content_message(compaction.get("compacted_content"), "model")
        if summary is None:
            return None
        begin, end = (utc_ms(compaction.get(f"{side}_timestamp")) or 0 for side in ("start", "end"))
        inside = {event for event, (lo, hi) in self.times.items() if begin <= lo and hi <= end}
        # ADK leaves out a summary of a part of what another one stands for.
        is_part = any(lo <= begin and end <= hi for lo, hi in {*self.summed} - {(begin, end)})
        if is_part or not inside:
            return None
        self.summed += ((begin, end),)
        self.times[name] = (begin, end)
        row = with_fields(summary, ts=ts, message_id=name, extra=about)
        return Hid(name, (row,), hides=frozenset(inside))


def content_message(content: Any, role: str) -> NewMessage | None:
    """A content as a message; None if it has no parts, or no role that the format has.

    A content without a role has the given one.
    """
    if not as_dict(content).get("parts"):
        return None
    role = content.get("role") or role
    try:
        reader(_FORMAT).check(role, content)
    except InvalidMessage:
        return None
    return NewMessage(role, content, _FORMAT)


IMPORTER: Final = Importer(tool=NAME, database=sources, is_database=_is_database)
