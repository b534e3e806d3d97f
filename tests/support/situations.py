"""Sessions in which a lot has happened, and what a policy is told of them."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from hypothesis import strategies as st

from roocontext import Plan
from roocontext.errors import InvalidPlan
from roocontext.log.counting import FREE, Counter, Size
from roocontext.log.encoding import encode
from roocontext.policies.situation import Row, Situation
from roocontext.tokens import size_of
from support.dialogue import call, result, text, work


def situated(
    chat: Any, counter: Counter, *, window: int, hidden: bool = False, **facts: Any
) -> Situation:
    """The situation of a session as it is now; with `hidden`, as a compat policy is told it."""
    measure = partial(size_of, counter)
    live = chat.internals.live()
    rows = tuple(
        Row(
            row.message,
            measure(row.message.role, row.message.content, row.message.format),
            *row[1:],
        )
        for row in live
    )
    return Situation(
        session_id=chat.id,
        head_seq=chat.head_seq(),
        rows=rows if hidden else tuple(row for row in rows if row.visible),
        window=window,
        measure=measure,
        counter=counter.name,
        exact=counter.exact,
        pins=chat.pins(),
        **facts,
    )


def prompt_of(counter: Counter, system: str | None) -> dict[str, Size]:
    """The cost of a system prompt in the form of a situation."""
    size = size_of(counter, "user", system) if system else FREE
    return {"system_size": size, "overhead": size}


class Letters:
    """A counter that anybody can check: four characters of the stored content are a token."""

    name = "letters"
    exact = False

    def count(self, role: str, content: Any, form: str) -> int:
        """A token for the message itself, too."""
        return 1 + len(encode(content)) // 4


LETTERS = Letters()

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
THOUGHT = {"type": "thinking", "thinking": "hm " * 9, "signature": "sig"}

_sizes = st.sampled_from([1, 4, 20, 20, 60, 60, 400])
_ids = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), _sizes),
        st.tuples(st.just("ask"), _sizes),
        st.tuples(st.just("answer"), _sizes),
        st.tuples(st.just("work"), _ids, _sizes),
        st.tuples(st.just("work"), _ids, _sizes),
        st.tuples(st.just("work apart"), _ids, _sizes),
        st.tuples(st.just("thinking apart"), _ids, _sizes),
        st.tuples(st.just("interrupt"), _ids),
        st.tuples(st.just("call"), _ids),
        st.tuples(st.just("orphan"), _ids),
        st.tuples(st.just("image"), _sizes),
        st.tuples(st.just("condense"), st.integers(1, 6)),
        st.tuples(st.just("truncate"), st.integers(1, 6)),
        st.tuples(st.just("pin"), st.integers(0, 20)),
    ),
    min_size=4,
    max_size=24,
)
"""What happened in a session, in nasty orders."""


def play(chat: Any, steps: Sequence[Any]) -> None:
    """Let it happen."""
    for kind, *given in steps:
        _SCENES[kind](chat, *given)


def _ask(chat: Any, size: int) -> None:
    chat.append("user", "word " * size)


def _answer(chat: Any, size: int) -> None:
    chat.append("assistant", [THOUGHT, text("word " * size)])


def _work_apart(chat: Any, ids: Sequence[str], size: int) -> None:
    for tool_id in ids:
        chat.append("assistant", [call(tool_id)])
    for tool_id in reversed(ids):
        chat.append("user", [result(tool_id, "word " * size)])


def _thinking_apart(chat: Any, ids: Sequence[str], size: int) -> None:
    chat.append("assistant", [THOUGHT])
    chat.append("assistant", [text("so")])
    chat.append("assistant", [call(tool_id) for tool_id in ids])
    chat.append("user", [result(tool_id, "word " * size) for tool_id in ids])


def _interrupt(chat: Any, ids: Sequence[str]) -> None:
    chat.append("assistant", [call(tool_id) for tool_id in ids])
    chat.append("user", [*(result(tool_id) for tool_id in ids), text("no, stop")])


def _call(chat: Any, ids: Sequence[str]) -> None:
    chat.append("assistant", [text("let me see"), *(call(tool_id) for tool_id in ids)])


def _orphan(chat: Any, ids: Sequence[str]) -> None:
    chat.append("user", [result(tool_id) for tool_id in ids])


def _image(chat: Any, size: int) -> None:
    chat.append("user", [text("word " * size), IMAGE])


def _hide(make: Any) -> Any:
    """Hide the oldest rows, as somebody by hand would; what may not be hidden stays."""

    def scene(chat: Any, count: int) -> None:
        view = chat.view()
        with suppress(InvalidPlan):
            chat.commit(make(view, [row.seq for row in view.messages[:count]], "in short"))

    return scene


def _pin(chat: Any, index: int) -> None:
    rows = chat.view().messages
    if rows:
        chat.pin(rows[index % len(rows)].seq)


_SCENES = {
    "ask": _ask,
    "answer": _answer,
    "work": lambda chat, ids, size: work(chat, ids, "word " * size),
    "work apart": _work_apart,
    "thinking apart": _thinking_apart,
    "interrupt": _interrupt,
    "call": _call,
    "orphan": _orphan,
    "image": _image,
    "condense": _hide(Plan.condense),
    "truncate": _hide(Plan.truncate),
    "pin": _pin,
}
