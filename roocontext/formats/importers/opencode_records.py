"""OpenCode's records: exports, storage folders of both generations, and its database.

Of the database only the tables of sessions, messages and parts are read: others hold the program's
credentials.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from roocontext.errors import UnreadableSource
from roocontext.formats.databases import SourceDatabase
from roocontext.formats.events import Problem
from roocontext.formats.files import (
    SQLITE,
    contents_of,
    is_removed,
    list_at,
    loads,
    opened,
    read_object,
    report,
    report_repeated,
)
from roocontext.log.readings.blocks import as_dict, dicts

_SESSIONS = ("session", "session_v2")
_EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{')
"""The beginning of an export; folders hold many other documents."""


class OpenCodeMessage(NamedTuple):
    """A message of the tool: its record, its parts in their order, and both as they are stored."""

    info: dict[str, Any]
    parts: list[dict[str, Any]]
    record: dict[str, Any]


def is_storage(folder: Path) -> bool:
    """True if a folder holds sessions of either generation."""
    return (folder / "session").is_dir() and (
        (folder / "message").is_dir() or (folder / "session" / "info").is_dir()
    )


def is_candidate(path: Path) -> bool:
    """True if a file in a folder is named like the tool's database, or begins like an export."""
    if path.suffix != ".json":
        return _is_database_name(path)
    try:
        with opened(path) as file:
            return bool(_EXPORT.match(file.read(100)))
    except OSError:
        return True  # so that it is reported


def _is_database_name(path: Path) -> bool:
    """True if a file is named like the tool's database; in projects it is of another tool."""
    name = path.name
    return name.startswith("opencode") and name.endswith(".db") and path.parent.name != ".opencode"


def is_database(path: Path) -> bool:
    """True if a file is the tool's database, whatever its name.

    A file with the database's name that cannot be read counts too, so that it is reported.
    """
    try:
        with opened(path) as file:
            begins = file.read(len(SQLITE))
    except OSError:
        return False
    if not begins.startswith(SQLITE):
        return bool(begins) and _is_database_name(path)
    try:
        return not SourceDatabase(path).tables().keys().isdisjoint(_SESSIONS)
    except UnreadableSource:
        return _is_database_name(path)


@dataclass(frozen=True, slots=True)
class OpenCodeRecords:
    """The records of an export, a storage folder or a database. What is unreadable is reported.

    Of a database, UnreadableSource is raised.
    """

    path: Path
    problems: list[Problem]

    @property
    def _is_database(self) -> bool:
        return not (self.path.is_dir() or self.path.suffix == ".json")

    def sessions(self) -> list[dict[str, Any]]:
        """The records of the sessions."""
        if self._is_database:
            return self._database_sessions()
        if self.path.is_dir():
            return list(self._stored_sessions())
        return [as_dict(self._object(self.path).get("info"))]

    def messages(self, session: str) -> list[OpenCodeMessage]:
        """The messages of a session in the order of their ids; their times may differ."""
        if self._is_database:
            messages = self._database_messages(session)
        else:
            is_folder = self.path.is_dir()
            messages = list(self._stored_messages(session) if is_folder else self._exported())
        named = [message for message in messages if isinstance(message.info.get("id"), str)]
        if len(named) < len(messages):
            self._report(f"{len(messages) - len(named)} messages of session {session} have no id")
        if any(is_removed(message.info["id"]) for message in named):
            return _named_by_place(named)
        return sorted(named, key=lambda message: str(message.info["id"]))

    def second(self, session: str) -> list[dict[str, Any]]:
        """The messages of a session in the database's second schema, in their order."""
        database = SourceDatabase(self.path)
        if not self._is_database or "session_message" not in database.tables():
            return []
        query = "SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY seq"
        with database.reading() as rows:
            return [
                {**data, "id": name, "type": kind}
                for name, kind, data in self._with_data(rows(query, (session,)))
            ]

    def report_unread_events(self, session: str) -> None:
        """Report a session without messages of which the database holds events."""
        database = SourceDatabase(self.path)
        if not self._is_database or "event" not in database.tables():
            return
        query = "SELECT count(*) FROM event WHERE aggregate_id = ?"
        with database.reading() as rows:
            ((events,),) = rows(query, (session,))
        if events:
            what = f"session {session} has no messages, only events, which are not read"
            self._report(f"{what}: {events}")

    def _report(self, what: str) -> None:
        report(self.problems, Problem(self.path, None, what))

    # Documents, of exports and storage folders.

    def _object(self, file: Path) -> dict[str, Any]:
        return read_object(file, self.problems, cuts=True)

    def _documents(self, folder: Path) -> list[Path]:
        return [file for file in contents_of(folder, self.problems) if file.suffix == ".json"]

    def _exported(self) -> Iterator[OpenCodeMessage]:
        for number, record in enumerate(list_at(self._object(self.path), "messages"), 1):
            if isinstance(record, dict) and isinstance(record.get("info"), dict):
                yield _modern(record["info"], dicts(record.get("parts")))._replace(record=record)
            else:
                self._report(f"message {number} of the list is none")

    def _stored_sessions(self) -> Iterator[dict[str, Any]]:
        for project in contents_of(self.path / "session", self.problems):
            is_own = project.name not in ("message", "part")
            for file in self._documents(project) if is_own else ():
                info = self._object(file)
                if isinstance(info.get("id"), str):
                    # If ids were removed, the names of the files still hold them.
                    yield {**info, "id": file.stem} if is_removed(info["id"]) else info

    def _stored_messages(self, session: str) -> Iterator[OpenCodeMessage]:
        if not session or session in {".", ".."} or set(session) & set("/\\\0"):
            return  # it would name another folder
        is_old = (self.path / "session" / "info").is_dir()
        home = self.path / "session" if is_old else self.path
        inside = home / "part" / session if is_old else home / "part"
        for file in self._documents(home / "message" / session):
            if info := self._object(file):
                parts = map(self._object, self._documents(inside / file.stem))
                yield _modern(info, list(filter(None, parts)))

    # Rows, of databases.

    def _database_sessions(self) -> list[dict[str, Any]]:
        names = {"parent_id": "parentID", "project_id": "projectID"}
        sessions: dict[str, dict[str, Any]] = {}
        database = SourceDatabase(self.path)
        tables = database.tables()
        with database.reading() as rows:
            for table in filter(tables.__contains__, _SESSIONS):
                columns = sorted(tables[table])
                listed = ", ".join(f'"{column}"' for column in columns)
                for row in rows(f"SELECT {listed} FROM {table} ORDER BY id"):  # noqa: S608 - its own names
                    facts = zip(columns, row, strict=True)
                    info = {names.get(name, name): value for name, value in facts}
                    info["revert"] = self._json(info.get("revert"))
                    sessions.setdefault(str(info["id"]), info)
        return list(sessions.values())

    def _database_messages(self, session: str) -> list[OpenCodeMessage]:
        database = SourceDatabase(self.path)
        if not database.tables().keys() >= {"message", "part"}:
            return []
        parts: dict[str, list[dict[str, Any]]] = {}
        # In one snapshot: the program may be writing a message and its parts.
        with database.reading() as rows:
            query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
            for name, message, data in self._with_data(rows(query, (session,))):
                parts.setdefault(message, []).append({"id": name, **data})
            query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY id"
            return [
                _modern({"id": name, **data}, parts.get(name, []))
                for name, data in self._with_data(rows(query, (session,)))
            ]

    def _with_data(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The rows whose last column, the data, is an object. Others are reported."""
        for *row, text in rows:
            if isinstance(data := self._json(text), dict):
                yield (*row, data)
            else:
                self._report(f"the data of {row[0]} is no JSON object")

    def _json(self, text: Any) -> Any:
        data = text.encode() if isinstance(text, str) else text
        if not isinstance(data, bytes):
            return None
        try:
            value = loads(data)
        except ValueError:
            return None
        report_repeated(data, self.path, None, self.problems)
        return value


def _named_by_place(messages: list[OpenCodeMessage]) -> list[OpenCodeMessage]:
    """Messages whose ids were removed before publication: their order is that of the list."""
    above = ""
    named: list[OpenCodeMessage] = []
    for number, message in enumerate(messages):
        name = f"msg {number:06}"
        asked = {"parentID": above} if above and "parentID" in message.info else {}
        named.append(message._replace(info={**message.info, "id": name, **asked}))
        above = name
    return named


def _modern(info: dict[str, Any], parts: list[dict[str, Any]]) -> OpenCodeMessage:
    """A message with its parts; the first generation has them inside, in another shape."""
    if parts or not isinstance(info.get("parts"), list):
        return OpenCodeMessage(info, parts, {"info": info, "parts": parts})
    metadata = as_dict(info.get("metadata"))
    reply, tools = as_dict(metadata.get("assistant")), as_dict(metadata.get("tool"))
    facts = {"id": info.get("id"), "role": info.get("role"), "time": as_dict(metadata.get("time"))}
    facts |= {name: reply[name] for name in ("modelID", "tokens", "summary") if name in reply}
    if metadata.get("error"):
        facts["error"] = metadata["error"]
    modern = [
        {"id": f"{number:06}", **_modern_part(part, tools)}
        for number, part in enumerate(dicts(info["parts"]))
    ]
    return OpenCodeMessage(facts, modern, {"info": info})


def _modern_part(part: dict[str, Any], tools: dict[str, Any]) -> dict[str, Any]:
    match part:
        case {"type": "tool-invocation", "toolInvocation": dict(called)}:
            call = str(called.get("toolCallId"))
            state = {"input": called.get("args"), "status": "pending"}
            if called.get("state") == "result":
                time = as_dict(tools.get(call)).get("time")
                state |= {"status": "completed", "output": called.get("result"), "time": time}
            return {"type": "tool", "callID": call, "tool": called.get("toolName"), "state": state}
        case {"type": "file", "mediaType": str(mime)}:
            return {**part, "mime": mime}
    return part
