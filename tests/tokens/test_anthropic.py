"""Anthropic's count, through the real SDK and a server that speaks its protocol on loopback."""

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from roocontext import ContextManager, NewMessage, Store
from roocontext.tokens import counter_for
from support.answering_server import AnsweringServer

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


class Endpoint(AnsweringServer):
    """Answers as many tokens as the request's texts have characters, and 7 for the frame."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, Any]] = []
        self.status = 200

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.asked.append((path, body))
        if self.status != 200:
            error = {"type": "overloaded_error", "message": "Overloaded"}
            return self.status, {"type": "error", "error": error}
        blocks = [block for message in body["messages"] for block in message["content"]]
        return 200, {"input_tokens": 7 + sum(len(block.get("text", "")) for block in blocks)}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        yield server


@pytest.fixture
def client(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[anthropic.Anthropic]:
    monkeypatch.setenv("NO_PROXY", "*")
    with anthropic.Anthropic(api_key="none", base_url=endpoint.url, max_retries=0) as opened:
        yield opened


def test_message_is_counted_by_the_endpoint(endpoint, client):
    counter = counter_for("claude-opus-5", client=client)
    assert counter.name == "anthropic:claude-opus-5"
    assert counter.count("assistant", "hello", "anthropic") == 12
    path, body = endpoint.asked[0]
    assert path == "/v1/messages/count_tokens"
    assert body["model"] == "claude-opus-5"
    assert [message["role"] for message in body["messages"]] == ["user"]


def test_sum_of_messages_is_an_estimate(endpoint, client):
    counter = counter_for("claude-opus-5", client=client)
    messages = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}] * 2
    apart = sum(counter.count(one["role"], one["content"], "anthropic") for one in messages)
    assert apart > counter.request(messages)
    assert not counter.exact
    with Store.open(":memory:") as store:
        chat = store.create()
        chat.append_many([NewMessage(one["role"], one["content"]) for one in messages])
        outcome = ContextManager("claude-opus-5", counter=counter).manage(chat)
    assert (outcome.tokens_before, outcome.exact) == (apart, False)


def test_half_a_tool_call_is_sent_as_text(endpoint, client):
    counter = counter_for("claude-opus-5", client=client)
    call = [{"type": "tool_use", "id": "t", "name": "grep", "input": {"for": "x"}}]
    output = [{"type": "tool_result", "tool_use_id": "t", "content": ["odd", IMAGE]}]
    assert counter.count("assistant", call, "anthropic") == 7 + len("grep") + len('{"for":"x"}')
    assert counter.count("user", output, "anthropic") == 7
    contents = [body["messages"][0]["content"] for _, body in endpoint.asked]
    assert [[block["type"] for block in one] for one in contents] == [["text", "text"], ["image"]]


def test_other_formats_and_odd_texts_can_be_sent(client):
    counter = counter_for("claude-opus-5", client=client)
    assert counter.count("user", {"role": "user", "content": "hello"}, "openai") == 12
    assert counter.count("user", "a\ud800b", "anthropic") == 10


def test_blank_text_is_not_sent_and_costs_nothing(endpoint, client):
    counter = counter_for("claude-opus-5", client=client)
    assert counter.count("user", " \n ", "anthropic") == 0
    assert counter.count("user", [], "anthropic") == 0
    assert endpoint.asked == []


def test_whole_request_is_counted_as_it_is(endpoint, client):
    counter = counter_for("claude-opus-5", client=client)
    messages = [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]
    asked = {"system": "be brief", "tools": [{"name": "f", "input_schema": {"type": "object"}}]}
    assert counter.request(messages, **asked) == 12
    assert endpoint.asked[0][1] == {"model": "claude-opus-5", "messages": messages, **asked}


def test_errors_of_the_client_are_passed_on(endpoint, client):
    endpoint.status = 529
    with pytest.raises(anthropic.APIStatusError) as refused:
        counter_for("claude-opus-5", client=client).count("user", "hello", "anthropic")
    assert refused.value.status_code == 529


def test_asynchronous_client_is_refused():
    counter = counter_for("claude-opus-5", client=anthropic.AsyncAnthropic(api_key="none"))
    with pytest.raises(TypeError, match="synchronous"):
        counter.count("user", "hello", "anthropic")
