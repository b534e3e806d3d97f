"""Killed at any moment: what was acknowledged is there, and nothing is there by half.

Children of the nursery are killed by SIGKILL at random moments of whatever they do. What they had
told before, in one write each, is the only thing that they may be held to.
"""

import random
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from roocontext import Store
from roocontext.formats.jsonl import restore_file
from support.examples import TORTURE, everyday, examples
from torture.processes import Brood, Nursery
from torture.wire import wait_until_left

KILLS = 20 if TORTURE else 2
STEPS = 40 if TORTURE else 20
LONGEST = 0.045
SIGKILLED = -9


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store in a file or on a server."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "store.db")


@pytest.mark.parametrize("seed", everyday(range(1), range(20)))
def test_killed_process_loses_nothing_acknowledged(nursery, url, seed):
    chance, acknowledged = random.Random(seed), _Acknowledged()
    with Store.open(url) as store:
        store.create("root").append_many([{"role": "user", "content": "x" * 60}] * 10)
    job, options = "wreck", {"url": url, "seed": seed * 1_000}
    begin = time.perf_counter()
    brood = nursery.run((job, {**options, "steps": STEPS}))
    took = time.perf_counter() - begin
    assert brood.ends == [0]
    acknowledged.hear(brood)
    assert {"append", "batch", "condense", "rewind"} <= acknowledged.operations
    for number in range(1, KILLS + 1):
        options["seed"] = seed * 1_000 + number
        brood = nursery.run((job, options), kill_after=chance.uniform(0, min(took, LONGEST)))
        assert brood.ends == [SIGKILLED]
        acknowledged.hear(brood)
        if "://" in url:
            wait_until_left(url)
        acknowledged.check(url)
        _check_whole(url)
        _check_usable(url)


@pytest.mark.parametrize("seed", range(examples(1)))
def test_killed_migration_is_repeated(nursery, tmp_path, seed):
    chance, stages = random.Random(seed), []
    took = _how_long_a_birth_takes(nursery, tmp_path / "measured.db")
    for number in range(KILLS):
        path, acknowledged = tmp_path / f"{number}.db", _Acknowledged()
        job = ("open_new", {"url": str(path), "name": "child"})
        # From a thousandth of that time up, evenly by orders of magnitude: some of the kills come
        # while the store is made, however busy the machine was when it was measured.
        brood = nursery.run(job, kill_after=took * 10 ** chance.uniform(-3, 0.1))
        assert brood.ends == [SIGKILLED]
        acknowledged.hear(brood)
        stages.append(len(brood.told))
        with Store.open(str(path)) as store:
            made = [info.session_id for info in store.sessions()]
            assert made == ["child"] or (made == [] and len(brood.told) < 2)
        acknowledged.check(str(path))
        _check_whole(str(path))
        _check_usable(str(path))
        assert path.stat().st_mode & 0o777 == 0o600
    assert 0 in stages, "no child was killed before its store was open"


@pytest.mark.parametrize("seed", range(examples(1)))
def test_killed_archive_is_repeated(nursery, tmp_path, seed):
    path, folder, chance = tmp_path / "store.db", tmp_path / "archive", random.Random(seed)
    with Store.open(path) as store:
        for number in range(12):
            store.create(f"s{number}").append_many([{"role": "user", "content": "x" * 60}] * 20)
        heads = {
            info.session_id: store.session(info.session_id).head() for info in store.sessions()
        }
    job = ("archive_each", {"url": str(path), "folder": str(folder)})
    kept: set[str] = set()
    longest = 0.5
    while len(kept) < len(heads):
        brood = nursery.run(job, kill_after=chance.uniform(0, longest))
        assert brood.ends[0] in (0, SIGKILLED)
        assert all(facts["left"] == 0 for facts in brood.told)
        with Store.open(path) as store:
            gone = {info.session_id for info in store.sessions() if info.archived_at is not None}
            assert gone >= kept.union(facts["session"] for facts in brood.told)
            longest *= 1 + (gone == kept)  # on a slow machine a child needs more time to begin
            kept = gone
            for name in heads.keys() - gone:
                assert store.session(name).verify(heads[name]).ok
    with Store.open(path) as store:
        for file in sorted(folder.glob("session-*")):
            (done,) = restore_file(store, file)
            assert (done.problem, done.entries) == (None, 20)
        assert {name: store.session(name).head() for name in heads} == heads


class _Acknowledged:
    """All that children were told to be durable."""

    def __init__(self) -> None:
        self.operations: set[str] = set()
        self._entries: dict[tuple[str, int], str] = {}
        self._redacted: set[tuple[str, int]] = set()

    def hear(self, brood: Brood) -> None:
        for facts in brood.told:
            self.operations.add(facts["op"])
            if "redacted" in facts:
                self._redacted.add((facts["session"], facts["redacted"]))
            elif "hash" in facts:
                self._entries[facts["session"], facts["seq"]] = facts["hash"]

    def check(self, url: str) -> None:
        rows = _rows(url, "SELECT session_id, seq, hash, salt FROM entries")
        found = {(session, seq): digest.hex() for session, seq, digest, _ in rows}
        assert self._entries.items() <= found.items()
        assert self._redacted <= {(session, seq) for session, seq, _, salt in rows if salt is None}


def _check_whole(url: str) -> None:
    """Every session proves itself, and what belongs together is there wholly or not at all."""
    with Store.open(url) as store:
        sessions = {info.session_id: info for info in store.sessions()}
        for session in sessions:
            found = store.session(session).verify()
            assert found.ok, (session, found.problem)
    rows = _rows(
        url,
        "SELECT session_id, seq, kind, client_id, compaction_id, note, target, salt FROM entries"
        " ORDER BY session_id, seq",
    )
    assert {session for session, *_ in rows} <= set(sessions)
    batches, compactions = defaultdict(set), defaultdict(list)
    bare, erased, origins = set(), set(), set()
    for session, seq, kind, client_id, compaction_id, note, target, salt in rows:
        if client_id:
            batch, index, size = client_id.split("/")
            batches[session, batch, int(size)].add(int(index))
        if compaction_id:
            compactions[session, compaction_id].append(kind)
        if kind in ("message", "summary", "companion") and salt is None:
            bare.add((session, seq))
        if note == "redaction":
            erased.add((session, target))
        if note == "origin":
            origins.add(session)
    # A fork may begin amid a batch or amid the rows of a plan: it copies entries, not operations.
    for (session, _, size), indexes in batches.items():
        assert indexes == set(range(size)) or session in origins
    for (session, _), kinds in compactions.items():
        assert kinds == ["summary", "companion"] or session in origins
    assert bare == erased
    assert origins == {session for session in sessions if session.startswith("f")}


def _check_usable(url: str) -> None:
    with Store.open(url) as store:
        made = store.sessions(limit=1)
        chat = store.session(made[0].session_id) if made else store.create("later")
        assert chat.append("user", "still here").new


def _rows(url: str, query: str) -> list[Any]:
    if "://" in url:
        with psycopg.connect(url) as server:
            return server.execute(query).fetchall()
    with closing(sqlite3.connect(url)) as file:
        return file.execute(query).fetchall()


def _how_long_a_birth_takes(nursery: Nursery, path: Path) -> float:
    begin = time.perf_counter()
    job = ("open_and_append", {"url": str(path), "session": "measured"})
    assert nursery.run(job).ends == [0]
    return time.perf_counter() - begin


APPENDS = 100 if TORTURE else 20
APPEND_UNDER_WATCH = f"""
import os, sys
from roocontext import Store
with Store.open(sys.argv[1]) as store:
    chat = store.create()
    for number in range({APPENDS}):
        os.write(1, b"begin\\n")
        chat.append("user", "x" * 100)
        os.write(1, b"receipt\\n")
"""


def test_receipt_comes_after_the_sync(tmp_path):
    """Watched from outside where that is possible, else asked of the connection."""
    path, trace = tmp_path / "store.db", tmp_path / "trace"
    with Store.open(path) as store, store._database.read() as tx:
        assert tx.command("PRAGMA synchronous") == (2,)
        assert tx.command("PRAGMA journal_mode") == ("wal",)
    watch = ["strace", "-f", "--seccomp-bpf", "-y", "-qq", "-o", str(trace)]
    watch += ["-e", "trace=write,fsync,fdatasync"]
    if not _works([*watch, "true"]):
        return
    command = [*watch, sys.executable, "-c", APPEND_UNDER_WATCH, str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    synced, verdicts = False, []
    for line in trace.read_text().splitlines():
        if '"begin\\n"' in line:
            synced = False
        elif "sync(" in line and "store.db-wal>" in line and line.endswith("= 0"):
            synced = True
        elif '"receipt\\n"' in line:
            verdicts.append(synced)
    assert verdicts == [True] * APPENDS


def _works(command: list[str]) -> bool:
    found = shutil.which(command[0])
    return found is not None and subprocess.run(command, check=False).returncode == 0
