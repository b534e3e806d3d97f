"""Gemini CLI: when a history is compressed, what of it, and what becomes of the summary."""

import json

import pytest

from roocontext import Kind
from roocontext.log.plan import Action
from roocontext.policies.situation import (
    Aim,
    Ask,
    Nothing,
    Ready,
    Refused,
    ReportedTokens,
    TooLarge,
)
from roocontext.programs.gemini_cli.policy import (
    ACKNOWLEDGEMENT,
    INSTRUCTION,
    CompressionStatus,
    Gemini,
    GeminiUpstream,
    content_of,
    split_point,
    weights,
)
from support.deciding import decided, seen, summary, texts
from support.dialogue import WORDS, call, result, shown, text
from support.situations import LETTERS

BOTH = pytest.mark.parametrize("kind", [Gemini, GeminiUpstream])


def decide(chat, policy=Gemini(), **facts):  # noqa: B008 - frozen
    return decided(chat, policy, **facts)


def talk(chat, count, words=WORDS):
    """Questions and answers, and a question that waits; their seqs."""
    roles = ("user", "assistant")
    return [chat.append(roles[n % 2], f"message {n} {words}").seq for n in range(2 * count + 1)]


def forced(chat, policy=Gemini(), **facts):  # noqa: B008 - frozen
    decision = decide(chat, policy, aim=Aim.CONDENSE, trigger="manual", **facts)
    assert isinstance(decision, Ask), decision
    return decision


def compress(chat, policy=Gemini(), said="in short", **facts):  # noqa: B008 - frozen
    """Ask for it, be given this summary, and commit; what was asked."""
    asked = forced(chat, policy, **facts)
    ready = asked.compose(summary(said))
    assert isinstance(ready, Ready), ready
    assert ready.status == CompressionStatus.COMPRESSED
    chat.commit(ready.plan)
    return asked


def said_now(chat):
    contents = map(content_of, chat.view().messages)
    return ["".join(part["text"] for part in content["parts"]) for content in contents]


# When


@BOTH
def test_threshold_is_a_setting_and_is_reached_when_it_is_met(chat, kind):
    talk(chat, 4)
    tokens = seen(chat, kind()).size.tokens
    for policy, window in ((kind(), 2 * tokens), (kind(threshold=0.9), tokens * 10 // 9)):
        assert isinstance(decide(chat, policy, window=window), Ask)
        below = decide(chat, policy, window=window + 2)
        assert (type(below), below.status) == (Nothing, CompressionStatus.NOOP)
    assert isinstance(decide(chat, kind(threshold=0)), Ask)


def test_reported_size_counts_before_our_estimate(chat):
    talk(chat, 4)
    told = ReportedTokens(input=400, output=60, since=40)
    assert isinstance(decide(chat, window=1000, reported=told), Ask)
    assert isinstance(decide(chat, window=1001, reported=told), Nothing)
    assert isinstance(decide(chat, GeminiUpstream(), window=1000, reported=told), Nothing)
    assert isinstance(decide(chat, GeminiUpstream(), window=800, reported=told), Ask)
    assert isinstance(decide(chat, GeminiUpstream(), window=801, reported=told), Nothing)


def test_request_that_takes_nearly_all_the_room_is_compressed_for(chat):
    talk(chat, 4)
    never, room = Gemini(threshold=2), {"window": 10_100}
    exact = ReportedTokens(input=100, output=4500, since=5000)
    assert isinstance(decide(chat, never, reported=exact, **room), Nothing)
    more = exact._replace(since=5001)
    assert isinstance(decide(chat, never, reported=more, **room), Ask)
    assert isinstance(decide(chat, GeminiUpstream(threshold=2), reported=more, **room), Nothing)


@BOTH
def test_summaries_are_made_on_request_or_until_one_fails(chat, kind):
    talk(chat, 4)
    tokens = seen(chat, kind()).size.tokens
    assert isinstance(decide(chat, kind(), window=tokens, failures=1), Nothing)
    decisions = {Aim.CONDENSE: Ask, Aim.RECOVER: Ask, Aim.CLEAR: Nothing, Aim.TRUNCATE: Nothing}
    for aim, decision in decisions.items():
        assert isinstance(decide(chat, kind(), aim=aim, failures=3), decision)


def test_rows_are_left_out_if_no_summary_comes_and_the_window_is_passed(chat):
    talk(chat, 8)
    tokens = seen(chat, Gemini()).size.tokens
    upstream = GeminiUpstream()
    assert decide(chat, window=tokens).otherwise is None
    assert decide(chat, window=tokens - 1).otherwise.plan.action is Action.TRUNCATE
    assert decide(chat, upstream, window=tokens - 1).otherwise is None
    failed = decide(chat, window=tokens - 1, failures=1)
    assert (type(failed), failed.plan.action) == (Ready, Action.TRUNCATE)
    assert isinstance(decide(chat, upstream, window=tokens - 1, failures=1), Nothing)
    told = ReportedTokens(input=2 * tokens, output=0, since=0)
    assert decide(chat, window=2 * tokens, reported=told).otherwise is None
    assert decide(chat, window=2 * tokens - 1, reported=told).otherwise is not None


def test_request_leaves_nothing_out(chat):
    talk(chat, 8)
    assert forced(chat, window=seen(chat, Gemini()).size.tokens - 1).otherwise is None
    for row in chat.view().messages:
        chat.pin(row.seq)
    assert isinstance(decide(chat, aim=Aim.CONDENSE, window=1), Nothing)
    assert isinstance(decide(chat, window=1), TooLarge)


# What


def test_older_part_goes_and_the_newer_stays_after_the_acknowledgement(chat):
    said = talk(chat, 5)
    assert compress(chat).hides == tuple(said[:8])
    assert said_now(chat)[:2] == ["in short", ACKNOWLEDGEMENT]
    assert [message.role for message in chat.view().messages[:3]] == ["user", "assistant", "user"]
    assert shown(chat)[2:] == said[8:]
    assert [message.kind for message in chat.view().messages[:2]] == [Kind.SUMMARY, Kind.COMPANION]


@BOTH
@pytest.mark.parametrize("said", [("user", WORDS), ("assistant", [], [])])
def test_single_question_and_blank_answers_alone_cannot_be_compressed(chat, kind, said):
    role, *contents = said
    for content in contents:
        chat.append(role, content)
    for facts in ({}, {"aim": Aim.CONDENSE}):
        assert isinstance(decide(chat, kind(threshold=0), **facts), Nothing)


def test_call_is_not_separated_from_a_result_after_the_cut(chat):
    first = chat.append("user", WORDS * 9).seq
    called = chat.append("assistant", [call("a")]).seq
    chat.append("user", "wait")
    chat.append("user", [result("a")])
    chat.append("assistant", "so")
    assert (forced(chat).hides, forced(chat, GeminiUpstream()).hides) == ((first,), (first, called))
    compress(chat, GeminiUpstream())


def test_call_that_waits_for_its_result_stays(chat):
    asked = chat.append("user", WORDS).seq
    called = chat.append("assistant", [call("a")]).seq
    said = chat.append("assistant", WORDS * 9).seq
    assert forced(chat).hides == (asked, said)
    assert forced(chat, GeminiUpstream()).hides == (asked, called, said)


def test_blank_answers_before_the_cut_go_with_it_and_nobody_is_asked_about_them(chat):
    asked = chat.append("user", WORDS * 9).seq
    said, blank = chat.append("assistant", "well").seq, chat.append("assistant", []).seq
    chat.append("user", "and?")
    left_blank = chat.append("assistant", []).seq
    upstream = forced(chat, GeminiUpstream())
    assert upstream.hides == (asked, said, blank)
    assert texts(upstream.request) == [(WORDS * 9)]
    compress(chat)
    assert left_blank in shown(chat)


def test_summary_before_is_handed_on_and_replaced(chat):
    talk(chat, 6)
    compress(chat, said="the first summary")
    chat.append("assistant", "well")
    talk(chat, 6)
    asked = forced(chat)
    assert asked.request.previous == "the first summary"
    assert not {"the first summary", ACKNOWLEDGEMENT} & set(texts(asked.request))
    upstream = forced(chat, GeminiUpstream()).request
    assert upstream.previous is None
    assert texts(upstream)[:2] == ["the first summary", ACKNOWLEDGEMENT]
    compress(chat, said="the second summary")
    assert said_now(chat)[:2] == ["the second summary", ACKNOWLEDGEMENT]
    assert "the first summary" not in said_now(chat)


def test_summariser_gets_the_programs_prompt(chat):
    said = talk(chat, 5)
    request = forced(chat, model="gemini-2.5-pro").request
    assert texts(request) == [chat.message(seq).content for seq in said[:8]]
    assert (request.style, request.model) == ("gemini", "chat-compression-2.5-pro")
    assert request.instruction is None
    hidden = sum(row.size.tokens for row in seen(chat, Gemini()).visible if row.seq in said[:8])
    assert request.longest == hidden - LETTERS.count("assistant", ACKNOWLEDGEMENT, "anthropic") - 1
    assert request.characters > request.longest
    assert forced(chat, GeminiUpstream()).request.instruction == INSTRUCTION
    assert forced(chat, model="claude-opus-5").request.model is None


# What becomes of it


def test_summary_must_make_the_context_smaller(chat):
    talk(chat, 5)
    asked = forced(chat)
    hidden = asked.request.longest
    exact = "x" * (4 * (hidden - 1) - 2)
    assert LETTERS.count("user", exact, "anthropic") == hidden
    ready = asked.compose(summary(exact))
    assert isinstance(ready, Ready)
    assert ready.plan.counts.after.tokens == ready.plan.counts.before.tokens - 1
    refused = asked.compose(summary(exact + "four"))
    assert isinstance(refused, Refused)
    assert refused.status == CompressionStatus.INFLATED


def test_no_summary_is_asked_for_if_none_could_help(chat):
    chat.append("user", "a")
    chat.append("assistant", "b")
    chat.append("user", "c")
    assert isinstance(decide(chat, Gemini(fraction=0.1), aim=Aim.CONDENSE), Nothing)
    assert isinstance(decide(chat, GeminiUpstream(fraction=0.1), aim=Aim.CONDENSE), Ask)


def test_program_accepts_a_history_of_the_size_that_was_reported(chat):
    talk(chat, 5)
    policy = GeminiUpstream(count=lambda _: 1_000)
    asked = forced(chat, policy, reported=ReportedTokens(1_000, 5, 5))
    outcome = asked.compose(summary(WORDS * 50))
    assert (type(outcome), outcome.status) == (Ready, CompressionStatus.COMPRESSED)
    assert outcome.plan.counts.after.tokens > outcome.plan.counts.before.tokens
    chat.commit(outcome.plan)


def test_without_a_count_of_its_own_the_program_takes_ours(chat):
    talk(chat, 5)
    tokens = seen(chat, GeminiUpstream()).size.tokens
    outcome = forced(chat, GeminiUpstream()).compose(summary())
    record, counts = outcome.plan.record, outcome.plan.counts
    assert (record["original"], record["new"]) == (counts.before.tokens, counts.after.tokens)
    assert counts.before.tokens == tokens
    larger = forced(chat, GeminiUpstream()).compose(summary(WORDS * 100))
    assert (type(larger), larger.status) == (Refused, CompressionStatus.INFLATED)


@BOTH
@pytest.mark.parametrize("said", ["", WORDS * 100])
def test_only_an_automatic_failure_latches(chat, kind, said):
    talk(chat, 5)
    tokens = seen(chat, kind()).size.tokens
    assert decide(chat, kind(), window=tokens).compose(summary(said)).latch
    assert not forced(chat, kind()).compose(summary(said)).latch
    assert forced(chat, kind(), failures=1).compose(summary(said)).latch


# Contents


def test_rows_of_other_formats_are_shown_as_contents(chat):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}
    link = {"type": "image", "source": {"type": "url", "url": "u"}}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    chat.append("user", [text("see"), image, link])
    chat.append("assistant", [thought, call("a")])
    chat.append("user", [result("a", "out")])
    contents = [content_of(message) for message in chat.view().messages]
    inline = {"inlineData": {"mimeType": "image/png", "data": "A"}}
    called = {"functionCall": {"id": "a", "name": "run", "args": {"command": "ls"}}}
    response = {"functionResponse": {"id": "a", "response": {"output": "out"}}}
    assert contents == [
        {"role": "user", "parts": [{"text": "see"}, inline, link]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, called]},
        {"role": "user", "parts": [response]},
    ]
    assert split_point(contents, 0.5) == 0
    assert weights(contents[2:]) == [len(json.dumps(contents[2], separators=(",", ":")))]
