"""One winner: of two writers on the same version, one succeeds and the other gets an error."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from roocontext.testing.messages import says, written
from roocontext.testing.protocol import Append, SessionStore, Version
from roocontext.testing.trial import Check, Trial
from roocontext.testing.verdicts import Lost, NotRun

PROMISE = "one winner"
ROUNDS = 8


def stale_writers_are_refused(trial: Trial) -> None:
    """A writer that read the session before another one wrote is refused."""
    session = trial.new_session()
    first, second = trial.open(session), trial.open(session)
    first.append(Append(says("the beginning")))
    seen = [writer.view().version for writer in (first, second)]
    first.append(Append(says("the first writer's"), expected=seen[0]))
    before = written(trial.open(session).view().messages)
    try:
        second.append(Append(says("the second writer's"), expected=seen[1]))
    except Exception:  # noqa: BLE001 - any error is a refusal
        if written(trial.open(session).view().messages) != before:
            raise Lost("the second writer got an error, and changed the session") from None
        return
    after = trial.open(session).view().messages
    missing = [text for text in before if text not in written(after)]
    also = ", and the first writer's message left the view" if missing else ""
    raise Lost(f"the second writer got no error{also}")


def threads_have_one_winner(trial: Trial) -> None:
    """Two threads append at the same moment, on the same version."""
    session = trial.new_session()
    reader = trial.open(session)
    reader.append(Append(says("the beginning")))
    start, versions = Barrier(2), [reader.view().version]

    def writes(name: int) -> list[bool]:
        won = []
        store = trial.open(session)  # in its own thread, where its event loop runs
        for number in range(ROUNDS):
            start.wait(60)
            won.append(_accepted(store, f"{name} in round {number}", versions[-1]))
            if start.wait(60) == 0:
                versions.append(reader_version(trial, session))
        return won

    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(writes, (1, 2))
    _judge(list(zip(one, other, strict=True)), trial, session)


def reader_version(trial: Trial, session: str) -> Version:
    """The version now, read with a driver of its own."""
    return trial.open(session).view().version


def processes_have_one_winner(trial: Trial) -> None:
    """Two processes append at the same moment, on the same version."""
    if trial.nursery.factory is None:
        raise NotRun("another process cannot import the factory")
    session = trial.new_session()
    reader = trial.open(session)
    reader.append(Append(says("the beginning")))
    writers = [trial.nursery.writer("race", session) for _ in range(2)]
    rounds = []
    try:
        for number in range(ROUNDS):
            expected = reader_version(trial, session)
            for name, writer in enumerate(writers):
                writer.ask(text=f"{name} in round {number}", expected=expected)
            rounds.append(tuple("accepted" in (writer.heard() or {}) for writer in writers))
    finally:
        for writer in writers:
            writer.close()
    _judge(rounds, trial, session)


def _accepted(store: SessionStore, text: str, expected: Version) -> bool:
    try:
        store.append(Append(says(text), expected=expected))
    except Exception:  # noqa: BLE001 - any error is a refusal
        return False
    return True


def _judge(rounds: list[tuple[bool, ...]], trial: Trial, session: str) -> None:
    both = sum(all(won) for won in rounds)
    nobody = sum(not any(won) for won in rounds)
    if both:
        raise Lost(f"both writers succeeded in {both} of {len(rounds)} rounds")
    if nobody:
        raise Lost(f"neither writer succeeded in {nobody} of {len(rounds)} rounds")
    found = len(trial.open(session).view().messages)
    if found != len(rounds) + 1:
        raise Lost(f"{len(rounds) + 1} messages were accepted, and {found} are there")


CHECKS = (
    Check(
        "stale writers are refused",
        PROMISE,
        "A writer that read the session before another one wrote gets an error.",
        stale_writers_are_refused,
    ),
    Check(
        "one winner in threads",
        PROMISE,
        "Of two threads that append on the same version, exactly one succeeds.",
        threads_have_one_winner,
    ),
    Check(
        "one winner in processes",
        PROMISE,
        "Of two processes that append on the same version, exactly one succeeds.",
        processes_have_one_winner,
    ),
)
