"""The sliding window: whole turns, newest first, at or under the limit, or a refusal in numbers."""

import pytest

from roocontext import Plan
from roocontext.log.counting import Budget
from roocontext.log.plan import LEFT_OUT
from roocontext.policies.situation import Aim, Nothing, Ready, TooLarge
from roocontext.policies.sliding_window import PruningInfo, SlidingWindow
from roocontext.programs.multi_llm_chat.policy import SlidingWindowUpstream
from support.deciding import cost, seen, talk
from support.dialogue import WORDS, call, result, shown, work
from support.histories import IMAGE
from support.situations import LETTERS, prompt_of

MARKER_COST = LETTERS.count("user", LEFT_OUT, "anthropic")


def slide(chat, limit, **facts):
    """Decide and commit; the decision."""
    decision = SlidingWindow(limit=limit).decide(seen(chat, **facts))
    if isinstance(decision, Ready):
        chat.commit(decision.plan)
    return decision


def test_view_that_fits_exactly_is_left_alone(chat):
    talk(chat, 2)
    size = seen(chat).size.tokens
    assert isinstance(slide(chat, size), Nothing)
    assert isinstance(slide(chat, size - 1), Ready)


def test_oldest_turns_leave_whole(chat):
    _, second, third = talk(chat, 3)
    limit = cost(chat, *second, *third) + MARKER_COST
    assert slide(chat, limit).status == "truncated"
    assert shown(chat) == [7, *second, *third]


def test_turn_that_fits_but_for_the_marker_leaves_too(chat):
    _, second, third = talk(chat, 3)
    slide(chat, cost(chat, *second, *third) + MARKER_COST - 1)
    assert shown(chat) == [7, *third]


def test_older_turn_that_would_fit_does_not_outlive_a_newer_one(chat):
    small = [chat.append("user", "hi").seq]
    talk(chat, 2)
    slide(chat, cost(chat, 4, 5, *small) + MARKER_COST)
    assert shown(chat) == [6, 4, 5]


def test_turn_has_several_answers_and_tools_in_it(chat):
    chat.append("user", f"one {WORDS}")
    chat.append("user", f"two {WORDS}")
    work(chat, ["a", "b"])
    chat.append("assistant", "from one model")
    chat.append("assistant", "from another")
    chat.append("user", "three")
    slide(chat, cost(chat, 2, 3, 4, 5, 6, 7) + MARKER_COST)
    assert shown(chat) == [8, 2, 3, 4, 5, 6, 7]
    slide(chat, cost(chat, 2, 3, 4, 5, 6, 7))
    assert shown(chat) == [9, 7]


def test_rows_before_the_first_question_go_first(chat):
    chat.append("assistant", f"welcome {WORDS}")
    talk(chat, 2)
    slide(chat, cost(chat, 2, 3, 4, 5) + MARKER_COST)
    assert shown(chat) == [6, 2, 3, 4, 5]


def test_turns_that_share_a_tool_call_stay_or_leave_together(chat):
    chat.append("user", f"zero {WORDS}")
    chat.append("user", f"one {WORDS}")
    chat.append("assistant", [call("a")])
    chat.append("user", f"two {WORDS}")
    chat.append("user", [result("a")])
    chat.append("assistant", "so")
    chat.append("user", "three")
    together = (2, 3, 4, 5, 6)
    slide(chat, cost(chat, *together, 7) + MARKER_COST)
    assert shown(chat) == [8, *together, 7]
    slide(chat, cost(chat, *together, 7))
    assert shown(chat) == [9, 7]


def test_pin_stays_with_its_tool_partners_and_its_turn_leaves_without_it(chat):
    chat.append("user", f"one {WORDS}")
    work(chat, ["a"])
    work(chat, ["b"])
    chat.append("assistant", "so")
    chat.append("user", "two")
    chat.pin(3)
    slide(chat, cost(chat, 2, 3, 7) + MARKER_COST)
    assert shown(chat) == [2, 3, 9, 7]


def test_living_summary_stays_and_an_older_marker_leaves_for_the_new_one(chat):
    pairs = talk(chat, 5)
    summary = chat.commit(Plan.condense(chat.view(), pairs[0], "in short")).seq
    older = chat.commit(Plan.truncate(chat.view(), pairs[1])).seq
    assert shown(chat) == [summary, older, *pairs[2], *pairs[3], *pairs[4]]
    slide(chat, cost(chat, summary, *pairs[4]) + MARKER_COST)
    assert shown(chat) == [summary, 13, *pairs[4]]
    assert older not in shown(chat)


def test_newest_turn_over_the_limit_is_refused(chat):
    _, newest = talk(chat, 2)
    prompt = prompt_of(LETTERS, "be brief")
    needed = cost(chat, *newest) + MARKER_COST + prompt["overhead"].tokens
    assert slide(chat, needed - 1, **prompt) == TooLarge("turn", needed, needed - 1)
    assert shown(chat) == [1, 2, 3, 4]
    assert isinstance(slide(chat, needed, **prompt), Ready)


def test_window_is_the_models_less_what_is_reserved(chat):
    talk(chat, 3)
    size = seen(chat).size.tokens
    policy = SlidingWindow(reserve=100)
    assert isinstance(policy.decide(seen(chat, window=size + 100)), Nothing)
    assert isinstance(policy.decide(seen(chat, window=size + 99)), Ready)
    assert not policy.due(seen(chat, window=size + 100).totals)
    assert policy.due(seen(chat, window=size + 99).totals)
    assert SlidingWindow(limit=50, reserve=60).decide(seen(chat)).limit == 0


def test_bytes_and_images_have_limits_too(chat):
    for _ in range(4):
        chat.append("user", [IMAGE])
        chat.append("assistant", WORDS)
    limits = Budget(images=2)
    assert SlidingWindow().due(seen(chat, limits=limits).totals)
    slide(chat, None, limits=limits)
    assert shown(chat) == [9, 5, 6, 7, 8]
    slide(chat, None, limits=Budget(bytes=seen(chat).size.bytes - 1, images=2))
    assert shown(chat) == [10, 7, 8]
    assert slide(chat, None, limits=Budget(images=0)) == TooLarge("turn", 1, 0, "images")


@pytest.mark.parametrize("aim", [Aim.CONDENSE, Aim.CLEAR])
def test_sliding_window_neither_condenses_nor_clears(chat, aim):
    talk(chat, 2)
    assert isinstance(slide(chat, 10, aim=aim), Nothing)


def test_dry_run_tells_turns_and_tokens(chat):
    *_, third = talk(chat, 3)
    limit = cost(chat, *third) + MARKER_COST
    policy, situation = SlidingWindow(limit=limit), seen(chat)
    told = policy.get_pruning_info(situation)
    assert told == PruningInfo(2, situation.size.tokens, limit)
    slide(chat, limit)
    assert seen(chat).size.tokens == told.pruned_length
    assert policy.get_pruning_info(seen(chat)) == PruningInfo(0, limit, limit)


def test_dry_run_of_a_shortened_output_tells_no_turns(chat):
    chat.append("user", "go")
    work(chat, ["a"], "line " * 1_000)
    situation = seen(chat)
    told = SlidingWindow(limit=situation.size.tokens // 2).get_pruning_info(situation)
    assert told.turns_to_remove == 0
    assert told.pruned_length < situation.size.tokens


def test_program_weighs_its_whole_list_again(chat):
    _, second, third = talk(chat, 3)
    limit = cost(chat, *second, *third)
    chat.commit(SlidingWindowUpstream(limit=limit).decide(seen(chat, hidden=True)).plan)
    chat.append("user", [result("nobody's", "x")])
    decision = SlidingWindowUpstream(limit=limit + 500).decide(seen(chat, hidden=True))
    assert isinstance(decision, Nothing)
    assert slide_upstream(chat, limit).plan.record["turns_to_remove"] == 3


def test_program_drops_summarised_rows_and_weighs_marked_ones(chat):
    first, second, third = talk(chat, 3)
    chat.commit(Plan.condense(chat.view(), first, "in short"))
    marker = chat.commit(Plan.truncate(chat.view(), second)).seq
    talk(chat, 1)
    decision = slide_upstream(chat, cost(chat, *third, 9, 10) - 1)
    assert decision.plan.record["original_length"] == cost_of_all(chat, *second, *third, 9, 10)
    assert decision.plan.record["turns_to_remove"] == 4
    chat.commit(decision.plan)
    assert shown(chat) == [7, 11, 9, 10]
    assert marker not in shown(chat)


def test_program_hides_no_pinned_marker(chat):
    first, *_ = talk(chat, 3)
    marker = chat.commit(Plan.truncate(chat.view(), first)).seq
    chat.pin(marker)
    chat.commit(slide_upstream(chat, cost(chat, 5, 6)).plan)
    assert shown(chat) == [marker, 9, 5, 6]


def cost_of_all(chat, *seqs):
    rows = seen(chat, hidden=True).rows
    return sum(row.size.tokens for row in rows if row.seq in seqs)


def slide_upstream(chat, limit, **facts):
    return SlidingWindowUpstream(limit=limit).decide(seen(chat, hidden=True, **facts))


@pytest.mark.parametrize("aim", [Aim.CONDENSE, Aim.CLEAR, Aim.RECOVER])
def test_program_only_prunes(chat, aim):
    talk(chat, 2)
    assert isinstance(slide_upstream(chat, 10, aim=aim), Nothing)
