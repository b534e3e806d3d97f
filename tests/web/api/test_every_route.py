"""Rules that hold for every route of the API: what is refused, what an error looks like.

The guard in front of all routes has its tests in `test_every_path.py`.
"""

import json
import re
from collections.abc import Iterator, Sequence

import pytest

from roocontext import ArchiveFolder, Store
from roocontext.web.api import reading, writing
from roocontext.web.api.events import STREAM
from roocontext.web.api.openapi import statuses
from roocontext.web.api.operations import PREFIX, Operation
from roocontext.web.api.table import OPERATIONS
from support.dialogue import fill
from support.web_server import Answer, WebClient, serving

BODIES = {
    "EntryInput": {"role": "user", "content": "x"},
    "ReplyInput": {"reply": {"role": "assistant", "content": "x"}},
    "CallInput": {"seq": 1, "block": 0},
    "AnswerInput": {"seq": 1, "block": 0, "output": "x"},
    "PlanInput": {"aim": "truncate", "hide": [1]},
    "RewindInput": {"to": 1},
    "UncoverInput": {"seq": 1},
    "RedactionInput": {"seq": 1, "dry_run": False},
    "PurgeInput": {"dry_run": False},
    "SessionChange": {"title": "x"},
    "NoteInput": {"note": "x", "content": {}},
    "RecoveryInput": {"status": 413},
    "RestorationInput": {"limit": 1_000},
}
QUERIES = {
    "get_search": "?q=x",
    "get_diff": "?from=1",
    "get_message": "?message_id=x",
    "get_tokens": "?counter=o200k_base",
    "get_notes": "?note=x",
}

NONE = [
    *(b"{", b"\xff", b'{"a":1,"a":1}', b'{"a":NaN}', b'{"a":1e400}', b"null", b'"text"'),
    *(b'{"a":' + b"9" * 5000 + b"}", b"[" * 2000 + b"]" * 2000, b"\xef\xbb\xbf{}", b"{\x00}"),
]
"""Bodies that are no JSON object."""

every_operation = pytest.mark.parametrize(
    "operation", OPERATIONS, ids=lambda operation: operation.handler.__name__
)


def path_of(operation: Operation, session: str = "s") -> str:
    path = operation.path.format(session=session, seq=1)
    return f"{PREFIX}{path}{QUERIES.get(operation.handler.__name__, '')}"


def ask(
    client: WebClient, operation: Operation, path: str = "", **headers: str | Sequence[str]
) -> Answer:
    document = None
    if operation.body is not None:
        document = BODIES.get(operation.body.__name__, {})
    if operation.if_match == "required":
        headers = {"if_match": '"4"', **headers}
    if operation.turn == "required":
        headers = {"roocontext_turn": "t", **headers}
    return client.ask(operation.method, path or path_of(operation), document, **headers)


@pytest.fixture(scope="module")
def client(
    one_session: Store, guarded: WebClient, tmp_path_factory: pytest.TempPathFactory
) -> WebClient:
    """A client of a server that permits everything, also with an archived session."""
    fill(one_session.create("archived"), 1)
    one_session.archive(put=ArchiveFolder(tmp_path_factory.mktemp("archive")), session="archived")
    return guarded


@pytest.fixture(scope="module")
def reader(one_session: Store) -> Iterator[WebClient]:
    with serving(one_session) as client:
        yield client


@pytest.mark.usefixtures("nothing_changes")
@every_operation
class TestRefusals:
    def test_unknown_parameter(self, client, operation):
        path = path_of(operation)
        path += ("&" if "?" in path else "?") + "nothing=1"
        answer = ask(client, operation, path)
        assert (answer.status, answer.json["name"]) == (400, "nothing")

    def test_malformed_query(self, client, operation):
        path = path_of(operation).partition("?")[0]
        for query in ("q=%ED%A0%80", "q=%FF", "=&=", "q", "&".join("a=1" * 200)):
            assert ask(client, operation, f"{path}?{query}").status == 400, query

    def test_media_type_that_is_not_sent(self, client, operation):
        answer = ask(client, operation, accept="image/png, text/csv;q=0.5")
        assert (answer.status, answer.json["type"]) == (406, "urn:roocontext:not-acceptable")

    def test_change_of_a_read_only_server(self, reader, operation):
        if STREAM in operation.media:
            return  # it would not end
        answer = ask(reader, operation)
        if operation.needs == "read":
            assert answer.status != 403
        else:
            option = {"write": "--allow-write", "admin": "--admin"}[operation.needs]
            assert (answer.status, answer.json["option"]) == (403, option)

    def test_no_version_where_one_is_required(self, client, operation):
        if operation.if_match != "required":
            return
        document = BODIES.get(operation.body.__name__, {}) if operation.body else {}
        answer = client.ask(operation.method, path_of(operation), document)
        assert (answer.status, answer.json["type"]) == (428, "urn:roocontext:precondition-required")

    def test_header_that_it_does_not_take(self, client, operation):
        if not operation.takes_key:
            assert ask(client, operation, idempotency_key="k").status == 400
        if not operation.if_match:
            assert ask(client, operation, if_match='"4"').status == 400
        if not operation.turn:
            assert ask(client, operation, roocontext_turn="t").status == 400
        assert ask(client, operation, roocontext_turn="two words").status == 400

    def test_header_that_is_given_twice(self, client, operation):
        assert ask(client, operation, idempotency_key=["a", "b"]).status == 400
        assert ask(client, operation, roocontext_turn=["a" * 32, "b" * 32]).status == 400

    def test_body_that_is_none(self, client, operation):
        headers = {"if_match": '"4"'} if operation.if_match == "required" else {}
        headers |= {"roocontext_turn": "t"} if operation.turn == "required" else {}
        for body in NONE:
            answer = client.ask(operation.method, path_of(operation), body=body, **headers)
            assert answer.status in ((400,) if operation.body is None else (400, 422)), body

    def test_body_of_another_type(self, client, operation):
        if operation.body is None:
            return
        form = "application/x-www-form-urlencoded"
        for media in ("text/plain", form, "application/json; charset=latin-1"):
            assert ask(client, operation, content_type=media).status == 415
        assert ask(client, operation, content_encoding="gzip").status == 415


@every_operation
def test_unknown_session_is_not_found(client, operation):
    if operation.has_session and operation.method != "PUT":
        answer = ask(client, operation, path_of(operation, "none"))
        assert (answer.status, answer.json["type"]) == (404, "urn:roocontext:session-not-found")


@every_operation
def test_archived_session_is_a_conflict(client, operation):
    path = path_of(operation, "archived")
    if operation.handler is reading.get_search:
        path += "&session=archived"
    elif not operation.has_session or operation.handler is writing.post_purge:
        return
    answer = ask(client, operation, path)
    assert (answer.status, answer.json["type"]) == (409, "urn:roocontext:session-archived")
    assert answer.status in statuses(operation)


@every_operation
def test_error_is_a_problem_document(client, operation):
    answer = ask(client, operation, host="evil.test")
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json
    assert problem["status"] == answer.status
    assert problem["instance"] == path_of(operation).partition("?")[0]
    assert {"type", "title", "detail", "category"} <= {*problem}
    assert answer.status in statuses(operation)


class TestMethods:
    def test_another_method_is_refused(self, client):
        for method in ("DELETE", "OPTIONS", "TRACE", "PROPFIND"):
            answer = client.ask(method, f"{PREFIX}/sessions")
            assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")

    def test_head_has_the_headers_of_get(self, client):
        got = client.get(f"{PREFIX}/sessions/s/view")
        answer = client.ask("HEAD", f"{PREFIX}/sessions/s/view")
        assert (answer.status, answer.body, answer.etag) == (200, b"", got.etag)


def test_each_operation_is_described(client):
    document = client.get(f"{PREFIX}/openapi.json").json
    described = {
        (path, method.upper()): set(map(int, about["responses"]))
        for path, methods in document["paths"].items()
        for method, about in methods.items()
    }
    assert described == {
        (PREFIX + operation.path, operation.method): set(statuses(operation))
        for operation in OPERATIONS
    }
    names = [
        about["operationId"] for paths in document["paths"].values() for about in paths.values()
    ]
    assert len(names) == len({*names})
    references = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))
    assert {*references} <= document["components"]["schemas"].keys()
