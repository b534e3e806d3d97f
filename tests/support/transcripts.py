"""Transcripts of Claude Code, made row by row from the published field tables."""

import json
import re
from pathlib import Path
from typing import Any

from roocontext.formats.imports import import_paths


class Transcript:
    """A file that grows. Each method returns the uuid of its row."""

    def __init__(self, path: Path, session: str = "s-1") -> None:
        self.path, self.session = path, session
        self.version = "2.1.81"
        self.at: str | None = None
        self.count = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def line(self, record: Any, end: str = "\n") -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + end)

    def row(self, kind: str, *, parent: Any = ..., move: bool = True, **fields: Any) -> str:
        self.count += 1
        uuid = fields.pop("uuid", f"u-{self.count}")
        record = {
            "parentUuid": self.at if parent is ... else parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": "/work",
            "sessionId": self.session,
            "version": self.version,
            "gitBranch": "main",
            "type": kind,
            "uuid": uuid,
            "timestamp": f"2026-03-01T10:00:{self.count % 60:02}.123Z",
            **fields,
        }
        self.line(record)
        if move:
            self.at = uuid
        return uuid

    def user(self, content: Any, **fields: Any) -> str:
        return self.row("user", message={"role": "user", "content": content}, **fields)

    def reply(self, answer: str, *blocks: Any, stop: str | None = None, **fields: Any) -> str:
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {
            "id": answer,
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "content": [say(one) if isinstance(one, str) else one for one in blocks],
            "stop_reason": stop,
            "usage": usage,
        }
        return self.row("assistant", message=message, requestId=f"r-{answer}", **fields)

    def result(self, call: str, output: str = "done", **fields: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": call, "content": output}
        return self.user([block], toolUseResult=output, **fields)

    def queued(self, prompt: Any, **fields: Any) -> str:
        """Words that the user typed while the agent worked."""
        words = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt"}
        return self.row("attachment", **{"attachment": words, **fields})

    def compact(self, summary: str = "S", *, logical: Any = ..., **metadata: Any) -> str:
        self.row(
            "system",
            parent=None,
            subtype="compact_boundary",
            logicalParentUuid=self.at if logical is ... else logical,
            compactMetadata={"trigger": "auto", "preTokens": 1000, **metadata},
            content="Conversation compacted",
        )
        return self.user(summary, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def write(self, rows: str) -> None:
        """Write rows in short: `go` is a prompt, `+wait` one typed while the agent worked.

        `<t1,t2` is an answer with calls, `&t3` another row of that answer, `=t1` a result, `>done`
        an answer without a call, `~S` a compaction, `!system` a note. A row is below the last one,
        or with `^2` below row 2 (`^0` is missing).
        """
        answer = ""
        for row in rows.split():
            kind, words, place = re.findall(r"^([<&=>+!~]?)([^^]+)(?:\^(\d+))?$", row)[0]
            above = {"parent": f"u-{place}"} if place else {}
            if kind in ("<", ">"):
                answer = f"m{self.count}"
            match kind:
                case "<" | "&":
                    self.reply(answer, *map(use, words.split(",")), **above)
                case ">":
                    self.reply(answer, words, stop="end_turn", **above)
                case "=":
                    self.result(words, **above)
                case "+":
                    self.queued(words, **above)
                case "!":
                    self.row(words, **above)
                case "~":
                    self.compact(words)
                case _:
                    self.user(words, **above)


def say(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def use(call: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": "ls"}}


def shown(chat: Any) -> list[tuple[str, str]]:
    """The view of an imported transcript: each block's role, and its text or its tool's id."""
    return [
        (message.role, str(block.get("text") or block.get("id") or f"={block.get('tool_use_id')}"))
        for message in chat.view().messages
        for block in (
            [say(message.content)] if isinstance(message.content, str) else message.content
        )
    ]


def words(chat: Any) -> str:
    return " ".join(words for _, words in shown(chat))


def sent(store: Any, file: Transcript) -> str:
    """What a model would see after an import, which does what its dry run says.

    A second import must change nothing.
    """
    would = list(import_paths(store, [file.path], dry_run=True))
    assert list(import_paths(store, [file.path])) == would
    for again in import_paths(store, [file.path]):
        assert again.messages == again.notes == again.controls == 0
    return words(store.session("claude-code:s-1"))
