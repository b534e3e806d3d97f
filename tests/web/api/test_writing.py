"""The operations that change a session: receipts, conditions, repetitions."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from roocontext import Plan
from roocontext.log.forms import forms
from roocontext.web.errors import check_head
from support.dialogue import call, fill, shown, text
from support.web_server import session_path

HELLO = {"role": "user", "content": "Hello"}
TWICE = {"role": "user", "content": "x", "contents": "x"}
TOO_LONG = {"type": "invalid_request_error", "message": "prompt is too long: 4000 tokens > 3000"}
NEW_MODEL = {"model": "new-model", "status": 400, "error": {"type": "error", "error": TOO_LONG}}

NOTE = {"note": "n", "content": {}}
REFUSED = {
    "PATCH": {
        422: [
            *({}, {"titel": "x"}, {"title": 5}, {"metadata": []}, [], {"metadata_json": "[]"}),
            *({"metadata": {}, "changes": {"a": 1}}, {"title": "x", "remove": ["a"]}),
            {"changes": {}, "changes_json": "{}"},
        ]
    },
    "POST /entries": {400: [[]]},
    "POST /entries?skip_stored=true": {400: [HELLO]},
    "POST /record": {422: [{}, {"reply": 5}, {"reply": {"content": []}}]},
    "POST /answer": {409: [{"seq": 1, "block": 0, "output": "x"}]},
    "POST /notes": {
        422: [
            {"note": "n"},
            NOTE | {"content": []},
            NOTE | {"note": ""},
            [NOTE, NOTE | {"content": 5}],
        ],
        404: [[NOTE | {"target": 500}]],
        400: [{"note": "pin", "content": {"pinned": True}}],
    },
    "PUT /pins/500": {404: [None]},
    "POST /compactions": {
        422: [
            *({}, {"aim": "x"}, {"aim": "condense", "hide": [1]}, {"aim": "clear", "hide": [1]}),
            *(
                {"aim": aim, "hide": it, "summary": "S"}
                for aim, it in (("condense", []), ("truncate", [1]))
            ),
            *({"aim": aim, "blocks": it} for aim, it in (("manage", [[1, 0]]), ("clear", [[1]]))),
        ],
        400: [
            {"aim": "condense", **more}
            for more in ({}, {"model": "no-such-model"}, {"limit": 900, "policy": "x"})
        ],
    },
    "POST /recoveries": {
        422: [{"model": "m", **more} for more in ({}, {"status": 529, "error": "Overloaded"})]
    },
    "POST /restorations": {400: [{}]},
    "POST /rewinds": {422: [{}, {"to": 1, "ts": 2}, {"to": "x"}, {"time": "x"}], 404: [{"to": 5}]},
    "POST /undo": {409: [{}]},
    "POST /uncover": {409: [{"seq": 1}]},
    "POST /forks": {404: [{"at": 500}]},
    "POST /redactions": {404: [{"seq": 500, "dry_run": False}]},
}
"""Of each route the documents that it refuses, by the status of its answer."""

VERSIONED = {
    *("/compactions", "/recoveries", "/restorations", "/rewinds", "/undo", "/uncover"),
    "/redactions",
}


@pytest.mark.parametrize("web", ["file"], indirect=True)
@pytest.mark.parametrize(
    ("route", "status", "document"),
    [
        (route, status, document)
        for route, answers in REFUSED.items()
        for status, documents in answers.items()
        for document in documents
    ],
)
def test_document_without_a_sense_is_refused(talk, route, status, document):
    method, _, rest = route.partition(" ")
    fill(talk.chat, 2)
    headers = {"if_match": '"2"'} if rest in VERSIONED else {}
    answer = talk.ask(method, rest, document, **headers)
    assert answer.status == status, answer.json
    assert talk.chat.info().last_seq == 2


class TestCreate:
    def test_it_is_where_location_says(self, web):
        document = {"session_id": "a/b", "title": "T", "metadata": {"k": [1, {"x": None}]}}
        answer = web.client.post("/api/v1/sessions", document)
        assert (answer.status, answer.headers["location"]) == (201, "/api/v1/sessions/a%2Fb")
        found = web.client.get(answer.headers["location"]).json
        assert (found["title"], found["metadata"]) == ("T", {"k": [1, {"x": None}]})
        again = web.client.post("/api/v1/sessions", document)
        assert (again.status, again.urn) == (409, "session-exists")
        assert web.store.session(web.client.post("/api/v1/sessions").json["session_id"])

    def test_id_and_parent_have_to_be_possible(self, web):
        assert web.client.post("/api/v1/sessions", {"parent": "none"}).status == 404
        for name in ("", "a\0", "x" * 1001, "\ud800", 5):
            assert web.client.post("/api/v1/sessions", {"session_id": name}).status == 422

    def test_opened_session_is_created_once(self, web):
        path = session_path("opened once")
        answers = [web.client.ask("PUT", path, {"title": name}) for name in ("one", "two")]
        assert [answer.status for answer in answers] == [201, 200]
        assert answers[1].json["title"] == "one"
        assert web.client.ask("PUT", path, {"parent": web.store.create().id}).status == 409

    def test_of_requests_at_once_one_creates_the_session(self, web):
        path = session_path("opened at once")
        with ThreadPoolExecutor(8) as threads:
            answers = threads.map(lambda _: web.client.ask("PUT", path, {}).status, range(8))
            assert sorted(answers) == [200] * 7 + [201]


class TestChange:
    def test_title_and_metadata_are_replaced(self, talk):
        asked = {"title": "T", "metadata": {"a": 1}}
        answer = talk.ask("PATCH", "", asked, idempotency_key="k")
        changed = answer.json
        assert (answer.status, changed["title"], changed["metadata"]) == (200, "T", {"a": 1})
        again = talk.ask("PATCH", "", asked, idempotency_key="k")
        assert again.headers["idempotency-replayed"] == "true"
        assert talk.chat.info().last_seq == 2
        other = talk.ask("PATCH", "", asked | {"title": "U"}, idempotency_key="k")
        assert (other.status, other.urn) == (422, "duplicate-message")

    def test_single_keys_are_changed_and_the_others_stay(self, talk):
        talk.chat.set_metadata({"a": 1, "b": 2, "c": 3})
        asked = {"changes_json": '{"a":9007199254740993}', "remove": ["b"]}
        answer = talk.ask("PATCH", "", asked, idempotency_key="k")
        assert answer.json["metadata"] == {"a": 2**53 + 1, "c": 3}


class TestAppend:
    def test_all_fields_are_stored(self, talk):
        receipt = talk.post("/entries", HELLO)
        assert (receipt.status, receipt.json["seq"], receipt.json["new"]) == (201, 1, True)
        talk.post("/entries", {"role": "assistant", "content": [call("t1")]})
        output = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
        given = {"role": "user", "content": [output], "ts": -5, "message_id": "m", "client_id": "c"}
        given |= {"model": "claude-x", "usage": {"input_tokens": 1}, "extra": {"commit": "abc"}}
        given |= {"asked_at": 1, "answers": [2, 0]}
        assert talk.post("/entries", given).status == 201
        row = talk.get("/entries/3").json
        assert {name: row[name] for name in given} == given

    def test_list_is_written_in_one_transaction(self, talk):
        messages = [{"role": "user", "content": f"m{n}", "client_id": f"c{n}"} for n in range(3)]
        talk.post("/entries", messages[1])
        assert talk.post("/entries", messages).urn == "duplicate-message"
        answer = talk.post("/entries?skip_stored=true", messages)
        assert (answer.status, [row["seq"] for row in answer.json]) == (201, [2, 1, 3])
        for path in ("/entries", "/entries?skip_stored=true"):
            again = talk.post(path, messages)
            assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
        for wrong, place in (({"role": "user", "content": [5]}, "content"), (TWICE, "1.contents")):
            refused = talk.post("/entries", [HELLO, wrong])
            assert (refused.status, place in refused.json["path"]) == (422, True)
        assert talk.post("/entries", [HELLO, {"role": "x", "content": ""}]).json["index"] == 1
        assert talk.chat.head_seq() == 3

    def test_stale_version_is_refused_with_the_present_one(self, talk):
        talk.post("/entries", HELLO, if_match='"0"')
        answer = talk.post("/entries", HELLO, if_match='"0"')
        assert (answer.status, answer.urn) == (412, "version-conflict")
        assert (answer.json["expected"], answer.json["actual"]) == (0, 1)
        assert talk.post("/entries", HELLO, if_match="*").status == 201
        for stale in ('"1-abcdef"', 'W/"2"', 'W/"2" , "x"'):
            assert talk.post("/entries", HELLO, if_match=stale).status == 412
        for malformed in ("2", '"1", "2"', "x", '"2', '*, "2"', "", '"2" "3"', '"2",'):
            assert talk.post("/entries", HELLO, if_match=malformed).status == 400
        assert talk.chat.head_seq() == 2
        assert talk.post("/entries", HELLO, if_match='W/"1", "2"').status == 201

    def test_repetition_has_the_first_receipt_whatever_its_version(self, talk):
        first = talk.post("/entries", HELLO, if_match='"0"', idempotency_key='"k 1"')
        fill(talk.chat, 2)
        talk.chat.rewind(0)
        for version in ('"0"', '"500"', '"x"', 'W/"1"', "*"):
            again = talk.post("/entries", HELLO, if_match=version, idempotency_key='"k 1"')
            assert (first.status, again.status) == (201, 200)
            assert again.headers["idempotency-replayed"] == "true"
            assert (again.json["seq"], again.json["hash"]) == (1, first.json["hash"])
            assert again.json["rewound_by"] == 4
        other = talk.post("/entries", HELLO | {"content": "x"}, idempotency_key='"k 1"')
        assert (other.status, other.urn) == (422, "duplicate-message")
        assert talk.chat.info().last_seq == 4

    def test_key_of_another_request_is_refused(self, talk):
        talk.post("/entries", HELLO, idempotency_key="k")
        others = [
            ("POST", "/notes", {"note": "n", "content": {}}, {}),
            ("PATCH", "", {"title": "T"}, {}),
            ("PUT", "/pins/1", None, {}),
            ("POST", "/rewinds", {"to": 0}, {"if_match": '"1"'}),
            ("POST", "/compactions", {"aim": "truncate", "hide": [1]}, {"if_match": '"1"'}),
            ("POST", "/compactions", {"aim": "clear", "blocks": [[1, 0]]}, {"if_match": '"1"'}),
        ]
        for method, rest, document, headers in others:
            answer = talk.ask(method, rest, document, idempotency_key="k", **headers)
            assert (answer.status, answer.urn) == (422, "duplicate-message"), rest
        for document in (HELLO | {"client_id": "c"}, [HELLO]):
            assert talk.post("/entries", document, idempotency_key="k").status == 400
        assert talk.chat.info().last_seq == 1

    def test_text_that_is_no_key_is_refused(self, talk):
        for key in ("a b", '"a', '"a" "b"', "\xe9"):
            assert talk.post("/entries", HELLO, idempotency_key=key).status == 400
        for key in ('""', "x" * 1_001):
            assert talk.post("/entries", HELLO, idempotency_key=key).status == 422
        assert talk.post("/entries", HELLO, idempotency_key='"a\\"b"').status == 201
        assert talk.get("/entries/1").json["client_id"] == 'a"b'


class TestLoop:
    def test_turn_with_a_tool(self, talk):
        talk.post("/entries", HELLO)
        request = talk.post("/request", {"form": "anthropic", "system": "Be kind.", "model": "m"})
        assert request.json["body"]["messages"] == [{"role": "user", "content": "Hello"}]
        assert request.json["body"]["system"] == "Be kind."
        asked = {name: request.json[name] for name in ("seq", "form", "model", "requested")}
        reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
        reply |= {"content": [text("I look."), call("t1")], "stop_reason": "tool_use"}
        reply |= {"usage": {"input_tokens": 3, "output_tokens": 2}}
        recorded = talk.post("/record", {"reply": reply, "request": asked})
        assert recorded.status == 201
        again = talk.post("/record", {"reply_json": json.dumps(reply), "request": asked})
        assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
        assert again.json["seq"] == recorded.json["seq"]
        place = {"seq": recorded.json["seq"], "block": 0}
        assert talk.post("/request", {}).status == 409
        assert talk.post("/begin", place).status == 201
        assert talk.get("/pending").json["pending"][0]["begun"]
        answered = talk.post("/answer", place | {"output": "a.py", "extra": {"ms": 3}})
        assert answered.status == 201
        assert talk.post("/answer", place | {"output": "other"}).json["seq"] == answered.json["seq"]
        assert talk.get("/pending").json["waits_for"] == "model"
        assert len(talk.post("/request", {"as_of": 1}).json["body"]["messages"]) == 1

    @pytest.mark.parametrize("form", forms.known())
    def test_request_of_any_form(self, talk, form):
        talk.post("/entries", HELLO)
        assert "Hello" in json.dumps(talk.post("/request", {"form": form}).json["body"])
        assert "Hello" in json.dumps(talk.get(f"/messages?form={form}").json["messages"])

    def test_bytes_are_sent_as_base64(self, talk):
        data = "iVBORw0KGgo="
        source = {"type": "base64", "media_type": "image/png", "data": data}
        talk.chat.append("user", [{"type": "image", "source": source}])
        form = {"form": "bedrock-converse"}
        for asked in (
            talk.post("/request", form).json["body"],
            json.loads(talk.post("/request?content=text", form).json["body_json"]),
            talk.get("/messages?form=bedrock-converse").json,
            json.loads(talk.get("/export?to=bedrock-converse").body),
        ):
            image = asked["messages"][0]["content"][0]["image"]
            assert image == {"format": "png", "source": {"bytes": data}}

    def test_unknown_form_is_refused(self, talk):
        answer = talk.post("/request", {"form": "x"})
        assert (answer.status, answer.json["path"]) == (422, "form")
        assert talk.get("/messages?form=x").status == 400

    def test_options_of_the_policy_server_are_those_of_the_request(self, talk):
        fill(talk.chat, 30)
        model = {"model": "claude-opus-4-6", "limit": 100_000}
        done = talk.change("/compactions", {"aim": "manage", "policy": "server", **model})
        options = done.json["options"]
        assert {*options} == {"context_management", "betas"}
        asked = {"model": "claude-opus-4-6", "unanswered": True, "prefill": True}
        body = talk.post("/request", asked | options).json["body"]
        assert {name: body[name] for name in options} == options
        as_text = json.dumps(options["context_management"])
        body = talk.post("/request", asked | {"context_management_json": as_text}).json["body"]
        assert body["context_management"] == options["context_management"]
        refused = talk.post("/request", asked | options | {"form": "gemini"})
        assert (refused.status, refused.json["name"]) == (400, "context_management")


def test_pinned_message_stays(talk):
    fill(talk.chat, 4)
    pinned = {"session_id": talk.chat.id, "pins": [1], "changed": True}
    assert talk.ask("PUT", "/pins/1").json == pinned
    plan = {"aim": "condense", "hide": [1, 2], "summary": "S"}
    assert talk.change("/compactions", plan).status == 409
    assert talk.ask("DELETE", "/pins/1").json["pins"] == []
    assert talk.change("/compactions", plan).status == 201


class TestNotes:
    def test_note_is_written_once_and_seen_by_no_model(self, talk):
        fill(talk.chat, 2)
        note = {"note": "build", "content_json": '{"n":18014398509481985}', "target": 1, "ts": 5}
        first = talk.post("/notes", note, idempotency_key="k")
        assert (first.status, first.json["seq"], first.json["head_seq"]) == (201, 3, 2)
        again = talk.post("/notes", note, idempotency_key="k")
        assert (again.status, again.json["seq"]) == (200, 3)
        (stored,) = talk.chat.notes("build")
        assert (stored.content, stored.target) == ({"n": 2**54 + 1}, 1)
        assert shown(talk.chat) == [1, 2]

    def test_list_is_one_transaction(self, talk):
        notes = [{"note": "n", "content": {"n": n}, "client_id": f"c{n}"} for n in range(3)]
        answer = talk.post("/notes", notes)
        assert (answer.status, [row["seq"] for row in answer.json]) == (201, [1, 2, 3])
        assert {*answer.json[0]} == {"session_id", "seq", "hash", "head_seq", "new", "rewound_by"}
        assert talk.post("/notes", notes).status == 200
        assert talk.post("/notes", notes, idempotency_key="k").status == 400


class TestCompact:
    def test_agents_own_summary_is_shown_first_and_written_once(self, talk):
        fill(talk.chat, 4)
        plan = {"aim": "condense", "hide": [1, 2], "summary": "A \ud800 summary" * 4}
        preview = talk.post("/plans", plan)
        assert (preview.status, preview.json["hidden"], preview.json["dry_run"]) == (200, 2, True)
        assert shown(talk.chat) == [1, 2, 3, 4]
        answer = talk.post("/compactions", plan, if_match='"4"', idempotency_key="k")
        assert (answer.status, answer.json["seqs"]) == (201, [5])
        assert shown(talk.chat) == [5, 3, 4]
        fill(talk.chat, 1)
        for version in ('"4"', "*"):
            again = talk.post("/compactions", plan, if_match=version, idempotency_key="k")
            assert (again.status, again.json["seq"]) == (200, 5)
        for seq in (1, 2):
            talk.chat.redact(seq)
        again = talk.post("/compactions", plan, if_match='"4"', idempotency_key="k")
        assert (again.status, again.json["seq"]) == (200, 5)
        for change in ({"hide": [3]}, {"summary": "A longer summary " * 90}):
            other = talk.post("/compactions", plan | change, if_match="*", idempotency_key="k")
            assert (other.status, other.urn) == (422, "duplicate-message")
        for version in ('"2"', '"4"', '"99"', 'W/"6"'):
            for path in ("/plans", "/compactions"):
                assert talk.post(path, plan, if_match=version).status == 412, (path, version)

    def test_own_truncation_and_clearing(self, talk):
        fill(talk.chat, 2)
        talk.chat.append("assistant", [call("t1")])
        talk.chat.answer((3, 0), "long output " * 100)
        assert talk.change("/compactions", {"aim": "clear", "blocks": [[4, 0]]}).status == 201
        assert talk.get("/view").json["messages"][3]["cleared"] == [0]
        assert talk.change("/compactions", {"aim": "truncate", "hide": [1, 2]}).status == 201
        assert shown(talk.chat) == [6, 3, 4]

    @pytest.mark.parametrize("aim", ["condense", "truncate"])
    def test_policy_decides(self, talk, aim):
        fill(talk.chat, 30)
        asked = {"aim": aim, "limit": 2_000}
        preview = talk.post("/plans", asked).json
        assert (preview["dry_run"], talk.chat.head_seq()) == (True, 30)
        answer = talk.change("/compactions", asked)
        assert answer.status == 201
        assert answer.json["tokens_after"] < answer.json["tokens_before"]
        assert len(preview["view"]) == len(shown(talk.chat))

    def test_window_of_a_known_model_is_used(self, talk):
        fill(talk.chat, 2)
        asked = {"aim": "manage", "model": "claude-sonnet-4-5"}
        answer = talk.change("/compactions", asked)
        assert (answer.status, answer.json["status"]) == (200, "noop")
        assert talk.post("/plans", asked | {"policy": "gemini-upstream"}).json["window"] == 1 << 20


class TestRecover:
    def test_refused_request_is_cut_and_the_limit_remembered(self, talk):
        fill(talk.chat, 100)
        assert talk.post("/recoveries", NEW_MODEL).status == 428
        answer = talk.change("/recoveries", NEW_MODEL)
        assert (answer.status, answer.json["trigger"]) == (201, "recover")
        assert answer.json["tokens_after"] < answer.json["tokens_before"]
        assert (answer.json["window"], answer.json["window_source"]) == (3_000, "refusal")
        assert len(shown(talk.chat)) < 100
        # The limit that the provider named is known from now on.
        assert talk.change("/compactions", {"aim": "manage", "model": "new-model"}).status < 300

    def test_body_may_be_a_text_and_three_cuts_are_the_most(self, talk):
        fill(talk.chat, 100)
        as_text = {"error_json": json.dumps(NEW_MODEL["error"])}
        for given in (as_text, {"error": "Prompt is too long."}, {"status": 413}):
            assert talk.change("/recoveries", {"model": "m"} | given).status == 201
        answer = talk.change("/recoveries", {"model": "m", "status": 413})
        assert (answer.status, answer.urn) == (409, "recovery-exhausted")
        assert answer.json["attempts"] == 3


def test_hidden_messages_are_restored_if_there_is_room(talk):
    fill(talk.chat, 8)
    talk.chat.commit(Plan.condense(talk.chat.view(), [1, 2, 3, 4], "S"))
    asked = {"limit": 100_000}
    preview = talk.change("/restorations", asked | {"dry_run": True})
    assert (preview.status, preview.json["steps"][0]["seq"]) == (200, 9)
    assert shown(talk.chat) == [9, 5, 6, 7, 8]
    answer = talk.change("/restorations", asked)
    assert (answer.status, answer.json["steps"][0]["uncovering"]) == (201, 10)
    assert shown(talk.chat) == [1, 2, 3, 4, 5, 6, 7, 8]
    nothing = talk.change("/restorations", asked)
    assert (nothing.status, nothing.json["steps"]) == (200, [])


class TestRewind:
    def test_repetition_after_a_lost_answer_rewinds_once(self, talk):
        fill(talk.chat, 4)
        asked = {"if_match": '"4"', "idempotency_key": "k"}
        first = talk.post("/rewinds", {"to": 3, "keep_target": False}, **asked)
        assert (first.status, first.json["to"], first.json["left"]) == (201, 2, 2)
        fill(talk.chat, 2)
        again = talk.post("/rewinds", {"to": 2}, **asked)
        assert (again.status, again.headers["idempotency-replayed"]) == (200, "true")
        assert (again.json["seq"], again.json["left"]) == (5, 2)
        assert shown(talk.chat) == [1, 2, 6, 7]
        other = talk.post("/rewinds", {"to": 1}, **asked)
        assert (other.status, other.urn) == (422, "duplicate-message")
        assert talk.post("/rewinds", {"to": 1}, if_match='"4"', idempotency_key="n").status == 412

    def test_key_needs_an_entry_and_a_change(self, talk):
        fill(talk.chat, 2)
        asked = {"if_match": "*", "idempotency_key": "k"}
        for document in ({"message_id": "x"}, {"ts": 1}, {"to": 1, "dry_run": True}):
            assert talk.post("/rewinds", document, **asked).status == 400
        assert talk.post("/rewinds", {"to": 0, "keep_target": False}, **asked).status == 404
        assert talk.post("/rewinds", {"to": 9}, **asked).status == 404

    def test_to_an_entry_and_back(self, talk):
        fill(talk.chat, 4)
        preview = talk.change("/rewinds", {"to": 2, "dry_run": True})
        assert (preview.status, preview.json["left"], shown(talk.chat)) == (200, 2, [1, 2, 3, 4])
        answer = talk.change("/rewinds", {"to": 2})
        assert (answer.status, answer.json["left"]) == (201, 2)
        again = talk.change("/rewinds", {"to": 2})
        assert (again.status, again.json["changed"]) == (200, False)
        talk.chat.append("user", "newer")
        assert talk.change("/undo").status == 409
        assert talk.post("/undo", if_match='"1"').status == 412
        undone = talk.change("/undo", {"force": True})
        assert (undone.status, undone.json["undone"]) == (201, 5)
        assert shown(talk.chat) == [1, 2, 3, 4]

    def test_to_a_message_id_a_time_and_a_ts(self, talk):
        for n in range(3):
            talk.chat.append("user", f"m{n}", message_id=f"id{n}", ts=n * 1000)
        back = {"time": "1970-01-01T00:00:01.500Z"}
        by_ts = {"ts": 1000, "keep_target": False}
        for target, to in (({"message_id": "id1"}, 2), (by_ts, 1), (back, 2)):
            assert talk.change("/rewinds", target).json["to"] == to
            assert talk.change("/undo").status == 201

    def test_what_a_summary_hid_is_uncovered(self, talk):
        fill(talk.chat, 4)
        talk.chat.commit(Plan.condense(talk.chat.view(), [1, 2], "S"))
        assert talk.change("/uncover", {"seq": 5, "dry_run": True}).status == 200
        assert talk.change("/uncover", {"seq": 5}).status == 201
        assert talk.change("/uncover", {"seq": 5}).status == 200
        assert shown(talk.chat) == [1, 2, 3, 4]


def test_fork_begins_as_a_copy(web, talk):
    fill(talk.chat, 3)
    answer = talk.post("/forks", {"at": 2, "session_id": "b/1"})
    assert (answer.status, answer.headers["location"]) == (201, "/api/v1/sessions/b%2F1")
    assert shown(web.store.session("b/1")) == [1, 2]
    assert talk.post("/forks", {"session_id": "b/1"}).status == 409
    assert talk.post("/forks", {}, if_match='"1"').status == 412


def test_entry_that_is_written_after_the_check_is_neither_purged_nor_copied(web, talk, monkeypatch):
    def check(chat, expected):
        check_head(chat, expected)
        fill(talk.chat, 1)

    fill(talk.chat, 2)
    monkeypatch.setattr("roocontext.web.api.operations.check_head", check)
    branch = talk.change("/forks", {})
    assert (branch.status, shown(web.store.session(branch.json["session_id"]))) == (201, [1, 2])
    refused = talk.change("/purges", {"dry_run": False})
    assert (refused.status, refused.json["actual"], shown(talk.chat)) == (412, 4, [1, 2, 3, 4])


class TestErase:
    def test_redaction_is_shown_first(self, talk):
        talk.chat.append("user", "my secret")
        shown_first = talk.change("/redactions", {"seq": 1})
        assert (shown_first.status, shown_first.json["beginning"]) == (200, "my secret")
        assert talk.chat.message(1).content == "my secret"
        done = talk.change("/redactions", {"seq": 1, "dry_run": False})
        assert (done.status, done.json["changed"]) == (201, True)
        assert b"secret" not in talk.get("/entries").body

    def test_purge_is_shown_first_and_leaves_a_receipt(self, talk):
        fill(talk.chat, 2)
        match = {"if_match": '"2"'}
        assert talk.post("/purges", if_match='"1"').status == 412
        assert talk.post("/purges", **match).json["dry_run"]
        done = talk.post("/purges", {"dry_run": False}, **match)
        assert (done.status, done.json["messages"], done.json["changed"]) == (201, 2, True)
        again = talk.post("/purges", {"dry_run": False}, **match)
        assert (again.status, again.json["changed"]) == (200, False)
        gone = talk.get("/view")
        assert (gone.status, gone.urn) == (404, "session-purged")
        assert gone.json["receipt"]["messages"] == 2
        assert gone.json["receipt"]["purged_at"].endswith("+00:00")
        assert talk.ask("PUT", "", {}).status == 404
