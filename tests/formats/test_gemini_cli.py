"""Gemini CLI's recordings and checkpoints, imported: what it would send when it resumes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from roocontext.formats import find
from roocontext.formats.importers import gemini_cli
from roocontext.formats.player import play
from roocontext.formats.writing import SessionImport

META = {"sessionId": "g-1", "projectHash": "ab" * 32, "startTime": "2026-04-01T00:00:00.000Z"}
RESPONSE = [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "a"}}}]
CALL = {"id": "c1", "name": "ls", "args": {"path": "."}, "status": "success", "result": RESPONSE}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "chats").mkdir()
    return tmp_path / "chats" / "session-2026-04-01T00-00-g1.jsonl"


def record(name: str, kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    at = "2026-04-01T00:00:01.000Z"
    return {"id": name, "timestamp": at, "type": kind, "content": content, **fields}


def write(path: Path, *records: Any) -> None:
    with path.open("a") as file:
        file.writelines(f"{json.dumps(one)}\n" for one in records)


def take(store: Any, path: Path) -> SessionImport:
    """Import a recording. A second import, which changes nothing, follows each."""
    (source,) = gemini_cli.sources(path)
    done = play(store, source)
    assert play(store, source).new == 0
    return done


def seen(store: Any, name: str = "gemini-cli:g-1") -> list[Any]:
    def short(part: Any) -> str:
        return part.get("text") or next(iter(part))

    messages = store.session(name).view().messages
    return [(m.role[0], *(short(part) for part in m.content["parts"])) for m in messages]


WORK = [
    record("1", "user", "hello"),
    record("2", "info", "a notice"),
    record("3", "gemini", "let me see", toolCalls=[CALL], model="gemini-3-pro",
           thoughts=[{"subject": "Plan", "description": "look"}],
           tokens={"input": 9, "output": 2, "cached": 4, "total": 11}),
    record("4", "gemini", "done"),
]  # fmt: skip
SEEN = [
    *(("u", "hello"), ("m", "**Plan** look", "let me see", "functionCall")),
    *(("u", "functionResponse"), ("m", "done")),
]


def test_recording_as_one_document_becomes_messages(store, path):
    path = path.with_suffix(".json")
    path.write_text(json.dumps({**META, "messages": WORK, "summary": "A title"}, indent=2))
    done = take(store, path)
    assert (seen(store), done.problems) == (SEEN, ())
    chat = store.session("gemini-cli:g-1")
    assert chat.info().title == "A title"
    ((one),) = chat.usage()
    assert (one.model, one.usage["promptTokenCount"]) == ("gemini-3-pro", 9)
    assert chat.messages("gemini")


def test_recording_line_by_line_becomes_messages(store, path):
    pending = {**WORK[2], "toolCalls": [{**CALL, "status": "executing", "result": None}]}
    write(path, {**META, "directories": ["/work"]}, *WORK[:2], pending)
    write(path, {"$set": {"lastUpdated": "x"}}, *WORK[2:])
    take(store, path)
    assert seen(store) == SEEN
    kinds = [n.content["kind"] for n in store.session("gemini-cli:g-1").notes("imported")]
    assert sorted(kinds) == ["info", "record", "record", "superseded"]
    assert store.session("gemini-cli:g-1").info().metadata["folder"] == "/work"
    write(path, record("5", "user", "more"))
    assert take(store, path).messages == 1


def test_rewind_becomes_a_rewind(store, path):
    write(path, META, *WORK, {"$rewindTo": "3"}, record("5", "user", "instead"))
    take(store, path)
    assert seen(store) == [("u", "hello"), ("u", "instead")]
    assert len([e for e in store.session("gemini-cli:g-1").audit() if e.kind == "message"]) == 5
    write(path, {"$rewindTo": "nobody"}, record("6", "user", "anew"))
    take(store, path)
    assert seen(store) == [("u", "anew")]


def test_list_set_anew_replaces_the_messages(store, path):
    write(path, META, *WORK, {"$set": {"messages": [WORK[0], record("9", "gemini", "short")]}})
    take(store, path)
    assert seen(store) == [("u", "hello"), ("m", "short")]


def test_change_by_a_patch_becomes_a_note(store, path):
    write(path, META, record("1", "user", "hello"), record("3", "gemini", "", toolCalls=[CALL]))
    write(path, {"$patch": {"id": "3", "content": "new", "toolCalls": [{"id": "c1", "args": {}}]}})
    write(path, {"$patch": {"updates": [{"id": "1", "content": "goodbye"}, {"id": "3"}]}})
    take(store, path)
    assert seen(store)[0] == ("u", "goodbye")
    notes = [one.content for one in store.session("gemini-cli:g-1").notes("imported")]
    old = [one["record"] for one in notes if one.get("kind") == "superseded"]
    assert [one["content"] for one in old] == ["", "hello"]
    assert old[0]["toolCalls"] == [CALL]


def test_patches_of_messages_are_applied(store, path):
    write(path, META, WORK[0], {**WORK[2], "toolCalls": [{**CALL, "result": None}]})
    write(path, {"$patch": {"id": "3", "toolCalls": [{"id": "c1", "result": RESPONSE}]}}, WORK[3])
    take(store, path)
    assert seen(store) == SEEN
    write(path, {"$patch": {"removeIds": ["4"], "orderIds": ["3", "1"]}})
    take(store, path)
    assert [one[0] for one in seen(store)] == ["m", "u", "u"]


def test_records_that_are_not_sent_become_notes(store, path):
    texts = ["", "/help", "?", "<session_context>x", "<hook_context>x", "real"]
    write(path, META, *(record(str(n), "user", text) for n, text in enumerate(texts)))
    write(path, record("8", "user", [{"text": "a picture"}, {"inlineData": {"data": "AA"}}]))
    whole = [{"text": "hm", "thought": True}, {"functionCall": {"name": "ls", "args": {}}}]
    write(path, record("9", "gemini", whole, toolCalls=[CALL], thoughts=[{"description": "x"}]))
    take(store, path)
    assert seen(store) == [
        *(("u", "real"), ("u", "a picture", "inlineData")),
        *(("m", "hm", "functionCall"), ("u", "functionResponse")),
    ]


def test_records_of_a_server_are_not_sent(store, path):
    write(path, {**META, "sessionId": "a2a-server"}, WORK[0])
    done = take(store, path)
    assert (done.messages, done.notes) == (0, 3)


def test_sub_agent_is_a_child(store, path):
    write(path, META, WORK[0])
    take(store, path)
    other = path.parent / "g-1" / "g-2.jsonl"
    other.parent.mkdir()
    write(other, {**META, "sessionId": "g-2", "kind": "subagent"}, WORK[0])
    take(store, other)
    assert [c.session_id for c in store.session("gemini-cli:g-1").children()] == ["gemini-cli:g-2"]


@pytest.mark.parametrize("wrapped", [True, False])
def test_checkpoint_becomes_a_session(store, tmp_path, wrapped):
    history = [
        {"role": "user", "parts": [{"text": "summary"}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
        {"role": "robot", "parts": []},
    ]
    path = tmp_path / "checkpoint-my%20tag.json"
    path.write_text(json.dumps({"history": history, "authType": "x"} if wrapped else history))
    done = take(store, path)
    assert done.session_id.endswith("/my tag")
    assert seen(store, done.session_id) == [("u", "summary"), ("m", "Got it.")]


def test_recording_that_was_moved_is_taken_once(path):
    old = path.with_suffix(".json")
    old.write_text(json.dumps({**META, "messages": WORK}))
    write(path, META)
    assert list(gemini_cli.sources(old)) == []


def test_damaged_recording_is_reported(store, path):
    write(path, META, WORK[0])
    with path.open("a") as file:
        file.write('nonsense\n[1]\n{"id": 7}\n')
    write(path, WORK[3])
    done = take(store, path)
    assert [one.line for one in done.problems] == [3]
    assert seen(store) == [("u", "hello"), ("m", "done")]


def test_checkpoint_before_a_tool_becomes_a_session(store, path):
    folder = path.parent.parent / "checkpoints"
    folder.mkdir()
    file = folder / "2026-04-01T00-00-00_000Z-a.txt-write_file.json"
    history = [{"role": "user", "parts": [{"text": "hello"}]}]
    call = {"name": "write_file", "args": {}}
    file.write_text(json.dumps({"history": [], "clientHistory": history, "toolCall": call}))
    assert gemini_cli.is_name(file)
    done = take(store, file)
    assert seen(store, done.session_id) == [("u", "hello")]
    (note,) = store.session(done.session_id).notes("imported")
    assert note.content["record"]["toolCall"] == call


def test_calls_without_ids_in_an_old_checkpoint_are_paired(store, tmp_path):
    history = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "ls-1", "name": "ls", "response": {"output": "a"}}}]},
    ]  # fmt: skip
    path = tmp_path / "checkpoint-old tag.json"
    path.write_text(json.dumps(history))
    chat = store.session(take(store, path).session_id)
    assert [message.content for message in chat.view().messages] == history
    # Neither side of the pair has an id in the request.
    answer = chat.messages("gemini")[2]["parts"]
    assert answer == [{"functionResponse": {"name": "ls", "response": {"output": "a"}}}]


def test_several_results_of_calls_without_ids_are_paired_by_name_and_order(store, tmp_path):
    def call(name: str) -> Any:
        return {"functionCall": {"name": name, "args": {}}}

    def result(name: str, output: str) -> Any:
        response = {"id": f"{name}-{output}", "name": name, "response": {"output": output}}
        return {"functionResponse": response}

    history = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [call("ls"), call("cat"), call("ls")]},
        {"role": "user", "parts": [result("ls", "a"), result("cat", "b"), result("ls", "c")]},
    ]
    path = tmp_path / "checkpoint-several.json"
    path.write_text(json.dumps(history))
    chat = store.session(take(store, path).session_id)
    parts = [part for one in chat.view().messages for part in one.content["parts"]]
    assert parts == [part for content in history for part in content["parts"]]
    assert chat.waits_for() == "model"
    answers = [message.answers for message in chat.view().messages[2:]]
    assert answers == [(answers[0][0], 0), (answers[0][0], 1), (answers[0][0], 2)]
    sent = chat.messages("anthropic")
    calls = [block["id"] for block in sent[1]["content"]]
    results = [(block["tool_use_id"], block["content"]) for block in sent[2]["content"]]
    assert results == list(zip(calls, "abc", strict=True))


def test_prompts_of_a_project_are_imported(store, path):
    file = path.parent.parent / "logs.json"
    prompt = {"sessionId": "g-1", "messageId": 0, "type": "user", "message": "/help"}
    file.write_text(json.dumps([prompt, {**prompt, "messageId": 1, "message": "hello"}]))
    assert gemini_cli.is_name(file)
    done = take(store, file)
    assert (done.messages, done.problems) == (0, ())
    notes = store.session(done.session_id).notes("imported")
    assert [note.content["record"]["message"] for note in notes] == ["/help", "hello"]


def test_results_that_are_also_recorded_as_a_message_are_sent_twice(store, path):
    answer = record("4", "user", RESPONSE)
    write(path, META, WORK[0], {**WORK[2], "thoughts": []}, answer, record("5", "gemini", "done"))
    take(store, path)
    assert seen(store) == [
        *(("u", "hello"), ("m", "let me see", "functionCall")),
        *(("u", "functionResponse"), ("u", "functionResponse"), ("m", "done")),
    ]


def test_program_command_with_an_image_is_recognised(store, path):
    picture = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    write(path, META, record("1", "user", [{"text": "/draw"}, picture]), WORK[0])
    write(path, record("2", "user", [{"text": ""}, picture]))
    take(store, path)
    assert seen(store) == [("u", "hello"), ("u", "text", "inlineData")]


def test_call_without_a_result_and_blank_text_are_taken(store, path):
    bare = [{**CALL, "result": ""}]
    write(path, META, WORK[0], record("3", "gemini", [{"text": ""}], toolCalls=bare))
    write(path, record("4", "gemini", ""), record("5", "gemini", " \n"))
    take(store, path)
    assert seen(store) == [("u", "hello"), ("m", "functionCall"), ("m", " \n")]


def test_removed_ids_do_not_merge_messages(store, path):
    write(path, {**META, "sessionId": "REDACTED"}, *({**one, "id": "REDACTED"} for one in WORK))
    done = take(store, path)
    assert done.session_id == f"gemini-cli:{path.stem}"
    assert seen(store, done.session_id) == SEEN


def test_lines_in_a_file_named_like_a_document_are_read(store, path):
    write(path, META, *WORK)
    assert (take(store, path.rename(path.with_suffix(".json"))).problems, seen(store)) == ((), SEEN)


def test_document_is_recognised_by_its_content(tmp_path):
    file = tmp_path / "saved.json"
    for record_ in ({"sessionId": "g", "messages": []}, [{"role": "model", "parts": []}]):
        file.write_text(json.dumps(record_))
        assert find.importers_of(file) == [gemini_cli.IMPORTER]
