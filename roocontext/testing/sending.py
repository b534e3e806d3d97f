"""Valid views: what a model would be sent obeys the rules of its provider."""

from roocontext.testing.messages import answers, calls, says
from roocontext.testing.protocol import Append, Capability, Condense, Message, SessionStore
from roocontext.testing.rules import faults
from roocontext.testing.trial import Check, Trial, fill
from roocontext.testing.verdicts import Lost, NotRun, Refused

PROMISE = "provider-valid views"
LONG = "a long text " * 20


def _must_be_accepted(store: SessionStore) -> None:
    if found := faults(store.sent()):
        raise Lost("; ".join(found))


def condensing_splits_no_pair(trial: Trial) -> None:
    """A compaction that would hide a call and leave its result is refused, or made valid."""
    store = trial.open()
    fill(store, [says(LONG), calls("call_1", LONG), answers("call_1", LONG), says("thanks")])
    try:
        store.condense(Condense(2, "in short"))
    except Exception as error:
        _must_be_accepted(store)
        raise Refused(type(error).__name__) from error
    _must_be_accepted(store)


def rewinding_splits_no_pair(trial: Trial) -> None:
    """After a rewind to between a call and its result, the request is valid."""
    store = trial.open()
    versions = fill(store, [says("go on"), calls("call_1", 1), answers("call_1"), says("thanks")])
    store.rewind(versions[1])
    store.append(Append(says("leave it")))
    _must_be_accepted(store)


def a_call_that_never_ended(trial: Trial) -> None:
    """A crash leaves a call without a result; the user continues with other words."""
    store = trial.open()
    fill(store, [says("go on"), calls("call_1", 1), says("are you still there?")])
    _must_be_accepted(store)


def blank_texts(trial: Trial) -> None:
    """Models do write empty texts, and refuse to read them."""
    store = trial.open()
    blank = {"type": "text", "text": ""}
    fill(store, [says("hello"), Message("assistant", [blank]), says("hello?")])
    if store.sent().provider == "any":
        raise NotRun("the messages are made for a provider later")
    _must_be_accepted(store)


CHECKS = (
    Check(
        "condensing splits no pair",
        PROMISE,
        "A compaction between a tool call and its result is refused, or what is sent stays valid.",
        condensing_splits_no_pair,
        (Capability.CONDENSE, Capability.SEND),
    ),
    Check(
        "rewinding splits no pair",
        PROMISE,
        "After a rewind to between a tool call and its result, what is sent is valid.",
        rewinding_splits_no_pair,
        (Capability.REWIND, Capability.SEND),
    ),
    Check(
        "a call that never ended",
        PROMISE,
        "A crash left a call without a result and the user goes on: what is sent is valid.",
        a_call_that_never_ended,
        (Capability.SEND,),
    ),
    Check(
        "blank texts",
        PROMISE,
        "An empty text that is stored is not sent to a provider that refuses it.",
        blank_texts,
        (Capability.SEND,),
    ),
)
