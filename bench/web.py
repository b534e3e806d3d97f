"""The web server, in a process of its own: pages, appends, and readers of events."""

import asyncio
import http.client
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.chromium import found_chromium, started_chromium
from bench.data import age, content, grow, role
from bench.report import Line, NotRun
from bench.sites import LENGTH_BUDGET, SqliteSite
from bench.sizes import Sizes
from bench.timing import Samples, Step, alternate
from roocontext import Session, Store

_TOKEN = "bench-" + "t" * 40
_HEADERS = {"Authorization": f"Bearer {_TOKEN}"}
_SLOWER = 4
"""A page is also painted on a processor that is so many times slower, like a telephone's."""


def serving(site: SqliteSite, sizes: Sizes) -> Iterator[Line | NotRun]:
    """What a page, an append and a thousand readers cost."""
    store = site.store("web")
    long = age(
        store.create("long"),
        messages=sizes.long,
        condensations=sizes.condensations,
        visible=20,
    )
    # Condensed like the long one, so that their pages show the same sorts of rows.
    age(store.create("few"), messages=sizes.few, condensations=4, visible=5)
    grow(store.create("one"), 1)
    site.settle("web")
    with _served(site.path("web")) as address:
        yield _first_byte(address, sizes)
        yield from _painted(address, sizes)
        yield _appended(address, store, sizes)
        yield _read(address, long, sizes)


@contextmanager
def _served(database: Path) -> Iterator[str]:
    """The host and port of a server over this database."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection for each reader
    command = [sys.executable, "-m", "roocontext", "--db", str(database), "serve"]
    env = {**os.environ, "ROOCONTEXT_TOKEN": _TOKEN}
    with (
        tempfile.TemporaryDirectory(prefix="roocontext-bench-") as folder,
        subprocess.Popen(
            [*command, "--allow-write", "--port", "0"],
            env=env | {"XDG_STATE_HOME": folder},
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            words = process.stdout.readline().split()
            yield urlsplit(words[1]).netloc
        finally:
            process.terminate()


class _Client:
    """A connection that is kept, as an agent has."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address)
        self._connection.connect()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def first_byte(self, path: str) -> None:
        """Ask for a page, and wait until it begins to come."""
        self._connection.request("GET", path, headers=_HEADERS)
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200

    def rest(self) -> None:
        """Read the rest of the page."""
        self._answer.read()

    def append(self, path: str, number: int) -> None:
        """Append a message."""
        document = json.dumps({"role": role(number), "content": content(number)})
        headers = _HEADERS | {"Content-Type": "application/json"}
        self._connection.request("POST", path, document, headers)
        with self._connection.getresponse() as response:
            assert response.status == 201
            response.read()


def _first_byte(address: str, sizes: Sizes) -> Line:
    with closing(_Client(address)) as client:
        times = alternate(
            [
                Step("few", lambda _: client.first_byte("/s/few?tab=all")),
                Step(None, lambda _: client.rest()),
                Step("long", lambda _: client.first_byte("/s/long?tab=all")),
                Step(None, lambda _: client.rest()),
            ],
            rounds=sizes.reads,
        )
    return Line(
        "web.page",
        f"first byte of a page of {sizes.long:,} entries",
        f"of {sizes.few} entries",
        times["long"],
        times["few"],
        LENGTH_BUDGET,
    )


def _painted(address: str, sizes: Sizes) -> Iterator[Line | NotRun]:
    whats = {
        "web.paint": (1, f"first paint of a page of {sizes.long:,} entries, in Chromium"),
        "web.paint.slow": (_SLOWER, f"the same, on a processor {_SLOWER} times slower"),
    }
    program = found_chromium()
    if program is None:
        why = "no Chromium was found: install it, or name it in CHROMIUM"
        yield from (NotRun(key, what, why) for key, (_, what) in whats.items())
        return
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        started_chromium(program, Path(folder)) as browser,
    ):
        browser.let_in(_HEADERS)
        for key, (slower, what) in whats.items():
            painted: dict[str, list[float]] = {"one": [], "long": []}
            for turn in range(sizes.commits + 1):
                for name, values in painted.items():
                    taken = browser.paint(f"http://{address}/s/{name}?tab=all", slower=slower)
                    if turn:
                        values.append(taken)
            times = {name: Samples(values) for name, values in painted.items()}
            yield Line(key, what, "of one entry", times["long"], times["one"], 1.5)


def _appended(address: str, store: Store, sizes: Sizes) -> Line:
    chats = [store.create(name) for name in ("over http", "in process")]
    path = f"/api/v1/sessions/{chats[0].id.replace(' ', '%20')}/entries"
    with closing(_Client(address)) as client:
        times = alternate(
            [
                Step("ours", lambda n: chats[1].append(role(n), content(n))),
                Step("http", lambda n: client.append(path, n)),
            ],
            rounds=sizes.reads,
            batch=5,
        )
    return Line(
        "web.append",
        "append of 1 KiB through HTTP, FULL",
        "append in process",
        times["http"],
        times["ours"],
        None,
        note=f"{1 / times['http'].p50:,.0f} a second on one connection",
    )


def _read(address: str, chat: Session, sizes: Sizes) -> Line:
    """How long an append takes to the last of all readers."""
    times = {
        count: asyncio.run(_to_all(address, chat, count, sizes.heavy))
        for count in (1, sizes.readers)
    }
    return Line(
        "web.readers",
        f"append to the last of {sizes.readers:,} readers of events",
        "to the only reader",
        times[sizes.readers],
        times[1],
        None,
        note="each of them has each entry once",
    )


async def _to_all(address: str, chat: Session, count: int, appends: int) -> Samples:
    """From an append to the moment in which the last of so many readers has it."""
    host, _, port = address.partition(":")
    start = chat.info().last_seq
    path = f"/api/v1/sessions/{chat.id}/events?after={start}"
    request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
    readers = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request.encode())
        await reader.readuntil(b"retry: 1000\n")
        readers.append((reader, writer))
    taken = []
    for number in range(appends + 1):
        begun = time.perf_counter()
        seq = (await asyncio.to_thread(chat.append, role(number), content(number))).seq
        got = await asyncio.gather(*(_next_seq(reader) for reader, _ in readers))
        if {*got} != {seq}:
            msg = f"readers have {sorted({*got})} instead of {seq}"
            raise RuntimeError(msg)
        if number:
            taken.append(time.perf_counter() - begun)
    for _, writer in readers:
        writer.close()
        await writer.wait_closed()
    return Samples(taken)


async def _next_seq(reader: asyncio.StreamReader) -> int:
    """The seq of the next event."""
    while True:
        line = await asyncio.wait_for(reader.readline(), 120)
        if line.startswith(b"id: "):
            return int(line[4:])
