"""The policy `server`: the provider compacts where it can, and `default` acts where it does not."""

from typing import Any

import pytest

from roocontext.context import Status
from roocontext.errors import InvalidOption
from support.async_manager import Scripted, manager
from support.dialogue import WORDS, fill, shown, text
from support.replies import CLAUDE, claude, readable

pytestmark = pytest.mark.every_leg

GPT, OLD = "gpt-5.6", "gpt-4o"
THRESHOLD = (100_000 - 8_192) * 85 // 100


class Tenfold:
    """A counter by which the messages of these tests fill a window of 100,000 tokens."""

    name, exact = "tenfold", False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002
        return len(str(content)) * 20


def context(chat: Any, model: str = CLAUDE, **options: Any) -> Any:
    options = {"summariser": Scripted(), "limit": 100_000, "output": 8_192, **options}
    return manager(chat, model, policy="server", counter=Tenfold(), **options)


def fill_up(chat: Any) -> None:
    """Fill the window beyond the threshold; it is the model's turn."""
    while len(str([m.content for m in chat.view().messages])) * 20 < 87_000:
        chat.append("user", WORDS)
    assert chat.tokens(Tenfold()) < 100_000


def compacted(model: str = CLAUDE) -> dict[str, Any]:
    usage = {"input_tokens": 90_000, "output_tokens": 40}
    return claude(readable("All so far."), text("Next."), model=model, usage=usage)


class TestOptions:
    def test_of_anthropic(self, chat):
        fill(chat, 3)
        outcome = context(chat).manage(chat)
        assert (outcome.status, outcome.changed) == (Status.NOOP, False)
        edit = {
            "type": "compact_20260112",
            "trigger": {"type": "input_tokens", "value": THRESHOLD},
        }
        request = chat.request("anthropic", model=CLAUDE, **outcome.options)
        assert request["context_management"] == {"edits": [edit]}
        assert request["betas"] == ["compact-2026-01-12"]
        assert request["messages"]

    def test_of_openai(self, chat):
        fill(chat, 3)
        outcome = context(chat, GPT).manage(chat)
        request = chat.request("openai-responses", model=GPT, **outcome.options)
        wanted = [{"type": "compaction", "compact_threshold": THRESHOLD}]
        assert request["context_management"] == wanted
        assert "betas" not in request

    @pytest.mark.values_on_one_leg
    @pytest.mark.parametrize("options", [{"limit": 50_000}, {"model": OLD}, {"model": ""}])
    def test_none_where_the_provider_offers_nothing(self, chat, options):
        fill(chat, 3)
        assert context(chat, **options).manage(chat).options == {}

    def test_none_with_pins(self, chat):
        fill(chat, 3)
        chat.pin(1)
        assert context(chat).manage(chat).options == {}
        chat.unpin(1)
        assert context(chat).manage(chat).options

    def test_none_of_other_policies_and_other_runs(self, chat):
        fill(chat, 3)
        assert manager(chat, CLAUDE).manage(chat).options == {}
        assert context(chat).truncate(chat).options == {}

    def test_preview_has_them_too(self, chat):
        fill(chat, 3)
        one = context(chat)
        assert one.preview(chat).options == one.manage(chat).options

    @pytest.mark.values_on_one_leg
    @pytest.mark.parametrize(
        ("form", "options"),
        [
            ("openai", {"context_management": []}),
            ("anthropic", {"context_management": []}),
            ("openai-responses", {"betas": ["x"]}),
            ("anthropic", {"context_management": {}, "compact": True}),
            ("anthropic", {"betas": "compact-2026-01-12"}),
        ],
    )
    def test_request_refuses_those_of_another_provider(self, chat, form, options):
        fill(chat, 3)
        with pytest.raises(InvalidOption):
            chat.request(form, **options)


class TestOverTheThreshold:
    def test_it_is_left_to_the_provider_once(self, chat):
        fill_up(chat)
        one, head = context(chat), chat.head()
        assert one.will_manage(chat)
        outcome = one.manage(chat)
        assert (outcome.status, outcome.detail) == (Status.NOOP, "delegated")
        assert chat.head() == head
        assert one.manage(chat).detail == "delegated"
        request = chat.request("anthropic", model=CLAUDE, **outcome.options)
        done = chat.record(compacted(), request)
        assert shown(chat) == [done.seq]
        assert one.manage(chat).detail == ""

    def test_after_a_reply_without_a_compaction_default_acts(self, chat):
        fill_up(chat)
        one = context(chat)
        outcome = one.manage(chat)
        reply = compacted()
        reply["content"] = reply["content"][1:]
        chat.record(reply, chat.request("anthropic", model=CLAUDE, **outcome.options))
        chat.append("user", "Go on.")
        outcome = one.manage(chat)
        assert outcome.status is Status.CONDENSED
        assert outcome.policy == "server"
        assert outcome.options
        fill_up(chat)
        assert one.manage(chat).detail == "delegated"

    def test_failed_compaction_is_none(self, chat):
        fill_up(chat)
        one = context(chat)
        reply = compacted()
        reply["content"][0]["content"] = None
        chat.record(reply, chat.request("anthropic", model=CLAUDE))
        chat.append("user", "Go on.")
        assert one.manage(chat).status is Status.CONDENSED

    def test_with_pins_default_acts(self, chat):
        fill(chat, 2)
        fill_up(chat)
        chat.pin(1)
        outcome = context(chat).manage(chat)
        assert outcome.status in (Status.CONDENSED, Status.TRUNCATED)
        assert 1 in shown(chat)

    def test_for_a_model_without_it_default_acts(self, chat):
        fill(chat, 2)
        fill_up(chat)
        assert context(chat, OLD).manage(chat).status is Status.CONDENSED

    def test_over_the_window_default_acts(self, chat):
        fill(chat, 2)
        fill_up(chat)
        for _ in range(8):
            chat.append("user", WORDS)
        one = context(chat)
        assert chat.tokens(Tenfold()) > 100_000
        assert one.manage(chat).status is Status.CONDENSED
