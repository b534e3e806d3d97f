"""A summary and a window: what leaves the window is summarised, with the summary before it."""

import pytest

from roocontext import Kind, NewMessage, Plan
from roocontext.log.plan import LEFT_OUT
from roocontext.policies.hybrid import Hybrid
from roocontext.policies.layout import Layout
from roocontext.policies.make_plan import HEADING
from roocontext.policies.situation import Aim, Ask, Nothing, Ready, Refused, TooLarge
from support.deciding import cost, seen, summary, talk, texts
from support.dialogue import WORDS, call, result, shown, work
from support.situations import LETTERS, prompt_of

MARKER_COST = LETTERS.count("user", LEFT_OUT, "anthropic")
HEADING_COST = LETTERS.count("user", f"{HEADING}\n\n", "anthropic")
SMALL = {"least": 20}


def ask(chat, limit, policy=Hybrid(**SMALL), **facts):  # noqa: B008 - frozen
    decision = policy.decide(seen(chat, window=limit, **facts))
    assert isinstance(decision, Ask), decision
    return decision


def condense(chat, limit, said="in short", **facts):
    """Decide, be given this summary, and commit; what was asked for."""
    asked = ask(chat, limit, **facts)
    ready = asked.compose(summary(said))
    assert isinstance(ready, Ready), ready
    chat.commit(ready.plan)
    return asked


def test_messages_that_leave_the_window_are_summarised(chat):
    turned = talk(chat, 10)
    asked = condense(chat, seen(chat).size.tokens - 1)
    kept = [seq for turn in turned for seq in turn if seq not in asked.hides]
    assert shown(chat) == [21, *kept]
    assert kept == [seq for turn in turned[-len(kept) // 2 :] for seq in turn]
    assert asked.request.previous is None
    assert len(asked.request.messages) == len(asked.hides) == 20 - len(kept)
    assert texts(asked.request)[0].startswith("question 0")
    assert asked.request.messages[0]["role"] == "user"


def test_plan_reaches_the_target_with_room_for_the_summary(chat):
    talk(chat, 40)
    limit = seen(chat).size.tokens - 1
    asked = ask(chat, limit)
    kept = limit + 1 - cost(chat, *asked.hides)
    share = limit // 4
    assert asked.request.longest == share - HEADING_COST
    assert kept + share <= limit * 0.7 < kept + share + cost(chat, 1, 2)


@pytest.mark.parametrize(
    ("policy", "share"),
    [
        (Hybrid(least=1), lambda room: room // 4),
        (Hybrid(least=1, share=0.1), lambda room: room // 10),
        (Hybrid(least=200), lambda _: 200),
        (Hybrid(least=100_000, most=100_000), lambda room: room // 2),
        (Hybrid(most=50), lambda _: 50),
    ],
)
def test_summary_has_its_share_of_the_target(chat, policy, share):
    talk(chat, 10)
    prompt = prompt_of(LETTERS, "be brief")
    limit = seen(chat).size.tokens
    room = limit - prompt["overhead"].tokens
    assert ask(chat, limit, policy, **prompt).request.longest == share(room) - HEADING_COST


def test_next_summary_is_made_of_the_last_one_and_what_leaves_since(chat):
    talk(chat, 10)
    limit = seen(chat).size.tokens - 1
    condense(chat, limit, "the first summary")
    (first,) = Layout(seen(chat)).summaries
    talk(chat, 8)
    asked = condense(chat, limit, "the second summary")
    assert asked.request.previous == "the first summary"
    assert first.seq in asked.hides
    assert "the first summary" not in texts(asked.request)
    (second,) = Layout(seen(chat)).summaries
    assert second.message.content == f"{HEADING}\n\nthe second summary"
    assert shown(chat)[0] == second.seq
    assert len(asked.request.messages) == len(asked.hides) - 1


def test_plans_are_not_made_at_every_message(chat):
    talk(chat, 10)
    limit, acted = seen(chat).size.tokens, 0
    for _ in range(40):
        talk(chat, 1)
        decision = Hybrid(**SMALL).decide(seen(chat, window=limit))
        if isinstance(decision, Ask):
            chat.commit(decision.compose(summary()).plan)
            acted += 1
    assert 5 <= acted <= 10


def test_pinned_summary_stays_next_to_the_new_one(chat):
    talk(chat, 10)
    limit = seen(chat).size.tokens - 1
    condense(chat, limit, "pinned")
    (first,) = Layout(seen(chat)).summaries
    chat.pin(first.seq)
    talk(chat, 8)
    assert condense(chat, limit, "new").request.previous is None
    said = [row.message.content.removeprefix(HEADING) for row in Layout(seen(chat)).summaries]
    assert said == ["\n\npinned", "\n\nnew"]


def test_all_summaries_that_another_policy_left_become_one(chat):
    talk(chat, 12)
    companions = (NewMessage("assistant", "Got it."),)
    chat.commit(Plan.condense(chat.view(), [1, 2], "one", companions=companions))
    chat.commit(Plan.condense(chat.view(), [5, 6], "two"))
    asked = condense(chat, seen(chat).size.tokens - 1, "both")
    assert asked.request.previous == "one\n\ntwo"
    assert "Got it." not in texts(asked.request)
    (only,) = Layout(seen(chat)).summaries
    assert shown(chat)[0] == only.seq


def test_summary_leaves_with_its_companions_however_recent(chat):
    talk(chat, 12)
    companions = (NewMessage("assistant", "Got it."),)
    done = chat.commit(Plan.condense(chat.view(), [21, 22], "late", companions=companions))
    asked = ask(chat, seen(chat).size.tokens - 1)
    assert set(done.rows) < set(asked.hides)
    assert not {19, 20} & set(asked.hides)


def test_summariser_is_told_the_length_of_the_summary(chat):
    talk(chat, 10)
    request = ask(chat, seen(chat).size.tokens - 1).request
    assert request.longest * 3 < request.characters < request.longest * 5


def test_agents_long_turn_is_cut_between_its_tool_calls(chat):
    talk(chat, 2)
    question = chat.append("user", "do it all").seq
    for n in range(100):
        work(chat, [f"a{n}", f"b{n}"])
    limit = seen(chat).size.tokens // 2
    asked = condense(chat, limit)
    view = shown(chat)
    assert view[:2] == [question, 206]
    assert view[2:] == list(range(view[2], 206))
    assert seen(chat).visible[2].message.role == "assistant"
    assert seen(chat).size.tokens <= limit * 0.7
    assert len(asked.hides) == 205 - (len(view) - 1)


def test_newest_turn_that_fits_is_not_cut_even_above_the_target(chat):
    talk(chat, 3)
    question = chat.append("user", "do it").seq
    for n in range(20):
        work(chat, [f"a{n}"])
    newest = range(question, question + 41)
    policy = Hybrid(least=20, most=20)
    limit = cost(chat, *newest) + 20
    assert ask(chat, limit, policy).hides == tuple(range(1, question))
    assert set(ask(chat, limit - 1, policy).hides) & set(newest)


def test_call_that_waits_and_the_question_are_never_cut(chat):
    chat.append("user", "go")
    for n in range(30):
        work(chat, [f"a{n}"])
    waits = chat.append("assistant", [call("x"), call("y")]).seq
    given_ = chat.append("user", [result("x")]).seq
    assert not {1, waits, given_} & set(condense(chat, cost(chat, *shown(chat)) // 3).hides)
    assert shown(chat)[-2:] == [waits, given_]


def test_turn_is_too_large_only_if_question_and_last_step_do_not_fit(chat):
    talk(chat, 2)
    question = chat.append("user", f"go {WORDS}").seq
    for n in range(5):
        last = work(chat, [f"a{n}"])
    needed = cost(chat, question, *last) + MARKER_COST
    asked = ask(chat, needed)
    assert asked.request.longest == MARKER_COST - HEADING_COST
    assert asked.otherwise.plan.counts.after.tokens == needed
    refused = Hybrid(**SMALL).decide(seen(chat, window=needed - 1))
    assert refused == TooLarge("turn", needed, needed - 1)


def test_useless_summaries_are_refused_and_a_marker_replaces_the_rows(chat):
    talk(chat, 10)
    limit = seen(chat).size.tokens - 1
    asked = ask(chat, limit)
    kept = limit + 1 - cost(chat, *asked.hides)
    assert asked.compose(summary(" \n")).status == "empty_summary"
    assert asked.compose(summary("word " * 4000)).status == "inflated_summary"
    fitting = (limit - kept - HEADING_COST) * 4
    assert isinstance(asked.compose(summary("x" * fitting)), Ready)
    assert asked.compose(summary("x" * (fitting + 4))).status == "inflated_summary"
    assert asked.otherwise.status == "truncated"
    chat.commit(asked.otherwise.plan)
    assert not set(asked.hides) & set(shown(chat))
    assert seen(chat).size.tokens == kept + MARKER_COST


def test_summary_that_is_smaller_but_does_not_fit_is_refused(chat):
    talk(chat, 10)
    size = seen(chat).size.tokens
    asked = ask(chat, size // 2)
    room = size // 2 - (size - cost(chat, *asked.hides))
    refused = asked.compose(summary("x" * 4 * room))
    assert isinstance(refused, Refused)
    assert refused.status == "oversized_summary"


def test_fallback_without_room_for_the_living_summary_is_refused(chat):
    talk(chat, 10)
    chat.commit(Plan.condense(chat.view(), range(1, 19), "living " * 300))
    limit = cost(chat, 19, 20) + 100
    assert seen(chat).size.tokens > limit
    asked = ask(chat, limit)
    assert asked.otherwise is None
    assert asked.request.previous is None
    assert texts(asked.request) == ["living " * 300]
    needed = seen(chat).size.tokens + MARKER_COST
    latched = Hybrid(**SMALL).decide(seen(chat, window=limit, failures=3))
    assert latched == TooLarge("turn", needed, limit)


def test_marker_that_leaves_alone_is_itself_summarised(chat):
    talk(chat, 4)
    chat.commit(Plan.truncate(chat.view(), [1, 2, 3, 4, 5, 6], "left out " * 60))
    assert texts(ask(chat, seen(chat).size.tokens - 1).request) == ["left out " * 60]


def test_failures_in_a_row_stop_asking_except_on_request(chat):
    talk(chat, 10)
    limit = seen(chat).size.tokens - 1
    assert isinstance(ask(chat, limit, failures=2), Ask)
    latched = Hybrid(**SMALL).decide(seen(chat, window=limit, failures=3))
    assert latched == ask(chat, limit).otherwise
    ask(chat, limit, failures=3, trigger="manual", aim=Aim.CONDENSE)


def test_request_condenses_a_view_that_fits(chat):
    talk(chat, 10)
    size = seen(chat).size.tokens
    condense(chat, 100_000, aim=Aim.CONDENSE)
    assert seen(chat).size.tokens < size * 0.7
    assert shown(chat)[-2:] == [19, 20]


def test_request_truncates_a_view_that_fits(chat):
    talk(chat, 10)
    size = seen(chat).size.tokens
    chat.commit(Hybrid().decide(seen(chat, aim=Aim.TRUNCATE)).plan)
    assert seen(chat).size.tokens < size * 0.7
    assert chat.view().messages[0].kind is Kind.MARKER


@pytest.mark.parametrize("aim", [Aim.CONDENSE, Aim.TRUNCATE])
def test_request_without_old_rows_does_nothing(chat, aim):
    talk(chat, 1)
    for facts in ({}, {"window": seen(chat).size.tokens}):
        assert isinstance(Hybrid(**SMALL).decide(seen(chat, aim=aim, **facts)), Nothing)
    work(chat, output=WORDS * 20)
    assert isinstance(Hybrid(**SMALL).decide(seen(chat, aim=aim)), Nothing)


def test_rows_smaller_than_a_marker_are_not_summarised(chat):
    chat.append("user", "hi")
    talk(chat, 1)
    assert isinstance(Hybrid(**SMALL).decide(seen(chat, aim=Aim.CONDENSE)), Nothing)


def test_view_that_fits_is_left_alone(chat):
    talk(chat, 3)
    size = seen(chat).size.tokens
    assert isinstance(Hybrid().decide(seen(chat, window=size)), Nothing)
    assert not Hybrid().due(seen(chat, window=size).totals)
    assert Hybrid(reserve=1).due(seen(chat, window=size).totals)
    assert isinstance(Hybrid().decide(seen(chat, window=1, aim=Aim.CLEAR)), Nothing)
