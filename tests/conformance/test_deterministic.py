"""L10: with a given clock and id source, two runs write byte-identical logs, on both engines.

The second script lets managers of every policy do all that they can do to a session, and has
everything fail in them that can.
"""

from contextlib import suppress
from typing import Any

import pytest
from freezegun import freeze_time

from roocontext import ContextManager, Hooks, NewMessage, Plan, Store
from roocontext.context import AfterCompact, BeforeCompact
from roocontext.errors import BudgetExceeded, SummaryFailed
from roocontext.policies.builtin import policies
from support.async_manager import Scripted, manager
from support.dialogue import WORDS, call, exchange, fill, result, shown, work
from support.dumps import dump
from support.examples import everyday
from support.nasty_sessions import WINDOW
from support.steady_sources import CountedIds, SetClock

POLICIES = everyday(("default", "gemini", "roo-2026"), policies.known())


def write_everything(store: Store) -> None:
    """Every operation that writes."""
    chat = store.create(title="mend the parser", metadata={"branch": "main"})
    for number in range(6):
        chat.append("user", f"question {number} " + "x" * 80, message_id=f"m{number}", ts=number)
        chat.append_many(exchange([f"t{number}"], "y" * 90))
        chat.append("assistant", "answer \ud83d\0", client_id=f"c{number}", usage={"output": 1})
    view = chat.view()
    chat.pin(view.messages[0].seq)
    chat.commit(Plan.clear(view, [(view.messages[2].seq, 0)]))
    view = chat.view()
    seqs = [message.seq for message in view.messages]
    companion = NewMessage("assistant", "Understood.")
    chat.commit(Plan.condense(view, seqs[1:8], "what happened", companions=[companion]))
    view = chat.view()
    chat.commit(Plan.truncate(view, [message.seq for message in view.messages[3:7]]))
    chat.rewind(to="m3")
    chat.undo()
    fork = chat.fork(12, session_id="Fork")
    chat.redact(seqs[0])
    fork.append("user", "elsewhere")
    chat.set_title("done")
    store.purge(store.create("gone").id)


def manage_everything(store: Store) -> None:
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


KINDS = {"message", "summary", "marker", "companion", "clearing", "rewind", "note"}


@pytest.mark.parametrize("script", [write_everything, manage_everything])
def test_two_runs_on_two_engines_write_the_same_bytes(script, tmp_path, postgres_url):
    def run(url: str) -> dict[str, list[tuple[Any, ...]]]:
        with Store.open(url, clock=SetClock(), ids=CountedIds()) as store:
            script(store)
            assert all(store.session(info.session_id).verify().ok for info in store.sessions())
        return dump(url)

    first = run(str(tmp_path / "first.db"))
    kinds = [row[2] for row in first["entries"]]
    assert ({*kinds}, len(kinds) > 40) == (KINDS, True)
    assert script is write_everything or kinds.count("summary") > len(POLICIES)
    for other in everyday([postgres_url], [str(tmp_path / "second.db"), postgres_url]):
        assert run(other) == first


def test_store_without_a_clock_takes_the_time_of_day(tmp_path):
    with freeze_time("2026-01-02 03:04:05"), Store.open(tmp_path / "store.db") as store:
        chat = store.create("now")
        chat.append("user", "hello")
        (entry,) = chat.audit()
        assert (chat.info().created_at, entry.entry.recorded_at) == (1_767_323_045_000,) * 2
