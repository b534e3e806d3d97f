"""One winner: if two writers expect the same version, one succeeds and the other gets an error."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

from roocontext.testing.processes import PATIENCE
from roocontext.testing.protocol import (
    Append,
    Capability,
    Lost,
    SessionStore,
    Version,
    json_texts,
    says,
)
from roocontext.testing.trial import Promise, Trial

PROMISE = Promise("one winner")
ROUNDS = 25
HEAD_START = 0.003
"""Seconds between the request and the moment when all writers write."""


@PROMISE.check()
def stale_writers_are_refused(trial: Trial) -> None:
    """A writer that read the session before another one wrote gets an error."""
    session = trial.new_session()
    first, second = trial.open(session), trial.open(session)
    first.append(Append(says("the beginning")))
    seen = [writer.view().version for writer in (first, second)]
    first.append(Append(says("the first writer's"), expected=seen[0]))
    before = json_texts(trial.open(session).view().messages)
    try:
        second.append(Append(says("the second writer's"), expected=seen[1]))
    except Exception:  # noqa: BLE001 - any error is a refusal
        if json_texts(trial.open(session).view().messages) != before:
            raise Lost("the second writer got an error, and changed the session") from None
        return
    after = trial.open(session).view().messages
    missing = [text for text in before if text not in json_texts(after)]
    also = ", and the first writer's message left the view" if missing else ""
    raise Lost(f"the second writer got no error{also}")


@PROMISE.check()
def one_winner_in_threads(trial: Trial) -> None:
    """Of two threads that append on the same version, exactly one succeeds."""
    session, version = _begin(trial)
    together, rounds = Barrier(2), [[version]]

    def write(name: int, store: SessionStore) -> None:
        while _continues(rounds):
            known, last = rounds[-1][0], len(rounds)
            store.view()  # a writer reads the version that it expects
            if together.wait(PATIENCE) == 0:
                rounds.append([])
            together.wait(PATIENCE)
            with suppress(Exception):  # any error is a refusal
                new = Append(says(f"{name} in round {last}"), expected=known)
                rounds[-1].append(store.append(new).version)
            together.wait(PATIENCE)

    def writes(name: int) -> None:
        try:
            # In the thread where the driver's event loop or connection is.
            with trial.opened(session) as store:
                write(name, store)
        except BaseException:
            together.abort()
            raise

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(writes, (1, 2)))
    _judge(rounds, trial, session)


@PROMISE.check(Capability.DURABLE)
def one_winner_in_processes(trial: Trial) -> None:
    """Of two processes that append on the same version, exactly one succeeds."""
    session, version = _begin(trial)
    writers = [trial.writer("race", session) for _ in range(2)]
    rounds = [[version]]
    try:
        while _continues(rounds):
            for name, writer in enumerate(writers):
                writer.ask(text=f"{name} in round {len(rounds)}", expected=rounds[-1][0])
            at = time.time() + HEAD_START
            for writer in writers:
                writer.send(at=at)
            answers = [writer.receive() or {} for writer in writers]
            rounds.append([answer["version"] for answer in answers if "version" in answer])
    finally:
        for writer in writers:
            writer.close()
    _judge(rounds, trial, session)


def _begin(trial: Trial) -> tuple[str, Version]:
    """Create a session with a message, and return its version."""
    session = trial.new_session()
    return session, trial.open(session).append(Append(says("the beginning"))).version


def _continues(rounds: list[list[Version]]) -> bool:
    """Check that each round so far had one winner. The next round begins with its version."""
    return len(rounds) <= ROUNDS and len(rounds[-1]) == 1


def _judge(rounds: list[list[Version]], trial: Trial, session: str) -> None:
    if len(rounds[-1]) != 1:
        raise Lost(f"{'both writers' if rounds[-1] else 'neither writer'} succeeded")
    count = len(trial.open(session).view().messages)
    if count != len(rounds):
        raise Lost(f"{len(rounds)} messages were accepted, and {count} are there")
