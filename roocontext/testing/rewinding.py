"""Exact rewind: a rewind restores the earlier state, and can itself be undone."""

from roocontext.testing.protocol import (
    Append,
    Capability,
    Condense,
    Fork,
    Lost,
    Message,
    SessionStore,
    Version,
    dialogue,
    first_difference,
    says,
)
from roocontext.testing.trial import Promise, Trial

PROMISE = Promise("exact rewind")


def _must_show(store: SessionStore, wanted: tuple[Message, ...], after: str) -> None:
    if difference := first_difference(wanted, store.view().messages):
        raise Lost(f"{after}: {difference}")


def _written(store: SessionStore, turns: int) -> list[tuple[Version, tuple[Message, ...]]]:
    """The state after each message of a dialogue."""
    states = []
    for message in dialogue(turns):
        store.append(Append(message))
        view = store.view()
        states.append((view.version, view.messages))
    return states


@PROMISE.check(Capability.REWIND)
def rewinds_exactly(trial: Trial) -> None:
    """After a rewind, the view equals the view at that point; tried for each message."""
    store = trial.open()
    states = _written(store, 3)
    for back, (version, wanted) in enumerate(reversed(states[:-1]), 1):
        store.rewind(version)
        _must_show(store, wanted, f"{back} messages back")


@PROMISE.check(Capability.REWIND)
def continues_after_a_rewind(trial: Trial) -> None:
    """A message that is appended after a rewind follows the messages that the rewind left."""
    store = trial.open()
    version, before = _written(store, 2)[1]
    store.rewind(version)
    store.append(Append(says("instead")))
    _must_show(store, (*before, says("instead")), "appended after a rewind")


@PROMISE.check(Capability.REWIND, Capability.REDO)
def rewinds_are_taken_back(trial: Trial) -> None:
    """A rewind can be undone, and the view is as it was before."""
    store = trial.open()
    states = _written(store, 2)
    newest, wanted = states[-1]
    store.rewind(states[1][0])
    store.rewind(newest)
    _must_show(store, wanted, "after the rewind was taken back")


@PROMISE.check(Capability.REWIND, Capability.CONDENSE)
def rewinds_past_a_summary(trial: Trial) -> None:
    """A rewind to before a compaction shows the messages that the summary replaced."""
    store = trial.open()
    version, wanted = _written(store, 3)[-1]
    store.condense(Condense(4, "in short"))
    store.append(Append(says("and then")))
    store.rewind(version)
    _must_show(store, wanted, "rewound to before the summary")


@PROMISE.check(Capability.FORK)
def a_fork_is_a_copy(trial: Trial) -> None:
    """A fork begins with the state at a version. Later, neither session changes the other."""
    store, name = trial.open(), trial.new_session()
    states = _written(store, 2)
    version, before = states[1]
    store.fork(Fork(version, name))
    copy = trial.open(name)
    _must_show(copy, before, "in the fork")
    copy.append(Append(says("in the fork only")))
    _must_show(store, states[-1][1], "in the parent, after the fork was written to")
    store.append(Append(says("in the parent only")))
    _must_show(
        copy, (*before, says("in the fork only")), "in the fork, after the parent was written to"
    )
