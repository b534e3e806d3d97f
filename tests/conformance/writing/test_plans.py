"""Plans: condense, truncate and clear; their receipts, and what is refused whatever the session.

`conformance/test_machine.py` compares with the oracle what any plan hides, where its rows stand,
and if it is refused.
"""

from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roocontext import Counts, NewMessage, Plan
from roocontext.errors import DuplicateMessage, InvalidOption, InvalidPlan, VersionConflict
from roocontext.log.counting import Size
from roocontext.log.entries import natural_position
from roocontext.log.plan import CLEARED, LEFT_OUT, Action
from roocontext.log.readings import reader
from support.dialogue import WORDS, call, fill, result, shown, state, text, work
from support.examples import TORTURE, examples
from support.histories import HISTORIES, play
from support.separated import split

SMALLER = Counts("given", Size(10), Size(9))


def raw(chat, *hides, action=Action.CONDENSE, **options):
    """A plan by hand, which the helpers of Plan would not make."""
    fields = {"rows": (NewMessage("user", "S"),), "counts": SMALLER, **options}
    return Plan(head_seq=chat.head_seq(), action=action, hides=hides, **fields)


def refused(chat, plan, error=InvalidPlan):
    """Refused alike by the dry run and by the commit, with nothing changed."""
    before, entries = state(chat), list(chat.audit())
    for dry_run in (True, False):
        with pytest.raises(error) as caught:
            chat.commit(plan, dry_run=dry_run)
        assert type(caught.value) is error
        assert state(chat) == before
    assert list(chat.audit()) == entries
    assert chat.verify().ok
    return caught.value


def test_each_action_has_its_receipt(chat):
    said = fill(chat, 6)
    _, told = work(chat, output="long " * 100)
    done = chat.commit(Plan.condense(chat.view(), said[1:4], "what was said"))
    assert (done.action, done.seq, done.head_seq, done.rows) == ("condense", 9, 9, (9,))
    assert (done.hidden, done.cleared, done.dry_run, done.hash) == (3, 0, False, chat.head().hash)
    summary = chat.view().messages[1]
    assert (summary.kind, summary.role, summary.content) == ("summary", "user", "what was said")
    assert summary.compaction_id == done.compaction_id is not None
    done = chat.commit(Plan.clear(chat.view(), [(told, 0)]))
    assert (done.action, done.rows, done.hidden, done.cleared) == ("clear", (), 0, 1)
    assert done.compaction_id is None
    assert chat.view().messages[-1].content[0]["content"] == CLEARED
    marker = chat.commit(Plan.truncate(chat.view(), [said[0], 9])).compaction_id
    first = chat.view().messages[0]
    assert (first.kind, first.content, first.compaction_id) == ("marker", LEFT_OUT, marker)
    assert shown(chat) == [11, 5, 6, 7, 8]


def test_plan_after_other_writes_is_refused_with_the_versions(chat):
    said = fill(chat, 6)
    plan = Plan.condense(chat.view(), said[:2], "S")
    chat.commit(Plan.condense(chat.view(), said[3:5], "T"))
    error = refused(chat, plan, VersionConflict)
    assert (error.expected, error.actual) == (6, 7)
    refused(chat, replace(plan, head_seq=9), VersionConflict)


def test_pin_that_refuses_a_plan_is_named(chat):
    said = fill(chat, 6)
    plan = Plan.condense(chat.view(), said[:4], "S")
    chat.pin(said[2])
    for compat in (False, True):
        assert refused(chat, replace(plan, compat=compat)).pinned == [said[2]]


def test_plan_that_shrinks_nothing_is_refused_with_its_counts(chat):
    said = fill(chat, 3)
    error = refused(chat, Plan.condense(chat.view(), said[:1], WORDS * 2))
    assert error.after >= error.before
    refused(chat, raw(chat, (1, 2), counts=None))
    _, told = work(chat, output="x")
    refused(chat, Plan.clear(chat.view(), [(told, 0)], "a longer placeholder"))


def test_companion_may_stand_before_the_summary(chat):
    fill(chat, 4)
    rows = (NewMessage("user", "What was done?"), NewMessage("assistant", "This."))
    plan = Plan.condense(chat.view(), [1, 2, 3], rows[1])
    done = chat.commit(replace(plan, rows=rows, lead=1))
    assert (shown(chat), done.rows, done.seq) == ([5, 6, 4], (5, 6), 6)
    entries = list(chat.audit())
    assert [entry.kind for entry in entries[4:]] == ["companion", "summary"]
    assert [entry.condense_parent for entry in entries[:3]] == [6] * 3


def clears(*blocks):
    return {"action": Action.CLEAR, "hides": (), "rows": (), "clears": blocks}


BLANKS = ("", " \n\t", [], [text(" ")], [text("")])
CONTRADICTORY = {
    "no range": {"hides": ()},
    "a range that ends before it begins": {"hides": ((2, 1),)},
    "ranges in another order": {"hides": ((3, 4), (1, 2))},
    "ranges with a common entry": {"hides": ((1, 2), (2, 3))},
    "a range beyond the log": {"hides": ((1, 99),)},
    "a range from entry 0": {"hides": ((0, 1),)},
    "no row": {"rows": ()},
    "ranges and clearings": {"clears": ((6, 0),)},
    "a clearing with a row": {**clears((6, 0)), "rows": (NewMessage("user", "S"),)},
    "a clearing that hides": {**clears((6, 0)), "hides": ((1, 2),)},
    "a clearing of nothing": clears(),
    "a clearing of a text": clears((5, 0)),
    "a clearing of a call": clears((5, 1)),
    "a clearing of a message without blocks": clears((1, 0)),
    "a clearing of a block after the last": clears((6, 2)),
    "a clearing of a block before the first": clears((6, -1)),
    "a clearing of an entry after the last": clears((99, 0)),
    "a clearing of entry 0": clears((0, 0)),
    "a clearing of a block twice": clears((6, 0), (6, 0)),
    **{f"the summary {it!r}": {"rows": (NewMessage("user", it),)} for it in BLANKS},
    **{
        f"the lead {lead}": {
            "rows": (NewMessage("user", "a"), NewMessage("user", "b")),
            "lead": lead,
        }
        for lead in (-1, 2, 1.0, True)
    },
}


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("changes", CONTRADICTORY.values(), ids=CONTRADICTORY)
def test_contradictory_plan_is_refused(chat, changes):
    fill(chat, 4)
    work(chat, ["t1", "t2"], output="long " * 50)
    for compat in (False, True):
        refused(chat, replace(raw(chat, (1, 2)), **changes, compat=compat))


MAKERS = {
    "companions must be messages": (
        lambda view, it: Plan.condense(view, [1, 2], "short", companions=it),
        (5, ["a"], [None]),
    ),
    "keep must be two numbers": (
        lambda view, it: Plan.clear(view, [(4, 0)], keep=it),
        (5, (1,), (1, 2, 3), ("a", 1), (1.5, 1)),
    ),
    "must be pairs of numbers": (Plan.clear, ([([1], 0)], [(1, 0), ("a", 0)])),
}
"""How a plan is made, and the arguments for which it is refused, by the words of the refusal."""


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("why", MAKERS)
def test_wrong_arguments_of_a_plan_are_refused(chat, why):
    fill(chat, 2)
    work(chat, output="long " * 50)
    make, wrong = MAKERS[why]
    for argument in wrong:
        with pytest.raises(InvalidPlan, match=why):
            make(chat.view(), argument)


def test_client_id_of_a_summary_is_given_once(chat):
    fill(chat, 6)
    chat.append("user", "x", client_id="taken")
    taken = NewMessage("user", "S", client_id="taken")
    refused(chat, raw(chat, (1, 2), rows=(taken,)), DuplicateMessage)
    twice = (NewMessage("user", "S", client_id="c"), NewMessage("assistant", "Yes.", client_id="c"))
    refused(chat, raw(chat, (1, 2), rows=twice), DuplicateMessage)


def test_record_of_a_plan_is_in_the_log(chat):
    said = fill(chat, 4)
    plan = Plan.condense(
        chat.view(), said[:2], "S", policy="roo", trigger="auto", record={"cost": 1.5}
    )
    chat.commit(plan)
    entry = list(chat.audit())[-1]
    assert entry.entry.details["hides"] == [[1, 2]]
    assert entry.entry.details["record"] == {
        "cost": 1.5,
        "counter": "bytes",
        "exact": True,
        "before": plan.counts.before.tokens,
        "after": plan.counts.after.tokens,
        "policy": "roo",
        "trigger": "auto",
    }


def test_exhausted_gap_is_refused(chat):
    fill(chat, 2)
    for _ in range(32):
        chat.commit(raw(chat, (chat.view().messages[0].seq,) * 2))
    plan = raw(chat, (chat.view().messages[0].seq,) * 2)
    assert refused(chat, plan).position == natural_position(2) - 1
    assert shown(chat) == [chat.head_seq(), 2]
    assert chat.commit(replace(plan, at_end=True)).rows
    assert chat.verify().ok


def test_summary_of_rows_redacted_since_is_refused(chat):
    said = fill(chat, 6)
    chat.redact(said[1])
    plan = Plan.condense(chat.view(), said[:4], "S")
    chat.redact(said[2])
    assert refused(chat, plan).redacted == said[2]
    chat.commit(Plan.condense(chat.view(), said[:4], "S"))


def test_many_companions_share_one_gap(chat):
    fill(chat, 3)
    many = tuple(NewMessage("user", "x") for _ in range(40))
    rows = chat.commit(raw(chat, (1, 2), rows=many)).rows
    assert shown(chat) == [*rows, 3]


def test_pairs_are_found_without_reading_a_message(lab):
    chat = lab.store.create()
    for number in range(8):
        work(chat, (f"t{number}",))
    asked = chat.append("assistant", [call("waits")]).seq
    chat.append_many(
        [
            NewMessage("model", {"parts": [{"functionCall": {"name": "run"}}]}, "gemini"),
            NewMessage("tool", {"tool_call_id": "gone", "content": "late"}, "openai"),
        ]
    )
    parted = [raw(chat, (first, last)) for first, last in ((1, 3), (2, 4), (10, 16))]
    whole = [raw(chat, (1, 12)), raw(chat, (3, 4)), raw(chat, (asked, asked))]
    lab.drop_guards()
    lab.sql(f"UPDATE entries SET content = '{{' WHERE session_id = '{chat.id}'")
    for plan in parted:
        with pytest.raises(InvalidPlan, match="separate"):
            chat.commit(plan, dry_run=True)
    for plan in whole:
        assert chat.commit(plan, dry_run=True).hidden


@pytest.mark.parametrize("tool_id", ["a", 'say "hi", \\', "\0", "\ud83d", "\U0001f600", ""])
def test_tool_ids_may_be_any_string(chat, tool_id):
    chat.append("user", "go")
    asked, told = work(chat, (tool_id,))
    for seq in (asked, told):
        assert refused(chat, raw(chat, (1, seq)) if seq == asked else raw(chat, (seq, seq)))
    assert chat.commit(raw(chat, (1, told))).hidden == 3
    chat.redact(asked)
    chat.redact(told)
    assert chat.verify().ok
    assert chat.fork().verify().ok


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("counter", ["o200k_base", None, 5])
def test_plan_counts_by_a_named_counter(chat, counter):
    said = fill(chat, 3)
    _, told = work(chat, output="long " * 100)
    view = chat.view()
    for make, given_ in ((Plan.condense, (said[:2], "S")), (Plan.clear, ([(told, 0)],))):
        if isinstance(counter, str):
            plan = make(view, *given_, counter=counter)
            assert plan.counts.before.tokens == chat.tokens(counter)
            assert (plan.counts.counter, plan.counts.exact) == (counter, True)
            chat.commit(plan, dry_run=True)
        else:
            with pytest.raises(InvalidOption):
                make(view, *given_, counter=counter)


def test_summary_may_be_any_message(chat):
    said = fill(chat, 4)
    summary = NewMessage(
        "assistant", [text("S")], message_id="m", client_id="c", model="x", usage={"n": 1}
    )
    chat.commit(Plan.condense(chat.view(), said[:2], summary))
    entry = list(chat.audit())[-1].entry
    assert (entry.role, entry.message_id, entry.client_id) == ("assistant", "m", "c")
    assert (entry.model, entry.usage) == ("x", {"n": 1})


_some = st.lists(st.sampled_from("ab"), min_size=1, max_size=2)
TOOLS = st.lists(st.tuples(st.sampled_from([call, call, result]), _some, st.booleans()), max_size=8)
SIDES = st.lists(st.lists(st.booleans(), min_size=1, max_size=24), min_size=1, max_size=6)
"""For each plan: which messages of the view it hides, in turns."""


def rows_of_tools(tools: Any) -> list[NewMessage]:
    """Calls and results with few ids; some calls are answered at once, each by a row."""
    made = []
    for kind, ids, is_answered in tools:
        made.append(NewMessage("user" if kind is result else "assistant", list(map(kind, ids))))
        if kind is call and is_answered:
            made += [NewMessage("user", [result(tool_id)]) for tool_id in ids]
    return made


SCENES = HISTORIES if TORTURE else HISTORIES.map(lambda scenes: scenes[:6])
"""The beginning of a history, for what only has to stand before and after something."""


def refusing_pair(chat: Any, plan: Plan) -> tuple[int, int] | None:
    """The call and the result for which a plan is refused, if it is."""
    try:
        chat.commit(plan, dry_run=True)
    except InvalidPlan as refused:
        return refused.facts["call"], refused.facts["result"]
    return None


@pytest.mark.one_leg
@settings(max_examples=examples(75, long=150), suppress_health_check=list(HealthCheck))
@given(before=SCENES, tools=TOOLS, after=SCENES, sides=SIDES)
def test_plan_is_refused_exactly_if_it_separates_a_pair(shared, before, tools, after, sides):
    chat = shared.store.create()
    play(chat, before)
    chat.append_many([NewMessage("user", "go on"), *rows_of_tools(tools)])
    play(chat, after)
    for pin in chat.pins():
        chat.unpin(pin)
    view = chat.view()
    readings = [reader(one.format).blocks(one.role, one.content) for one in view.messages]
    for turns in sides:
        hidden = [at for at, away in zip(range(len(readings)), cycle(turns), strict=False) if away]
        if not hidden:
            continue
        plan = Plan.condense(view, [view.messages[at].seq for at in hidden], "in short")
        separated = {
            (view.messages[pair.call[0]].seq, view.messages[pair.result[0]].seq)
            for pair in split(readings, hidden)
        }
        refused = refusing_pair(chat, replace(plan, counts=SMALLER))
        assert refused in separated if refused else not separated
