"""Sessions in which a lot has happened, and what a policy is told of them."""

from functools import partial
from typing import Any

from hypothesis import strategies as st

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
        """A token for the message itself, too."""
        return 1 + len(encode(content)) // 4


LETTERS = Letters()

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
        st.tuples(st.just("think apart"), _ids, _sizes),
        st.tuples(st.just("interrupt"), _ids),
        st.tuples(st.just("call"), _ids),
        st.tuples(st.just("orphan"), _ids, _sizes),
        st.tuples(st.just("image"), _sizes),
        st.tuples(st.just("condense"), st.just(0), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("truncate"), st.just(0), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("pin"), st.integers(0, 20)),
    ),
    min_size=4,
    max_size=24,
)
"""What happened in a session that a policy decides about: only the oldest rows are hidden.

`histories.play` lets it happen.
"""
