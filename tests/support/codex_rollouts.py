"""Rollouts of Codex CLI, line by line."""

import json
from pathlib import Path
from typing import Any

SUMMARY = (
    "Another language model started to solve this problem and produced a summary of its thinking "
    "process. You also have access to the state of the tools that were used by that language "
    "model. Use this to build on the work that has already been done and avoid duplicating work. "
    "Here is the summary produced by the other language model, use the information in this "
    "summary to assist with your own analysis:"
)


def line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-03-01T10:00:00.500Z", "type": kind, "payload": payload}


def write(file: Path, *records: Any) -> None:
    with file.open("a") as text:
        text.writelines(f"{json.dumps(record)}\n" for record in records)


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def item(role: str, text: str) -> dict[str, Any]:
    return line("response_item", **said(role, text))
