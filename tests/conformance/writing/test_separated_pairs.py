"""A plan is refused exactly if it would separate a tool call from its result."""

from dataclasses import replace
from itertools import cycle
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roocontext import Counts, NewMessage, Plan
from roocontext.errors import InvalidPlan
from roocontext.log.counting import Size
from roocontext.log.readings import reader
from support.dialogue import call, result
from support.examples import examples
from support.histories import HISTORIES, play
from support.separated import split

SMALLER = Counts("words", Size(2), Size(1))

_some = st.lists(st.sampled_from("ab"), min_size=1, max_size=2)
TOOLS = st.lists(st.tuples(st.sampled_from([call, call, result]), _some, st.booleans()), max_size=8)
SIDES = st.lists(st.lists(st.booleans(), min_size=1, max_size=24), min_size=1, max_size=6)
"""For each plan: which messages of the view it hides, in turns."""

EXAMPLES = {"file": 150}
FEWER = 30
"""On the other engines, which find the rows of a pair by the same statements."""


def rows(tools: Any) -> list[NewMessage]:
    """Calls and results with few ids; some calls are answered at once, each by a row."""
    made = []
    for kind, ids, is_answered in tools:
        made.append(NewMessage("user" if kind is result else "assistant", list(map(kind, ids))))
        if kind is call and is_answered:
            made += [NewMessage("user", [result(tool_id)]) for tool_id in ids]
    return made


def refusal(chat: Any, plan: Plan) -> tuple[int, int] | None:
    """The call and the result for which a plan is refused, if it is."""
    try:
        chat.commit(plan, dry_run=True)
    except InvalidPlan as refused:
        return refused.facts["call"], refused.facts["result"]
    return None


def test_plan_is_refused_exactly_if_it_separates_a_pair(shared: Any) -> None:
    store = shared.store

    @settings(
        max_examples=examples(EXAMPLES.get(shared.engine, FEWER)),
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(before=HISTORIES, tools=TOOLS, after=HISTORIES, sides=SIDES)
    def examine(before: Any, tools: Any, after: Any, sides: Any) -> None:
        chat = store.create()
        play(chat, before)
        chat.append_many([NewMessage("user", "go on"), *rows(tools)])
        play(chat, after)
        for pin in chat.pins():
            chat.unpin(pin)
        view = chat.view()
        readings = [reader(one.format).blocks(one.role, one.content) for one in view.messages]
        for turns in sides:
            hidden = [
                at for at, away in zip(range(len(readings)), cycle(turns), strict=False) if away
            ]
            if not hidden:
                continue
            plan = Plan.condense(view, [view.messages[at].seq for at in hidden], "in short")
            separated = {
                (view.messages[pair.call[0]].seq, view.messages[pair.result[0]].seq)
                for pair in split(readings, hidden)
            }
            refused = refusal(chat, replace(plan, counts=SMALLER))
            assert refused in separated if refused else not separated

    examine()
