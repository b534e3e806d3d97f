"""What reads a log: views of the present and of the past, and the spans they come from."""

import json
from collections.abc import Iterator
from math import log2
from random import Random

from bench.data import (
    SEED,
    age,
    controls,
    grow,
)
from bench.report import Line
from bench.sites import Site, line_of
from bench.sizes import Sizes
from bench.timing import Samples, Step, alternate
from roocontext import Session
from roocontext.log.draft import control_of
from roocontext.log.spans import spans_of


def viewing(site: Site, sizes: Sizes) -> Iterator[Line]:
    store = site.store("aged")
    aged = age(
        store.create("aged"),
        messages=sizes.long,
        condensations=sizes.condensations,
        visible=20,
    )
    whole = grow(store.create(), 20)
    shown = grow(store.create("shown"), sizes.shown)
    long = grow(store.create(), sizes.aged_visible)
    points = Random(SEED).sample(range(1, sizes.long), sizes.points)
    peers = [grow(store.create(), len(aged.view(as_of=point).messages)) for point in points]
    past = _controls(site, aged)
    site.settle("aged")
    yield from _few_visible(site, aged, whole, sizes)
    yield from _decoded(site, shown, long, sizes)

    def present(_: int) -> None:
        for point, peer in zip(points, peers, strict=True):
            peer.view()
            spans_of([control for control in past if control.seq <= point], point)

    def as_of(_: int) -> None:
        for point in points:
            aged.view(as_of=point)

    times = alternate([Step("now", present), Step("past", as_of)], rounds=sizes.heavy)
    yield line_of(
        site,
        "view.as_of",
        f"views as of {len(points)} random seqs of {sizes.long:,}",
        "current views of as many rows, and spans_of",
        times["past"],
        times["now"],
        2.0,
        note=f"{len(past)} control rows",
    )


def _few_visible(site: Site, aged: Session, whole: Session, sizes: Sizes) -> Iterator[Line]:
    times = alternate(
        [Step("whole", lambda _: whole.view()), Step("aged", lambda _: aged.view())],
        rounds=sizes.reads,
        batch=10,
    )
    seen = len(aged.view().messages)
    yield line_of(
        site,
        "view.few",
        f"effective history, {seen} visible of {sizes.long:,}",
        "20 of 20",
        times["aged"],
        times["whole"],
        1.3,
    )


def _decoded(site: Site, shown: Session, long: Session, sizes: Sizes) -> Iterator[Line]:
    floor = site.floor("aged")
    columns = (
        "seq, kind, role, content, format, ts, recorded_at, message_id, compaction_id, model,"
        " asked_at, answers_seq, answers_block"
    )
    query = f"SELECT {columns} FROM entries WHERE session_id = {floor.holder} ORDER BY seq"

    def raw(_: int) -> None:
        for row in floor.rows(query, (shown.id,)):
            json.loads(row[3])

    times = alternate(
        [
            Step("raw", raw),
            Step("view", lambda _: shown.view()),
            Step("messages", lambda _: shown.messages()),
        ],
        rounds=sizes.reads,
        batch=5,
    )
    what = f"{sizes.shown} visible rows, decoded"
    fetched = "raw fetch of the same columns, json.loads"
    yield line_of(site, "view.decoded", what, fetched, times["view"], times["raw"], 1.5)
    outgoing = f"messages() of {sizes.shown} visible rows"
    view = times["view"]
    yield line_of(site, "view.messages", outgoing, "their view", times["messages"], view, 5.0)
    many = alternate([Step("messages", lambda _: long.messages())], rounds=sizes.reads)
    outgoing = f"messages() of {sizes.aged_visible:,} visible rows"
    limit = Samples([0.040])
    yield line_of(site, "view.messages.many", outgoing, "40 ms", many["messages"], limit, 1.0)


def _controls(site: Site, chat: Session) -> list:
    floor = site.floor(chat.id)
    rows = floor.rows(
        f"SELECT seq, kind, details FROM entries WHERE session_id = {floor.holder}"
        " AND details IS NOT NULL ORDER BY seq",
        (chat.id,),
    )
    return [control_of(seq, kind, details) for seq, kind, details in rows]


def folding(sizes: Sizes) -> Iterator[Line]:
    large, small = sizes.controls, sizes.controls // 10
    built = {count: controls(count) for count in (small, large)}
    times = alternate(
        [
            Step(str(count), lambda _, made=made, seq=seq: spans_of(made, seq))
            for count, (made, seq) in built.items()
        ],
        rounds=sizes.reads,
    )
    for count, limit in ((small, 0.001), (large, 0.020)):
        yield Line(
            f"spans_of.{'small' if count == small else 'large'}",
            f"spans_of, {count:,} control rows",
            f"{limit * 1000:.0f} ms",
            times[str(count)],
            Samples([limit]),
            1.0,
        )
    yield Line(
        "spans_of.growth",
        f"spans_of, {large:,} control rows",
        f"{small:,}",
        times[str(large)],
        times[str(small)],
        large * log2(large) / (small * log2(small)),
        note="the budget is n log n",
    )
