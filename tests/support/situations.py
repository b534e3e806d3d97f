"""What a policy is told of a session."""

from functools import partial
from typing import Any

from roocontext.log.counting import FREE, Counter, Size
from roocontext.log.encoding import encode
from roocontext.policies.situation import Row, Situation
from roocontext.tokens import size_of


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
        return 1 + len(encode(content)) // 4


LETTERS = Letters()
