"""Sessions of Cline's command line since 3.0: SESSION/ID.messages.json. docs/formats/roo-code.md.

The file has all messages. Once a compaction was made, `ID.compaction.json` has the messages that
are sent in place of the first ones, and how many these are.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from roocontext.formats.events import (
    Added,
    Event,
    Hid,
    Noted,
    Problem,
    Source,
    WentBack,
    source_of,
    titled,
)
from roocontext.formats.files import non_empty, read_document, whole_ms
from roocontext.formats.importer import Importer
from roocontext.formats.importers.roo import CLINE, INSERTIONS, extension_places
from roocontext.formats.typed import typed
from roocontext.log.entries import NewMessage
from roocontext.log.readings.blocks import as_dict, dicts

_ENDS = ".messages.json"
_TAGS = re.compile(r"<(user_input|user_command)\b[^>]*>(.*?)</\1>", re.DOTALL)


def _is_cline_name(path: Path) -> bool:
    """True if a file has the name of a session's messages."""
    return path.name.endswith(_ENDS)


def sources(path: Path) -> Iterator[Source]:
    """The session of a file. Those of sub-agents lie next to it."""
    # What is wrong with the files is reported when the events are read.
    document, about = _read(path, []), _read(_beside(path, ".json"), [])
    session, owner = path.name.removesuffix(_ENDS), path.parent.name
    is_child = session != owner and _beside(path, _ENDS, owner).is_file()
    yield source_of(
        CLINE,
        session,
        path,
        partial(_events, path),
        parent=owner if is_child else None,
        session=session,
        folder=non_empty(about.get("cwd")),
        version=non_empty(as_dict(document.get("origin")).get("version")),
    )


def _beside(path: Path, end: str, name: str | None = None) -> Path:
    return path.with_name(f"{name or path.name.removesuffix(_ENDS)}{end}")


def _events(path: Path, problems: list[Problem]) -> Iterator[Event]:
    document = _read(path, problems)
    about = _read(_beside(path, ".json"), problems)
    compaction = _read(_beside(path, ".compaction.json"), problems)
    rows = document.pop("messages", None)
    rows = rows if isinstance(rows, list) else []
    # The program counts only the messages that it sends.
    count = compaction.get("source_message_count")
    ends = count if type(count) is int and count <= sum(map(_is_sent, rows)) else None
    number = 0
    for row in rows:
        if not _is_sent(row):
            yield Noted(None, "display", row)
            continue
        number += 1
        if _is_message(row):
            name = str(row.get("id") or f"#{number}")
            yield Added(name, _message(row, name))
        else:
            yield Noted(None, "unknown", row)
        if number == ends:
            yield from _compacted(compaction)
    for kind, record in (("session", document), ("manifest", about), ("compaction", compaction)):
        if record:
            yield Noted(None, kind, record)
    yield from titled(_metadata(about).get("title"))


def _compacted(compaction: dict[str, Any]) -> Iterator[Event]:
    """The messages that are sent in place of those before."""
    rows = list(filter(_is_message, dicts(compaction.get("messages"))))
    names = [f"compacted:{row.get('id') or number}" for number, row in enumerate(rows)]
    messages = [_message(row, name) for row, name in zip(rows, names, strict=True)]
    kinds = [_metadata(row).get("kind") for row in rows]
    leads = [index for index, kind in enumerate(kinds) if kind == "compaction_summary"]
    if leads:
        yield Hid("compacted", tuple(messages), lead=leads[-1])
        return
    yield WentBack("compacted", None)
    for message in messages:
        yield Added(message.message_id, message)


def _is_message(row: Any) -> bool:
    return isinstance(row, dict) and row.get("role") in ("user", "assistant")


def _is_sent(row: Any) -> bool:
    return not (isinstance(row, dict) and _metadata(row).get("displayOnly") is True)


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    return as_dict(row.get("metadata"))


def _message(row: dict[str, Any], name: str) -> NewMessage:
    content = _content(row)
    rest = row if content != row.get("content") else {**row, "content": None}
    rest = {key: value for key, value in rest.items() if key != "role" and value is not None}
    message = NewMessage(
        row["role"],
        content,
        ts=whole_ms(row.get("ts")),
        message_id=name,
        model=non_empty(as_dict(row.get("modelInfo")).get("id")),
        usage=_usage(row.get("metrics")),
        extra={"record": rest},
    )
    return typed(message, INSERTIONS.typed)


def _content(row: dict[str, Any]) -> Any:
    """The content as it is sent: without the tags around the user's words."""
    content = row.get("content")
    if isinstance(content, list):
        return [_block(block, is_users=row["role"] == "user") for block in content]
    return _words(content) if isinstance(content, str) and row["role"] == "user" else content


def _block(block: Any, *, is_users: bool) -> Any:
    match block:
        case {"type": "text", "text": str(words)} if is_users:
            return {**block, "text": _words(words)}
        case {"type": "tool_result", "content": list(answer)}:
            # What the program's own tools answer is no content of a provider's.
            is_own = not all("type" in as_dict(part) for part in answer)
            words = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
            rest = {key: value for key, value in block.items() if key != "name"}
            return {**rest, "content": words if is_own else answer}
    return block


def _words(words: str) -> str:
    return _TAGS.sub(r"\2", words).strip() if _TAGS.search(words) else words


def _usage(metrics: Any) -> dict[str, Any] | None:
    """The tokens of a reply, in Anthropic's names."""
    if not isinstance(metrics, dict):
        return None
    return {
        "input_tokens": metrics.get("inputTokens"),
        "output_tokens": metrics.get("outputTokens"),
        "cache_read_input_tokens": metrics.get("cacheReadTokens"),
        "cache_creation_input_tokens": metrics.get("cacheWriteTokens"),
    }


def _read(path: Path, problems: list[Problem]) -> dict[str, Any]:
    """A document; an older one may be the list of messages itself."""
    value = read_document(path, problems, cuts=True)
    return {"messages": value} if isinstance(value, list) else as_dict(value)


IMPORTER: Final = Importer(
    tool=CLINE,
    sources=sources,
    places=(
        *(
            f"{data}/{folder}"
            for data in ("$CLINE_DATA_DIR", "$CLINE_DIR/data", "~/.cline/data")
            for folder in ("tasks", "sessions")
        ),
        *extension_places("saoudrizwan.claude-dev", "saoudrizwan.cline-nightly"),
    ),
    is_file=_is_cline_name,
    is_candidate=_is_cline_name,
)
