"""Policies as another package would write them, whatever they answer: the run ends well."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from roocontext import NewMessage, Plan, Store
from roocontext.context import AfterCompact, BeforeCompact, Hooks
from roocontext.errors import TurnTooLarge
from roocontext.log.counting import BYTES, Size
from roocontext.log.entries import View, ranges_of
from roocontext.log.plan import Action, Counts
from roocontext.log.summary import SummaryRequest
from roocontext.policies.situation import Aim, Ask, Nothing, Ready, TooLarge
from roocontext.programs.roo.policy import roo_events
from roocontext.tokens import counter_for
from support.async_manager import Scripted, grow, manager
from support.dialogue import WORDS, fill, shown, state, work

COUNTER = counter_for("gpt-4o")
WINDOW = 1_500


@dataclass
class Stranger:
    """Answers every situation with the same function."""

    answer: Any
    compat: bool = False
    name: str = "stranger"
    aims: list[Aim] = field(default_factory=list)

    def due(self, totals):
        return totals.is_over

    def decide(self, situation):
        self.aims.append(situation.aim)
        return self.answer(situation)


def managed(chat, answer, *, compat=False, limit=WINDOW, summary="in short", **options):
    """The outcome of one run with a policy that answers so."""
    policy = Stranger(answer, compat)
    options = {"policy": policy, "limit": limit, "summariser": Scripted(summary), **options}
    return manager(chat, **options).manage(chat)


def view_of(situation):
    """A view made of what a policy is told, for the functions that make plans."""
    messages = tuple(row.message for row in situation.visible)
    seen = situation.seen or situation.head_seq
    return View(situation.session_id, seen, situation.head_seq, messages)


def oldest(situation, share=0.8):
    rows = situation.visible
    return [row.seq for row in rows[: int(len(rows) * share)]]


def condensing(situation):
    def compose(summary):
        return Ready(Plan.condense(view_of(situation), hides, summary.text), "done")

    hides = oldest(situation)
    request = SummaryRequest(messages=[{"role": "user", "content": "sum up"}], style="default")
    return Ask(request, compose, tuple(hides))


def truncating(situation):
    return Ready(Plan.truncate(view_of(situation), oldest(situation)), "done")


def clearing(situation):
    rows = [row for row in situation.visible if isinstance(row.message.content, list)]
    blocks = [
        (row.seq, index)
        for row in rows
        for index, block in enumerate(row.message.content)
        if block["type"] == "tool_result"
    ]
    return Ready(Plan.clear(view_of(situation), blocks), "done")


def bare(situation):
    """A plan made by hand, which carries no counts."""
    return Ready(
        Plan(
            head_seq=situation.head_seq,
            action=Action.TRUNCATE,
            hides=ranges_of(oldest(situation)),
            rows=(NewMessage("user", "[gone]"),),
        ),
        "done",
    )


def boasting(situation):
    """A plan whose counts are somebody else's, and wrong."""
    plan = bare(situation).plan
    counts = Counts("guessed", Size(3), Size(2))
    return Ready(Plan(**{**fields(plan), "counts": counts}), "done")


def fields(plan):
    return {name: getattr(plan, name) for name in plan.__dataclass_fields__}


PLANS = [condensing, truncating, clearing, bare, boasting]


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize("compat", [False, True])
@pytest.mark.parametrize("answer", PLANS)
def test_outcome_of_any_plan_is_complete_and_as_foreseen(chat, answer, compat):
    grow(chat, 1_700)
    before = chat.tokens(COUNTER), chat.tokens(BYTES)
    told = []
    hooks = Hooks()
    for event in (BeforeCompact, AfterCompact):
        hooks.on(event, told.append)
    policy = Stranger(answer, compat)
    scripted = Scripted("in short")
    context = manager(chat, policy=policy, limit=WINDOW, summariser=scripted, hooks=hooks)
    unchanged = state(chat)
    foreseen = context.preview(chat)
    assert (state(chat), told) == (unchanged, [])
    outcome = context.manage(chat)
    after = chat.tokens(COUNTER), chat.tokens(BYTES)
    assert outcome.changed
    assert outcome.fits
    assert (outcome.tokens_before, outcome.bytes_before) == before
    assert (outcome.tokens_after, outcome.bytes_after) == after
    document = json.loads(json.dumps(outcome.to_dict()))
    assert document["bytes_before"] > document["bytes_after"] > 0
    same = {"compaction_ids": [], "dry_run": False}
    assert foreseen.to_dict() | same == outcome.to_dict() | {"compaction_ids": []}
    entry = next(iter(chat.audit(after=outcome.seqs[0] - 1))).entry
    record = entry.details["record"]
    assert (record["counter"], record["before"]) == (COUNTER.name, before[0])
    assert record["bytes"] == {"before": before[1], "after": after[1]}
    assert [type(event) for event in told] == [BeforeCompact, AfterCompact]
    for said in roo_events(told[1]):
        assert json.dumps(said)
    assert chat.verify().ok


def test_plan_that_shrinks_by_its_own_counts_only_is_refused(chat):
    fill(chat, 60)

    def growing(situation):
        rows = (NewMessage("user", WORDS * 99),)
        counts = Counts("guessed", Size(9), Size(1))
        plan = Plan(
            head_seq=situation.head_seq,
            action=Action.TRUNCATE,
            hides=((1, 2),),
            rows=rows,
            counts=counts,
        )
        return Ready(plan, "done")

    outcome = managed(chat, growing, limit=chat.tokens(COUNTER) - 1)
    assert (outcome.status, outcome.fits) == ("truncated", True)
    assert all(message.content != WORDS * 99 for message in chat.view().messages)


@pytest.mark.values_on_one_leg
@pytest.mark.parametrize(
    "broken",
    [
        {"hides": ((900, 901),)},
        {"hides": (1, 2)},
        {"hides": ((2, 1),)},
        {"rows": ("text",)},
        {"rows": ()},
        {"rows": (NewMessage("user", "x"), NewMessage("user", "x", "nobody's"))},
        {"rows": (NewMessage("user", "x", "nobody's"),)},
        {"rows": (NewMessage("user", {1, 2}),)},
        {"lead": 3},
        {"record": None},
    ],
)
def test_broken_plan_is_noted_and_the_manager_cuts_instead(chat, broken):
    fill(chat, 60)

    def answer(situation):
        return Ready(Plan(**{**fields(bare(situation).plan), **broken}), "done")

    outcome = managed(chat, answer)
    assert (outcome.status, outcome.fits) == ("truncated", True)
    assert [note.content["event"] for note in chat.notes("compaction")] == ["failed"]
    assert chat.verify().ok


def test_policy_that_does_nothing_is_not_the_last_word(chat):
    said = fill(chat, 160)
    outcome = managed(chat, lambda situation: Nothing("I would not know what to do."))
    assert (outcome.status, outcome.policy, outcome.fits) == ("truncated", "stranger", True)
    assert chat.tokens(COUNTER) == outcome.tokens_after <= WINDOW
    assert set(shown(chat)) < {*said, outcome.seqs[0]}


def test_policy_that_does_nothing_is_asked_for_a_cut_of_its_own_first(chat):
    fill(chat, 160)

    def answer(situation):
        return truncating(situation) if situation.aim is Aim.TRUNCATE else Nothing("not yet")

    outcome = managed(chat, answer, limit=chat.tokens(COUNTER) - 1)
    assert (outcome.status, outcome.detail) == ("truncated", "done")


def test_final_answer_is_the_last_word(chat):
    fill(chat, 160)
    before = state(chat)

    def answer(situation):
        return Nothing("I want it so.", final=True)

    outcome = managed(chat, answer)
    assert (outcome.status, outcome.reason, outcome.fits) == ("noop", "I want it so.", False)
    assert outcome.excess == {"tokens": chat.tokens(COUNTER) - WINDOW}
    context = manager(chat, policy=Stranger(answer), limit=WINDOW)
    assert context.truncate(chat).status == "noop"
    assert state(chat) == before


def test_compat_policy_that_does_nothing_may_end_over_the_window(chat):
    fill(chat, 160)
    outcome = managed(chat, lambda situation: Nothing("The program does nothing."), compat=True)
    assert (outcome.status, outcome.fits) == ("noop", False)


def test_policy_that_does_nothing_about_a_turn_that_is_too_large(chat):
    fill(chat, 6)
    chat.append("user", WORDS * 200)
    view, head = chat.view().messages, chat.head_seq()
    with pytest.raises(TurnTooLarge) as caught:
        managed(chat, lambda situation: Nothing("I would not know what to do."))
    assert caught.value.needed > caught.value.limit == WINDOW
    assert (chat.view().messages, chat.head_seq()) == (view, head)


def test_outputs_are_cleared_if_a_truncation_is_not_enough(chat):
    chat.append("user", "Mend the parser.")
    work(chat, [f"t{n}" for n in range(5)], WORDS * 60)
    outcome = managed(chat, lambda situation: Nothing("I would not know what to do."))
    assert (outcome.status, outcome.fits) == ("cleared", True)


def test_policy_that_cuts_too_little_is_helped(chat):
    fill(chat, 160)

    def one_row(situation):
        rows = situation.visible
        return Ready(Plan.truncate(view_of(situation), [rows[0].seq, rows[1].seq], "-"), "little")

    outcome = managed(chat, one_row)
    assert [step.detail for step in outcome.steps] == ["little", "truncated"]
    assert outcome.fits


def test_policy_that_always_asks_is_asked_once(chat):
    fill(chat, 160)
    summariser = Scripted(ValueError("boom"))
    outcome = managed(chat, condensing, summariser=summariser)
    assert (outcome.status, outcome.fits, len(summariser.requests)) == ("truncated", True, 1)


def test_policy_that_says_what_is_too_large_is_believed(chat):
    fill(chat, 160)
    before = chat.head_seq()
    with pytest.raises(TurnTooLarge):
        managed(chat, lambda situation: TooLarge("turn", 2_000, situation.window))
    assert chat.head_seq() == before


PLUGIN = """
from roocontext import Plan
from roocontext.log.entries import View
from roocontext.log.summary import SummaryRequest
from roocontext.policies.situation import Ask, Ready

class Abacus:
    name = "abacus"
    compat = False
    def due(self, totals):
        return True
    def decide(self, situation):
        rows = [row.message for row in situation.visible]
        view = View(situation.session_id, situation.seen, situation.head_seq, tuple(rows))
        oldest = tuple(row.seq for row in rows[:-1])
        if situation.aim == "clear":
            return Ready(Plan.clear(view, [(3, 0)]), "abacus")
        if situation.aim == "truncate":
            return Ready(Plan.truncate(view, oldest, trigger=situation.trigger), "abacus")
        asked = SummaryRequest(messages=[{"role": "user", "content": "sum up"}], style="default")
        made = lambda summary: Ready(Plan.condense(view, oldest, summary.text), "abacus")
        return Ask(asked, made, oldest)
"""

BETWEEN = "}\n{"
"""Documents that are printed one after the other."""
COMMANDS = """
import sys
from contextlib import suppress
from roocontext.cli import main
sys.path.insert(0, sys.argv.pop(1))
for command in ("clear", "condense", "truncate"):
    with suppress(SystemExit):
        main([command, *sys.argv[1:]])
"""


def test_command_line_prints_the_outcome_of_any_plan(tmp_path, python):
    (tmp_path / "abacus_policy.py").write_text(PLUGIN)
    info = tmp_path / "abacus-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[roocontext.policies]\nabacus = abacus_policy:Abacus\n")
    path = str(tmp_path / "agent.db")
    with Store.open(path) as store:
        chat = store.create()
        chat.append("user", "Mend the parser.")
        work(chat, ("t",), WORDS * 9)
        fill(chat, 20)
    options = ("--db", path, "--policy", "abacus", "--limit", "4096", "--json")
    run = python.start(COMMANDS, str(tmp_path), chat.id, *options, keeps_errors=True)
    out, errors = run.communicate()
    assert (run.returncode, errors) == (0, "")
    answers = json.loads(f"[{out.strip().replace(BETWEEN, '},{')}]")
    assert [answer["status"] for answer in answers] == ["cleared", "condensed", "truncated"]
    for answer in answers:
        assert (answer["policy"], answer["detail"]) == ("abacus", "abacus")
        assert answer["tokens_before"] > answer["tokens_after"] > 0
        assert answer["bytes_before"] > answer["bytes_after"] > 0
