"""Lossless content: what comes back is what was appended, types and order of keys included."""

from collections.abc import Callable, Mapping
from typing import Any

from roocontext.testing import corpus
from roocontext.testing.messages import answers, calls, first_difference, says, written
from roocontext.testing.protocol import Append, Message, SessionStore
from roocontext.testing.trial import Check, Trial
from roocontext.testing.verdicts import Lost, Refused

PROMISE = "lossless content"


def _keeps(cases: Mapping[str, Any], messages_of: Callable[[Any], list[Message]]) -> Any:
    """A check that appends each case to a session, and reads it with another connection."""

    def run(trial: Trial) -> None:
        refused, lost = [], []
        for name, case in cases.items():
            session, accepted = trial.new_session(), list[Message]()
            store = trial.open(session)
            try:
                for message in messages_of(case):
                    store.append(Append(message))
                    accepted.append(message)
            except Exception as error:  # noqa: BLE001 - any error is a refusal
                refused.append(f"{name} ({type(error).__name__})")
                _must_go_on(trial, session, accepted, name)
                continue
            if written(trial.open(session).view().messages) != written(accepted):
                lost.append(name)
        if lost:
            raise Lost(f"{', '.join(lost)}: other than it was appended")
        if refused:
            raise Refused(", ".join(refused))

    return run


def _must_go_on(trial: Trial, session: str, accepted: list[Message], name: str) -> None:
    """A refusal leaves the session as it was: nothing of the message is in it, and it goes on."""
    store: SessionStore = trial.open(session)
    store.append(Append(says("after the refusal")))
    wanted = [*accepted, says("after the refusal")]
    if difference := first_difference(wanted, store.view().messages):
        raise Lost(f"{name}: after the refusal {difference}")


def _as_argument(value: Any) -> list[Message]:
    """A value that a tool is called with."""
    return [says("go on"), calls("call_1", value), answers("call_1")]


def _as_text(text: Any) -> list[Message]:
    """A text in a tool's argument and in its result, where programs write and nobody reads."""
    return [says("go on"), calls("call_1", text), answers("call_1", text)]


def _as_block(block: Any) -> list[Message]:
    return [Message("user", [{"type": "text", "text": "look"}, block])]


def duplicates_are_kept(trial: Trial) -> None:
    """The same message twice is two messages, and an id of a call may recur."""
    once = [says("again"), calls("call_1", 1), answers("call_1", "same")]
    session = trial.new_session()
    store = trial.open(session)
    for message in (*once, *once):
        store.append(Append(message))
    if difference := first_difference([*once, *once], trial.open(session).view().messages):
        raise Lost(f"the same three messages twice: {difference}")


CHECKS = (
    Check(
        "numbers",
        PROMISE,
        "1, 1.0 and true, -0.0, the smallest and largest doubles, integers up to 2**70.",
        _keeps(corpus.NUMBERS, _as_argument),
    ),
    Check(
        "texts",
        PROMISE,
        "Empty texts, control characters, line separators, Unicode that is not normalised.",
        _keeps(corpus.TEXTS, _as_text),
    ),
    Check(
        "NUL",
        PROMISE,
        "The character U+0000, which the output of programs contains.",
        _keeps(corpus.NUL, _as_text),
    ),
    Check(
        "lone surrogates",
        PROMISE,
        "Half of a surrogate pair, which comes from a text that was cut in the middle.",
        _keeps(corpus.SURROGATES, _as_text),
    ),
    Check(
        "structures",
        PROMISE,
        "Empty lists, objects and keys, nulls, 100 levels of nesting.",
        _keeps(corpus.STRUCTURES, _as_argument),
    ),
    Check(
        "order of keys",
        PROMISE,
        "Keys come back in the order in which they were written: a prompt cache compares bytes.",
        _keeps(corpus.KEY_ORDER, _as_argument),
    ),
    Check(
        "large values",
        PROMISE,
        "A text of 1 MB and a list of 20,000 numbers.",
        _keeps(corpus.LARGE, _as_argument),
    ),
    Check(
        "unknown blocks",
        PROMISE,
        "A type of block, and a field of a block, that the store's version does not know.",
        _keeps(corpus.BLOCKS, _as_block),
    ),
    Check(
        "duplicates",
        PROMISE,
        "The same message twice is two messages, and an id of a call may recur.",
        duplicates_are_kept,
    ),
)
