"""`roocontext serve` as a process: where it listens, its token file, its end."""

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from roocontext.cli.exit_codes import Code
from roocontext.errors import InvalidOption
from roocontext.web.serving import announcements, listen
from support.cli_process import CommandLine, preloaded
from support.empty_files import empty_file
from support.web_server import WebClient

SCRIPT = Path(sys.executable).with_name("roocontext")


@contextmanager
def started(
    folder: Path, *words: str, env: Mapping[str, str] | None = None, end: int = signal.SIGINT
) -> Iterator[list[str]]:
    """Run the command, and yield the lines that it prints; it has to end well."""
    command = [str(SCRIPT), "serve", "--db", empty_file(folder / "store.db"), *words]
    own = {**os.environ, "XDG_STATE_HOME": str(folder), **(env or {})}
    with subprocess.Popen(
        command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        try:
            first = process.stdout.readline()
            assert first, process.stderr.read()
            yield [first] + ([] if "--uds" in words else [process.stdout.readline()])
        finally:
            process.send_signal(end)
            errors = process.stderr.read()
        assert (process.wait(60), errors) == (0, "")


@pytest.fixture(scope="module")
def forking() -> Iterator["subprocess.Popen[str]"]:
    with preloaded() as process:
        yield process


@pytest.fixture
def refusal(forking: "subprocess.Popen[str]", tmp_path: Path) -> Callable[..., str]:
    """The line in which a command is refused."""

    def line(*words: str, **env: str) -> str:
        run = CommandLine(forking, tmp_path, empty_file(tmp_path / "store.db"))
        done = run("serve", *words, env=env)
        assert (done.code, done.out, done.err.count("\n")) == (Code.USAGE, "", 1)
        return done.err

    return line


class TestTokenFile:
    def test_each_start_has_another_one_that_its_owner_alone_reads_until_the_end(self, tmp_path):
        tokens = set()
        for end in (signal.SIGINT, signal.SIGTERM):
            with started(tmp_path, "--port", "0", end=end) as lines:
                (file,) = (tmp_path / "roocontext").glob("*.json")
                assert lines[1] == f"The token for agents is in {file}\n"
                assert stat.S_IMODE(file.stat().st_mode) == 0o600
                about = json.loads(file.read_text())
                assert lines[0] == f"Open {about['url']}/?token={about['token']}\n"
                assert about["database"] == str(tmp_path / "store.db")
                port = int(about["url"].rpartition(":")[2])
                assert WebClient(port, about["token"]).get("/api/v1/nothing").status == 404
                assert WebClient(port, None).get("/api/v1/nothing").status == 401
                tokens.add(about["token"])
            assert [*(tmp_path / "roocontext").iterdir()] == []
        assert len(tokens) == 2

    def test_given_token_is_used(self, tmp_path):
        with started(
            tmp_path, "--port", "0", env={"ROOCONTEXT_TOKEN": "given-" + "x" * 40}
        ) as lines:
            assert "token=given-" in lines[0]

    def test_user_without_a_home_has_to_name_another_folder(self, monkeypatch):
        def home() -> Path:
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", home)
        with pytest.raises(InvalidOption, match="set XDG_STATE_HOME"):
            announcements()


class TestAddress:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::"])
    def test_public_one_without_a_token_is_refused(self, refusal, host):
        assert "needs a token: set ROOCONTEXT_TOKEN" in refusal("--host", host, "--port", "0")

    def test_answers_do_not_wait_for_acknowledgements(self):
        listener, _ = listen("127.0.0.1", 0)
        with listener, socket.create_connection(listener.getsockname()):
            connection, _ = listener.accept()
            with connection:
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    def test_short_token_is_refused(self, refusal):
        assert "at least 32 characters" in refusal("--port", "0", ROOCONTEXT_TOKEN="short")

    def test_port_in_use_is_refused(self, refusal):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            assert f"port {port}: Address already in use" in refusal("--port", str(port))

    @pytest.mark.parametrize("name", ["no.such.invalid", "no..name"])
    def test_name_that_does_not_exist_is_refused(self, refusal, name):
        assert f"Cannot listen on {name} port" in refusal("--host", name)


class TestSocketFile:
    def ask(self, path: Path, host: str = "localhost") -> int:
        with closing(http.client.HTTPConnection("localhost")) as connection:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(path))
            connection.request("GET", "/api/v1/nothing", headers={"host": host})
            with connection.getresponse() as answer:
                return answer.status

    def test_its_owner_needs_no_token(self, tmp_path, refusal):
        path = tmp_path / "s"
        with started(tmp_path, "--uds", str(path)) as lines:
            assert lines == [f"Listening on {path}\n"]
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert (self.ask(path), self.ask(path, "evil.test")) == (404, 421)
            assert "A server already listens on" in refusal("--uds", str(path))
        assert not path.exists()

    def test_one_that_a_crashed_server_left_is_replaced(self, tmp_path):
        path = tmp_path / "s"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        with started(tmp_path, "--uds", str(path)):
            assert self.ask(path) == 404

    def test_another_file_is_not_replaced(self, tmp_path, refusal):
        path = tmp_path / "notes.txt"
        path.write_text("mine")
        assert str(path) in refusal("--uds", str(path))
        assert path.read_text() == "mine"
