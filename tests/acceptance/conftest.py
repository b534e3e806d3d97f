"""The command line on a database of the test's own, and models for what asks one."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import showcase
from support.cli_process import CommandLine, CommandLines, preloaded
from support.empty_files import empty_file
from support.examples import everyday
from support.fake_models import ModelsServer

ENGINES = ["file", "postgres"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a command on a file, and on every engine if the test is marked `every_leg`.

    What differs between the engines is the store's, whose own tests run on both. That each command
    works on PostgreSQL too is seen on the golden screens.
    """
    marks = metafunc.definition.iter_markers("parametrize")
    if "database" in metafunc.fixturenames and all("database" not in it.args[0] for it in marks):
        every = metafunc.definition.get_closest_marker("every_leg")
        engines = ENGINES if every else everyday(ENGINES[:1], ENGINES)
        metafunc.parametrize("database", engines, indirect=True)


@pytest.fixture(scope="session")
def preloaded_process() -> Iterator["subprocess.Popen[str]"]:
    """The process that the commands are forked from."""
    with preloaded() as process:
        yield process


@pytest.fixture(scope="session")
def command_line(
    preloaded_process: "subprocess.Popen[str]", tmp_path_factory: pytest.TempPathFactory
) -> CommandLines:
    """Makes a command line in a folder of its own: `command_line(url)`."""

    def make(url: str | None = None, folder: Path | None = None) -> CommandLine:
        place = folder or tmp_path_factory.mktemp("commands")
        return CommandLine(preloaded_process, place, url)

    return make


@pytest.fixture(scope="session")
def shown_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = str(tmp_path_factory.mktemp("showcase") / "store.db")
    showcase.build(url)
    return url


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The URL of a database that holds an empty store, on an engine that processes can share."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return empty_file(tmp_path / "store.db")


@pytest.fixture
def run(database: str, command_line: CommandLines) -> CommandLine:
    """Commands on that database, unless a file has commands of its own."""
    return command_line(database)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelsServer]:
    """A model behind a socket, which the clients of the SDKs find in the environment."""
    with ModelsServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server
