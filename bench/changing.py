"""What changes the view: rewinds, and condensations."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from bench.data import (
    Ticking,
    age,
    called,
    condensing,
    content,
    encoded,
    grow,
    message,
    role,
    worked,
)
from bench.report import Line
from bench.sites import LENGTH_BUDGET, Site, line_of
from bench.sizes import Sizes
from bench.timing import Step, alternate
from roocontext import Session
from roocontext.log.entries import Message
from roocontext.log.readings import read_message, text_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rewinding(site: Site, short: Session, long: Session, sizes: Sizes) -> Iterator[Line]:
    floor = site.floor("floor_full")
    text = encoded(0)
    ends = {"short": short.head_seq() - 10, "long": long.head_seq() - 10}
    for name in ("long", "short"):
        site.settle(name)
    times = alternate(
        [
            Step("raw", lambda _: floor.append(text)),
            Step("rewind short", lambda _: short.rewind(to=ends["short"])),
            Step("undo short", lambda _: short.undo()),
            Step("rewind long", lambda _: long.rewind(to=ends["long"])),
            Step("undo long", lambda _: long.undo()),
        ],
        rounds=sizes.folds,
    )
    for name, what in (("rewind", "rewind of the last 10"), ("undo", "undo of it")):
        here, there = times[f"{name} short"], times[f"{name} long"]
        yield line_of(site, name, what, "one raw durable commit", here, times["raw"], 6.0)
        yield line_of(
            site,
            f"{name}.length",
            f"{what}, of {sizes.long:,}",
            f"of {sizes.short:,}",
            there,
            here,
            LENGTH_BUDGET,
        )


class _Condenser:
    """Condenses the same messages of a session again and again; a rewind takes it back."""

    def __init__(self, chat: Session, lo: int, hi: int) -> None:
        self._chat = chat
        self._range = lo, hi
        self._before = self._head = chat.head_seq()

    def condense(self, _: int) -> None:
        """Hide them."""
        self._chat.commit(condensing(self._head, *self._range))

    def take_back(self, _: int) -> None:
        """Show them again."""
        self._head = self._chat.rewind(to=self._before).head_seq


class _Compactor:
    """Records replies in which a provider compacted all messages; a rewind takes each back."""

    def __init__(self, chat: Session, kept: int) -> None:
        self._chat = chat
        self._before = chat.head_seq()
        self._made = 0
        asked = [one for one in chat.view().messages if one.role == "user"] if kept else []
        self._kept = [_item(one) for one in asked[:: max(1, len(asked) // (kept or 1))][:kept]]

    def compact(self, _: int) -> None:
        """Record one, as an answer that lists the messages that were kept."""
        self._made += 1
        item = {"type": "compaction", "id": f"c{self._made}", "encrypted_content": "sealed"}
        answer = {"object": "response.compaction", "id": f"r{self._made}", "usage": None}
        self._chat.record({**answer, "output": [*self._kept, item]})

    def take_back(self, _: int) -> None:
        """Show them again."""
        self._chat.rewind(to=self._before)

    def read(self) -> None:
        """Read them all."""
        self._chat.view()


def _item(asked: Message) -> dict[str, Any]:
    """A user's message as the provider lists it."""
    words = text_of(read_message(asked)[1])
    content = [{"type": "input_text", "text": words}]
    return {"type": "message", "role": "user", "content": content}


def coverings(site: Site, sizes: Sizes) -> Iterator[Line]:
    """A reply in which the provider compacted: all of a long session, and all but some messages."""
    store, kept = site.store("covered"), 500
    whole = _Compactor(grow(store.create(), sizes.hidden), 0)
    partly = _Compactor(grow(store.create(), sizes.hidden), kept)
    site.settle("covered")
    floor, text = site.floor("floor_full"), encoded(0)
    times = alternate(
        [
            Step("raw", lambda _: floor.append(text)),
            Step("whole", whole.compact),
            Step(None, whole.take_back),
            Step("partly", partly.compact),
            Step(None, partly.take_back),
        ],
        rounds=sizes.folds,
    )
    raw = "one raw durable commit"
    what = f"record a compaction of {sizes.hidden:,} messages"
    yield line_of(site, "covering", what, raw, times["whole"], times["raw"], 6.0)
    yield line_of(
        site,
        "covering.kept",
        f"{what}, of which {kept} are kept",
        f"read {sizes.hidden:,} messages",
        times["partly"],
        alternate([Step("read", lambda _: whole.read())], rounds=sizes.folds)["read"],
        4.0,
    )


def condensations(site: Site, long: Session, sizes: Sizes) -> Iterator[Line]:
    hidden, few = sizes.hidden, sizes.few
    store, alone = site.store("condensed"), site.store("again")
    condensers = {
        "few": _Condenser(grow(store.create(), few + 20), 1, few),
        "many": _Condenser(grow(store.create(), hidden + 20), 1, hidden),
        "half": _Condenser(grow(store.create(), 2 * hidden), 1, hidden),
        "tools": _Condenser(grow(store.create(), 2 * hidden, worked), 1, hidden),
        "waiting": _Condenser(_with_a_call(store.create(), hidden), 1, hidden),
        # Each of these two has a store, and so a connection, of its own: one that the others keep
        # warm would be faster.
        "again": _condensed_before(grow(alone.create(), few + hidden + 20), few, hidden),
        "long": _condensed_before(long, sizes.long - hidden - 20, hidden),
    }
    for name in ("long", "again", "condensed"):
        site.settle(name)
    floor = site.floor("floor_full")
    text = encoded(0)
    steps = [Step("raw", lambda _: floor.append(text))]
    for name, condenser in condensers.items():
        steps += [Step(name, condenser.condense), Step(None, condenser.take_back)]
    times = alternate(steps, rounds=sizes.folds)
    what = f"condense hiding {hidden:,}"
    raw = "one raw durable commit"
    yield line_of(site, "condense", f"{what}, 20 stay", raw, times["many"], times["raw"], 6.0)
    yield line_of(
        site,
        "condense.half",
        f"{what}, {hidden:,} stay",
        raw,
        times["half"],
        times["raw"],
        60.0,
    )
    yield line_of(
        site,
        "condense.half.tools",
        f"{what}, {hidden:,} stay, every row a call or a result",
        raw,
        times["tools"],
        times["raw"],
        60.0,
    )
    yield line_of(
        site,
        "condense.waiting",
        f"{what}, 20 stay, one of them a call that waits",
        "no call waits",
        times["waiting"],
        times["many"],
        2.0,
    )
    yield line_of(
        site,
        "condense.hidden",
        f"{what}, 20 stay",
        f"hiding {few:,}",
        times["many"],
        times["few"],
        LENGTH_BUDGET,
    )
    yield line_of(
        site,
        "condense.length",
        f"{what}, 20 stay, all before condensed, of {sizes.long:,}",
        f"of {few + hidden + 20:,}",
        times["long"],
        times["again"],
        LENGTH_BUDGET,
    )


def _condensed_before(chat: Session, newest: int, hidden: int) -> _Condenser:
    """Condenses what follows an earlier summary, which hides the messages up to `newest`."""
    chat.commit(condensing(chat.head_seq(), 1, newest))
    return _Condenser(chat, newest + 1, newest + hidden)


def _with_a_call(chat: Session, hidden: int) -> Session:
    """As many messages as hidden, then 20 of which one is a call without its result."""
    grow(chat, hidden)
    chat.append_many([message(n) if n != 11 else called(n) for n in range(20)])
    return chat


def rewriting(site: Site, sizes: Sizes) -> Iterator[Line]:
    """The same operations in sessions that have been changed often."""
    store = site.store("rewritten", durability="normal")
    raw, text = site.floor("floor_full"), encoded(0)
    own = 2 * (sizes.folds + 1)
    for number, (most, budget) in enumerate(zip(sizes.rewritten, (6.0, 12.0), strict=True)):
        # What is measured adds control rows too: so many there are at the end.
        chats = [_aged(store.create(), max(1, most - own)) for _ in range(2)]
        site.settle("rewritten")
        full = site.store("rewritten")
        rewound, condensed = (full.session(chat.id) for chat in chats)
        end = rewound.head_seq() - 10
        condenser = _Condenser(condensed, condensed.head_seq() - 119, condensed.head_seq() - 20)
        times = alternate(
            [
                Step("raw", lambda _: raw.append(text)),
                Step("rewind", lambda _, chat=rewound, end=end: chat.rewind(to=end)),
                Step("undo", lambda _, chat=rewound: chat.undo()),
                Step("condense", condenser.condense),
                Step(None, condenser.take_back),
            ],
            rounds=sizes.folds,
        )
        for name, what in (
            ("rewind", "rewind of the last 10"),
            ("undo", "undo of it"),
            ("condense", "condense hiding 100"),
        ):
            yield line_of(
                site,
                f"{name}.controls{'.many' if number else ''}",
                f"{what}, {most} control rows",
                "one raw durable commit",
                times[name],
                times["raw"],
                budget,
            )


def _aged(chat: Session, condensations: int) -> Session:
    return grow(
        age(chat, messages=20 * condensations, condensations=condensations, visible=10), 120
    )


def rewinding_by_time(site: Site, sizes: Sizes) -> Iterator[Line]:
    """A rewind to a time of the log's or of the agent's, beside the same one by seq."""
    store = site.store("timed", durability="normal", clock=Ticking(1_000))
    recorded, stamped = store.create("recorded"), store.create("stamped")
    chunk = sizes.long // 20
    for first in range(0, sizes.long, chunk):
        numbers = range(first, first + chunk)
        recorded.append_many([message(number) for number in numbers])
        stamped.append_many([replace(message(number), ts=number) for number in numbers])
    for number in range(20):
        recorded.append(role(number), content(number))
    site.settle("timed")
    ts = sizes.long - 11
    when = EPOCH + timedelta(milliseconds=ts)
    end = recorded.head_seq() - 10
    at = EPOCH + timedelta(milliseconds=recorded.message(end).recorded_at)
    rewinds: dict[str, Callable[[], object]] = {
        "seq": lambda: recorded.rewind(to=end),
        "datetime": lambda: recorded.rewind(to=at),
        "stamped seq": lambda: stamped.rewind(to=sizes.long - 10),
        "stamped datetime": lambda: stamped.rewind(to=when),
        "ts": lambda: stamped.rewind(ts=ts),
    }
    steps = []
    for name, rewind in rewinds.items():
        chat = recorded if name in {"seq", "datetime"} else stamped
        steps.append(Step(name, lambda _, rewind=rewind: rewind()))
        steps.append(Step(None, lambda _, chat=chat: chat.undo()))
    times = alternate(steps, rounds=sizes.folds)
    for key, what, name, other in (
        ("rewind.datetime", "a datetime, by recorded times", "datetime", "seq"),
        ("rewind.datetime.stamped", "a datetime, by ts", "stamped datetime", "stamped seq"),
        ("rewind.ts", "a ts", "ts", "stamped seq"),
    ):
        yield line_of(
            site,
            key,
            f"rewind to {what}, 10 back of {sizes.long:,}, NORMAL",
            "to its seq",
            times[name],
            times[other],
            3.0,
        )
    middle = sizes.long // 2
    moment = EPOCH + timedelta(milliseconds=recorded.message(middle).recorded_at)
    times = alternate(
        [
            Step("seq", lambda _: recorded.view(as_of=middle, limit=20)),
            Step("datetime", lambda _: recorded.view(as_of=moment, limit=20)),
        ],
        rounds=sizes.reads,
    )
    yield line_of(
        site,
        "view.as_of.datetime",
        f"20 rows of the view as of a datetime, the middle of {sizes.long:,}",
        "as of its seq",
        times["datetime"],
        times["seq"],
        3.0,
    )
