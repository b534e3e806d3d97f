"""`roocontext open`: the browser shows a session, by a server that runs or by a new one."""

import os
import signal
import stat
import subprocess
import sys
import time
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from roocontext import Store

SCRIPT = Path(sys.executable).with_name("roocontext")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A database with a session, and a browser that only notes which link it was given."""
    with Store.open(tmp_path / "agent.db") as store:
        store.create("a/b", title="shown").append("user", "hello")
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > "{tmp_path}/new" && mv "{tmp_path}/new" "{tmp_path}/link"\n'
    )
    browser.chmod(stat.S_IRWXU)
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.Popen[str]:
    env = {**os.environ, "XDG_STATE_HOME": str(folder), "BROWSER": f"{folder}/browser %s"}
    env["http_proxy"] = "http://127.0.0.1:9"  # which must not be sent the token
    command = [str(SCRIPT), *words, "--db", "agent.db"]
    return subprocess.Popen(command, env=env, cwd=folder, stdout=subprocess.PIPE, text=True)


def link_of(folder: Path) -> str:
    deadline = time.monotonic() + 60
    while not (folder / "link").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return (folder / "link").read_text().strip()


def page_at(link: str) -> str:
    with build_opener(HTTPCookieProcessor(CookieJar())).open(link, timeout=30) as answer:
        return answer.read().decode()


def test_session_is_opened_by_a_new_server(folder):
    with run(folder, "open", "a/b") as process:
        try:
            assert "hello" in page_at(link_of(folder))
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0


def test_session_is_opened_by_the_server_that_runs(folder):
    with run(folder, "serve", "--port", "0") as server:
        try:
            assert server.stdout
            address = server.stdout.readline().split()[1].partition("/?")[0]
            with run(folder, "open") as process:
                assert process.wait(60) == 0
            assert link_of(folder).startswith(f"{address}/s/a%2Fb?token=")
            assert "hello" in page_at(link_of(folder))
        finally:
            server.send_signal(signal.SIGINT)
