"""Append-only: later operations neither remove nor change an appended message."""

from roocontext.testing.protocol import (
    Append,
    Capability,
    Condense,
    Lost,
    Message,
    SessionStore,
    dialogue,
    json_texts,
    says,
)
from roocontext.testing.trial import Promise, Trial, fill

PROMISE = Promise("append-only")


def _must_hold(store: SessionStore, messages: list[Message]) -> None:
    before = json_texts(store.history().messages)
    if gone := sum(text not in before for text in json_texts(messages)):
        raise Lost(f"{gone} of {len(messages)} messages can no longer be read")


@PROMISE.check(Capability.REWIND)
def rewinding_keeps_everything(trial: Trial) -> None:
    """After a rewind and a new message, every message can still be read."""
    store, messages = trial.open(), dialogue(3)
    versions = fill(store, messages)
    store.rewind(versions[1])
    store.append(Append(says("another question")))
    _must_hold(store, [*messages, says("another question")])


@PROMISE.check(Capability.CONDENSE)
def condensing_keeps_everything(trial: Trial) -> None:
    """After a summary has replaced messages, each of them can still be read."""
    store, messages = trial.open(), dialogue(3)
    fill(store, messages)
    store.condense(Condense(4, "in short"))
    _must_hold(store, messages)


@PROMISE.check(Capability.DELETE)
def deleting_keeps_everything(trial: Trial) -> None:
    """After the call that deletes a session, its messages can still be read by an audit."""
    session = trial.new_session()
    store, messages = trial.open(session), dialogue(2)
    fill(store, messages)
    store.delete()
    _must_hold(trial.open(session), messages)
