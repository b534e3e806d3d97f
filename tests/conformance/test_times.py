"""Moments in a log: found as a scan would find them, whatever clocks and agents did."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roocontext import NewMessage, Plan
from roocontext.errors import MessageNotFound, NothingToUndo
from support.dialogue import fill
from support.examples import examples

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXAMPLES = examples(10)
MOMENTS = 8
"""About so many of the times in a history are tried, each with the moment before it."""
COUNTS = ("latest_recorded", "recorded_back", "latest_own", "own_back")

moments = st.integers(0, 60)
maybe = st.one_of(st.none(), moments)
forward = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), forward, maybe),
        st.tuples(st.just("append"), forward, st.just(None)),
        st.tuples(st.just("keep time"), forward, st.integers(-2, 2)),
        st.tuples(st.just("back"), st.integers(1, 20)),
        st.tuples(st.just("many"), forward, st.integers(1, 4)),
        st.tuples(st.just("note"), forward),
        st.tuples(st.just("condense"), forward, maybe),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
        st.tuples(st.just("undo")),
    ),
    min_size=1,
    max_size=25,
)


def at(ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=ms)


def play(chat: Any, clock: Any, steps: Any) -> None:
    """A history under a clock that goes on, stands still, and is sometimes set back."""
    clock.now, clock.step = 20, 0
    for kind, *given_ in steps:
        match kind, given_:
            case "back", [by]:
                clock.now = max(0, clock.now - by)
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
            case "note", _:
                chat.note("remark", {})
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


def rewound(chat: Any, **target: Any) -> tuple[int, int] | tuple[int, ...]:
    """Where a rewind goes and its target, or the candidates of its refusal."""
    try:
        done = chat.fork().rewind(**target)
    except MessageNotFound as refusal:
        return refusal.candidates
    return done.to, done.target


def moments_around(entries: list[Any]) -> list[int]:
    """Moments at which the answer changes, and those right before them."""
    times = sorted({time for e in entries for time in (e.entry.recorded_at, own(e))})
    some = times[:: len(times) // MOMENTS + 1]
    return sorted({-1, 61, *some, *(time - 1 for time in some)})


def scanned(live: list[Any], head: int, when: int) -> tuple[int, int] | tuple[int, ...]:
    """What a rewind of a fork to a moment should answer, by looking at all its live messages."""
    later = next((e.seq for e in live if own(e) > when), None)
    before = [e.seq for e in live if later is None or e.seq < later]
    if not before:
        return (later,) if later else ()
    return (head if later is None else later - 1), before[-1]


def scanned_ts(live: list[Any], ts: int) -> tuple[int, int] | tuple[int, ...]:
    """What a rewind to an exact time should answer."""
    timed = [(e.seq, e.entry.ts) for e in live if e.entry.ts is not None]
    found = next((seq for seq, at in timed if at == ts), None)
    near = sorted(timed, key=lambda one: (abs(one[1] - ts), one[0]))[:2]
    return tuple(at for _, at in near) if found is None else (found, found)


def test_any_moment_is_found_as_a_scan_finds_it(lab: Any) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(steps=STEPS)
    def examine(steps: Any) -> None:
        chat = lab.store.create()
        play(chat, lab.clock, steps)
        entries = list(chat.audit())
        live = [e for e in entries if e.role is not None and e.rewound_by is None]
        head = chat.fork().head().seq
        for when in moments_around(entries):
            recorded = [e.seq for e in entries if e.entry.recorded_at <= when]
            assert chat.view(as_of=at(when)).seq == (recorded[-1] if recorded else 0)
            assert rewound(chat, to=at(when)) == scanned(live, head, when)
            assert rewound(chat, ts=when) == scanned_ts(live, when)
        assert chat.verify().ok
        assert chat.rebuild() == 0

    examine()


def test_what_is_kept_of_the_times(lab: Any) -> None:
    chat = lab.store.create()
    lab.clock.now, lab.clock.step = 100, 0
    chat.append("user", "x")
    chat.append("user", "x", ts=90)
    lab.clock.now = 50
    chat.note("remark", {})
    chat.append("user", "x", ts=95)
    assert times_of(lab, chat) == (100, 2, 100, 2)
    assert times_of(lab, chat.fork(1)) == (100, 1, 100, 0)


@pytest.mark.parametrize("column", COUNTS)
def test_wrong_times_are_found_and_renewed(lab: Any, column: str) -> None:
    chat = lab.store.create()
    fill(chat, 3)
    right = times_of(lab, chat)
    lab.sql(f"UPDATE sessions SET {column} = {column} + 1 WHERE session_id = '{chat.id}'")
    found = chat.verify()
    assert not found.ok
    assert "times" in found.problem
    assert chat.rebuild() == 1
    assert times_of(lab, chat) == right
    assert chat.verify().ok


def times_of(lab: Any, chat: Any) -> tuple[int, ...]:
    found = lab.sql(f"SELECT {', '.join(COUNTS)} FROM sessions WHERE session_id = '{chat.id}'")
    return tuple(found[0])
