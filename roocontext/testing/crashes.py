"""Crash safety: what was acknowledged is there, and what is there is a prefix of what was sent."""

from random import Random

from roocontext.testing.processes import numbered_message
from roocontext.testing.protocol import Append, Capability, Lost, dialogue, first_difference, says
from roocontext.testing.trial import Promise, Trial, fill

PROMISE = Promise("crash safety")
KILLS = 3


@PROMISE.check(Capability.DURABLE)
def another_connection_reads_it(trial: Trial) -> None:
    """What was appended is there for a driver that is opened afterwards."""
    session, messages = trial.new_session(), dialogue(2)
    store = trial.open(session)
    fill(store, messages)
    if difference := first_difference(messages, trial.open(session).view().messages):
        raise Lost(f"opened again: {difference}")


@PROMISE.check(Capability.DURABLE)
def killed_writers_lose_nothing(trial: Trial) -> None:
    """A process is killed with SIGKILL amid its appends.

    What it had acknowledged is there, and what is there is a prefix of what it sent.
    """
    chance = Random(0)  # noqa: S311 - where to kill, not a secret
    for _ in range(KILLS):
        session = trial.new_session()
        writer = trial.writer("write", session)
        try:
            writer.ask(begin=True)
            acknowledged = [writer.heard() for _ in range(chance.randint(1, 20))]
            writer.kill()
            acknowledged += writer.rest()
        finally:
            writer.close()
        _must_be_a_prefix(trial, session, len(acknowledged))


def _must_be_a_prefix(trial: Trial, session: str, acknowledged: int) -> None:
    store = trial.open(session)
    found = store.view().messages
    if len(found) < acknowledged:
        raise Lost(f"{acknowledged} messages were acknowledged, and {len(found)} are there")
    if difference := first_difference([numbered_message(n) for n in range(len(found))], found):
        raise Lost(f"after a kill: {difference}")
    store.append(Append(says("after the crash")))
    if difference := first_difference((*found, says("after the crash")), store.view().messages):
        raise Lost(f"continued after a kill: {difference}")
