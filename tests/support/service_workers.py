"""The service of the examples as its users see it: workers that come and go, and a model."""

import http.client
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from support.fake_provider import Exchange, ModelServer
from support.server_role import Role

APP = Path(__file__).parents[2] / "examples" / "service"
LEASE = 3
PATIENCE = 150
GONE = (OSError, http.client.HTTPException, ValueError)
"""A worker that was killed or is being restarted, and a stream that ended in the middle."""


class Orders:
    """A model that looks up an order for each question, and then says what it found."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def send(self, exchange: Exchange) -> None:
        number = next(self._numbers)
        last = exchange.asked.body["messages"][-1]["content"]
        found = isinstance(last, list) and last[-1]["type"] == "tool_result"
        block: Any
        if found:
            block, stop = {"type": "text", "text": ""}, "end_turn"
            parts = [f"{number}: ", *("it is on its way, " for _ in range(4)), "soon."]
            deltas = [{"type": "text_delta", "text": part} for part in parts]
        else:
            name = f"toolu_{number}"
            block, stop = (
                {"type": "tool_use", "id": name, "name": "look_up", "input": {}},
                "tool_use",
            )
            deltas = [{"type": "input_json_delta", "partial_json": '{"order": "7"}'}]
        usage = {"input_tokens": 9, "output_tokens": 1}
        message = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": exchange.asked.body["model"],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        events = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": stop, "stop_sequence": None},
                "usage": {"output_tokens": 8},
            },
            {"type": "message_stop"},
        ]
        exchange.stream(_slowly(events))  # type: ignore[arg-type] - any iterable does


def _slowly(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for event in events:
        time.sleep(0.02)
        yield event


@dataclass
class Worker:
    """One process of the service, on a port of its own."""

    port: int
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    def start(self, **more: str) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "uvicorn", "--app-dir", str(APP), "app:app"),
                *("--host", "127.0.0.1", "--port", str(self.port), "--log-level", "warning"),
                *("--timeout-graceful-shutdown", "3"),  # a live tail never ends by itself
            ],
            cwd=APP,  # not the root of the package, which would come before PYTHONPATH
            env={**self.environment, **more},
        )
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            assert self.process.poll() is None, "the worker ended"
            with suppress(*GONE):
                if Client([self], "nobody").ask("GET", "/health").status == 204:
                    return
            time.sleep(0.05)
        raise AssertionError("the worker did not answer")

    def kill(self) -> None:
        """Kill it as a lack of memory would."""
        self.end(signal.SIGKILL)

    def end(self, how: int = signal.SIGTERM) -> None:
        """End it, and wait until it has gone."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(60)
            self.process = None


@dataclass
class Answer:
    """The answer to a request that is no stream."""

    status: int
    json: Any


@dataclass
class Client:
    """A user's program: it asks any worker, and again if that one has gone."""

    workers: list[Worker]
    user: str
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def ask(self, method: str, path: str, document: Any = None) -> Answer:
        with closing(self._sent(method, path, document)) as connection:
            answer = connection.getresponse()
            body = answer.read()
            is_json = "json" in answer.headers.get("content-type", "")
            return Answer(answer.status, json.loads(body) if is_json else None)

    def answered(self, method: str, path: str, document: Any = None) -> Answer:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with suppress(*GONE):
                answer = self.ask(method, path, document)
                if answer.status < 500:
                    return answer
            time.sleep(0.3)
        raise AssertionError(f"no worker answered {method} {path}")

    def surely(self, method: str, path: str, document: Any = None) -> Any:
        return self.answered(method, path, document).json

    def stream(self, method: str, path: str, document: Any = None) -> Iterator[dict[str, Any]]:
        """The events of a stream, as they come. Closing it closes the connection."""
        with closing(self._sent(method, path, document)) as connection:
            answer = connection.getresponse()
            assert answer.status < 500 or answer.status == 503, answer.status
            while line := answer.readline():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    def _sent(self, method: str, path: str, document: Any) -> http.client.HTTPConnection:
        port = self.rng.choice(self.workers).port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = None if document is None else json.dumps(document)
        try:
            connection.request(method, path, body, {"x-user": self.user})
        except BaseException:
            connection.close()
            raise
        return connection

    def talk(self, chat: str, key: str, text: str, *, leaves: bool = False) -> None:
        """Say something, and ask until the reply is complete: with the same key, so once."""
        until = time.monotonic() + PATIENCE
        said = {"key": key, "text": text}
        while time.monotonic() < until:
            with (
                suppress(*GONE),
                closing(self.stream("POST", f"/chats/{chat}/messages", said)) as it,
            ):
                for event in it:
                    if "done" in event:
                        return
                    if leaves and "text" in event:
                        leaves = False
                        break
            time.sleep(0.3 + self.rng.random())
        raise AssertionError(f"{key} was never answered")


@dataclass
class Service:
    """The running service."""

    workers: list[Worker]
    url: str
    """The database, without the pooler, as its owner."""
    role: Role
    """The role of the workers."""
    tool_log: Path
    model: ModelServer

    def client(self, user: str, seed: int = 7) -> Client:
        return Client(self.workers, user, random.Random(seed))

    @property
    def ran(self) -> list[str]:
        """The calls that the tool has run for, in order."""
        return self.tool_log.read_text().split() if self.tool_log.exists() else []
