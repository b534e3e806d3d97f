"""Messages in other providers' formats, in the files of other agents."""

import json
from pathlib import Path
from typing import Any

import pytest

from roocontext import NewMessage
from roocontext.formats import exports
from roocontext.formats.exporter import write_new
from roocontext.formats.importers import roo

pytestmark = pytest.mark.values_on_one_leg

FORMATS = ("claude-code", "roo")


def content_of(store: Any, chat: Any, to: str, folder: Path) -> list[Any]:
    """The contents of the messages in the exported file."""
    files, _ = write_new(exports.exported_files(store, chat, to, output=folder))
    if to == "roo":
        (file,) = [one for one in files if one.name == roo.API]
        return [row["content"] for row in json.loads(file.read_text())]
    records = map(json.loads, files[0].read_text().splitlines())
    return [one["message"]["content"] for one in records if "message" in one]


def gemini(role: str, *parts: Any, **fields: Any) -> NewMessage:
    return NewMessage(role, {"role": role, "parts": list(parts)}, "gemini", **fields)


def asked(name: str, **fields: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **fields}}


def answered(name: str, output: str, **fields: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": output}, **fields}}


def pairs(contents: list[Any]) -> list[tuple[str, str]]:
    """The name of each call, and what answers it."""
    blocks = [one for content in contents if isinstance(content, list) for one in content]
    outputs = {one["tool_use_id"]: one["content"] for one in blocks if one["type"] == "tool_result"}
    calls = [one for one in blocks if one["type"] == "tool_use"]
    assert len({one["id"] for one in calls}) == len(calls)
    return [(one["name"], outputs[one["id"]]) for one in calls]


# As the program's checkpoints have them: the results have an id, and the calls have none.
WITHOUT_IDS = {
    "one result in a message": (
        [
            gemini("model", asked("f"), asked("g")),
            gemini("user", answered("g", "of g", id="g-1"), answers=(2, 1)),
            gemini("user", answered("f", "of f", id="f-1"), answers=(2, 0)),
            gemini("model", asked("f")),
            gemini("user", answered("f", "of f again", id="f-2"), answers=(5, 0)),
            gemini("model", asked("f")),
            gemini("user", answered("f", "by name")),
        ],
        [("f", "of f"), ("g", "of g"), ("f", "of f again"), ("f", "by name")],
    ),
    "several results in a message": (
        [
            gemini("model", asked("f"), asked("g"), asked("f")),
            gemini(
                "user",
                *(answered("f", said, id=f"x-{said}") for said in ("first", "second")),
                answered("g", "of g", id="x-3"),
            ),
        ],
        [("f", "first"), ("g", "of g"), ("f", "second")],
    ),
}


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize(("rows", "expected"), WITHOUT_IDS.values(), ids=WITHOUT_IDS)
def test_results_answer_calls_without_ids(store, tmp_path, to, rows, expected):
    chat = store.create()
    chat.append_many([gemini("user", {"text": "go"}), *rows])
    assert pairs(content_of(store, chat, to, tmp_path)) == expected


@pytest.mark.parametrize("to", FORMATS)
def test_parts_that_become_text_are_reported(store, tmp_path, to):
    chat = store.create()
    code = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}}
    chat.append_many([gemini("user", {"text": "go"}), gemini("model", code)])
    contents = content_of(store, chat, to, tmp_path)
    assert "1 + 1" in json.dumps(contents)
    assert list(exports.left_out(store, chat, to)) == [(chat.id, 2, "executableCode (as text)")]


@pytest.mark.parametrize("to", FORMATS)
def test_results_name_calls_of_other_formats(store, tmp_path, to):
    chat = store.create()
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "other", "content": "second"}
    chat.append("user", "go")
    chat.append("assistant", [use])
    chat.append_many([gemini("user", answered("f", "first", id="x"), answers=(2, 0))])
    chat.append_many([gemini("model", asked("g")), NewMessage("user", [result], answers=(4, 0))])
    contents = content_of(store, chat, to, tmp_path)
    assert pairs(contents) == [("f", "first"), ("g", "second")]
    assert chat.view().messages[-1].content == [result]


@pytest.mark.parametrize("to", FORMATS)
def test_items_that_only_their_provider_knows_are_left_out(store, tmp_path, to):
    chat = store.create()
    search = {"type": "web_search_call", "id": "ws", "status": "completed"}
    compaction = {"type": "compaction", "encrypted_content": "x"}
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "so"}],
    }
    file = {
        "role": "user",
        "content": [{"type": "input_file", "filename": "a.pdf", "file_id": "f"}],
    }
    chat.append("user", "go")
    chat.append("assistant", [search, said], format="openai-responses")
    chat.append("assistant", [compaction], format="openai-responses")
    chat.append("user", [{"type": "message", **file}], format="openai-responses")
    contents = content_of(store, chat, to, tmp_path)
    texts = [one if isinstance(one, str) else one[0]["text"] for one in contents]
    assert texts == ["go", "so", "[a.pdf attached]"]
    assert list(exports.left_out(store, chat, to)) == [
        *((chat.id, 2, "web_search_call"), (chat.id, 3, "compaction")),
    ]
    assert list(exports.left_out(store, chat, "jsonl")) == []
