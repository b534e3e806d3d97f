"""Every nasty history with every policy of ours: it ends, by law, and comes to rest."""

from typing import Any

import pytest

from roocontext import ContextManager, Store
from roocontext.errors import BudgetExceeded, StoreReadOnly
from support.async_manager import Scripted, manager
from support.dialogue import fill
from support.examples import everyday
from support.nasty_sessions import KINDS, WINDOW
from support.run_judge import Trial, Verdict, judge, settle

POLICIES = everyday(("default",), ("default", "hybrid", "sliding_window", "gemini", "opencode"))
"""The others meet random histories every day, in test_policy_properties."""
ASKING = everyday(("default",), ("default", "hybrid", "gemini", "opencode"))
SHORTER = ("a pin in the middle of parallel calls", "a pinned output that is most of the window")
"""Where the offline summariser, which keeps to the room it is told, comes to a summary."""

SUMMARISED = everyday(
    [name for name, kind in KINDS.items() if kind.ends not in ("refused", "noop")], list(KINDS)
)
"""Those in which a summariser may be asked."""

EVERYWHERE = (
    "the newest output is over the limit and a little is old",
    "everything is pinned",
    "a pin in the middle of parallel calls",
    "a call waits at the end",
    "lone surrogates and nul",
    "three formats in one session",
    "rewound and taken back",
    "forked after a summary",
    "redacted in the middle",
    "the system prompt is one token too long",
)
"""What is tried on a server too."""


def tried(chat: Any, name: str, policy: str, summary: Any = "What was done.") -> Verdict:
    """Make the session nasty, run a manager over it, and then again until it comes to rest."""
    kind = KINDS[name]
    chat = kind.build(chat)

    def make() -> Trial:
        script = Scripted(summary)
        options = {"policy": policy, "summariser": script, **kind.options}
        return Trial(manager(chat, **options), script.requests)

    verdict = judge(chat, make, **kind.frame)
    settle(chat, make, **kind.frame)
    return verdict


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", KINDS)
def test_manage_of_any_nasty_history_keeps_the_laws(memory, name, policy):
    verdict = tried(memory.create(), name, policy)
    if policy == "default":
        assert verdict.status == KINDS[name].ends
        assert verdict.asked == 0 or name in SUMMARISED


@pytest.mark.only("postgres")
@pytest.mark.parametrize("name", EVERYWHERE)
def test_manage_of_nasty_histories_is_the_same_on_a_server(chat, name):
    assert tried(chat, name, "default").status == KINDS[name].ends


@pytest.mark.parametrize("policy", ASKING)
@pytest.mark.parametrize("name", SUMMARISED)
def test_manage_without_a_summary_keeps_the_laws(memory, name, policy):
    verdict = tried(memory.create(), name, policy, summary=ValueError("no"))
    assert verdict.status != "condensed"


@pytest.mark.parametrize("name", SUMMARISED)
def test_offline_summariser_reads_anything(memory, name):
    kind = KINDS[name]
    chat = kind.build(memory.create())
    make = lambda: Trial(manager(chat, **kind.options), [])  # noqa: E731
    verdict = judge(chat, make, **kind.frame)
    assert verdict.status in (kind.ends, "condensed" if name in SHORTER else "truncated")


def test_unwritable_store_raises_and_can_still_be_read(tmp_path):
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        full, fits = store.create("full"), store.create("fits")
        fill(full, 40)
        fits.append("user", "hello")
        fits.append("assistant", "hi", usage={"input_tokens": 9, "output_tokens": 2}, model="m")
    context = ContextManager("gpt-4o", limit=WINDOW, summariser=Scripted())
    with Store.open(path, read_only=True) as store:
        full, fits = store.session("full"), store.session("fits")
        assert context.manage(fits).status == "noop"
        assert context.preview(full).status == "condensed"
        assert context.will_manage(full)
        with pytest.raises(StoreReadOnly):
            context.manage(full)
        with pytest.raises(BudgetExceeded) as refused:
            ContextManager("gpt-4o", limit=1).manage(full)
        assert refused.value.needed > refused.value.limit == 1
