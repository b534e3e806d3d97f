"""OpenCode's sessions: exports, storage folders of both generations, and its database.

docs/formats/opencode.md. Of the database only the tables of sessions, messages and parts are read:
others hold the program's credentials.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from roocontext.formats.events import (
    Added,
    Cleared,
    Event,
    Hid,
    Noted,
    Problem,
    Source,
    Titled,
    WentBack,
)
from roocontext.formats.lines import loads
from roocontext.formats.opencode_parts import CLEARED, QUESTION, Turn, turns_of
from roocontext.formats.times import whole_ms
from roocontext.log.entries import NewMessage

NAME = "opencode"
FOLDERS = ("~/.local/share/opencode",)


class Sent(NamedTuple):
    """A message of the tool's: its record and its parts, in their order."""

    info: dict[str, Any]
    parts: list[dict[str, Any]]


def is_storage(folder: Path) -> bool:
    """Whether a folder holds sessions, in either generation."""
    return (folder / "session").is_dir() and (
        (folder / "message").is_dir() or (folder / "session" / "info").is_dir()
    )


def is_database(path: Path) -> bool:
    """Whether a file may be the tool's database. One inside a project is another tool's."""
    name = path.name
    return name.startswith("opencode") and name.endswith(".db") and path.parent.name != ".opencode"


def looks_like(record: Any) -> bool:
    """Whether a JSON document is an export."""
    return (
        isinstance(record, dict)
        and isinstance(record.get("info"), dict)
        and isinstance(record.get("messages"), list)
    )


def sources(path: Path) -> Iterator[Source]:
    """The sessions of a file or a folder, parents before their children."""
    problems: list[Problem] = []
    if path.is_dir():
        infos = _stored_sessions(path, problems)
    elif is_database(path):
        infos = _database_sessions(path, problems)
    else:
        infos = iter([_document(path, problems).get("info") or {}])
    # Ids of sessions descend with time.
    for info in sorted(infos, key=lambda info: str(info.get("id")), reverse=True):
        yield _source(path, info, problems)
        problems = []
    if problems:
        yield _source(path, {}, problems)


def _source(path: Path, info: dict[str, Any], problems: list[Problem]) -> Source:
    session = str(info.get("id") or path.stem)
    parent = info.get("parentID")
    facts = {
        "tool": NAME,
        "path": str(path),
        "session": session,
        "folder": info.get("directory"),
        "version": info.get("version"),
        "project": info.get("projectID"),
    }
    return Source(
        f"{NAME}:{session}",
        path,
        facts,
        partial(_events, path, info, problems),
        problems,
        f"{NAME}:{parent}" if isinstance(parent, str) and parent else None,
    )


def _events(path: Path, info: dict[str, Any], problems: list[Problem]) -> Iterator[Event]:
    sent = [one for one in _messages(path, info, problems) if isinstance(one.info.get("id"), str)]
    sent.sort(key=lambda one: str(one.info["id"]))  # their order is that of the ids, not the times
    turns = [turns_of(one.info, one.parts) for one in sent]
    summaries = _summaries(sent)
    questions: dict[str, Sent] = {}
    cleared: list[tuple[str, int]] = []
    if not info:
        return
    last: dict[str, str | None] = {}
    at: str | None = None
    for one, rows in zip(sent, turns, strict=True):
        name, role = str(one.info["id"]), one.info.get("role")
        ts = whole_ms((one.info.get("time") or {}).get("created"))
        last[name] = at
        if name in summaries.values() and role == "user":
            questions[name] = one
            continue
        if name in summaries:
            yield _hid(one, questions.get(summaries[name]), rows, ts, turns)
            at = name
            continue
        if not rows:
            yield Noted(name, str(role), _record(one), ts)
        for number, row in enumerate(rows):
            extra = {"record": _record(one)} if number == 0 else None
            yield Added(row.id, _message(row, one, ts, extra, is_last=row is _last_reply(rows)))
            at = row.id
            cleared += row.cleared
    if cleared:
        yield Cleared("cleared", tuple(cleared), CLEARED)
        at = "cleared"
    yield from _reverted(info, sent, last)
    yield Noted(None, "session", info, whole_ms((info.get("time") or {}).get("updated")))
    title = info.get("title")
    if isinstance(title, str) and title.strip():
        yield Titled(title.strip()[:200])


def _summaries(sent: list[Sent]) -> dict[str, str]:
    """The finished summaries, and the messages that asked for them."""
    asked = {
        one.info["id"]
        for one in sent
        if one.info.get("role") == "user"
        and any(part.get("type") == "compaction" for part in one.parts)
    }
    return {
        str(one.info["id"]): str(one.info["parentID"])
        for one in sent
        if one.info.get("summary") is True
        and one.info.get("finish")
        and not one.info.get("error")
        and str(one.info.get("parentID")) in asked
    }


def _hid(
    summary: Sent, question: Sent | None, rows: list[Turn], ts: int | None, turns: list[list[Turn]]
) -> Event:
    """A compaction: the question and the summary for what is before, except the tail it kept."""
    asked = question or Sent({"id": "?"}, [])
    starts = [part.get("tail_start_id") for part in asked.parts if part.get("tail_start_id")]
    tail = str(starts[0]) if starts else None
    end = str(summary.info["id"])
    keeps = {
        row.id
        for turn in turns
        for row in turn
        if tail is not None and tail <= row.id.partition(":")[0] < end
    }
    first = NewMessage(
        "user",
        [{"type": "text", "text": QUESTION}],
        message_id=str(asked.info["id"]),
        extra={"record": _record(asked)},
    )
    extra = {"record": _record(summary)}
    answer = [_message(row, summary, ts, extra, is_last=True) for row in rows[:1]]
    blank = NewMessage("assistant", [{"type": "text", "text": "(no summary)"}], message_id=end)
    return Hid(end, (first, *(answer or [blank])), keeps=frozenset(keeps), lead=1)


def _reverted(
    info: dict[str, Any], sent: list[Sent], last: dict[str, str | None]
) -> Iterator[Event]:
    """A session that continues after a revert continues before its message, or before its part."""
    revert = info.get("revert")
    name = revert.get("messageID") if isinstance(revert, dict) else None
    if not isinstance(name, str) or name not in last:
        return
    yield WentBack("reverted", last[name])
    part = revert.get("partID") if isinstance(revert, dict) else None
    if isinstance(part, str):
        one = next(one for one in sent if one.info["id"] == name)
        kept = [found for found in one.parts if str(found.get("id")) < part]
        ts = whole_ms((one.info.get("time") or {}).get("created"))
        for row in turns_of(one.info, kept):
            yield Added(f"{row.id}:kept", _message(row, one, ts, None, is_last=False))


def _message(row: Turn, one: Sent, ts: int | None, extra: Any, *, is_last: bool) -> NewMessage:
    model = one.info.get("modelID") if row.role == "assistant" else None
    return NewMessage(
        row.role,
        row.content,
        ts=ts,
        message_id=row.id,
        model=model if isinstance(model, str) and model else None,
        usage=_usage(one.info) if is_last else None,
        extra=extra,
    )


def _last_reply(rows: list[Turn]) -> Turn | None:
    replies = [row for row in rows if row.role == "assistant"]
    return replies[-1] if replies else None


def _usage(info: dict[str, Any]) -> dict[str, Any] | None:
    """The tokens of a message, in Anthropic's names: those of the cache are counted apart."""
    tokens = info.get("tokens")
    if not isinstance(tokens, dict) or not any(tokens.get(one) for one in ("input", "output")):
        return None
    cache = tokens.get("cache")
    cached = cache if isinstance(cache, dict) else {}
    return {
        "input_tokens": tokens.get("input"),
        "output_tokens": tokens.get("output"),
        "cache_read_input_tokens": cached.get("read"),
        "cache_creation_input_tokens": cached.get("write"),
    }


def _record(one: Sent) -> dict[str, Any]:
    return {"info": one.info, "parts": one.parts}


# Where the records are


def _messages(path: Path, info: dict[str, Any], problems: list[Problem]) -> Iterator[Sent]:
    session = str(info.get("id"))
    if path.is_dir():
        yield from _stored_messages(path, session, problems)
    elif is_database(path):
        yield from _database_messages(path, session, problems)
    else:
        for record in _document(path, problems).get("messages") or []:
            if isinstance(record, dict) and isinstance(record.get("info"), dict):
                yield Sent(record["info"], _parts(record.get("parts")))


def _parts(found: Any) -> list[dict[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _document(path: Path, problems: list[Problem]) -> dict[str, Any]:
    try:
        found = loads(path.read_bytes())
    except (OSError, ValueError) as error:
        problem = Problem(path, None, str(error) or type(error).__name__)
        problems += [] if problem in problems else [problem]
        return {}
    return found if isinstance(found, dict) else {}


def _stored_sessions(folder: Path, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    for file in sorted((folder / "session").glob("*/*.json")):
        if file.parent.name not in ("message", "part"):
            info = _document(file, problems)
            if isinstance(info.get("id"), str):
                yield info


def _stored_messages(folder: Path, session: str, problems: list[Problem]) -> Iterator[Sent]:
    old = (folder / "session" / "info").is_dir()
    messages = (folder / "session" if old else folder) / "message" / session
    for file in sorted(messages.glob("*.json")):
        info = _document(file, problems)
        if not info:
            continue
        inside = folder / "session" / "part" / session if old else folder / "part"
        parts = [_document(part, problems) for part in sorted((inside / file.stem).glob("*.json"))]
        yield Sent(info, [part for part in parts if part] or _parts(info.get("parts")))


def _database_sessions(path: Path, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    for row in _rows(path, "SELECT * FROM session ORDER BY id", (), problems):
        names = {"parent_id": "parentID", "project_id": "projectID"}
        info = {names.get(name, name): value for name, value in row.items()}
        yield {**info, "revert": _json(info.get("revert"))}


def _database_messages(path: Path, session: str, problems: list[Problem]) -> Iterator[Sent]:
    parts: dict[str, list[dict[str, Any]]] = {}
    query = "SELECT id, message_id, data FROM part WHERE session_id = ? ORDER BY id"
    for row in _rows(path, query, (session,), problems):
        data = _json(row["data"])
        if isinstance(data, dict):
            parts.setdefault(row["message_id"], []).append({"id": row["id"], **data})
    query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY id"
    for row in _rows(path, query, (session,), problems):
        data = _json(row["data"])
        if isinstance(data, dict):
            yield Sent({"id": row["id"], **data}, parts.get(row["id"], []))


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
        problem = Problem(path, None, str(error))
        problems += [] if problem in problems else [problem]


def _json(text: Any) -> Any:
    try:
        return loads(text.encode()) if isinstance(text, str) else None
    except ValueError:
        return None
