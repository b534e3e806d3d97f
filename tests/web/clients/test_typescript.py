"""The agent in TypeScript, compiled and run by Node against a model on loopback."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roocontext import Session, Store
from support.dialogue import fill, shown
from support.fake_provider import Answer, Exchange, ModelServer, Refused
from support.web_server import TOKEN, WebClient, serving

EXAMPLE = Path(__file__).parents[3] / "examples" / "typescript"
BIG = 2**60 + 1


@dataclass(frozen=True)
class Calls(Answer):
    """An answer that runs a command, with an integer that is too large for a float."""

    command: str = ""

    def message(self, exchange: Exchange) -> dict[str, Any]:
        message = super().message(exchange)
        use = {"type": "tool_use", "id": f"t{len(exchange.model.requests)}", "name": "run"}
        message["content"] += [use | {"input": {"command": self.command, "big": BIG}}]
        return message | {"stop_reason": "tool_use"}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typescript")
    for file in EXAMPLE.glob("*.*"):
        shutil.copy(file, folder)
    for command in (["npm", "install", "--no-audit", "--no-fund"], ["npm", "run", "build"]):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist" / "agent.js"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as store:
        yield store


@pytest.fixture
def server(store: Store) -> Iterator[WebClient]:
    with serving(store, allow_write=True) as client:
        yield client


Agent = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def agent(program: Path, server: WebClient, tmp_path: Path) -> Agent:
    """Runs the agent with a model that answers by script."""

    def run(
        *words: str, replies: Sequence[Any] = (), code: int = 0
    ) -> "subprocess.CompletedProcess[str]":
        with ModelServer(*replies) as model:
            own = {"ROOCONTEXT_URL": f"http://{server.host}", "ROOCONTEXT_TOKEN": TOKEN}
            done = subprocess.run(
                ["node", str(program), *words],
                env={**os.environ, **own, "ANTHROPIC_BASE_URL": model.url},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert done.returncode == code, done.stderr
            assert len(model.requests) == len(replies)
        return done

    return run


def contents(chat: Session) -> list[Any]:
    return [message.content for message in chat.view().messages]


def test_turn_with_a_tool_is_recorded_without_loss(agent, store):
    replies = [Calls("I look.", command="echo found"), Answer("It is there.")]
    assert agent("s 1/é", "Where", "is it?", replies=replies).stdout == "It is there.\n"
    chat = store.session("s 1/é")
    asked, called, output, answer = contents(chat)
    assert asked == "Where is it?"
    assert called[1]["input"] == {"command": "echo found", "big": BIG}
    assert output[0]["content"] == "found\n"
    assert answer == [{"type": "text", "text": "It is there."}]
    assert chat.waits_for() == "user"
    assert chat.verify().ok


def test_after_a_crash_in_a_tool_the_model_is_told_and_nothing_runs_twice(agent, store, tmp_path):
    crash = "echo ran >> runs; kill -9 $PPID; sleep 5"
    agent("s", "Go", replies=[Calls("I run.", command=crash)], code=-signal.SIGKILL)
    (pending,) = store.session("s").pending()
    assert pending.begun
    assert agent("s", replies=[Answer("I looked, and it ran.")]).stdout == "I looked, and it ran.\n"
    assert (tmp_path / "runs").read_text() == "ran\n"
    (block,) = contents(store.session("s"))[2]
    assert block["is_error"]
    assert "may have run" in block["content"]


def test_after_a_failed_call_of_the_model_the_turn_is_continued(agent, store):
    agent("s", "Go", replies=[Refused(500, "api_error")], code=1)
    assert store.session("s").waits_for() == "model"
    assert agent("s", replies=[Answer("Done.")]).stdout == "Done.\n"
    assert len(contents(store.session("s"))) == 2


def test_it_condenses_rewinds_and_undoes(agent, store):
    chat = store.create("s")
    fill(chat, 40)
    agent("s", "--rewind", "30")
    assert shown(chat) == [*range(1, 31)]
    agent("s", "--undo")
    assert len(shown(chat)) == 40
    agent("s", "--condense")
    assert len(shown(chat)) < 40
    done = agent("s", "Go on", replies=[Answer("From the summary.")])
    assert done.stdout == "From the summary.\n"
