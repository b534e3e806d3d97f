"""Crash safety: acknowledged messages are there, and nothing but a prefix of the sent messages."""

from random import Random

from roocontext.testing.processes import numbered_message
from roocontext.testing.protocol import Append, Capability, Lost, dialogue, first_difference, says
from roocontext.testing.trial import Promise, Trial, fill

PROMISE = Promise("crash safety")
KILLS = 3


@PROMISE.check(Capability.DURABLE)
def another_connection_reads_it(trial: Trial) -> None:
    """A driver that is opened afterwards reads the appended messages."""
    session, messages = trial.new_session(), dialogue(2)
    store = trial.open(session)
    fill(store, messages)
    if difference := first_difference(messages, trial.open(session).view().messages):
        raise Lost(f"opened again: {difference}")


@PROMISE.check(Capability.DURABLE)
def killed_writers_lose_nothing(trial: Trial) -> None:
    """A process is killed with SIGKILL while it appends.

    Its acknowledged messages are there, and nothing but a prefix of the messages that it sent.
    """
    chance = Random(0)  # noqa: S311 - where to kill, not a secret
    for _ in range(KILLS):
        session = trial.new_session()
        writer = trial.writer("write", session)
        try:
            writer.send(begin=True)
            acknowledged = [writer.receive() for _ in range(chance.randint(1, 20))]
            writer.kill()
            acknowledged += writer.receive_rest()
        finally:
            writer.close()
        if None in acknowledged:
            raise Lost("another process could not append: its error is on stderr")
        _must_be_a_prefix(trial, session, len(acknowledged))


def _must_be_a_prefix(trial: Trial, session: str, acknowledged: int) -> None:
    store = trial.open(session)
    left = store.view().messages
    if len(left) < acknowledged:
        raise Lost(f"{acknowledged} messages were acknowledged, and {len(left)} are there")
    if difference := first_difference([numbered_message(n) for n in range(len(left))], left):
        raise Lost(f"after a kill: {difference}")
    store.append(Append(says("after the crash")))
    if difference := first_difference((*left, says("after the crash")), store.view().messages):
        raise Lost(f"continued after a kill: {difference}")
