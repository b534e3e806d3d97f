"""Contents come back equal over HTTP: as JSON, as texts, byte for byte, on both engines."""

import json
from typing import Any

import pytest

from roocontext.testing.contents import NUL, NUMBERS, SURROGATES, TEXTS
from support.web_server import serving, session_path

VALUES: dict[str, Any] = NUMBERS | TEXTS | NUL | SURROGATES
VALUES |= {"order": {"b": 1, "a": 2, "": 3, "\ud800": 4}, "4,000 digits": 10**4000}
VALUES |= {"deep": json.loads("[" * 400 + "]" * 400)}


def same(one: Any, other: Any) -> bool:
    """Equal, with the same types and the same order of keys."""
    return json.dumps(one) == json.dumps(other)


def content(value: Any) -> list[Any]:
    return [{"type": "new", "value": value}]


def check(talk: Any, value: Any) -> None:
    """Write a value as JSON and as a text, and read it in each way."""
    stored = content(value)
    for document in (
        {"content": stored, "extra": value},
        {"content_json": json.dumps(stored), "extra_json": json.dumps(value)},
    ):
        answer = talk.post("/entries", {"role": "user", **document})
        assert answer.status == 201, answer.json
        seq = answer.json["seq"]
        assert same(talk.chat.message(seq).content, stored)
        text = talk.chat.internals.stored_content(seq)
        raw = talk.get(f"/entries/{seq}/content")
        assert (raw.body, raw.headers["content-type"]) == (text.encode(), "application/json")
        row = talk.get(f"/entries/{seq}")
        assert text.encode() in row.body
        assert same((row.json["content"], row.json["extra"]), (stored, value))
        row = talk.get(f"/entries/{seq}?content=text").json
        assert row["content_json"] == text
        extra = row["extra_json"]
        assert extra is None if value is None else same(json.loads(extra), value)
        for page, rows in (("/entries?limit=1", "entries"), ("/view?last=1", "messages")):
            assert same(talk.get(page).json[rows][0]["content"], stored)
            assert talk.get(f"{page}&content=text").json[rows][0]["content_json"] == text


@pytest.mark.parametrize("name", VALUES)
def test_what_agents_send_comes_back(talk, name):
    check(talk, VALUES[name])


def test_tool_call_and_its_answer_keep_their_values(talk):
    value = {"big": 2**70, "one": 1.0, "half": "\ud800"}
    use = {"type": "tool_use", "id": "t", "name": "run", "input": value}
    reply = {"id": "r", "type": "message", "role": "assistant", "model": "m", "content": [use]}
    reply |= {"stop_reason": "tool_use", "usage": {}}
    assert talk.post("/record", {"reply": reply}).status == 201
    (pending,) = talk.get("/pending").json["pending"]
    assert same(pending["input"], value)
    (pending,) = talk.get("/pending?content=text").json["pending"]
    assert same(json.loads(pending["input_json"]), value)
    talk.post("/answer", {"seq": 1, "block": 0, "output_json": json.dumps(value)})
    assert same(json.loads(talk.chat.message(2).content[0]["content"]), value)


def test_metadata_frame_and_notes_keep_their_values(web, talk):
    value = {"big": 2**70, "one": 1.0, "b": 1, "a": 2}
    text = json.dumps(value, separators=(",", ":"))
    tool = {"name": "t", "input_schema": {"type": "object", "maximum": 2**70}}
    talk.ask("PATCH", "", {"metadata_json": text})
    talk.post("/notes", {"note": "n", "content_json": text})
    talk.chat.append("user", "go")
    talk.chat.append("assistant", [{"type": "tool_use", "id": "t", "name": "t", "input": value}])
    talk.chat.answer(talk.chat.pending()[0], "done")
    frame = {"system_json": '[{"type":"text","text":"x"}]', "tools_json": json.dumps([tool])}
    body = talk.post("/request?content=text", frame).json["body_json"]
    assert json.loads(body)["tools"][0]["input_schema"]["maximum"] == 2**70
    assert text in body
    assert talk.get("?content=text").json["metadata_json"] == text
    rows = web.client.get("/api/v1/sessions?content=text&limit=1000").json["sessions"]
    assert text in [row["metadata_json"] for row in rows]
    assert text in talk.get("").body.decode()
    assert talk.get("/notes?note=n&content=text").json["notes"][0]["content_json"] == text
    assert same(json.loads(talk.get("/frame?content=text").json["frame_json"])["tools"], [tool])
    assert text in talk.get("/messages?content=text").json["messages_json"]
    created = web.client.post("/api/v1/sessions", {"metadata_json": text}).json
    assert same(web.store.session(created["session_id"]).info().metadata, value)
    opened = talk.client.ask("PUT", "/api/v1/sessions/lossless", {"metadata_json": text}).json
    assert same(opened["metadata"], value)


@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_text_of_another_writer_keeps_its_values(opened, engine):
    """Another release may write the same values in another way."""
    said = '[ {"type":"text", "text":"\\u0041", "n":1.50E+2} ]'
    extra = '{"a":1,  "b":100000000000000000000.0}'
    with opened(engine, "sync") as lab, serving(lab.store) as client:
        chat = lab.store.create("s")
        for _ in range(2):
            chat.append("assistant", [{"type": "text", "text": "A"}], extra={"a": 1})
        lab.drop_guards()
        lab.sql(f"UPDATE entries SET content = '{said}', extra = '{extra}' WHERE seq = 1")
        for path in ("/entries/1", "/entries?limit=1&before=2", "/view?limit=1", "/view"):
            document = client.get(session_path("s", path)).json
            (row, *_) = document.get("entries") or document.get("messages") or [document]
            assert same(row["content"], json.loads(said))
            assert ("view" in path) or same(row["extra"], json.loads(extra))
            sign = "&" if "?" in path else "?"
            document = client.get(session_path("s", f"{path}{sign}content=text")).json
            (row, *_) = document.get("entries") or document.get("messages") or [document]
            assert same(json.loads(row["content_json"]), json.loads(said))
        assert client.get(session_path("s", "/entries/1/content")).body.decode() == said


@pytest.mark.parametrize("text", ["NaN", "1e400", "-1e400", '{"a":1,"a":2}', "[", "", "1 2"])
def test_text_that_would_be_changed_is_refused(talk, text):
    answer = talk.post("/entries", {"role": "user", "content_json": text})
    assert (answer.status, answer.json["path"]) == (422, "content_json")
    assert talk.chat.info().last_seq == 0


def test_value_that_is_given_twice_is_refused(talk):
    document = {"role": "user", "content": "x", "content_json": '"y"'}
    assert talk.post("/entries", document).status == 422


def test_value_that_is_nested_too_deeply_is_refused(talk):
    deep = json.loads("[" * 600 + "]" * 600)
    answer = talk.post("/entries", {"role": "user", "content": content(deep)})
    assert (answer.status, answer.json["type"]) == (422, "urn:roocontext:invalid-message")


def test_texts_of_any_kind_are_sendable_in_every_document(web, talk):
    nasty = "\x00 \ud800 \u2028 </script> \x1b[31m"
    talk.chat.append("user", nasty)
    talk.chat.append(
        "assistant", [{"type": "tool_use", "id": nasty, "name": nasty, "input": nasty}]
    )
    talk.chat.begin((2, 0))
    for path in (
        *("", "/entries", "/view", "/messages", "/pending", "/diff?from=0", "/usage", "/export"),
    ):
        answer = talk.get(path)
        assert answer.status == 200, path
        assert answer.body.isascii() or path == "/export"
    assert web.client.get("/api/v1/sessions").status == 200
