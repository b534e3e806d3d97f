"""OpenCode's records: exports, storage folders of both generations, and its database.

Of the database only the tables of sessions, messages and parts are read: others hold the program's
credentials.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from roocontext.formats.databases import connect_read_only
from roocontext.formats.events import Problem
from roocontext.formats.files import (
    SQLITE,
    contents_of,
    is_removed,
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
    problems: list[Problem] = []
    is_own = not _tables(path, problems).isdisjoint(_SESSIONS)
    return is_own or (bool(problems) and _is_database_name(path))


def read_sessions(path: Path, problems: list[Problem]) -> list[dict[str, Any]]:
    """The records of the sessions at a path."""
    if path.is_dir():
        return list(_stored_sessions(path, problems))
    if path.suffix == ".json":
        return [as_dict(read_object(path, problems, cuts=True).get("info"))]
    return _database_sessions(path, problems)


def read_tool_messages(
    path: Path, info: dict[str, Any], problems: list[Problem]
) -> list[OpenCodeMessage]:
    """The messages of a session in the order of their ids; their times may differ."""
    session = str(info.get("id"))
    if path.is_dir():
        messages = list(_stored_messages(path, session, problems))
    elif path.suffix == ".json":
        messages = list(_exported(path, problems))
    else:
        messages = _database_messages(path, session, problems)
    named = [message for message in messages if isinstance(message.info.get("id"), str)]
    if len(named) < len(messages):
        what = f"{len(messages) - len(named)} messages of session {session} have no id"
        report(problems, Problem(path, None, what))
    if any(is_removed(message.info["id"]) for message in named):
        return _named_by_place(named)
    return sorted(named, key=lambda message: str(message.info["id"]))


def read_second(path: Path, info: dict[str, Any], problems: list[Problem]) -> list[dict[str, Any]]:
    """The messages of a session in the database's second schema, in their order."""
    if path.is_dir() or path.suffix == ".json" or "session_message" not in _tables(path, problems):
        return []
    query = "SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY seq"
    return [
        {**data, "id": row["id"], "type": row["type"]}
        for row, data in _records(path, query, str(info.get("id")), problems)
    ]


def report_unread_events(path: Path, info: dict[str, Any], problems: list[Problem]) -> None:
    """Report a session without messages of which the database holds events."""
    if path.is_dir() or path.suffix == ".json" or "event" not in _tables(path, problems):
        return
    query = "SELECT count(*) AS events FROM event WHERE aggregate_id = ?"
    for row in _rows(path, query, problems, str(info.get("id"))):
        if row["events"]:
            what = f"session {info.get('id')} has no messages, only events, which are not read"
            report(problems, Problem(path, None, f"{what}: {row['events']}"))


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


def _exported(path: Path, problems: list[Problem]) -> Iterator[OpenCodeMessage]:
    messages = read_object(path, problems, cuts=True).get("messages")
    for number, record in enumerate(messages if isinstance(messages, list) else [], 1):
        if isinstance(record, dict) and isinstance(record.get("info"), dict):
            yield _modern(record["info"], dicts(record.get("parts")))._replace(record=record)
        else:
            report(problems, Problem(path, None, f"message {number} of the list is none"))


def _stored_sessions(folder: Path, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    for project in contents_of(folder / "session", problems):
        is_own = project.name not in ("message", "part")
        for file in _documents(project, problems) if is_own else ():
            info = read_object(file, problems, cuts=True)
            if isinstance(info.get("id"), str):
                # If ids were removed, the names of the files still hold them.
                yield {**info, "id": file.stem} if is_removed(info["id"]) else info


def _stored_messages(
    folder: Path, session: str, problems: list[Problem]
) -> Iterator[OpenCodeMessage]:
    if not session or session in {".", ".."} or set(session) & set("/\\\0"):
        return  # it would name another folder
    is_old = (folder / "session" / "info").is_dir()
    home = folder / "session" if is_old else folder
    for file in _documents(home / "message" / session, problems):
        if info := read_object(file, problems, cuts=True):
            inside = home / "part" / session if is_old else home / "part"
            parts = (
                read_object(document, problems, cuts=True)
                for document in _documents(inside / file.stem, problems)
            )
            yield _modern(info, list(filter(None, parts)))


def _documents(folder: Path, problems: list[Problem]) -> list[Path]:
    return [file for file in contents_of(folder, problems) if file.suffix == ".json"]


def _database_sessions(path: Path, problems: list[Problem]) -> list[dict[str, Any]]:
    names = {"parent_id": "parentID", "project_id": "projectID"}
    sessions: dict[str, dict[str, Any]] = {}
    tables = _tables(path, problems)
    for table in _SESSIONS:
        if table in tables:
            for row in _rows(path, f"SELECT * FROM {table} ORDER BY id", problems):  # noqa: S608 - one of two names
                info = {names.get(name, name): value for name, value in row.items()}
                info["revert"] = _json(info.get("revert"), path, problems)
                sessions.setdefault(str(info["id"]), info)
    return list(sessions.values())


def _database_messages(path: Path, session: str, problems: list[Problem]) -> list[OpenCodeMessage]:
    if not _tables(path, problems) >= {"message", "part"}:
        return []
    parts: dict[str, list[dict[str, Any]]] = {}
    query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
    for row, data in _records(path, query, session, problems):
        parts.setdefault(row["message_id"], []).append({"id": row["id"], **data})
    query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY id"
    return [
        _modern({"id": row["id"], **data}, parts.get(row["id"], []))
        for row, data in _records(path, query, session, problems)
    ]


def _tables(path: Path, problems: list[Problem]) -> set[str]:
    """The tables that are read or counted, as far as they exist."""
    query = (
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name IN"
        " ('session', 'session_v2', 'message', 'part', 'session_message', 'event')"
    )
    return {row["name"] for row in _rows(path, query, problems)}


def _records(
    path: Path, query: str, session: str, problems: list[Problem]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The rows of a session whose data is an object, and that object."""
    for row in _rows(path, query, problems, session):
        if isinstance(data := _json(row["data"], path, problems), dict):
            yield row, data


def _rows(
    path: Path, query: str, problems: list[Problem], *values: str
) -> Iterator[dict[str, Any]]:
    try:
        with closing(connect_read_only(path)) as connection:
            connection.row_factory = sqlite3.Row
            yield from map(dict, connection.execute(query, values))
    except sqlite3.Error as error:
        report(problems, Problem(path, None, str(error), cuts=True))


def _json(text: Any, path: Path, problems: list[Problem]) -> Any:
    if not isinstance(text, str):
        return None
    try:
        value = loads(data := text.encode())
    except ValueError:
        return None
    report_repeated(data, path, None, problems)
    return value


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
