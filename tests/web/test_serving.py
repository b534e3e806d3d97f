"""`roocontext serve` as a process: where it listens, its token file, its end."""

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from roocontext.cli.exit_codes import Code
from roocontext.web.serving import listen
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


def refusal(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [str(SCRIPT), "serve", "--db", empty_file(folder / "store.db"), *words],
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


class TestTokenFile:
    def test_each_start_has_another_one_that_its_owner_alone_reads_until_the_end(
        self, tmp_path: Path
    ) -> None:
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

    def test_given_token_is_used(self, tmp_path: Path) -> None:
        with started(
            tmp_path, "--port", "0", env={"ROOCONTEXT_TOKEN": "given-" + "x" * 40}
        ) as lines:
            assert "token=given-" in lines[0]


class TestAddress:
    @pytest.mark.parametrize("host", ["0.0.0.0", "::"])
    def test_public_one_without_a_token_is_refused(self, tmp_path: Path, host: str) -> None:
        code, line = refusal(tmp_path, "--host", host, "--port", "0")
        assert code == Code.USAGE
        assert "needs a token: set ROOCONTEXT_TOKEN" in line

    def test_answers_do_not_wait_for_acknowledgements(self) -> None:
        listener, _ = listen("127.0.0.1", 0)
        with listener, socket.create_connection(listener.getsockname()):
            connection, _ = listener.accept()
            with connection:
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    def test_short_token_is_refused(self, tmp_path: Path) -> None:
        code, line = refusal(tmp_path, "--port", "0", env={"ROOCONTEXT_TOKEN": "short"})
        assert (code, "at least 32 characters" in line) == (Code.USAGE, True)

    def test_port_in_use_is_refused(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, line = refusal(tmp_path, "--port", str(port))
        assert code == Code.USAGE
        assert f"port {port}: Address already in use" in line

    def test_name_that_does_not_exist_is_refused(self, tmp_path: Path) -> None:
        assert refusal(tmp_path, "--host", "no.such.invalid")[0] == Code.USAGE


class TestSocketFile:
    def ask(self, path: Path, host: str = "localhost") -> int:
        with closing(http.client.HTTPConnection("localhost")) as connection:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(str(path))
            connection.request("GET", "/api/v1/nothing", headers={"host": host})
            with connection.getresponse() as answer:
                return answer.status

    def test_its_owner_needs_no_token(self, tmp_path: Path) -> None:
        path = tmp_path / "s"
        with started(tmp_path, "--uds", str(path)) as lines:
            assert lines == [f"Listening on {path}\n"]
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert self.ask(path) == 404
            assert self.ask(path, "evil.test") == 421
            code, line = refusal(tmp_path, "--uds", str(path))
            assert (code, "A server already listens on" in line) == (Code.USAGE, True)
        assert not path.exists()

    def test_one_that_a_crashed_server_left_is_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "s"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        with started(tmp_path, "--uds", str(path)):
            assert self.ask(path) == 404

    def test_another_file_is_not_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("mine")
        assert refusal(tmp_path, "--uds", str(path))[0] == Code.USAGE
        assert path.read_text() == "mine"
