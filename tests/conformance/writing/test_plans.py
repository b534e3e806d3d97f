"""Plans: condense, truncate and clear; dry runs, places, and everything that is refused."""

from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roocontext import Counts, NewMessage, Plan
from roocontext.errors import InvalidOption, InvalidPlan, VersionConflict
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


def said_now(chat):
    return [message.content for message in chat.view().messages]


def position(chat, seq):
    return next(iter(chat.audit(after=seq - 1))).entry.details["position"]


def test_condense_hides_behind_a_summary(chat):
    said = fill(chat, 6)
    done = chat.commit(Plan.condense(chat.view(), said[1:4], "what was said"))
    assert (done.action, done.seq, done.head_seq, done.rows) == ("condense", 7, 7, (7,))
    assert (done.hidden, done.cleared, done.dry_run) == (3, 0, False)
    assert done.hash == chat.head().hash
    summary = chat.view().messages[1]
    assert (summary.kind, summary.role, summary.content) == ("summary", "user", "what was said")
    assert summary.compaction_id == done.compaction_id is not None
    assert shown(chat) == [1, 7, 5, 6]


def test_truncate_hides_behind_a_marker(chat):
    said = fill(chat, 6)
    done = chat.commit(Plan.truncate(chat.view(), said[:4]))
    marker = chat.view().messages[0]
    assert (marker.kind, marker.content) == ("marker", LEFT_OUT)
    assert marker.compaction_id == done.compaction_id
    assert shown(chat) == [7, 5, 6]
    entries = list(chat.audit())
    assert [e.truncation_parent for e in entries[:4]] == [7] * 4
    assert [e.condense_parent for e in entries] == [None] * 7


def test_clear_shows_a_placeholder(chat):
    fill(chat, 1)
    _, told = work(chat, output="long " * 100)
    done = chat.commit(Plan.clear(chat.view(), [(told, 0)]))
    assert (done.action, done.rows, done.hidden, done.cleared) == ("clear", (), 0, 1)
    assert done.compaction_id is None
    assert chat.view().messages[-1].content[0]["content"] == CLEARED
    assert shown(chat) == [1, 2, 3]


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


def test_rows_of_a_plan_share_the_gap_evenly(chat):
    said = fill(chat, 4)
    companions = (NewMessage("assistant", "ok"), NewMessage("user", "go"))
    chat.commit(Plan.condense(chat.view(), said[:2], "S", companions=companions))
    quarter = natural_position(1) // 4
    expected = [natural_position(2) + quarter * n for n in (1, 2, 3)]
    assert [position(chat, seq) for seq in (5, 6, 7)] == expected
    assert shown(chat) == [5, 6, 7, 3, 4]
    ids = {message.compaction_id for message in chat.view().messages[:3]}
    assert len(ids) == 1


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


def test_companion_may_stand_before_the_summary(chat):
    said = [chat.append("user", f"message {n}").seq for n in range(4)]
    rows = (NewMessage("user", "What was done?"), NewMessage("assistant", "This."))
    plan = Plan.condense(chat.view(), said[:3], rows[1])
    done = chat.commit(replace(plan, rows=rows, lead=1))
    assert said_now(chat) == ["What was done?", "This.", "message 3"]
    assert done.rows == (done.seq - 1, done.seq)
    kinds = {entry.seq: entry.kind for entry in chat.audit()}
    assert [kinds[seq] for seq in done.rows] == ["companion", "summary"]
    assert {entry.condense_parent for entry in chat.audit() if entry.seq in said[:3]} == {done.seq}
    chat.rewind(to=said[-1])
    assert said_now(chat) == ["message 0", "message 1", "message 2", "message 3"]


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("lead", [-1, 2, 1.0, True])
def test_companion_alone_is_no_summary(chat, lead):
    said = [chat.append("user", f"message {n}").seq for n in range(4)]
    rows = (NewMessage("user", "a"), NewMessage("assistant", "b"))
    plan = Plan.condense(chat.view(), said[:3], rows[1])
    with pytest.raises(InvalidPlan):
        chat.commit(replace(plan, rows=rows, lead=lead))


def test_many_companions_share_one_gap(chat):
    fill(chat, 3)
    many = tuple(NewMessage("user", "x") for _ in range(40))
    rows = chat.commit(raw(chat, (1, 2), rows=many)).rows
    assert shown(chat) == [*rows, 3]


def test_plan_is_committed_after_appends(chat):
    said = fill(chat, 6)
    plan = Plan.condense(chat.view(), said[1:], "S")
    fill(chat, 2)
    chat.set_title("noted")
    done = chat.commit(plan)
    assert done.hidden == 5
    assert shown(chat) == [1, done.seq, 7, 8]


@pytest.mark.parametrize("between", ["condense", "truncate", "clear", "rewind", "undo"])
def test_plan_after_other_writes_is_refused(chat, between):
    said = fill(chat, 6)
    _, told = work(chat, output="long " * 100)
    if between == "undo":
        chat.rewind(to=chat.head_seq() - 2)
    plan = Plan.condense(chat.view(), said[:2], "S")
    view = chat.view()
    {
        "condense": lambda: chat.commit(Plan.condense(view, said[3:5], "T")),
        "truncate": lambda: chat.commit(Plan.truncate(view, said[3:5], "T")),
        "clear": lambda: chat.commit(Plan.clear(view, [(told, 0)])),
        "rewind": lambda: chat.rewind(to=told - 1),
        "undo": chat.undo,
    }[between]()
    error = refused(chat, plan, VersionConflict)
    assert (error.expected, error.actual) == (plan.head_seq, chat.head_seq())


def test_plan_of_a_future_version_is_refused(chat):
    fill(chat, 3)
    refused(chat, replace(raw(chat, (1, 2)), head_seq=9), VersionConflict)


def test_plan_is_committed_once(chat):
    said = fill(chat, 4)
    plan = Plan.condense(chat.view(), said[:2], "S")
    chat.commit(plan)
    refused(chat, plan, VersionConflict)


def test_pinned_rows_are_not_hidden(chat):
    said = fill(chat, 6)
    plan = Plan.condense(chat.view(), said[:4], "S")
    chat.pin(said[2])
    for compat in (False, True):
        error = refused(chat, replace(plan, compat=compat))
        assert error.pinned == [said[2]]
    around = [seq for seq in said[:4] if seq != said[2]]
    chat.commit(Plan.condense(chat.view(), around, "S"))
    assert shown(chat) == [said[2], 7 + 1, 5, 6]


@pytest.mark.parametrize("end", [0, 1])
def test_pinned_rows_tool_partner_is_not_hidden(chat, end):
    said = fill(chat, 2)
    pair = work(chat)
    fill(chat, 1)
    chat.pin(pair[end])
    other = pair[1 - end]
    refused(chat, raw(chat, (other, other)))
    refused(chat, raw(chat, (other, other), compat=True))
    assert chat.commit(raw(chat, (said[0], said[1]))).hidden == 2


@pytest.mark.parametrize("end", [0, 1], ids=["call", "result"])
def test_output_of_a_pinned_pair_is_not_cleared(chat, end):
    fill(chat, 1)
    pair = work(chat, output="long " * 100)
    plan = Plan.clear(chat.view(), [(pair[1], 0)])
    chat.pin(pair[end])
    refused(chat, plan)
    if end == 1:
        refused(chat, replace(plan, compat=True))


def test_plan_of_rows_that_are_not_live_is_refused(chat):
    said = fill(chat, 6)
    chat.rewind(to=said[2])
    for stretch in ((4, 5), (3, 5), (4, 4)):
        for compat in (False, True):
            refused(chat, raw(chat, stretch, compat=compat))


def test_plan_of_entries_that_are_no_messages_is_refused(chat):
    fill(chat, 2)
    chat.set_title("note")
    fill(chat, 2)
    for stretch in ((3, 4), (2, 3), (3, 3), (0, 1)):
        refused(chat, raw(chat, stretch))
        refused(chat, raw(chat, stretch, compat=True))


def test_tool_call_stays_with_its_result(chat):
    said = fill(chat, 2)
    asked, told = work(chat, ["t1", "t2"])
    fill(chat, 1)
    for stretch in ((asked, asked), (told, told), (said[0], asked)):
        error = refused(chat, raw(chat, stretch))
        assert (error.call, error.result) == (asked, told)
    assert chat.commit(raw(chat, (said[0], told))).hidden == 4


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


def test_plan_that_shrinks_nothing_is_refused(chat):
    said = fill(chat, 3)
    for counts in (None, Counts("given", Size(10), Size(10)), Counts("given", Size(10), Size(11))):
        refused(chat, raw(chat, (1, 2), counts=counts))
    error = refused(chat, Plan.condense(chat.view(), said[:1], WORDS * 2))
    assert error.after >= error.before
    _, told = work(chat, output="x")
    refused(chat, Plan.clear(chat.view(), [(told, 0)], "a longer placeholder"))


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


def test_compat_plan_may_grow_and_split_pairs(chat):
    said = fill(chat, 4)
    asked, told = work(chat)
    assert chat.commit(raw(chat, (asked, asked), counts=None, compat=True)).hidden == 1
    assert shown(chat) == [*said, told + 1, told]
    grown = Counts("g", Size(1), Size(9))
    assert chat.commit(raw(chat, (1, 2), counts=grown, compat=True)).hidden == 2
    assert chat.verify().ok


def test_compat_plan_may_clear_what_is_hidden(chat):
    fill(chat, 1)
    asked, told = work(chat, output="long " * 50)
    chat.commit(raw(chat, (asked, told)))
    plan = Plan(head_seq=chat.head_seq(), action=Action.CLEAR, clears=((told, 0),), counts=SMALLER)
    refused(chat, plan)
    assert chat.commit(replace(plan, compat=True)).cleared == 1
    assert list(chat.audit())[told - 1].cleared == ((0, chat.head_seq()),)


def test_clearing_of_other_blocks_is_refused(chat):
    fill(chat, 1)
    asked, told = work(chat, ["t1", "t2"], output="long " * 50)
    view = chat.view()
    base = Plan.clear(view, [(told, 0)])
    for clears in (
        ((asked, 0),),
        ((asked, 1),),
        ((1, 0),),
        ((told, 2),),
        ((told, -1),),
        ((99, 0),),
        ((0, 0),),
        ((told, 0), (told, 0)),
        (),
    ):
        for compat in (False, True):
            refused(chat, replace(base, clears=clears, compat=compat))
    chat.commit(base)
    again = replace(Plan.clear(view, [(told, 0)]), head_seq=chat.head_seq())
    for compat in (False, True):
        refused(chat, replace(again, compat=compat))
    chat.rewind(to=asked)
    refused(chat, replace(again, clears=((told, 1),), head_seq=chat.head_seq(), compat=True))


def test_contradictory_plan_is_refused(chat):
    fill(chat, 4)
    _, told = work(chat, output="long " * 50)
    good = raw(chat, (1, 2))
    for plan in (
        replace(good, hides=()),
        replace(good, hides=((2, 1),)),
        replace(good, hides=((3, 4), (1, 2))),
        replace(good, hides=((1, 2), (2, 3))),
        replace(good, hides=((1, 99),)),
        replace(good, rows=()),
        replace(good, clears=((told, 0),)),
        replace(good, action=Action.CLEAR, hides=(), clears=((told, 0),)),
        replace(good, action=Action.CLEAR, rows=(), clears=((told, 0),)),
    ):
        for compat in (False, True):
            refused(chat, replace(plan, compat=compat))


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    ("options", "why"),
    [
        *(({"companions": odd}, "companions must be messages") for odd in (5, ["a text"], [None])),
        *(
            ({"keep": odd}, "keep must be two numbers")
            for odd in (5, (1,), (1, 2, 3), ("a", 1), (1.5, 1))
        ),
        *(
            ({"blocks": odd}, "must be pairs of numbers")
            for odd in ([([1], 0)], [(1, 0), ("a", 0)])
        ),
    ],
    ids=str,
)
def test_parts_of_a_plan_that_are_none_are_refused(chat, options, why):
    said = fill(chat, 4)
    _, told = work(chat, output="long " * 50)
    clearing = partial(Plan.clear, chat.view(), blocks=[(told, 0)])
    condensing = partial(Plan.condense, chat.view(), said[:2], "short")
    with pytest.raises(InvalidPlan, match=why):
        (condensing if "companions" in options else clearing)(**options)


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("blank", ["", " \n\t", [], [text(" ")], [text("")]])
def test_summary_without_text_is_refused(chat, blank):
    fill(chat, 4)
    for compat in (False, True):
        refused(chat, raw(chat, (1, 2), rows=(NewMessage("user", blank),), compat=compat))


def test_summary_may_be_any_message(chat):
    said = fill(chat, 4)
    summary = NewMessage(
        "assistant", [text("S")], message_id="m", client_id="c", model="x", usage={"n": 1}
    )
    chat.commit(Plan.condense(chat.view(), said[:2], summary))
    entry = list(chat.audit())[-1].entry
    assert (entry.role, entry.message_id, entry.client_id) == ("assistant", "m", "c")
    assert (entry.model, entry.usage) == ("x", {"n": 1})


def test_summarys_client_id_is_not_given_twice(chat):
    said = fill(chat, 6)
    chat.append("user", "x", client_id="taken")
    summary = NewMessage("user", "S", client_id="taken")
    refused_with = state(chat)
    with pytest.raises(VersionConflict):  # DuplicateMessage is one
        chat.commit(Plan.condense(chat.view(), said[:2], summary))
    assert state(chat) == refused_with


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
def test_plan_is_refused_exactly_if_it_separates_a_pair(shared: Any) -> None:
    store = shared.store

    @settings(
        max_examples=examples(75, long=150),
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(before=SCENES, tools=TOOLS, after=SCENES, sides=SIDES)
    def examine(before: Any, tools: Any, after: Any, sides: Any) -> None:
        chat = store.create()
        play(chat, before)
        chat.append_many([NewMessage("user", "go on"), *rows_of_tools(tools)])
        play(chat, after)
        for pin in chat.pins():
            chat.unpin(pin)
        view = chat.view()
        readings = [reader(one.format).blocks(one.role, one.content) for one in view.messages]
        for turns in sides:
            hidden = [
                at for at, away in zip(range(len(readings)), cycle(turns), strict=False) if away
            ]
            if not hidden:
                continue
            plan = Plan.condense(view, [view.messages[at].seq for at in hidden], "in short")
            separated = {
                (view.messages[pair.call[0]].seq, view.messages[pair.result[0]].seq)
                for pair in split(readings, hidden)
            }
            refused = refusing_pair(chat, replace(plan, counts=SMALLER))
            assert refused in separated if refused else not separated

    examine()
