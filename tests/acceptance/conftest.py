"""The command line on a database of the test's own, and models for what asks one."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli_process import CommandLine, preloaded
from support.empty_files import empty_file
from support.fake_models import ModelsServer


@pytest.fixture(scope="session")
def preloaded_process() -> Iterator["subprocess.Popen[str]"]:
    """What the commands are forked from."""
    with preloaded() as process:
        yield process


@pytest.fixture(scope="session")
def command_line(
    preloaded_process: "subprocess.Popen[str]", tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., CommandLine]:
    """Makes a command line in a folder of its own: `command_line(url)`."""

    def make(url: str | None = None, folder: Path | None = None) -> CommandLine:
        place = folder or tmp_path_factory.mktemp("commands")
        return CommandLine(preloaded_process, place, url)

    return make


@pytest.fixture(params=["file", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The URL of a database that holds an empty store, on each engine that a process can share."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return empty_file(tmp_path / "store.db")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelsServer]:
    """A model behind a socket, which the clients of the SDKs find in the environment."""
    with ModelsServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server
