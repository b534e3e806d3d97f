"""Valid views: what a model would be sent obeys the rules of its provider.

What providers refuse, as far as a store decides it.

These rules are fewer than those of `roocontext.log.forms`, and were written apart from them: a
suite that asked the library's own code would not find its errors.
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
    """What a provider would refuse in these messages."""
    found = _faults_of_pairs(sent.messages)
    if sent.provider in REFUSES_BLANK:
        found += [
            f"message {number} has no text in it"
            for number, message in enumerate(sent.messages, 1)
            if _is_blank(message)
        ]
    if sent.provider in USER_FIRST and sent.messages and sent.messages[0].role != "user":
        found.append("the first message is not the user's")
    return found


def _faults_of_pairs(messages: Sequence[Message]) -> list[str]:
    """Calls and results that are not next to each other: every provider refuses these."""
    found: list[str] = []
    open_calls: list[Any] = []
    for number, message in enumerate(messages, 1):
        answered = _ids(message, "tool_result", "tool_use_id")
        for call in answered:
            if call in open_calls:
                open_calls.remove(call)
            else:
                found.append(f"message {number} answers a call that is not before it")
        asked = _ids(message, "tool_use", "id")
        if open_calls and not answered and not (asked and message.role == "assistant"):
            found.append(f"message {number} comes before the result of a call")
            open_calls.clear()
        open_calls += asked
    if open_calls:
        found.append("the last call has no result")
    return found


def _ids(message: Message, kind: str, key: str) -> list[Any]:
    return [block.get(key) for block in message.content if block.get("type") == kind]


def _is_blank(message: Message) -> bool:
    """Whether a message is empty, or has an empty text among its blocks."""
    texts = [block["text"] for block in message.content if block.get("type") == "text"]
    return not message.content or any(not text.strip() for text in texts)


PROMISE = Promise("provider-valid views")
LONG = "a long text " * 20


def _must_be_accepted(store: SessionStore) -> None:
    if found := faults(store.sent()):
        raise Lost("; ".join(found))


@PROMISE.check(Capability.CONDENSE, Capability.SEND)
def condensing_splits_no_pair(trial: Trial) -> None:
    """A compaction between a tool call and its result is refused, or what is sent stays valid."""
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
    """After a rewind to between a tool call and its result, what is sent is valid."""
    store = trial.open()
    versions = fill(
        store, [says("go on"), tool_call("call_1", 1), answers("call_1"), says("thanks")]
    )
    store.rewind(versions[1])
    store.append(Append(says("leave it")))
    _must_be_accepted(store)


@PROMISE.check(Capability.SEND)
def a_call_that_never_ended(trial: Trial) -> None:
    """A crash left a call without a result and the user goes on: what is sent is valid."""
    store = trial.open()
    fill(store, [says("go on"), tool_call("call_1", 1), says("are you still there?")])
    _must_be_accepted(store)


@PROMISE.check(Capability.SEND)
def blank_texts(trial: Trial) -> None:
    """An empty text that is stored is not sent to a provider that refuses it."""
    store = trial.open()
    blank = {"type": "text", "text": ""}
    fill(store, [says("hello"), Message("assistant", [blank]), says("hello?")])
    if store.sent().provider == "any":
        raise NotRun("the messages are made for a provider later")
    _must_be_accepted(store)
