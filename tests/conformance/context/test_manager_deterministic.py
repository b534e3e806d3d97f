"""L10 with a manager: the same script with a given clock writes the same bytes, on both engines.

The script lets managers of every policy do all that they can do to a session, and has everything
fail in them that can.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from roocontext import ContextManager, Hooks, Store
from roocontext.context import AfterCompact, BeforeCompact
from roocontext.errors import BudgetExceeded, SummaryFailed
from roocontext.policies.builtin import policies
from support.async_manager import Scripted, manager
from support.dialogue import WORDS, call, fill, result, shown, work
from support.dumps import dump
from support.examples import everyday
from support.nasty_sessions import WINDOW
from support.steady_sources import CountedIds, SetClock

Rows = dict[str, list[tuple[Any, ...]]]

POLICIES = everyday(("default", "gemini", "roo-2026"), policies.known())


def script(store: Store) -> None:
    """Each policy in a session of its own, and then the other features of the default one."""
    for name in POLICIES:
        manage_it(store, name)
    fail_it(store)
    refuse_it(store)


def manage_it(store: Store, policy: str) -> None:
    """Whatever a manager is asked to do, with what a user does in between."""
    chat = store.create(f"with {policy}")
    offline = manager(chat, policy=policy, limit=WINDOW)
    said = fill(chat, 6)
    chat.pin(said[2])
    for number in range(7):
        work(chat, (f"a{number}", f"b{number}"), f"{number} {WORDS}")
        managed(offline, chat)
    for act in (offline.prune, offline.condense, offline.truncate):
        fill(chat, 9)
        act(chat)
    chat.rewind(to=said[-1])
    chat.undo()
    fill(chat, 20)
    usage = {"input_tokens": 4_000, "output_tokens": 40}
    chat.append("assistant", "ok \ud83d\0", usage=usage, model="gpt-4o", client_id="c")
    managed(offline, chat, system=WORDS, tools=[{"name": "run", "input_schema": {}}])
    chat.unpin(said[2])
    fill(chat, 30)
    with suppress(BudgetExceeded):
        offline.recover(chat, RuntimeError("prompt is too long: 2000 tokens > 1000 maximum"))
    fork = chat.fork(chat.head().seq // 2, session_id=f"fork of {policy}")
    fill(fork, 20)
    managed(offline, fork)


def managed(context: ContextManager, chat: Any, **frame: Any) -> None:
    """A refusal is an outcome too."""
    with suppress(BudgetExceeded):
        context.manage(chat, **frame)


def fail_it(store: Store) -> None:
    """Failures up to the latch, a veto, and hooks whose results are recorded."""
    chat = store.create("failing")
    hooks = Hooks()
    hooks.on(BeforeCompact, lambda event: event.tokens < 1_500, veto=True)
    hooks.on(AfterCompact, lambda _event: 1 // 0)
    answers = [ValueError("secret"), SummaryFailed(kind="overloaded"), "", WORDS * 90, "short"]
    context = manager(chat, limit=WINDOW, summariser=Scripted(*answers), hooks=hooks)
    fill(chat, 17)
    for _ in range(5):
        context.manage(chat)
    context.condense(chat)
    fill(chat, 40)
    assert context.manage(chat).status == "vetoed"


def refuse_it(store: Store) -> None:
    """Both refusals, and a pin that leads to one."""
    chat = store.create("refused")
    context = manager(chat, limit=WINDOW)
    fill(chat, 4)
    chat.append("assistant", [call("w")])
    chat.append("user", [result("w", WORDS * 9)])
    managed(context, chat, system=WORDS * 50)
    chat.append("user", WORDS * 50)
    managed(context, chat)
    chat.rewind(to=4)
    for seq in shown(chat):
        chat.pin(seq)
    fill(chat, 40)
    managed(context, chat)


@pytest.fixture
def run() -> Callable[[str], Rows]:
    """Runs the script on a new store with a clock of its own, and reads what it wrote."""

    def run(url: str) -> Rows:
        with Store.open(url, clock=SetClock(), ids=CountedIds()) as store:
            script(store)
            assert all(store.session(info.session_id).verify().ok for info in store.sessions())
        return dump(url)

    return run


def test_two_managed_runs_on_two_engines_write_the_same_bytes(
    run: Callable[[str], Rows], tmp_path: Path, postgres_url: str
) -> None:
    first = run(str(tmp_path / "first.db"))
    kinds = {row[2] for row in first["entries"]}
    assert kinds == {"message", "summary", "marker", "companion", "clearing", "rewind", "note"}
    assert sum(row[2] == "summary" for row in first["entries"]) > len(POLICIES)
    for other in everyday([postgres_url], [str(tmp_path / "second.db"), postgres_url]):
        assert run(other) == first
