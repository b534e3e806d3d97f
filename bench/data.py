"""What is measured on: the same messages and the same control rows in every run."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from roocontext import Counts, NewMessage, Plan, Session
from roocontext.log.counting import Size
from roocontext.log.entries import Control, Kind, ranges_of
from roocontext.log.plan import Action

SIZE = 1_024
"""How long a message's content is as JSON."""

LARGE = 2_100
"""The same of a message of just over 2 kB."""

BATCH = 5_000
SEED = 8

_words = Random(SEED)
_TEXTS = [
    " ".join("".join(_words.choices("etaoinshrdlu", k=_words.randint(2, 9))) for _ in range(300))
    for _ in range(64)
]


def content(number: int) -> Any:
    """The content of message `number`: a user's string, or an assistant's text block."""
    blank = _shaped(number, "")
    room = SIZE - len(json.dumps(blank, separators=(",", ":")))
    return _shaped(number, f"{number:09} {_TEXTS[number % len(_TEXTS)]}"[:room])


def encoded(number: int) -> str:
    """The same as the text that a store keeps of it."""
    return json.dumps(content(number), separators=(",", ":"))


def message(number: int) -> NewMessage:
    """Message `number` of a session."""
    return NewMessage(role(number), content(number))


def large(number: int) -> NewMessage:
    """The same of just over 2 kB."""
    text = f"{number:09} {_TEXTS[number % len(_TEXTS)]} {_TEXTS[0]}"
    return NewMessage(role(number), text[: LARGE - 2])


def called(number: int) -> NewMessage:
    """The same as an assistant's call of a tool, which nothing answers."""
    text = _TEXTS[number % len(_TEXTS)][: SIZE - 200]
    call = {"type": "tool_use", "id": f"call_{number}", "name": "read", "input": {"path": "a"}}
    return NewMessage("assistant", [{"type": "text", "text": text}, call])


def worked(number: int) -> NewMessage:
    """The same of a session in which every row has tools: a call, and then its result."""
    if number % 2 == 0:
        return called(number)
    text = _TEXTS[number % len(_TEXTS)][: SIZE - 100]
    result = {"type": "tool_result", "tool_use_id": f"call_{number - 1}", "content": text}
    return NewMessage("user", [result])


class Ticking:
    """A clock that goes on by `step` milliseconds each time it is read."""

    def __init__(self, step: int) -> None:
        self._now = 1_700_000_000_000
        self._step = step

    def __call__(self) -> int:
        self._now += self._step
        return self._now


def role(number: int) -> str:
    """Users and assistants take turns, the user first."""
    return "assistant" if number % 2 else "user"


def grow(chat: Session, count: int, made: Callable[[int], NewMessage] = message) -> Session:
    """Append so many messages, in few transactions."""
    for start in range(0, count, BATCH):
        chat.append_many([made(n) for n in range(start, min(count, start + BATCH))])
    return chat


def age(chat: Session, *, messages: int, condensations: int, visible: int) -> Session:
    """Let a session grow and be condensed in turn, each time to so many visible messages."""
    each = messages // condensations
    for _ in range(condensations):
        grow(chat, each)
        view = chat.view()
        hide = [shown.seq for shown in view.messages[: 1 - visible]]
        chat.commit(Plan.condense(view, hide, "What was said before, in short."))
    return chat


def condensing(head_seq: int, lo: int, hi: int) -> Plan:
    """A plan to hide these messages of a session in which nothing else is hidden among them."""
    counts = Counts("bytes", Size(SIZE * (hi - lo + 2)), Size(SIZE))
    summary = NewMessage("user", "What was said before, in short.")
    return Plan(
        head_seq=head_seq,
        action=Action.CONDENSE,
        hides=((lo, hi),),
        rows=(summary,),
        counts=counts,
    )


def controls(count: int) -> tuple[list[Control], int]:
    """So many control rows of an ordinary session, and its last seq.

    It grows by 20 messages between two control rows: a tool's output is cleared, the last 5
    messages are rewound, the rewind is undone, all but the last 10 messages are condensed.
    """
    made: list[Control] = []
    seq, shown = 0, [0]
    for number in range(count):
        grown = 0 if number % 4 == 2 else 20
        shown += range(seq + 1, seq + grown + 1)
        seq += grown + 1
        if number % 4 == 0:
            made.append(Control(seq, Kind.CLEARING, clears=((shown[-3], 0),), placeholder="-"))
        elif number % 4 == 1:
            made.append(Control(seq, Kind.REWIND, to=seq - 6))
        elif number % 4 == 2:
            made.append(Control(seq, Kind.REWIND, to=seq - 2))
        else:
            made.append(_condensation(seq, shown))
            shown = [seq, *shown[-10:]]
    return made, seq


def _condensation(seq: int, shown: list[int]) -> Control:
    before = shown[-10]
    hides = ranges_of(sorted(seq for seq in shown[:-10] if seq))
    position = (before << 32) - (1 << 31)
    return Control(seq, Kind.SUMMARY, hides=hides, position=position)


def _shaped(number: int, text: str) -> Any:
    return [{"type": "text", "text": text}] if number % 2 else text
