"""A model behind a real socket: Anthropic's Messages protocol on loopback, answering by script.

    with ModelServer(rate_limited(), Answer("Two files were read.")) as server:
        client = server.client(max_retries=1)          # the real SDK; closed with the server
        client.messages.create(model="claude-x", max_tokens=99, messages=[...])
        server.requests[-1].body["messages"]           # what was asked

Each POST to /v1/messages takes the next reply of the script, and `otherwise` when none is left.
Every reply is sent as JSON or as a stream of events, as the request asks. With a `window`, a
request of more tokens than that is refused as too long, and takes no reply. What the real endpoint
would refuse is refused too, so that nothing goes out that could not be answered. Leaving the
context lets go of whatever hangs, and waits for nothing longer than `PATIENCE` seconds.
"""

import json
import select
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol, Self

import anthropic

from support.answering_server import LoopbackHttp, LoopbackServer
from support.provider_rules.anthropic import violations

PATIENCE = 30


class Reply(Protocol):
    """The reply to a request; write your own with `send`."""

    def send(self, exchange: "Exchange") -> None: ...


@dataclass(frozen=True)
class Answer:
    """A whole answer; without numbers it costs what `tokens_of` says."""

    text: str = "A summary."
    stop_reason: str = "end_turn"
    input_tokens: int | None = None
    output_tokens: int | None = None

    def send(self, exchange: "Exchange") -> None:
        if exchange.asked.body.get("stream"):
            exchange.stream(self.events(exchange))
        else:
            exchange.json(200, self.message(exchange))

    def message(self, exchange: "Exchange") -> dict[str, Any]:
        sent, told = self.usage(exchange)
        return {
            "id": f"msg_{len(exchange.model.requests)}",
            "type": "message",
            "role": "assistant",
            "model": exchange.asked.body["model"],
            "content": [{"type": "text", "text": self.text}],
            "stop_reason": self.stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": sent, "output_tokens": told},
        }

    def usage(self, exchange: "Exchange") -> tuple[int, int]:
        sent = self.input_tokens
        told = self.output_tokens
        return (
            tokens_of(exchange.asked.body) if sent is None else sent,
            len(self.text) // 4 + 1 if told is None else told,
        )

    def events(self, exchange: "Exchange") -> list[dict[str, Any]]:
        sent, told = self.usage(exchange)
        begun = {**self.message(exchange), "content": [], "stop_reason": None}
        begun["usage"] = {"input_tokens": sent, "output_tokens": 1}
        half = len(self.text) // 2
        deltas = [part for part in (self.text[:half], self.text[half:]) if part]
        return [
            {"type": "message_start", "message": begun},
            {"type": "ping"},
            _at_first("content_block_start", content_block={"type": "text", "text": ""}),
            *(_at_first("content_block_delta", delta=_text_delta(part)) for part in deltas),
            _at_first("content_block_stop"),
            {
                "type": "message_delta",
                "delta": {"stop_reason": self.stop_reason, "stop_sequence": None},
                "usage": {"output_tokens": told},
            },
            {"type": "message_stop"},
        ]


EMPTY = Answer("")
BLANK = Answer(" \n\t ")
REFUSAL = Answer("", stop_reason="refusal")
FULL = Answer("A summary that was cut off in the mid", stop_reason="max_tokens")


@dataclass(frozen=True)
class Half:
    """A stream that stops in the middle of the text: rudely, or as if it were complete."""

    text: str = "A summary of which half arrives."
    rude: bool = True

    def send(self, exchange: "Exchange") -> None:
        exchange.stream(Answer(self.text).events(exchange)[:4], whole=not self.rude)


@dataclass(frozen=True)
class Broken:
    """Status 200, half a text or less of it, then an error event."""

    kind: str = "overloaded_error"
    message: str = "Overloaded"
    events: int = 4

    def send(self, exchange: "Exchange") -> None:
        half = Answer("A summary that breaks off.").events(exchange)[: self.events]
        exchange.stream([*half, _error(self.kind, self.message)])


@dataclass(frozen=True)
class Refused:
    """An answer that is an error by its status."""

    status: int
    kind: str
    message: str = "No."
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, exchange: "Exchange") -> None:
        exchange.json(self.status, _error(self.kind, self.message), self.headers)


def rate_limited(retry_after_ms: int = 1) -> Refused:
    """A 429 that says when to try again."""
    return Refused(429, "rate_limit_error", headers={"retry-after-ms": str(retry_after_ms)})


def overloaded(retry_after_ms: int = 1) -> Refused:
    """A 529 that says when to try again."""
    return Refused(529, "overloaded_error", headers={"retry-after-ms": str(retry_after_ms)})


def too_long(tokens: int | None = None, limit: int | None = None) -> Refused:
    """The 400 of a prompt that does not fit, with the numbers or without."""
    numbers = "" if tokens is None else f": {tokens} tokens > {limit} maximum"
    return Refused(400, "invalid_request_error", f"prompt is too long{numbers}")


@dataclass(frozen=True)
class Hang:
    """Nothing, or half an answer, until the server lets go or the client goes away."""

    begun: bool = False

    def send(self, exchange: "Exchange") -> None:
        if self.begun:
            exchange.stream(Answer().events(exchange)[:4], whole=False)
        exchange.wait()


@dataclass
class Request:
    """A request. `left` is set when the client closed the connection before the reply ended."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def text(self) -> str:
        """All that the model was told, the system prompt first."""
        return "\n".join(texts_of(self.body))


class ModelServer(LoopbackServer):
    """The server; use it as a context manager."""

    def __init__(
        self, *script: Reply, otherwise: Reply = Answer(), window: int | None = None
    ) -> None:
        super().__init__(Exchange)
        self.script: deque[Reply] = deque(script)
        self.otherwise = otherwise
        self.window = window
        self.requests: list[Request] = []
        self.refused = 0
        """How many requests were refused for what is in them."""
        self.released = threading.Event()
        self._asked = threading.Condition()

    def __enter__(self) -> Self:
        super().__enter__()
        self._stack.callback(self.released.set)
        return self

    def client(self, **options: Any) -> anthropic.Anthropic:
        """A client of the real SDK; it is closed with the server."""
        http = anthropic.DefaultHttpxClient(trust_env=False, verify=False)
        made = anthropic.Anthropic(**self._options(options), http_client=http)
        self._stack.callback(made.close)
        return made

    def async_client(self, **options: Any) -> anthropic.AsyncAnthropic:
        """The asynchronous one; close it with `async with`."""
        http = anthropic.DefaultAsyncHttpxClient(trust_env=False, verify=False)
        return anthropic.AsyncAnthropic(**self._options(options), http_client=http)

    def wait_for(self, count: int) -> None:
        with self._asked:
            came = self._asked.wait_for(lambda: len(self.requests) >= count, PATIENCE)
        assert came, f"{len(self.requests)} of {count} requests came"

    def take(self, request: Request) -> Reply:
        """Note a request, and choose what it gets."""
        with self._asked:
            self.requests.append(request)
            self._asked.notify_all()
            refusal = self._refusal(request.body)
            if refusal is not None:
                self.refused += 1
                return refusal
            return self.script.popleft() if self.script else self.otherwise

    def _refusal(self, body: dict[str, Any]) -> Refused | None:
        faults = violations(body["messages"]) + _odd(body)
        if faults:
            return Refused(400, "invalid_request_error", "; ".join(faults))
        tokens = tokens_of(body)
        if self.window is not None and tokens > self.window:
            return too_long(tokens, self.window)
        return None

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"api_key": "none", "base_url": self.url, "max_retries": 0, "timeout": 20} | options


class Exchange(BaseHTTPRequestHandler):
    """One request and its reply; the connection ends with it."""

    protocol_version = "HTTP/1.1"
    timeout = PATIENCE

    @property
    def model(self) -> ModelServer:
        assert isinstance(self.server, LoopbackHttp)
        assert isinstance(self.server.of, ModelServer)
        return self.server.of

    def do_POST(self) -> None:
        """Answer what the SDK asks."""
        self.close_connection = True
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked = Request(self.path, dict(self.headers.items()), body)
        if self.path.startswith("/v1/messages/count_tokens"):
            self.json(200, {"input_tokens": tokens_of(body)})
        elif self.path.startswith("/v1/messages"):
            self.model.take(self.asked).send(self)
        else:
            self.json(404, _error("not_found_error", "There is nothing here."))

    def json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        packed = json.dumps(value).encode()
        self._begin(status, {"content-type": "application/json", **(headers or {})})
        self.send_header("content-length", str(len(packed)))
        self.end_headers()
        self._write(packed)

    def stream(self, events: list[dict[str, Any]], *, whole: bool = True) -> None:
        """Send events; not `whole`, the end of the body is never told."""
        self._begin(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        self.end_headers()
        for event in events:
            packed = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            self._write(b"%x\r\n%s\r\n" % (len(packed), packed))
        if whole:
            self._write(b"0\r\n\r\n")

    def wait(self) -> None:
        """Hang until the server is told to let go, or the client has gone."""
        for _ in range(PATIENCE * 100):
            if self.model.released.wait(0.01):
                return
            if select.select([self.connection], [], [], 0)[0]:
                self.asked.left.set()
                return

    def log_message(self, *_args: Any) -> None:
        """Keep quiet."""

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "connection": "close"}.items():
            self.send_header(name, value)

    def _write(self, packed: bytes) -> None:
        with suppress(ConnectionError):  # the client may have gone, which is its right
            self.wfile.write(packed)
            self.wfile.flush()


def tokens_of(body: dict[str, Any]) -> int:
    """The cost of a request here: a token for every four characters of its texts, rounded up."""
    return sum(map(len, texts_of(body))) // 4 + 1


def texts_of(body: dict[str, Any]) -> list[str]:
    contents = [body.get("system", ""), *(message["content"] for message in body["messages"])]
    found: list[str] = []
    for content in contents:
        parts = [content] if isinstance(content, str) else [it.get("text", "") for it in content]
        found += [part for part in parts if part]
    return found


def _odd(body: dict[str, Any]) -> list[str]:
    odd = [] if body["messages"] else ["messages: at least one is needed"]
    if body.get("max_tokens", 1) < 1:
        odd.append("max_tokens: must be at least 1")
    return odd


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _at_first(kind: str, **parts: Any) -> dict[str, Any]:
    return {"type": kind, "index": 0, **parts}


def _text_delta(text: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": text}
