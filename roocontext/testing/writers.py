"""One winner: of two writers on the same version, one succeeds and the other gets an error."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier

from roocontext.testing.processes import PATIENCE
from roocontext.testing.protocol import Append, Capability, Lost, Version, json_texts, says
from roocontext.testing.trial import Promise, Trial

PROMISE = Promise("one winner")
ROUNDS = 25
HEAD_START = 0.003
"""Seconds from when writers are asked to when they write, all at once."""


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
    session, begun = _begun(trial)
    together, rounds = Barrier(2), [[begun]]

    def writes(name: int) -> None:
        try:
            store = trial.open(session)  # in its own thread, where its event loop runs
        except BaseException:
            together.abort()
            raise
        while _goes_on(rounds):
            known, last = rounds[-1][0], len(rounds)
            store.view()  # as a writer does that names a version
            if together.wait(PATIENCE) == 0:
                rounds.append([])
            together.wait(PATIENCE)
            with suppress(Exception):  # any error is a refusal
                new = Append(says(f"{name} in round {last}"), expected=known)
                rounds[-1].append(store.append(new).version)
            together.wait(PATIENCE)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(writes, (1, 2)))
    _judge(rounds, trial, session)


@PROMISE.check(Capability.DURABLE)
def one_winner_in_processes(trial: Trial) -> None:
    """Of two processes that append on the same version, exactly one succeeds."""
    session, begun = _begun(trial)
    writers = [trial.writer("race", session) for _ in range(2)]
    rounds = [[begun]]
    try:
        while _goes_on(rounds):
            for name, writer in enumerate(writers):
                writer.asked(text=f"{name} in round {len(rounds)}", expected=rounds[-1][0])
            at = time.time() + HEAD_START
            for writer in writers:
                writer.ask(at=at)
            answers = [writer.heard() or {} for writer in writers]
            rounds.append([it["version"] for it in answers if "version" in it])
    finally:
        for writer in writers:
            writer.close()
    _judge(rounds, trial, session)


def _begun(trial: Trial) -> tuple[str, Version]:
    """A session with a message, and its version."""
    session = trial.new_session()
    return session, trial.open(session).append(Append(says("the beginning"))).version


def _goes_on(rounds: list[list[Version]]) -> bool:
    """Whether each round so far had one winner, whose version the next one begins with."""
    return len(rounds) <= ROUNDS and len(rounds[-1]) == 1


def _judge(rounds: list[list[Version]], trial: Trial, session: str) -> None:
    if len(rounds[-1]) != 1:
        raise Lost(f"{'both writers' if rounds[-1] else 'neither writer'} succeeded")
    found = len(trial.open(session).view().messages)
    if found != len(rounds):
        raise Lost(f"{len(rounds)} messages were accepted, and {found} are there")
