"""Lossless content: messages are read as they were appended, with types and the order of keys.

The cases are JSON that agents really send and that stores change silently: arguments of a tool, or
a block. If a store refuses a case with an error, nothing is lost. If it changes the case, it is.
"""

from collections.abc import Callable, Mapping
from typing import Any

from roocontext.testing.protocol import (
    Append,
    Lost,
    Message,
    StoreRefused,
    answers,
    first_difference,
    json_texts,
    says,
    tool_call,
)
from roocontext.testing.trial import Check, Promise, Trial

NUMBERS: dict[str, Any] = {
    "1": 1,
    "1.0": 1.0,
    "true": True,
    "1e2": 1e2,
    "-0.0": -0.0,
    "0.1 + 0.2": 0.1 + 0.2,
    "5e-324": 5e-324,
    "1.7976931348623157e308": 1.7976931348623157e308,
    "2**53 + 1": 2**53 + 1,
    "2**63 - 1": 2**63 - 1,
    "2**64": 2**64,
    "2**70": 2**70,
    "-(2**70)": -(2**70),
    "null": None,
}

TEXTS: dict[str, Any] = {
    "empty": "",
    "a space": " ",
    "line ends": "\r\n\r\n\t",
    "controls": "\x01\x1b[31m\x7f\x85",
    "line separators": "\u2028\u2029",
    "a byte order mark": "\ufefftext",
    "not normalised": "e\u0301 \u00e9",
    "beyond 16 bits": "\U0001f9ed\U0010ffff",
    "not characters": "\ufffe\uffff",
    "a backslash": '\\u0041 \\ " </script>',
    "looks like JSON": '{"a": 1e2}',
}

NUL: dict[str, Any] = {"NUL": "before\x00after"}

SURROGATES: dict[str, Any] = {
    "a lone surrogate": "half \ud83e",
    "reversed surrogates": "\udd9d\ud83e",
}

STRUCTURES: dict[str, Any] = {
    "empty object": {},
    "empty list": [],
    "empty key": {"": ""},
    "100 objects in lists": None,
    "lists in lists": [[], [[]], [[], {}]],
    "nulls": [None, {"null": None}],
    "keys with dots": {"a.b": {"$c": 1}, "__proto__": {}},
}
for _ in range(100):
    STRUCTURES["100 objects in lists"] = [{"in": STRUCTURES["100 objects in lists"]}]

KEY_ORDER: dict[str, Any] = {
    "descending": {"z": 1, "y": 2, "a": 3},
    "by length": {"long key": 1, "k": 2, "ke": {"z": 1, "a": 2}},
    "digits": {"10": 1, "9": 2, "1": 3},
}

LARGE: dict[str, Any] = {
    "a text of 1 MB": "0123456789abcdef" * 65_536,
    "a list of 20,000": list(range(20_000)),
}

BLOCKS: dict[str, dict[str, Any]] = {
    "an unknown type": {"type": "hologram", "depth": 3, "frames": [{"at": 0.5}]},
    "an unknown field": {"type": "text", "text": "seen", "x_trace": {"id": 7}},
}


PROMISE = Promise("lossless content")


def _keeps(
    cases: Mapping[str, Any], messages_of: Callable[[Any], list[Message]]
) -> Callable[[Trial], None]:
    """A check that appends each case to a session of its own, to name those that are lost."""

    def run(trial: Trial) -> None:
        outcomes: dict[type[Exception], list[str]] = {Lost: [], StoreRefused: []}
        for name, case in cases.items():
            messages = messages_of(case)
            try:
                read = _read_back(trial, messages)
            except (Lost, StoreRefused) as outcome:
                outcomes[type(outcome)].append(f"{name} ({outcome})")
            else:
                if json_texts(read) != json_texts(messages):
                    outcomes[Lost].append(f"{name} (changed)")
        for kind, names in outcomes.items():
            if names:
                raise kind(", ".join(names))

    return run


def _read_back(trial: Trial, messages: list[Message]) -> list[Message]:
    """Append messages, and read them with another driver.

    A refusal must leave the session as it was: without the message, and ready for another.
    """
    session, refusal = trial.new_session(), ""
    store, accepted = trial.open(session), list[Message]()
    try:
        for message in messages:
            store.append(Append(message))
            accepted.append(message)
    except Exception as error:  # noqa: BLE001 - any error is a refusal
        refusal = type(error).__name__
    try:
        other = trial.open(session)
        if refusal:
            accepted.append(says("after the refusal"))
            other.append(Append(accepted[-1]))
        read = list(other.view().messages)
    except Exception as error:
        raise Lost(f"the session cannot be read any more: {type(error).__name__}") from error
    if refusal and (difference := first_difference(accepted, read)):
        raise Lost(f"after the refusal {difference}")
    if refusal:
        raise StoreRefused(refusal)
    if len(read) != len(messages):
        raise Lost(f"{len(read)} messages instead of {len(messages)}")
    return read


def _as_argument(value: Any) -> list[Message]:
    """A value that a tool is called with."""
    return [says("go on"), tool_call("call_1", value), answers("call_1")]


def _as_text(text: Any) -> list[Message]:
    """A text in a tool's argument and in its result: programs write there, and nobody reads."""
    return [says("go on"), tool_call("call_1", text), answers("call_1", text)]


for _name, _asks, _cases, _messages_of in (
    ("numbers", "1, 1.0 and true, -0.0, the smallest and largest doubles, integers up to 2**70.",
     NUMBERS, _as_argument),
    ("texts", "Empty texts, control characters, line separators, Unicode that is not normalised.",
     TEXTS, _as_text),
    ("NUL", "The character U+0000, which the output of programs contains.", NUL, _as_text),
    ("lone surrogates",
     "Half of a surrogate pair, which comes from a text that was cut in the middle.",
     SURROGATES, _as_text),
    ("structures", "Empty lists, objects and keys, nulls, 100 levels of nesting.",
     STRUCTURES, _as_argument),
    ("order of keys",
     "Keys come back in the order in which they were written: a prompt cache compares bytes.",
     KEY_ORDER, _as_argument),
    ("large values", "A text of 1 MB and a list of 20,000 numbers.", LARGE, _as_argument),
    ("unknown blocks",
     "A type of block, and a field of a block, that the store's version does not know.",
     BLOCKS, lambda block: [Message("user", [{"type": "text", "text": "look"}, block])]),
):  # fmt: skip
    PROMISE.checks.append(Check(_name, PROMISE.name, _asks, _keeps(_cases, _messages_of)))


@PROMISE.check()
def duplicates(trial: Trial) -> None:
    """The same message twice is two messages, and an id of a call may recur."""
    once = [says("again"), tool_call("call_1", 1), answers("call_1", "same")]
    session = trial.new_session()
    store = trial.open(session)
    for message in (*once, *once):
        store.append(Append(message))
    if difference := first_difference([*once, *once], trial.open(session).view().messages):
        raise Lost(f"the same three messages twice: {difference}")
