"""The default policy: when it acts, how far it goes, and what it never touches."""

import pytest

from roocontext.log.counting import BYTES, Budget, Size
from roocontext.log.plan import Action
from roocontext.policies.default import Default
from roocontext.policies.situation import (
    Aim,
    Ask,
    Nothing,
    Ready,
    Refused,
    ReportedTokens,
    TooLarge,
    Totals,
)
from roocontext.programs.opencode.policy import OpenCode
from support.deciding import summary
from support.dialogue import call, work
from support.situations import situated

WINDOW = 10_000
ROOM = 7_500


def totals(tokens, **options):
    return Totals(size=Size(tokens), window=WINDOW, **options)


def talk(chat, count, size=98):
    """Messages of `size` letters and two quotation marks each, the user's first."""
    for number in range(count):
        chat.append("user" if number % 2 == 0 else "assistant", "x" * size)


@pytest.mark.parametrize(
    ("output", "room"),
    [(None, 7_500), (1_000, 9_000), (64_000, 7_500), (2_500, 7_500), (2_499, 7_501)],
)
def test_room_is_the_window_without_the_answer(output, room):
    assert Default().room(totals(1, output=output)) == room


def test_of_a_large_window_no_more_than_so_much_is_reserved():
    large = Totals(size=Size(1), window=1_000_000, output=128_000)
    assert (Default().room(large), Default(reserve=5).room(large)) == (968_000, 999_995)


def test_compaction_is_due_above_the_threshold():
    assert not Default().due(totals(6_375))
    assert Default().due(totals(6_376))


def test_report_above_the_count_shrinks_the_room():
    told = ReportedTokens(input=6_000, output=500, since=0)
    assert Default().room(totals(3_250, reported=told)) == ROOM // 2
    assert Default().due(totals(3_250, reported=told))
    assert not Default().due(totals(3_000, reported=ReportedTokens(100_000, 0, 0)))


def test_each_of_the_three_budgets_counts():
    limits = Budget(bytes=1_000, images=4)
    assert not Default().due(Totals(size=Size(1, 850, 4), window=WINDOW, limits=limits))
    assert Default().due(Totals(size=Size(1, 851, 4), window=WINDOW, limits=limits))
    assert Default().due(Totals(size=Size(1, 1, 5), window=WINDOW, limits=limits))


def test_clearing_is_enough_when_it_relieves(chat):
    chat.append("user", "go")
    for number in range(12):
        work(chat, [f"t{number}"], "y" * 500)
    decision = Default().decide(situated(chat, BYTES, window=WINDOW))
    assert isinstance(decision, Ready)
    assert decision.plan.action is Action.CLEAR
    assert decision.plan.counts.after.tokens <= 0.65 * ROOM
    assert chat.view().messages[-1].seq not in {seq for seq, _ in decision.plan.clears}


@pytest.mark.parametrize("policy", [Default(), OpenCode(protect=0, minimum=0)])
def test_tool_of_an_output_is_that_of_the_call_it_answers(chat, policy):
    for name in ("keep", "run"):
        chat.append("assistant", [{**call("t"), "name": name}])
    for waits in chat.pending():
        chat.answer(waits, "y" * 500)
    talk(chat, 6)
    told = {"aim": Aim.CLEAR, "protected_tools": frozenset({"keep"})}
    assert policy.decide(situated(chat, BYTES, window=WINDOW, **told)).plan.clears == ((4, 0),)


def test_summary_of_old_messages_is_asked_for_if_clearing_is_not_enough(chat):
    talk(chat, 70)
    situation = situated(chat, BYTES, window=WINDOW)
    decision = Default().decide(situation)
    assert isinstance(decision, Ask)
    kept = [row for row in situation.visible if row.seq not in decision.hides]
    assert sum(row.size.tokens for row in kept) <= 0.25 * situation.size.tokens
    assert decision.request.longest == ROOM // 10
    assert decision.otherwise is None
    assert isinstance(decision.compose(summary("short")), Ready)
    assert decision.compose(summary(" \n")).status == "empty_summary"
    refused = decision.compose(summary("x" * WINDOW))
    assert isinstance(refused, Refused)
    assert refused.status == "inflated_summary"


def test_no_summary_is_asked_for_that_its_heading_makes_too_long(chat):
    talk(chat, 2, size=8)
    chat.append("user", "x" * ROOM)
    assert isinstance(Default().decide(situated(chat, BYTES, window=WINDOW)), Nothing)


def test_marker_replaces_a_missing_summary_above_the_room(chat):
    talk(chat, 80)
    situation = situated(chat, BYTES, window=WINDOW)
    otherwise = Default().decide(situation).otherwise
    assert otherwise.plan.action is Action.TRUNCATE
    assert otherwise.plan.counts.after.tokens <= 0.5 * ROOM
    assert situation.visible[-1].seq > otherwise.plan.hides[-1][1]


def test_three_failures_stop_asking_except_on_request(chat):
    talk(chat, 70)
    for failures, kind in ((2, Ask), (3, Ready)):
        situation = situated(chat, BYTES, window=WINDOW, failures=failures)
        assert isinstance(Default().decide(situation), kind)
    told = {"aim": Aim.CONDENSE, "trigger": "manual", "failures": 3}
    assert isinstance(Default().decide(situated(chat, BYTES, window=WINDOW, **told)), Ask)


def test_question_pins_and_pending_calls_stay(chat):
    pinned = chat.append("user", "never touch this").seq
    talk(chat, 70)
    question = chat.append("user", "and now?").seq
    waiting = chat.append("assistant", [call("t")])
    chat.pin(pinned)
    for aim in (Aim.CONDENSE, Aim.TRUNCATE):
        situation = situated(chat, BYTES, window=WINDOW, aim=aim, trigger="manual")
        decision = Default().decide(situation)
        gone = decision.hides if isinstance(decision, Ask) else _hidden(decision.plan)
        assert not {pinned, question, waiting.seq} & set(gone)


def test_marker_never_hides_the_living_summary(chat):
    talk(chat, 70)
    ask = Default().decide(situated(chat, BYTES, window=WINDOW))
    made = chat.commit(ask.compose(summary("short")).plan).seq
    talk(chat, 40)
    situation = situated(chat, BYTES, window=WINDOW, aim=Aim.TRUNCATE, trigger="manual")
    assert made not in _hidden(Default().decide(situation).plan)


def test_rows_that_must_stay_and_do_not_fit_are_refused_with_numbers(chat):
    talk(chat, 10)
    chat.append("user", "x" * 20_000)
    decision = Default().decide(situated(chat, BYTES, window=WINDOW))
    assert isinstance(decision, TooLarge)
    assert (decision.part, decision.limit) == ("turn", WINDOW)
    assert decision.needed > 20_000


def test_nothing_is_planned_below_the_threshold_or_without_old_rows(chat):
    talk(chat, 2)
    for aim in (Aim.MANAGE, Aim.CLEAR, Aim.CONDENSE):
        situation = situated(chat, BYTES, window=WINDOW, aim=aim, trigger="manual")
        assert isinstance(Default().decide(situation), Nothing)


def _hidden(plan):
    return {seq for lo, hi in plan.hides for seq in range(lo, hi + 1)}
