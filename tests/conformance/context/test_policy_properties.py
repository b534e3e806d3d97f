"""Every policy of ours on random histories: within the limits, or refused with numbers; by law.

Each example plays a history, runs a manager over it once as drawn and then until it comes to rest,
and every run is held against the laws by `judge`.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roocontext.errors import BudgetExceeded, RecoveryExhausted, SummaryFailed
from roocontext.log.counting import Budget
from roocontext.policies.default import Default
from roocontext.policies.hybrid import Hybrid
from roocontext.policies.layout import groups
from roocontext.policies.sliding_window import SlidingWindow
from roocontext.programs.gemini_cli.policy import Gemini
from roocontext.programs.opencode.policy import OpenCode
from support.async_manager import Scripted, manager
from support.dialogue import state
from support.examples import examples
from support.histories import HISTORIES, play
from support.run_judge import Trial, changes_since, is_lawful, is_sound, judge, settle
from support.situations import LETTERS, situated

EXAMPLES = examples(16, long=25)
RECOVERIES = examples(12, long=25)

shares = st.floats(0.05, 0.95)
POLICIES: dict[str, st.SearchStrategy[Any]] = {
    "default": st.one_of(
        st.just(Default()),
        st.builds(Default, threshold=shares, relief=shares, target=shares, keep=shares),
        st.builds(Default, reserve=st.integers(0, 50), patience=st.integers(0, 2)),
    ),
    "hybrid": st.one_of(
        st.just(Hybrid()),
        st.builds(Hybrid, target=shares, share=shares, least=st.integers(0, 40)),
    ),
    "sliding_window": st.builds(SlidingWindow, reserve=st.integers(0, 40)),
    "gemini": st.builds(Gemini, threshold=shares),
    "opencode": st.builds(
        OpenCode, protect=st.integers(0, 400), minimum=st.integers(0, 200), prune=st.booleans()
    ),
}
KEEPING = ("default", "hybrid", "sliding_window")
"""Those that never hide what is newest; the programs that the others follow may sum up all."""

AIMS = st.sampled_from(["manage", "manage", "manage", "condense", "truncate", "clear"])
SYSTEMS = st.sampled_from([None, None, "be brief", "word " * 60])
LIMITS = st.sampled_from([Budget(), Budget(), Budget(bytes=4_000), Budget(images=1)])
ROOMS = st.sampled_from([0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 1.1])
"""How much of the view the window would hold."""

ANSWERS = st.sampled_from(
    [
        "in short",
        "in short",
        lambda request: "x" * (request.longest or 40),
        lambda request: "x" * 4 * (request.longest or 40),
        "word " * 2_000,
        "  \n",
        SummaryFailed(kind="overloaded"),
        ValueError("boom"),
    ]
)
"""Something short, what was allowed and what was just not, far too much, nothing, a failure."""


def examined(times: int, **drawn: st.SearchStrategy[Any]) -> Callable[..., Any]:
    """A property: the same examples each time, others in a long run."""
    bounded = settings(
        max_examples=times,
        suppress_health_check=list(HealthCheck),
    )
    return lambda examine: bounded(given(**drawn)(examine))


def making(chat: Any, room: float, summary: Any, **options: Any) -> Callable[[], Trial]:
    """Makes managers for a session of which the window holds a part."""
    window = max(1, int(chat.tokens(LETTERS) * room))

    def make() -> Trial:
        script = Scripted(summary)
        told = {"limit": window, "counter": LETTERS, "summariser": script, **options}
        return Trial(manager(chat, **told), script.requests)

    return make


@pytest.mark.parametrize("name", POLICIES)
def test_laws_hold_after_any_history(memory, name):
    @examined(
        EXAMPLES,
        history=HISTORIES,
        policy=POLICIES[name],
        aim=AIMS,
        room=ROOMS,
        system=SYSTEMS,
        summary=ANSWERS,
        limits=LIMITS,
    )
    def examine(history, policy, aim, room, system, summary, limits):
        chat = memory.create()
        play(chat, history)
        make = making(chat, room, summary, policy=policy, limits=limits)
        kept = newest(chat)
        verdict = judge(chat, make, aim, system=system)
        if name in KEEPING:
            cleared = {seq for change in verdict.changes for seq, _ in change.clears}
            left = {row.seq: row.content for row in chat.view().messages}
            assert kept.keys() <= left.keys()
            assert all(left[seq] == kept[seq] for seq in kept.keys() - cleared)
        settle(chat, make, system=system)

    examine()


@pytest.mark.parametrize("name", POLICIES)
def test_recover_makes_the_request_smaller_or_refuses(memory, name):
    @examined(RECOVERIES, history=HISTORIES, policy=POLICIES[name], summary=ANSWERS)
    def examine(history, policy, summary):
        chat = memory.create()
        play(chat, history)
        trial = making(chat, 1.5, summary, policy=policy)()
        before, tokens = state(chat), chat.tokens(LETTERS)
        try:
            outcome = trial.context.recover(chat, RuntimeError("prompt is too long"))
        except RecoveryExhausted:
            assert (chat.head_seq(), chat.view().messages) == (before[1], before[2].messages)
        else:
            assert chat.tokens(LETTERS) == outcome.tokens_after < tokens
        for change in changes_since(chat, before[0].seq):
            is_lawful(chat, trial, change)
        is_sound(chat)

    examine()


@examined(EXAMPLES, history=HISTORIES, room=st.sampled_from([0.1, 0.3, 0.5]))
def test_refusal_names_rows_that_no_plan_could_hide(memory, history, room):
    """A window that holds what the refusal asks for is enough."""
    chat = memory.create()
    play(chat, history)
    for policy in ("default", "sliding_window"):
        refused = refusal_of(making(chat, room, ValueError("boom"), policy=policy)(), chat)
        if refused is not None:
            options = {"policy": policy, "limit": refused.needed, "counter": LETTERS}
            enough = manager(chat, summariser=Scripted(ValueError("boom")), **options)
            assert enough.preview(chat).tokens_after <= refused.needed


def newest(chat: Any) -> dict[int, Any]:
    """The contents of the newest group, by seq."""
    parts = groups(situated(chat, LETTERS, window=1))
    return {row.seq: row.message.content for row in parts[-1].rows} if parts else {}


def refusal_of(trial: Trial, chat: Any) -> BudgetExceeded | None:
    """The error that a run would end with, if it would."""
    try:
        trial.context.preview(chat)
    except BudgetExceeded as refused:
        return refused
    return None
