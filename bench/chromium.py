"""A headless Chromium, driven over a pipe by its DevTools protocol: how soon a page is painted."""

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    *("--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
_PATIENCE_S = 30


def found_chromium() -> str | None:
    """The browser that CHROMIUM names, or one on the PATH."""
    names = filter(None, (os.environ.get("CHROMIUM"), *_NAMES))
    return next(filter(None, map(shutil.which, names)), None)


class Chromium:
    """A browser with one page."""

    def __init__(self, asked: int, answers: int) -> None:
        self._asked, self._answers = asked, answers
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]

    def call(self, method: str, **params: Any) -> Any:
        """Call a method of the protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._asked, json.dumps(message).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            pass
        if "error" in answer:
            msg = f"{method}: {answer['error']}"
            raise RuntimeError(msg)
        return answer["result"]

    def let_in(self, headers: Mapping[str, str]) -> None:
        """Send these headers with every request."""
        self.call("Network.enable")
        self.call("Network.setExtraHTTPHeaders", headers=headers)

    def paint(self, url: str, *, slower: int = 1) -> float:
        """Open a page, on a processor that is so many times slower: seconds to the first paint."""
        self.call("Emulation.setCPUThrottlingRate", rate=slower)
        failed = self.call("Page.navigate", url=url).get("errorText")
        end = time.monotonic() + _PATIENCE_S
        while not failed and time.monotonic() < end:
            shown = self.call("Runtime.evaluate", expression=_PAINTED)["result"].get("value")
            if shown is not None:
                return shown / 1_000
            time.sleep(0.02)
        msg = f"{url} was not painted: {failed or f'{_PATIENCE_S} seconds'}"
        raise RuntimeError(msg)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = os.read(self._answers, 1 << 16)
            if not piece:
                msg = "Chromium ended."
                raise RuntimeError(msg)
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)


@contextmanager
def started_chromium(program: str, folder: Path) -> Iterator[Chromium]:
    """A browser with a profile of its own in this folder."""
    # It reads the protocol from descriptor 3 and writes to 4.
    pipes = [*os.pipe(), *os.pipe()]
    read, asked, answers, written = (fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in pipes)
    for one in pipes:
        os.close(one)
    actions = [
        (os.POSIX_SPAWN_DUP2, read, 3),
        (os.POSIX_SPAWN_DUP2, written, 4),
        *((os.POSIX_SPAWN_OPEN, silent, os.devnull, os.O_WRONLY, 0) for silent in (1, 2)),
    ]
    sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
    command = [program, *_FLAGS, *sandbox, f"--user-data-dir={folder}"]
    process = os.posix_spawn(program, command, os.environ, file_actions=actions)
    os.close(read)
    os.close(written)
    try:
        yield Chromium(asked, answers)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(asked)
        os.close(answers)
