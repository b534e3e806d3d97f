"""Where OpenCode keeps its sessions: exports, folders of both generations, and its database.

Of the database only the tables of sessions, messages, parts and events are read: others hold the
program's credentials.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from roocontext.formats.events import Problem
from roocontext.formats.files import (
    NO_FILE,
    SQLITE,
    contents_of,
    is_removed,
    loads,
    opened,
    read_object,
    report_repeated,
)
from roocontext.log.readings.blocks import as_dict, dicts

_SESSIONS = ("session", "session_v2")
_EXPORT = re.compile(rb'\s*\{\s*"info"\s*:\s*\{')
"""How an export begins; folders hold many other documents."""


class OpenCodeMessage(NamedTuple):
    """A message of the tool's: its record, its parts in their order, and both as they are kept."""

    info: dict[str, Any]
    parts: list[dict[str, Any]]
    record: dict[str, Any]


def is_storage(folder: Path) -> bool:
    """Whether a folder holds sessions, in either generation."""
    return (folder / "session").is_dir() and (
        (folder / "message").is_dir() or (folder / "session" / "info").is_dir()
    )


def is_candidate(path: Path) -> bool:
    """Whether a file in a folder is named like the tool's database, or begins like an export."""
    if path.suffix != ".json":
        return _is_database_name(path)
    try:
        with opened(path) as file:
            return bool(_EXPORT.match(file.read(100)))
    except OSError:
        return True  # so that it is reported


def _is_database_name(path: Path) -> bool:
    """Whether a file is named like the tool's database. One in a project is another tool's."""
    name = path.name
    return name.startswith("opencode") and name.endswith(".db") and path.parent.name != ".opencode"


def is_database(path: Path) -> bool:
    """Whether a file is the tool's database; a user may have named it, or another tool so.

    One that is named like it and cannot be read is taken for one, so that this is reported.
    """
    try:
        with opened(path) as file:
            begins = file.read(len(SQLITE))
    except OSError:
        return False
    if not begins.startswith(SQLITE):
        return bool(begins) and _is_database_name(path)
    problems: list[Problem] = []
    is_own = bool(_columns(path, problems).keys() & {*_SESSIONS})
    return is_own or (bool(problems) and _is_database_name(path))


def read_sessions(path: Path, problems: list[Problem]) -> list[dict[str, Any]]:
    """What is known of each session at a path."""
    if path.is_dir():
        return list(_stored_sessions(path, problems))
    if is_database(path):
        return list(_database_sessions(path, problems))
    info = _document(path, problems).get("info")
    return [as_dict(info)]


def read_tool_messages(
    path: Path, info: dict[str, Any], problems: list[Problem]
) -> list[OpenCodeMessage]:
    """The messages of a session in the order of their ids: their times may say otherwise."""
    session = str(info.get("id"))
    if path.is_dir():
        found = list(_stored_messages(path, session, problems))
    elif is_database(path):
        found = list(_database_messages(path, session, problems))
    else:
        found = list(_exported(path, _document(path, problems).get("messages"), problems))
    sent = [one for one in found if isinstance(one.info.get("id"), str)]
    if len(sent) < len(found):
        what = f"{len(found) - len(sent)} messages of session {session} have no id"
        problems.append(Problem(path, None, what))
    if any(is_removed(one.info["id"]) for one in sent):
        return _named_by_place(sent)
    return sorted(sent, key=lambda one: str(one.info["id"]))


def read_second(path: Path, info: dict[str, Any], problems: list[Problem]) -> list[dict[str, Any]]:
    """The messages of a session in the database's second schema, in their order."""
    if not is_database(path) or "session_message" not in _columns(path, problems):
        return []
    columns = _columns(path, problems)["session_message"]
    order = "seq" if "seq" in columns else "id"
    query = f"SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY {order}"  # noqa: S608 - one of two names
    found = []
    for row in _rows(path, query, (str(info.get("id")),), problems):
        data = _json(row["data"], path, problems)
        if isinstance(data, dict):
            found.append({**data, "id": row["id"], "type": row["type"]})
    return found


def _named_by_place(sent: list[OpenCodeMessage]) -> list[OpenCodeMessage]:
    """Messages whose ids were removed before publication: their order is that of the list."""
    found: list[OpenCodeMessage] = []
    for number, one in enumerate(sent):
        info = {**one.info, "id": f"msg {number:06}"}
        if found and "parentID" in info:
            info["parentID"] = found[-1].info["id"]
        found.append(one._replace(info=info))
    return found


def _sent(info: dict[str, Any], parts: list[dict[str, Any]]) -> OpenCodeMessage:
    record = {"info": info, "parts": parts}
    if not parts and _is_first(info):
        return OpenCodeMessage(*_modern(info), {"info": info})
    return OpenCodeMessage(info, parts, record)


def _exported(path: Path, messages: Any, problems: list[Problem]) -> Iterator[OpenCodeMessage]:
    for number, record in enumerate(messages if isinstance(messages, list) else [], 1):
        if isinstance(record, dict) and isinstance(record.get("info"), dict):
            sent = _sent(record["info"], dicts(record.get("parts")))
            yield sent if sent.parts else sent._replace(record=record)
        else:
            problems.append(Problem(path, None, f"message {number} of the list is none"))


def _document(path: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        if path.is_file():
            return read_object(path, problems, cuts=True)
        what = NO_FILE
    except OSError as error:
        what = error.strerror or "it cannot be read"
    problem = Problem(path, None, what, cuts=True)
    problems += [] if problem in problems else [problem]
    return {}


def _stored_sessions(folder: Path, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    for project in contents_of(folder / "session", problems):
        is_own = project.name not in ("message", "part")
        for file in _documents(project, problems) if is_own else ():
            info = _document(file, problems)
            if isinstance(info.get("id"), str):
                # Where ids were removed, the names of the files still say them.
                yield {**info, "id": file.stem} if is_removed(info["id"]) else info


def _stored_messages(
    folder: Path, session: str, problems: list[Problem]
) -> Iterator[OpenCodeMessage]:
    if not _is_plain(session):
        return
    old = (folder / "session" / "info").is_dir()
    messages = (folder / "session" if old else folder) / "message" / session
    for file in _documents(messages, problems):
        info = _document(file, problems)
        if not info:
            continue
        inside = folder / "session" / "part" / session if old else folder / "part"
        files = _documents(inside / file.stem, problems)
        yield _sent(info, [part for one in files if (part := _document(one, problems))])


def _documents(folder: Path, problems: list[Problem]) -> list[Path]:
    return [file for file in contents_of(folder, problems) if file.suffix == ".json"]


def _is_plain(name: str) -> bool:
    """Whether an id is a file's name and no way to another folder."""
    return bool(name) and name not in {".", ".."} and not set(name) & set("/\\\0")


def _database_sessions(path: Path, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    names = {"parent_id": "parentID", "project_id": "projectID"}
    seen: set[str] = set()
    for table in _SESSIONS:
        if table not in _columns(path, problems):
            continue
        for row in _rows(path, f"SELECT * FROM {table} ORDER BY id", (), problems):  # noqa: S608 - one of two names
            info = {names.get(name, name): value for name, value in row.items()}
            if str(info["id"]) not in seen:
                seen.add(str(info["id"]))
                yield {**info, "revert": _json(info.get("revert"), path, problems)}


def _database_messages(
    path: Path, session: str, problems: list[Problem]
) -> Iterator[OpenCodeMessage]:
    tables = _columns(path, problems)
    parts: dict[str, list[dict[str, Any]]] = {}
    infos: dict[str, dict[str, Any]] = {}
    if {"message", "part"} <= tables.keys():
        query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
        for row in _rows(path, query, (session,), problems):
            data = _json(row["data"], path, problems)
            if isinstance(data, dict):
                parts.setdefault(row["message_id"], []).append({"id": row["id"], **data})
        query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY id"
        for row in _rows(path, query, (session,), problems):
            data = _json(row["data"], path, problems)
            if isinstance(data, dict):
                infos[row["id"]] = {"id": row["id"], **data}
    if not infos and "event" in tables:
        infos, parts = _replayed(path, session, problems)
    for name, info in infos.items():
        yield _sent(info, parts.get(name, []))


def _replayed(
    path: Path, session: str, problems: list[Problem]
) -> tuple[dict[str, dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """The messages and parts that the events make, for a session without them."""
    infos: dict[str, dict[str, Any]] = {}
    parts: dict[str, dict[str, dict[str, Any]]] = {}
    query = "SELECT type, data FROM event WHERE aggregate_id = ? ORDER BY seq"
    for row in _rows(path, query, (session,), problems):
        match str(row["type"]).rpartition(".")[0], _json(row["data"], path, problems):
            case "message.updated", {"info": {"id": str(name)} as info}:
                infos[name] = info
            case "message.removed", {"messageID": str(name)}:
                infos.pop(name, None)
            case "message.part.updated", {"part": {"id": str(name), "messageID": str(of)} as part}:
                parts.setdefault(of, {})[name] = part
            case "message.part.removed", {"partID": str(name), "messageID": str(of)}:
                parts.get(of, {}).pop(name, None)
    return infos, {of: [found[name] for name in sorted(found)] for of, found in parts.items()}


def _columns(path: Path, problems: list[Problem]) -> dict[str, set[str]]:
    """The columns of the tables that are read, of those that exist."""
    query = (
        "SELECT m.name AS name, c.name AS of FROM sqlite_master AS m"
        " JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table' AND m.name IN"
        " ('session', 'session_v2', 'message', 'part', 'session_message', 'event')"
    )
    found: dict[str, set[str]] = {}
    for row in _rows(path, query, (), problems):
        found.setdefault(row["name"], set()).add(row["of"])
    return found


def _rows(
    path: Path, query: str, values: tuple[str, ...], problems: list[Problem]
) -> Iterator[dict[str, Any]]:
    # Not immutable: what is newest may still be in the write-ahead log.
    url = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(url, uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            for row in connection.execute(query, values):
                yield dict(row)
    except sqlite3.Error as error:
        problem = Problem(path, None, str(error), cuts=True)
        problems += [] if problem in problems else [problem]


def _json(text: Any, path: Path, problems: list[Problem]) -> Any:
    if not isinstance(text, str):
        return None
    try:
        data = text.encode()
        found = loads(data)
    except ValueError:
        return None
    report_repeated(data, path, None, problems)
    return found


def _is_first(info: dict[str, Any]) -> bool:
    """Whether a message is of the first generation."""
    return isinstance(info.get("parts"), list)


def _modern(info: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The record and the parts as the later generations write them."""
    metadata = as_dict(info.get("metadata"))
    reply, tools = as_dict(metadata.get("assistant")), as_dict(metadata.get("tool"))
    made = {"id": info.get("id"), "role": info.get("role"), "time": as_dict(metadata.get("time"))}
    made |= {name: reply[name] for name in ("modelID", "tokens", "summary") if name in reply}
    if metadata.get("error"):
        made["error"] = metadata["error"]
    parts = [_part(one, tools) for one in dicts(info["parts"])]
    return made, [{"id": f"{number:06}", **part} for number, part in enumerate(parts)]


def _part(part: dict[str, Any], tools: dict[str, Any]) -> dict[str, Any]:
    match part:
        case {"type": "tool-invocation", "toolInvocation": dict(called)}:
            call = str(called.get("toolCallId"))
            return {
                "type": "tool",
                "callID": call,
                "tool": called.get("toolName"),
                "state": _state(called, as_dict(tools.get(call))),
            }
        case {"type": "file", "mediaType": str(mime)}:
            return {**part, "mime": mime}
    return part


def _state(called: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    asked = {"input": called.get("args")}
    if called.get("state") == "result":
        time = metadata.get("time")
        return {**asked, "status": "completed", "output": called.get("result"), "time": time}
    return {**asked, "status": "running" if called.get("state") == "call" else "pending"}
