"""OpenCode: which outputs are cleared, when the window is full, and what a summary hides."""

from dataclasses import replace

import pytest

from roocontext import Kind, Plan
from roocontext.log.counting import Size
from roocontext.log.plan import Action
from roocontext.policies.situation import Aim, Ask, Nothing, Ready, Refused, ReportedTokens
from roocontext.programs.opencode.policy import CONTINUE, QUESTION, OpenCode, OpenCodeUpstream
from roocontext.programs.opencode.prune import SPARED_NEWER
from support.deciding import decided, summary, texts
from support.deciding import seen as situation_of
from support.dialogue import WORDS, call, result, shown, text

BOTH = pytest.mark.parametrize("kind", [OpenCode, OpenCodeUpstream])


def seen(chat, policy, **facts):
    return situation_of(chat, policy, **{"output": 1000, **facts})


def decide(chat, policy=OpenCode(), **facts):  # noqa: B008 - frozen
    return decided(chat, policy, **{"output": 1000, **facts})


def ask(chat, said="why?"):
    return chat.append("user", said).seq


def tool(chat, tokens, name="run", tool_id="t"):
    """A call, and an output that is worth so many tokens; the seqs."""
    called = chat.append("assistant", [{**call(tool_id), "name": name}]).seq
    return called, chat.append("user", [result(tool_id, "x" * (4 * tokens))]).seq


def recent(chat):
    """Two turns, which are protected whatever they hold."""
    for _ in range(2):
        ask(chat)
        tool(chat, 90_000)
        chat.append("assistant", "so")


def talk(chat, count):
    """Questions and answers; their seqs."""
    roles = ("user", "assistant")
    return [chat.append(roles[n % 2], f"message {n} {WORDS}").seq for n in range(2 * count)]


def cleared(chat, policy=OpenCode(), **facts):  # noqa: B008 - frozen
    """The outputs that it clears when it is told to; they are cleared then."""
    decision = decide(chat, policy, aim=Aim.CLEAR, trigger="manual", **facts)
    if isinstance(decision, Nothing):
        return []
    assert isinstance(decision, Ready)
    assert decision.status == "pruned"
    chat.commit(decision.plan)
    return list(decision.plan.clears)


def asked_for(chat, policy=OpenCode(), **facts):  # noqa: B008 - frozen
    decision = decide(chat, policy, **{"aim": Aim.CONDENSE, "trigger": "manual", **facts})
    assert isinstance(decision, Ask), decision
    return decision


def full(chat, policy=OpenCode()):  # noqa: B008 - frozen
    """The decision when the context overflows."""
    asked = decide(chat, policy, window=seen(chat, policy).size.tokens)
    assert isinstance(asked, Ask), asked
    return asked


def compact(chat, policy=OpenCode(), said="in short", **facts):  # noqa: B008 - frozen
    """Ask for it, be given this summary, and commit; what was asked."""
    asked = asked_for(chat, policy, **facts)
    ready = asked.compose(summary(said))
    assert isinstance(ready, Ready), ready
    assert ready.status == "compacted"
    chat.commit(ready.plan)
    return asked


def said_now(chat):
    return [message.content for message in chat.view().messages]


# Overflow


def test_seed_profile_counts_later_messages_and_the_program_does_not(chat):
    talk(chat, 4)
    told = ReportedTokens(input=8000, output=999, since=5)
    assert isinstance(decide(chat, window=10_003, reported=told), Ask)
    assert isinstance(decide(chat, window=10_004, reported=told), Nothing)
    assert isinstance(decide(chat, OpenCodeUpstream(), window=10_003, reported=told), Nothing)


@BOTH
def test_own_count_is_used_without_a_report(chat, kind):
    talk(chat, 4)
    tokens = seen(chat, kind()).size.tokens
    facts = {"output": 10}
    assert isinstance(decide(chat, kind(), window=tokens + 10, **facts), Nothing)
    assert isinstance(decide(chat, kind(), window=tokens + 9, **facts), Ask)


def test_seed_profile_keeps_at_most_half_of_the_window_free(chat):
    talk(chat, 4)
    facts = {"output": None, "reported": ReportedTokens(input=5000, output=0, since=0)}
    assert isinstance(decide(chat, window=10_000, **facts), Nothing)
    assert isinstance(decide(chat, window=9_998, **facts), Ask)
    assert isinstance(decide(chat, OpenCodeUpstream(), window=36_999, **facts), Ask)
    assert isinstance(decide(chat, OpenCodeUpstream(), window=37_000, **facts), Nothing)


def test_program_looks_at_answers_only(chat):
    ask(chat, WORDS * 90)
    assert isinstance(decide(chat, OpenCodeUpstream(), window=1001), Nothing)
    talk(chat, 4)
    compact(chat, OpenCodeUpstream(), said=WORDS * 90)
    ask(chat)
    assert isinstance(decide(chat, OpenCodeUpstream(), window=1001), Nothing)
    chat.append("assistant", "well")
    assert isinstance(decide(chat, OpenCodeUpstream(), window=1001), Ask)


# Switches


@BOTH
def test_compaction_can_be_switched_off_but_for_requests(chat, kind):
    talk(chat, 4)
    off = kind(autocompact=False)
    assert isinstance(decide(chat, off, window=1001), Nothing)
    assert isinstance(decide(chat, off, aim=Aim.RECOVER), Nothing)
    assert isinstance(decide(chat, kind(), aim=Aim.RECOVER), Ask)
    assert isinstance(asked_for(chat, off), Ask)


# Clearing


@BOTH
def test_marks_of_clearing_are_settings(chat, kind):
    ask(chat)
    _, one = tool(chat, 30)
    tool(chat, 100)
    recent(chat)
    assert cleared(chat, kind(protect=99, minimum=130)) == []
    assert cleared(chat, kind(protect=100, minimum=30)) == []
    assert cleared(chat, kind(protect=100, minimum=29)) == [(one, 0)]


def test_short_outputs_are_not_cleared_if_that_would_grow_the_context(chat):
    few = {"protect": 9, "minimum": 9}
    ask(chat)
    for _ in range(20):
        chat.append("assistant", [call("t")])
        chat.append("user", [result("t", "x")])
    recent(chat)
    assert cleared(chat, OpenCodeUpstream(**few)) == []
    assert isinstance(OpenCode(**few).decide(seen(chat, OpenCode(), aim=Aim.CLEAR)), Nothing)
    clears_all = OpenCodeUpstream(protect=-1, minimum=-1)
    grown = clears_all.decide(seen(chat, clears_all, aim=Aim.CLEAR))
    assert grown.plan.counts.after.tokens > grown.plan.counts.before.tokens


def test_only_the_program_clears_after_a_summary_in_the_newest_turns(chat):
    ask(chat)
    _, hidden = tool(chat, 60_000)
    chat.append("assistant", "so")
    compact(chat)
    ask(chat)
    assert (cleared(chat), cleared(chat, OpenCodeUpstream())) == ([], [(hidden, 0)])


@pytest.mark.parametrize("make", [Plan.condense, Plan.truncate])
@BOTH
def test_summary_or_marker_is_no_turn(chat, kind, make):
    ask(chat)
    _, old = tool(chat, 60_000)
    ask(chat)
    gone = tool(chat, 100)
    chat.commit(make(chat.view(), gone, "in short"))
    assert chat.view().messages[-1].role == "user"
    assert cleared(chat, kind()) == []
    ask(chat)
    assert cleared(chat, kind()) == [(old, 0)]


@BOTH
def test_spared_tools_are_neither_counted_nor_cleared(chat, kind):
    ask(chat)
    _, old = tool(chat, 30_000)
    _, skill = tool(chat, 90_000, name="skill")
    tool(chat, 39_999)
    recent(chat)
    spared = kind(spared=SPARED_NEWER)
    protected = decide(chat, kind(), aim=Aim.CLEAR, protected_tools=frozenset({"skill"}))
    assert protected.plan.clears == ((old, 0),)
    assert decide(chat, kind(), aim=Aim.CLEAR).plan.clears == ((old, 0), (skill, 0))
    assert cleared(chat, spared) == [(old, 0)]


@BOTH
def test_output_of_a_tool_that_the_provider_ran_is_passed_over(chat, kind):
    ran = {"toolUseId": "s1", "type": "server_tool_use", "name": "search", "input": {}}
    found = {"toolUseId": "s1", "type": "search_result", "content": [{"text": WORDS}]}
    reply = {"role": "assistant", "content": [{"toolUse": ran}, {"toolResult": found}]}
    chat.append("assistant", reply, format="bedrock-converse")
    for _ in range(3):
        chat.append("user", "go on")
    assert isinstance(decide(chat, kind(protect=0, minimum=0), aim=Aim.CLEAR), Nothing)


@BOTH
def test_pin_keeps_outputs(chat, kind):
    ask(chat)
    _, old = tool(chat, 30_000, tool_id="a")
    called, _ = tool(chat, 90_000, tool_id="b")
    _, pinned = tool(chat, 90_000, tool_id="c")
    chat.pin(called)
    chat.pin(pinned)
    tool(chat, 39_999, tool_id="d")
    recent(chat)
    assert cleared(chat, kind()) == [(old, 0)]


@BOTH
def test_images_in_an_output_are_not_counted(chat, kind):
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A"}}
    ask(chat)
    chat.append("assistant", [call("a")])
    large = {**image, "source": {**image["source"], "data": "A" * 400_000}}
    chat.append("user", [result("a", [text("see"), large])])
    recent(chat)
    assert cleared(chat, kind()) == []
    _, old = tool(chat, 60_000)
    chat.append("assistant", "so")
    ask(chat)
    ask(chat)
    assert (old, 0) in cleared(chat, kind())


@BOTH
@pytest.mark.parametrize("form", ["openai", "gemini"])
def test_outputs_of_other_formats_are_cleared(chat, kind, form):
    ask(chat)
    for tokens, tool_id in ((20_001, "a"), (40_000, "b")):
        output = "x" * 4 * tokens
        if form == "openai":
            function = {"name": "run", "arguments": "{}"}
            calls = [{"id": tool_id, "type": "function", "function": function}]
            asked = {"role": "assistant", "content": None, "tool_calls": calls}
            told = {"role": "tool", "tool_call_id": tool_id, "content": output}
            chat.append("assistant", asked, format=form)
            chat.append("tool", told, format=form)
        else:
            thought = {"text": "hm", "thought": True}
            called = {"functionCall": {"name": "run", "args": {}}}
            told = {"functionResponse": {"name": "run", "response": {"output": output}}}
            chat.append("model", {"role": "model", "parts": [thought, called]}, format=form)
            chat.append("user", {"role": "user", "parts": [thought, told]}, format=form)
    recent(chat)
    assert cleared(chat, kind()) == [(3, 0 if form == "openai" else 1)]


def test_only_the_program_clears_an_output_that_no_reply_has_read(chat):
    ask(chat)
    _, old = tool(chat, 30_000, tool_id="a")
    _, fresh = tool(chat, 60_000, tool_id="b")
    ask(chat)
    ask(chat)
    assert decide(chat, OpenCodeUpstream(), aim=Aim.CLEAR).plan.clears == ((old, 0), (fresh, 0))
    assert cleared(chat, OpenCode(protect=20_000)) == [(old, 0)]
    chat.append("assistant", "so")
    assert cleared(chat, OpenCode(protect=20_000)) == [(fresh, 0)]


@BOTH
def test_old_outputs_are_cleared_and_a_full_window_is_compacted(chat, kind):
    ask(chat)
    _, old = tool(chat, 60_000)
    recent(chat)
    checked = decide(chat, kind())
    assert isinstance(checked, Ready)
    assert (checked.plan.action, checked.plan.clears) == (Action.CLEAR, ((old, 0),))
    asked = decide(chat, kind(), window=100_000)
    assert isinstance(asked, Ask)
    assert asked.otherwise.plan.clears == ((old, 0),)
    assert asked_for(chat, kind()).otherwise is None
    if kind is OpenCode:  # which stops to ask after a failure
        assert decide(chat, window=100_000, failures=1).plan.clears == ((old, 0),)


def test_clearing_is_not_due_below_a_useful_size(chat):
    talk(chat, 2)
    totals = seen(chat, OpenCode()).totals
    assert totals.size.bytes
    assert not OpenCode().due(totals)
    assert OpenCode().due(replace(totals, size=Size(totals.size.tokens)))
    assert not OpenCode(prune=False).due(replace(totals, size=Size(totals.size.tokens)))
    assert OpenCodeUpstream().due(totals)


# Compacting


@BOTH
def test_all_rows_are_replaced_by_a_question_and_its_answer(chat, kind):
    said = talk(chat, 4)
    assert compact(chat, kind()).hides == tuple(said)
    assert said_now(chat) == [QUESTION, "in short"]
    question, answer = chat.view().messages
    assert (question.role, answer.role) == ("user", "assistant")
    assert (question.kind, answer.kind) == (Kind.COMPANION, Kind.SUMMARY)
    assert [entry.condense_parent for entry in chat.audit()][:8] == [answer.seq] * 8


@BOTH
def test_automatic_compaction_adds_a_request_to_continue(chat, kind):
    talk(chat, 4)
    chat.commit(full(chat, kind()).compose(summary()).plan)
    assert said_now(chat) == [QUESTION, "in short", CONTINUE]


def test_seed_profile_keeps_the_unanswered_question(chat):
    said = talk(chat, 4)
    first, second = ask(chat, "and this?"), ask(chat, "and that?")
    asked = full(chat)
    assert asked.hides == tuple(said)
    chat.commit(asked.compose(summary()).plan)
    assert said_now(chat) == [QUESTION, "in short", "and this?", "and that?"]
    assert shown(chat)[-2:] == [first, second]


def test_question_in_progress_is_hidden_with_its_work(chat):
    said, work = [*talk(chat, 4), ask(chat)], tool(chat, 100)
    assert asked_for(chat).hides == tuple(said)  # the result is unread
    said += [*work, chat.append("assistant", "so").seq]
    assert asked_for(chat).hides == tuple(said)


def test_rows_in_between_do_not_answer(chat):
    """A marker, a summary's rows and words of the system are nobody's answer."""
    said = talk(chat, 4)
    first = ask(chat, "and this?")
    told = chat.append("system", {"role": "system", "content": "be brief"}, format="openai").seq
    worked = tool(chat, 100)
    chat.commit(Plan.truncate(chat.view(), worked, "left out"))
    second = ask(chat, "and that?")
    asked = asked_for(chat)
    assert not {first, second} & set(asked.hides)
    assert {*said, told} <= set(asked.hides)


def test_question_with_results_stays_with_their_call(chat):
    said = talk(chat, 4)
    called = chat.append("assistant", [call("a")]).seq
    both = chat.append("user", [result("a"), text("no, do that")]).seq
    assert compact(chat).hides == tuple(said)
    assert shown(chat)[-2:] == [called, both]


def test_call_that_waits_stays_with_what_it_was_told_already(chat):
    said = talk(chat, 4)
    called = chat.append("assistant", [call("a"), call("b")]).seq
    told = chat.append("user", [result("a")]).seq
    asked = full(chat)
    assert asked.hides == tuple(said)
    chat.commit(asked.compose(summary()).plan)
    assert said_now(chat)[:2] == [QUESTION, "in short"]
    assert shown(chat)[2:] == [called, told]
    assert asked_for(chat, OpenCodeUpstream()).hides == tuple(shown(chat))


@BOTH
def test_pinned_view_cannot_be_compacted(chat, kind):
    for seq in talk(chat, 2):
        chat.pin(seq)
    assert isinstance(decide(chat, kind(), aim=Aim.CONDENSE), Nothing)
    assert isinstance(decide(chat, kind(), aim=Aim.RECOVER), Nothing)


def test_seed_profile_does_not_summarise_a_lone_question(chat):
    ask(chat, WORDS)
    assert isinstance(decide(chat, aim=Aim.CONDENSE), Nothing)
    assert isinstance(decide(chat, OpenCodeUpstream(), aim=Aim.CONDENSE), Ask)


def test_summary_before_is_handed_on_and_replaced(chat):
    talk(chat, 4)
    compact(chat, said="the first summary")
    talk(chat, 2)
    request = asked_for(chat).request
    assert request.previous == "the first summary"
    assert len(request.messages) == 4
    upstream = asked_for(chat, OpenCodeUpstream()).request
    assert upstream.previous is None
    assert texts(upstream)[:2] == [QUESTION, "the first summary"]
    compact(chat, said="the second summary")
    assert said_now(chat) == [QUESTION, "the second summary"]
    assert isinstance(decide(chat, aim=Aim.CONDENSE), Nothing)


@BOTH
def test_summariser_gets_the_programs_prompt(chat, kind):
    said = talk(chat, 4)
    request = asked_for(chat, kind()).request
    assert texts(request) == [chat.message(seq).content for seq in said]
    assert request.style == "opencode"
    assert (request.model, request.instruction) == (None, None)


def test_summary_must_make_the_context_smaller(chat):
    talk(chat, 4)
    asked = asked_for(chat)
    exact = "x" * (4 * (asked.request.longest - 1) - 2)
    ready = asked.compose(summary(exact))
    assert isinstance(ready, Ready)
    assert ready.plan.counts.after.tokens < ready.plan.counts.before.tokens
    refused = asked.compose(summary(exact + "x" * 8))
    assert (type(refused), refused.status, refused.latch) == (Refused, "inflated_summary", True)
    larger = asked_for(chat, OpenCodeUpstream()).compose(summary(exact + "x" * 800))
    assert isinstance(larger, Ready)
    chat.commit(larger.plan)


def test_failure_stops_automatic_summaries_of_the_seed_profile(chat):
    talk(chat, 8)
    tokens = seen(chat, OpenCode()).size.tokens
    assert isinstance(decide(chat, window=tokens + 999, failures=1), Nothing)
    assert isinstance(decide(chat, OpenCodeUpstream(), window=tokens + 999, failures=1), Ask)
    assert isinstance(asked_for(chat, failures=1), Ask)
    cut = decide(chat, window=tokens - 1, failures=1)
    assert isinstance(cut, Ready)
    assert cut.plan.action is Action.TRUNCATE
    assert decide(chat, window=tokens - 1).otherwise.plan.action is Action.TRUNCATE
