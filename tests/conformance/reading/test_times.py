"""Moments in a log: found as a scan would find them, whatever clocks and agents did."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roocontext import NewMessage, Plan, Rewind
from roocontext.errors import MessageNotFound, NothingToUndo
from roocontext.log.entries import Kind
from support.dialogue import at
from support.examples import examples

EXAMPLES = examples(7, long=10)
MOMENTS = 8
"""About so many of the times in a history are tried, each with the moment before it."""
KEPT = ("latest_recorded", "recorded_back", "latest_happened", "happened_at")

moments = st.integers(-60, 60)
maybe = st.one_of(st.none(), moments)
forward = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), forward, maybe),
        st.tuples(st.just("append"), forward, st.just(None)),
        st.tuples(st.just("keep time"), forward, st.integers(-2, 2)),
        st.tuples(st.just("back"), st.integers(1, 20)),
        st.tuples(st.just("many"), forward, st.integers(1, 4)),
        st.tuples(st.just("note"), forward, maybe),
        st.tuples(st.just("condense"), forward, maybe),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
        st.tuples(st.just("rewind at"), forward, st.integers(0, 12), maybe),
        st.tuples(st.just("undo")),
    ),
    min_size=1,
    max_size=25,
)


def play(chat: Any, clock: Any, steps: Any, start: int = 20) -> None:
    """A history under a clock that advances, stands still, and is sometimes set back."""
    clock.now, clock.step = start, 0
    for kind, *given_ in steps:
        match kind, given_:
            case "back", [by]:
                clock.now -= by
                continue
            case "rewind", [back]:
                chat.rewind(max(0, chat.head().seq - back))
                continue
            case "undo", _:
                with suppress(NothingToUndo):
                    chat.undo(force=True)
                continue
        clock.now += given_[0]
        match kind, given_:
            case "append", [_, ts]:
                chat.append("user", "x", ts=ts)
            case "keep time", [_, off]:
                chat.append("user", "x", ts=clock.now + off)
            case "many", [_, count]:
                chat.append_many([{"role": "user", "content": "x"}] * count)
            case "note", [_, ts]:
                chat.note("remark", {}, ts=ts)
            case "rewind at", [_, back, ts]:
                to = max(0, chat.head().seq - back)
                chat.write_batch([Rewind(to, ts=ts)], expected_seq=chat.head_seq())
            case "condense", [_, ts]:
                view = chat.view()
                if len(view.messages) > 2:
                    first = NewMessage("user", "s", ts=ts)
                    seqs = [row.seq for row in view.messages[:2]]
                    chat.commit(Plan.condense(view, seqs, first, counter=_Shrinking()))


class _Shrinking:
    """Counts anything that is no summary as large."""

    name, exact = "shrinking", False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the protocol's
        return 1 if content == "s" else 100


def own(entry: Any) -> int:
    return entry.entry.recorded_at if entry.entry.ts is None else entry.entry.ts


def recorded_at(entry: Any) -> int:
    return entry.entry.recorded_at


def rewound(chat: Any, **target: Any) -> tuple[int, int] | tuple[int, ...]:
    """Where a rewind goes and its target, or the candidates of its refusal."""
    try:
        done = chat.rewind(**target, dry_run=True)
    except MessageNotFound as refusal:
        return refusal.candidates
    return done.to, done.target


def moments_around(entries: list[Any]) -> list[int]:
    """Moments at which the answer changes, and those right before them."""
    times = sorted({time for e in entries for time in (recorded_at(e), own(e))})
    some = times[:: len(times) // MOMENTS + 1]
    return sorted({-2_000, 2_000, *some, *(time - 1 for time in some)})


def scanned(live: list[Any], head: int, when: int, time: Any) -> tuple[int, int] | tuple[int, ...]:
    """The expected rewind to a moment, from all live entries of the fold."""
    later = next((e.seq for e in live if time(e) > when), None)
    before = [e.seq for e in live if e.role is not None and (later is None or e.seq < later)]
    if not before:
        return (later,) if later else ()
    return (head if later is None else later - 1), before[-1]


def scanned_ts(live: list[Any], ts: int) -> tuple[int, int] | tuple[int, ...]:
    """The expected rewind to an exact time."""
    timed = [(e.seq, e.entry.ts) for e in live if e.role is not None and e.entry.ts is not None]
    found = next((seq for seq, at in timed if at == ts), None)
    near = sorted(timed, key=lambda one: (abs(one[1] - ts), one[0]))[:2]
    return tuple(at for _, at in near) if found is None else (found, found)


def scanned_point(entries: list[Any], when: int) -> int:
    """The seq right before the first message or control row that happened later."""
    folded = (e.seq for e in entries if e.kind is not Kind.NOTE and own(e) > when)
    return next(folded, len(entries) + 1) - 1


@pytest.mark.parametrize("start", [20, -1_000])
def test_moment_is_found_as_by_a_scan(lab, start):
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(steps=STEPS)
    def examine(steps):
        chat = lab.store.create()
        play(chat, lab.clock, steps, start)
        entries = list(chat.audit())
        never_live = (Kind.NOTE, Kind.REWIND)
        live = [e for e in entries if e.kind not in never_live and e.rewound_by is None]
        head = chat.head().seq
        for when in moments_around(entries):
            recorded = [e.seq for e in entries if recorded_at(e) <= when]
            by_clock = chat.view(as_of=at(when), recorded=True).seq
            assert by_clock == (recorded[-1] if recorded else 0)
            assert chat.view(as_of=at(when)).seq == scanned_point(entries, when)
            assert rewound(chat, to=at(when)) == scanned(live, head, when, own)
            by_clock = rewound(chat, to=at(when), recorded=True)
            assert by_clock == scanned(live, head, when, recorded_at)
            assert rewound(chat, ts=when) == scanned_ts(live, when)
        copy = lab.store.restore(
            f"{chat.id}-copy", [*chat.internals.stored()], created_at=chat.info().created_at
        )
        for one in (chat, chat.fork(), chat.fork(head // 2), lab.store.session(copy.session_id)):
            assert one.verify().ok, one.verify().problem
            assert one.rebuild() == 0
        assert kept(lab, copy.session_id) == kept(lab, chat.id) == naively(chat)

    examine()


def naively(chat: Any) -> tuple[Any, ...]:
    """The expected times of a session, from all of its entries."""
    entries = list(chat.audit())
    recorded = [recorded_at(e) for e in entries]
    back = sum(time < max(recorded[:at]) for at, time in enumerate(recorded) if at)
    folded = [own(e) for e in entries if e.kind is not Kind.NOTE]
    origin = max((e.seq for e in entries if e.entry.note == "origin"), default=0)
    begun = [own(e) for e in entries if e.seq == origin]
    said = [own(e) for e in entries if e.kind is Kind.MESSAGE and e.seq > origin]
    return (
        max(recorded, default=None),
        back,
        max(folded, default=None),
        max([*begun, *said], default=None),
    )


def kept(lab: Any, session_id: str) -> tuple[Any, ...]:
    found = lab.sql(f"SELECT {', '.join(KEPT)} FROM sessions WHERE session_id = '{session_id}'")
    return tuple(found[0])


def test_forks_own_time_begins_with_it(lab):
    chat = lab.store.create()
    lab.clock.now, lab.clock.step = 1_000, 0
    chat.append("user", "x", ts=5_000)
    fork, placed = chat.fork(), chat.fork(ts=-7)
    assert fork.info().happened_at == fork.info().created_at == 1_000
    fork.append("user", "x", ts=900)
    assert fork.info().happened_at == 1_000
    assert placed.info().happened_at == -7
    placed.append("user", "x", ts=3)
    assert placed.info().happened_at == 3
