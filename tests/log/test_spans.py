"""`spans_of` against the fold, at every past seq of random logs; nothing but memory is touched."""

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from roocontext import NewMessage, Plan
from roocontext.log import fold
from roocontext.log.entries import MESSAGE_KINDS, Kept, Kind
from roocontext.log.fold import Tags
from roocontext.log.plan import Action
from roocontext.log.spans import (
    OPEN_END,
    clearings_of,
    first_changed,
    first_decided,
    live_ranges,
    spans_of,
    standing_ranges,
    visible_ranges,
)
from support.examples import examples
from support.oracle import Model

RESULT = [{"type": "tool_result", "tool_use_id": "t", "content": "xxx"}]

picks = st.integers(0, 1_000)


def held_against_the_fold(log, seq):
    """Assert that the spans of a log agree with the fold."""
    controls = [row.control for row in log if row.control]
    spans = spans_of(controls, seq)
    assert (spans[0].lo, spans[-1].hi) == (1, OPEN_END)
    assert all(one.hi + 1 == other.lo for one, other in pairwise(spans))
    kinds = [row.kind for row in log]
    ranges = visible_ranges(spans, seq)
    view = [n for lo, hi in ranges for n in range(lo, hi + 1) if kinds[n - 1] in MESSAGE_KINDS]
    assert view == fold.effective(log)
    covering = {n: span for span in spans for n in range(span.lo, min(span.hi, seq) + 1)}
    for row, tags in fold.tags(log).items():
        span = covering[row]
        told = Tags(
            span.condense_parent, span.truncation_parent, span.rewound_by, span.uncovered_by
        )
        # A span speaks of messages; a clearing is told only what took it back.
        if kinds[row - 1] in (Kind.CLEARING, Kind.UNCOVERING):
            assert (told.rewound_by, told.uncovered_by) == (tags.rewound_by, tags.uncovered_by)
        else:
            assert told == tags
            if tags == Tags():
                assert span.at(row) == log[row - 1].position
    live, standing = (
        {n for lo, hi in ranges(controls, seq) for n in range(lo, hi + 1)}
        for ranges in (live_ranges, standing_ranges)
    )
    in_order = sorted((span for span in spans if span.standing), key=lambda span: span.position)
    rows = [n for span in in_order for n in range(span.lo, min(span.hi, seq) + 1)]
    places = [log[n - 1].position for n in rows if kinds[n - 1] in MESSAGE_KINDS]
    assert places == sorted(places)
    folded = {row.seq for row in log if row.kind not in (Kind.NOTE, Kind.REWIND)}
    assert live & folded == fold.live_sets(log)[-1]
    assert standing & folded == fold.standing(log)
    cleared = clearings_of(controls, seq)
    assert {block: control.seq for block, control in cleared.items()} == fold.cleared(log)


def the_rest_follows_from_later_control_rows(controls, seq):
    """The spans from any one on need no control row that is before it."""
    spans = spans_of(controls, seq)
    for index, span in enumerate(spans):
        later = [control for control in controls if control.seq >= span.lo]
        assert spans_of(later, seq, span.lo) == spans[index:]


def a_control_row_leaves_what_is_before(controls):
    """The newest one leaves the spans alone that end before the first row it changes."""
    *earlier, new = controls
    before, after = spans_of(earlier, new.seq - 1), spans_of(controls, new.seq)
    first = first_decided([new], earlier)
    known = OPEN_END
    while new.to is not None and first < known:
        known = first
        later = [control for control in earlier if control.seq >= known]
        first = first_changed(later, new.seq - 1, new.to)
    since = max((span.lo for span in before if span.lo < first), default=1)
    assert since in {span.lo for span in after}
    assert [s for s in before if s.lo < since] == [s for s in after if s.lo < since]
    # What it clears, or shows again, is the difference of what the rows from there on clear.
    known = [control for control in controls if control.seq >= since]
    were, are = clearings_of(known[:-1], new.seq - 1), clearings_of(known, new.seq)
    had, has = clearings_of(earlier, new.seq - 1), clearings_of(controls, new.seq)
    changed = {**dict.fromkeys(were), **are}
    assert has == {k: v for k, v in {**had, **changed}.items() if v is not None}


class LogMachine(RuleBasedStateMachine):
    """A log as plans, rewinds and notes may make it; what a compat plan may do is done."""

    def __init__(self):
        super().__init__()
        self.model = Model()

    @rule(count=st.integers(1, 4))
    def say(self, count):
        for _ in range(count):
            self.model.add(Kind.MESSAGE, None, ("user", RESULT))

    @rule()
    def note(self):
        self.model.add(Kind.NOTE)

    @rule(
        ends=st.lists(picks, min_size=1, max_size=6),
        action=st.sampled_from([Action.CONDENSE, Action.TRUNCATE]),
        companions=st.integers(0, 2),
        at_end=st.booleans(),
    )
    def hide(self, ends, action, companions, at_end):
        live = sorted(self.model.standing() & set(self.model.said))
        if not live:
            return
        points = sorted({live[end % len(live)] for end in ends})
        points = points if len(points) % 2 == 0 else [*points, points[-1]]
        self._commit(
            action=action,
            hides=tuple(zip(points[::2], points[1::2], strict=True)),
            rows=(NewMessage("user", RESULT),) * (1 + companions),
            at_end=at_end,
        )

    @rule(chosen=st.lists(picks, min_size=1, max_size=3), kept=st.integers(-1, 3))
    def clear(self, chosen, kept):
        live = sorted(self.model.standing() & set(self.model.said))
        if live:
            clears = {(live[pick % len(live)], 0) for pick in chosen}
            keeps = tuple(Kept(*block, kept, 0) for block in clears if kept >= 0)
            self._commit(action=Action.CLEAR, clears=tuple(clears), keeps=keeps, placeholder="p")

    @rule(pick=picks, near=st.booleans())
    def rewind(self, pick, near):
        last = self.model.last_seq
        self.model.rewind(last - pick % min(last + 1, 8) if near else pick % (last + 1))

    @rule(pick=picks)
    def uncover(self, pick):
        can = [row.seq for row in self.model.rows if self.model.may_uncover(row.seq)]
        if can:
            self.model.uncover(can[pick % len(can)])

    @invariant()
    def what_is_uncovered_was_never_written(self):
        log = self.model.never_written()
        assert fold.effective(log) == self.model.effective()
        assert fold.cleared(log) == self.model.cleared()

    @invariant()
    def no_two_standing_rows_share_a_position(self):
        standing = self.model.standing()
        places = [row.position for row in self.model.rows if row.seq in standing]
        assert len(set(places)) == len(places)

    def teardown(self):
        for seq in range(self.model.last_seq + 1):
            held_against_the_fold(self.model.rows[:seq], seq)
        controls = [row.control for row in self.model.rows if row.control]
        the_rest_follows_from_later_control_rows(controls, self.model.last_seq)
        for count in range(1, len(controls) + 1):
            a_control_row_leaves_what_is_before(controls[:count])

    def _commit(self, **fields):
        plan = Plan(head_seq=self.model.head_seq, compat=True, **fields)
        if self.model.judge(plan) is None:
            self.model.commit(plan)


def test_spans_of_random_logs_agree_with_the_fold():
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            max_examples=examples(25, long=75),
            stateful_step_count=40,
        ),
    )
