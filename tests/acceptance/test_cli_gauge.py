"""The gauge: the size that the provider reported, and estimates only for the rest."""

from typing import Any

import pytest

from roocontext import ContextManager, Plan, Session, Store
from roocontext.tokens import counter_for
from support.cli_process import CommandLine

MODEL = "claude-sonnet-4-5"
USAGE = {"input_tokens": 15_000, "cache_read_input_tokens": 4_900, "output_tokens": 100}
SYSTEM = "Answer in one short sentence. " * 40


@pytest.fixture
def chat(database: str) -> Any:
    with Store.open(database) as store:
        yield store.create("one")


def gauge(run: CommandLine, *words: str) -> Any:
    return run(*(words or ("show", "one")), "--json").document["context"]


def asked_and_answered(chat: Session) -> int:
    chat.append("user", "Why does the parser drop the last token?")
    return chat.append("assistant", "It ends too early.", model=MODEL, usage=USAGE).seq


def test_last_call_counts_as_the_provider_reported_it(chat, run):
    reply = asked_and_answered(chat)
    found = gauge(run)
    assert (found["tokens"], found["reported"], found["exact"]) == (20_000, 20_000, True)
    shown = " ".join(run("show", "one").out.split())
    assert "20,000 of 200,000 tokens, 10 %" in shown
    assert f"{MODEL} · reported with entry {reply}" in shown
    assert gauge(run, "usage", "one") == found


def test_only_messages_after_the_last_call_are_estimated(chat, run):
    reply = asked_and_answered(chat)
    later = chat.append("user", "Then fix the loop, please.").seq
    since = counter_for(MODEL).count("user", "Then fix the loop, please.", "anthropic")
    found = gauge(run)
    assert (found["tokens"], found["reported"]) == (20_000 + since, 20_000)
    assert (found["reported_at"], found["exact"]) == (reply, False)
    assert f"20,000 reported with entry {reply}, ~{since} since" in run("show", "one").out
    assert gauge(run, "show", "one", "--as-of", str(later - 1))["tokens"] == 20_000


def test_report_of_another_model_does_not_count(chat, run):
    asked_and_answered(chat)
    found = gauge(run, "show", "one", "--model", "gpt-4o")
    assert found["reported"] is None
    assert found["tokens"] < 100
    assert "counted by o200k_base, messages only" in run("show", "one", "--model", "gpt-4o").out


def test_changed_view_is_estimated_as_a_whole(chat, run):
    asked_and_answered(chat)
    chat.append("user", "word " * 200)
    counter = counter_for(MODEL)
    chat.commit(Plan.truncate(chat.view(), [3], "[cut]", counter=counter))
    found = gauge(run)
    assert (found["reported"], found["has_frame"]) == (None, False)
    assert found["tokens"] == chat.tokens(counter)
    # A rewind takes the marker back: the report counts again, with what is left after it.
    chat.rewind(to=2)
    assert gauge(run)["tokens"] == 20_000
    chat.rewind(to=1)
    assert gauge(run)["reported"] is None


def test_recorded_system_prompt_is_estimated_too(chat, run):
    chat.append("user", "Why?")
    chat.append("assistant", "So.", model=MODEL)
    tools = [{"name": "read_file", "input_schema": {"type": "object"}}]
    chat.internals.keep_frame(system=SYSTEM, tools=tools)
    manager = ContextManager(MODEL)
    found = gauge(run)
    assert found["has_frame"]
    expected = manager.preview(chat, system=SYSTEM, tools=tools).tokens_before
    assert found["tokens"] == expected
    assert expected > chat.tokens(manager.settings.counter) + 200
    assert "messages only" not in run("show", "one").out


def test_model_of_a_reply_without_usage_is_known(chat, run):
    chat.append("user", "Why?")
    chat.append("assistant", "So.", model="gpt-4o")
    assert gauge(run)["model"] == "gpt-4o"
    assert run("sessions", "--json").document["sessions"][0]["context"]["model"] == "gpt-4o"
    assert "no model is known" not in run("truncate", "one").out
    chat.append("assistant", "So there.", model=MODEL)
    assert gauge(run)["model"] == MODEL
    assert gauge(run, "show", "one", "--as-of", "2")["model"] == "gpt-4o"
