"""The loop with providers that compact, through their SDKs: the four forms of server compaction."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from roocontext.tokens import usage_tokens
from support.async_manager import manager
from support.compacting_server import CompactingServer, Quarters
from support.dialogue import WORDS, counts_of, shown
from support.examples import everyday
from support.provider_rules import CHECKS

CLAUDE, GPT = "claude-opus-4-6", "gpt-5.6"
THRESHOLD = 500


@pytest.fixture
def server() -> Iterator[CompactingServer]:
    with CompactingServer() as running:
        yield running


class Wire(NamedTuple):
    """One form of compaction: the model, the form of requests, and the call that compacts."""

    model: str
    form: str
    on_demand: bool

    def compacts(self, server: CompactingServer, chat: Any, **options: Any) -> Any:
        """Ask for a compaction, and record the reply."""
        request = chat.request(self.form, model=self.model, compact=self.on_demand)
        return chat.record(self.call(server, request, **self.asking(**options)), request)

    def speaks(self, server: CompactingServer, chat: Any) -> Any:
        """Ask the model as usual, and record the reply."""
        request = chat.request(self.form, model=self.model)
        return chat.record(self.call(server, request), request)

    def call(
        self, server: CompactingServer, request: Any, *, compact: bool = False, **fields: Any
    ) -> Any:
        """Call the SDK."""
        if self.form == "anthropic":
            messages = server.anthropic().beta.messages
            return messages.create(model=self.model, max_tokens=99, **request, **fields)
        responses = server.openai().responses
        if compact:
            return responses.compact(model=self.model, **request)
        return responses.create(model=self.model, **request, **fields)

    def asking(self, **options: Any) -> dict[str, Any]:
        """The fields of a request that compacts."""
        if self.on_demand:
            return {"compact": True}
        if self.form == "anthropic":
            trigger = {"type": "input_tokens", "value": THRESHOLD}
            edit = {"type": "compact_20260112", "trigger": trigger, **options}
            return {"context_management": {"edits": [edit]}, "betas": ["compact-2026-01-12"]}
        return {"context_management": [{"type": "compaction", "compact_threshold": THRESHOLD}]}


ANTHROPIC = Wire(CLAUDE, "anthropic", on_demand=False)
ANTHROPIC_ON_DEMAND = Wire(CLAUDE, "anthropic", on_demand=True)
OPENAI = Wire(GPT, "openai-responses", on_demand=False)
OPENAI_ON_DEMAND = Wire(GPT, "openai-responses", on_demand=True)
WIRES = {
    "anthropic": ANTHROPIC,
    "anthropic-on-demand": ANTHROPIC_ON_DEMAND,
    "openai": OPENAI,
    "openai-on-demand": OPENAI_ON_DEMAND,
}
wires = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def talk(chat: Any, model: str, turns: int = 12) -> None:
    """Some turns; the user has the last word."""
    for number in range(turns):
        chat.append("user", f"Question {number}: {WORDS}")
        chat.append("assistant", f"Answer {number}: {WORDS}", model=model)
    chat.append("user", "Go on.")


def gauge(chat: Any) -> int:
    return chat.tokens(Quarters())


def check_gauge(server: CompactingServer, chat: Any, wire: Wire) -> None:
    """The next request costs the model what we count, within a tenth, and nothing hidden.

    What all replies have cost is the sum of their iterations.
    """
    chat.append("user", f"What is next? {WORDS}")
    counted = gauge(chat)
    assert {*counts_of(chat, Quarters())} == {*shown(chat)}
    wire.speaks(server, chat)
    assert abs(counted - server.read[-1]) <= server.read[-1] / 10, (counted, server.read[-1])
    replies = [one for one in chat.usage() if one.usage is not None]
    assert replies
    for reply in replies:
        spent, used = server.spent[chat.message(reply.seq).message_id], usage_tokens(reply.usage)
        assert (used.input, used.output) == spent


def switch_and_back(server: CompactingServer, chat: Any, wire: Wire) -> None:
    """Let the other provider continue, which may need what is hidden, and then the first one."""
    other = OPENAI if wire.form == "anthropic" else ANTHROPIC
    manager(chat, other.model, limit=10**6, counter=Quarters()).manage(chat)
    check_gauge(server, chat, other)
    check_gauge(server, chat, wire)
    for form, check in CHECKS.items():
        for model in (CLAUDE, GPT, "gemini-3-pro"):
            assert check(chat.messages(form, model=model), model=model) == []
    assert chat.verify().ok


@wires
@pytest.mark.values_on_one_leg
class TestEachForm:
    def test_while_the_session_waits_for_the_user(self, chat, server, wire):
        talk(chat, wire.model)
        wire.speaks(server, chat)
        assert chat.waits_for() == "user"
        if not wire.on_demand:
            chat.append("user", "More.")
        assert wire.compacts(server, chat).covering
        assert chat.waits_for() == "user"
        check_gauge(server, chat, wire)

    def test_message_that_arrives_meanwhile(self, chat, server, wire):
        talk(chat, wire.model)
        request = chat.request(wire.form, model=wire.model, compact=wire.on_demand)
        late: list[int] = []
        server.while_answering = lambda: late.append(chat.append("user", f"Wait: {WORDS}").seq)
        reply = wire.call(server, request, **wire.asking())
        server.while_answering = lambda: None
        done = chat.record(reply, request)
        assert done.unread == tuple(late)
        assert len(late) == 1
        assert chat.waits_for() == "model"
        counted = gauge(chat)
        wire.speaks(server, chat)
        assert abs(counted - server.read[-1]) <= server.read[-1] / 10

    @pytest.mark.parametrize("scene", everyday(["twice"], ["twice", "late", "waiting"]))
    def test_switch_of_the_provider_and_back_after(self, chat, server, wire, scene):
        talk(chat, wire.model)
        if scene == "waiting":
            wire.speaks(server, chat)
            chat.append("user", "More.")
        if scene == "late":
            server.while_answering = lambda: chat.append("user", f"Wait: {WORDS}")
        full = gauge(chat)
        done = wire.compacts(server, chat)
        server.while_answering = lambda: None
        assert done.covering
        if scene == "twice":
            assert gauge(chat) < full
            check_gauge(server, chat, wire)
            talk(chat, wire.model)
            assert wire.compacts(server, chat).covering
            assert done.seq not in shown(chat)
        switch_and_back(server, chat, wire)

    def test_rewind_undo_and_fork_across_it(self, chat, server, wire):
        talk(chat, wire.model)
        before, full = shown(chat), gauge(chat)
        done = wire.compacts(server, chat)
        after, short = shown(chat), gauge(chat)
        chat.rewind(before[-1])
        assert (shown(chat), gauge(chat)) == (before, full)
        check_gauge(server, chat.fork(before[-1]), wire)
        chat.undo()
        assert (shown(chat), gauge(chat)) == (after, short)
        check_gauge(server, chat.fork(), wire)
        cut = chat.fork(done.seq)
        check_gauge(server, cut, wire)
        chat.rewind(done.seq)
        check_gauge(server, chat, wire)
        chat.rewind(done.covering)
        check_gauge(server, chat, wire)
        chat.uncover(done.covering)
        check_gauge(server, chat, wire)
        assert chat.verify().ok


@pytest.mark.parametrize("scene", ["failed", "paused"])
def test_switch_of_the_provider_and_back_after_a_compaction_that(chat, server, scene):
    talk(chat, CLAUDE)
    server.compact = "failed" if scene == "failed" else "normal"
    ANTHROPIC.compacts(
        server, chat, **({"pause_after_compaction": True} if scene == "paused" else {})
    )
    switch_and_back(server, chat, ANTHROPIC)


def test_what_the_server_edited_is_kept(chat, server):
    talk(chat, CLAUDE)
    before, request = shown(chat), chat.request(model=CLAUDE)
    edit = {"type": "clear_tool_uses_20250919"}
    reply = ANTHROPIC.call(server, request, context_management={"edits": [edit]})
    done = chat.record(reply, request)
    extra = next(one for one in chat.audit() if one.seq == done.seq).entry.extra
    edits = extra["roocontext"]["context_management"]["applied_edits"]
    assert edits == [{**edit, "cleared_tool_uses": 2, "cleared_input_tokens": 40}]
    assert shown(chat) == [*before, done.seq]


def test_policy_server_asks_the_provider(chat, server):
    asked: Callable[..., Any] = server.anthropic().beta.messages.create
    window = {"limit": 70_000, "output": 5_000, "counter": Quarters()}
    while gauge(chat) < 60_000:
        chat.append("user", WORDS * 40)
    outcome = manager(chat, CLAUDE, policy="server", **window).manage(chat)
    assert outcome.detail == "delegated"
    request = chat.request("anthropic", model=CLAUDE, **outcome.options)
    done = chat.record(asked(model=CLAUDE, max_tokens=99, **request), request)
    assert shown(chat) == [done.seq]
    assert gauge(chat) < 1_000
