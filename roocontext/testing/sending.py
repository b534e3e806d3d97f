"""Valid views: the messages that a model would be sent obey the rules of its provider.

These are the rules that depend on a store. They are fewer than those of `roocontext.log.forms`, and
were written independently: a suite that used the library's own code would not find its errors.
"""

from collections.abc import Sequence
from typing import Any

from roocontext.testing.protocol import (
    Append,
    Capability,
    Condense,
    Lost,
    Message,
    NotRun,
    Sent,
    SessionStore,
    StoreRefused,
    answers,
    says,
    tool_call,
)
from roocontext.testing.trial import Promise, Trial, fill

REFUSES_BLANK = ("anthropic", "gemini")
USER_FIRST = ("anthropic", "gemini")


def faults(sent: Sent) -> list[str]:
    """The faults for which a provider would refuse these messages."""
    problems = _faults_of_pairs(sent.messages)
    if sent.provider in REFUSES_BLANK:
        problems += [
            f"message {number} has no text in it"
            for number, message in enumerate(sent.messages, 1)
            if _is_blank(message)
        ]
    if sent.provider in USER_FIRST and sent.messages and sent.messages[0].role != "user":
        problems.append("the first message is not the user's")
    return problems


def _faults_of_pairs(messages: Sequence[Message]) -> list[str]:
    """Calls and results that are not adjacent: every provider refuses these."""
    faults: list[str] = []
    open_calls: list[Any] = []
    for number, message in enumerate(messages, 1):
        answered = _ids(message, "tool_result", "tool_use_id")
        for call in answered:
            if call in open_calls:
                open_calls.remove(call)
            else:
                faults.append(f"message {number} answers a call that is not before it")
        asked = _ids(message, "tool_use", "id")
        if open_calls and not answered and not (asked and message.role == "assistant"):
            faults.append(f"message {number} comes before the result of a call")
            open_calls.clear()
        open_calls += asked
    if open_calls:
        faults.append("the last call has no result")
    return faults


def _ids(message: Message, kind: str, key: str) -> list[Any]:
    return [block.get(key) for block in message.content if block.get("type") == kind]


def _is_blank(message: Message) -> bool:
    """Check if a message is empty, or has an empty text among its blocks."""
    texts = [block["text"] for block in message.content if block.get("type") == "text"]
    return not message.content or any(not text.strip() for text in texts)


PROMISE = Promise("provider-valid views")
LONG = "a long text " * 20


def _must_be_accepted(store: SessionStore) -> None:
    if problems := faults(store.sent()):
        raise Lost("; ".join(problems))


@PROMISE.check(Capability.CONDENSE, Capability.SEND)
def condensing_splits_no_pair(trial: Trial) -> None:
    """A compaction between a tool call and its result is refused, or the request stays valid."""
    store = trial.open()
    fill(store, [says(LONG), tool_call("call_1", LONG), answers("call_1", LONG), says("thanks")])
    try:
        store.condense(Condense(2, "in short"))
    except Exception as error:
        _must_be_accepted(store)
        raise StoreRefused(type(error).__name__) from error
    _must_be_accepted(store)


@PROMISE.check(Capability.REWIND, Capability.SEND)
def rewinding_splits_no_pair(trial: Trial) -> None:
    """After a rewind to between a tool call and its result, the request is valid."""
    store = trial.open()
    versions = fill(
        store, [says("go on"), tool_call("call_1", 1), answers("call_1"), says("thanks")]
    )
    store.rewind(versions[1])
    store.append(Append(says("leave it")))
    _must_be_accepted(store)


@PROMISE.check(Capability.SEND)
def a_call_that_never_ended(trial: Trial) -> None:
    """A crash left a call without a result, and the user continues: the request is valid."""
    store = trial.open()
    fill(store, [says("go on"), tool_call("call_1", 1), says("are you still there?")])
    _must_be_accepted(store)


@PROMISE.check(Capability.SEND)
def blank_texts(trial: Trial) -> None:
    """An empty text is not sent to a provider that refuses it."""
    store = trial.open()
    blank = {"type": "text", "text": ""}
    fill(store, [says("hello"), Message("assistant", [blank]), says("hello?")])
    if store.sent().provider == "any":
        raise NotRun("the messages are made for a provider later")
    _must_be_accepted(store)
