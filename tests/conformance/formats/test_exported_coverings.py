"""Sessions that a provider has compacted, as the files of other programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from roocontext.errors import SummarySealed
from roocontext.formats import exports
from roocontext.formats.exporter import write_new
from roocontext.formats.importers import roo
from roocontext.programs.roo.history import since_summary_2026
from support.dialogue import fill, text
from support.replies import claude, gpt, output_text, readable, sealed
from vectors.programs.roo_history import effective_2026

KEPT = "All so far: the parser."


def compacted(chat: Any, *, is_sealed: bool) -> Any:
    """Let the provider compact, answer, and the user continue."""
    fill(chat, 5)
    reply = claude(readable(KEPT), text("Done."))
    done = chat.record(gpt(sealed(), output_text("Done.")) if is_sealed else reply)
    chat.append("user", "And then?")
    return done


def written(store: Any, chat: Any, to: str, folder: Path) -> list[Path]:
    return write_new(exports.exported_files(store, chat, to, output=folder))[0]


def texts(rows: Any) -> list[str]:
    return [
        content if isinstance(content, str) else content[0]["text"]
        for content in (row["content"] for row in rows)
    ]


def sent_by_roo(store: Any, chat: Any, folder: Path) -> list[str]:
    files = written(store, chat, "roo", folder)
    (api,) = [file for file in files if file.name == roo.API]
    return texts(since_summary_2026(effective_2026(json.loads(api.read_text()))))


def test_readable_one_is_a_summary_of_roo(store, chat, tmp_path):
    compacted(chat, is_sealed=False)
    assert sent_by_roo(store, chat, tmp_path) == [KEPT, "Done.", "And then?"]


def test_sealed_one_hides_nothing_from_roo(store, chat, tmp_path):
    compacted(chat, is_sealed=True)
    sent = sent_by_roo(store, chat, tmp_path)
    assert [one.split(" a ")[0] for one in sent[:2]] == ["message 0", "message 1"]
    assert sent[-2:] == ["Done.", "And then?"]
    assert len(sent) == 7


def test_one_that_was_uncovered_is_not_exported(store, chat, tmp_path):
    done = compacted(chat, is_sealed=False)
    chat.uncover(done.covering)
    sent = sent_by_roo(store, chat, tmp_path / "roo")
    assert (len(sent), KEPT in sent) == (7, False)
    (file,) = written(store, chat, "claude-code", tmp_path / "claude")
    assert KEPT not in file.read_text()


def test_readable_one_is_a_boundary_of_claude_code(store, chat, tmp_path):
    compacted(chat, is_sealed=False)
    (file,) = written(store, chat, "claude-code", tmp_path)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = [one.get("subtype") or one["type"] for one in lines]
    at = kinds.index("compact_boundary")
    assert len([kind for kind in kinds[:at] if kind in ("user", "assistant")]) == 5
    summary, reply, question = (one for one in lines[at + 1 :] if "message" in one)
    assert (summary["message"]["content"], summary["isCompactSummary"]) == (KEPT, True)
    assert reply["message"]["content"] == [{"type": "text", "text": "Done."}]
    assert question["message"]["content"] == "And then?"


def test_sealed_one_cannot_be_exported_to_claude_code(store, chat, tmp_path):
    done = compacted(chat, is_sealed=True)
    with pytest.raises(SummarySealed):
        written(store, chat, "claude-code", tmp_path)
    chat.uncover(done.covering)
    assert written(store, chat, "claude-code", tmp_path)
