"""What is asked before each call of the model, where a session has a long past and where not."""

from collections.abc import Iterator

from bench.data import age, content, grow
from bench.report import Line
from bench.sites import Site, line_of
from bench.sizes import Sizes
from bench.timing import Samples, Step, alternate
from roocontext import ContextManager, Plan, Session

WINDOW = 1 << 40
USAGE = {"input_tokens": 1_000, "output_tokens": 10}


def keeping(site: Site, sizes: Sizes) -> Iterator[Line]:
    """`manage` with nothing to do, `stats` and `info`: long against short, and much visible."""
    store = site.store("kept", durability="normal")
    few = sizes.short // 100 or 1
    small = _called(age(store.create(), messages=sizes.short, condensations=few, visible=20))
    large = _called(age(store.create(), messages=sizes.long, condensations=sizes.aged, visible=20))
    wide = _called(grow(store.create(), sizes.aged_visible))
    site.settle("kept")
    # The usage is invented, and an estimate far from it would warn.
    context = ContextManager(limit=WINDOW, output=1_000, counter="opencode", drift_ratio=1e9)
    sizes_shown = f"{sizes.long:,} entries, {sizes.aged:,} control rows"
    asked = {
        "manage": ("manage with nothing to do", context.manage),
        "stats": ("stats", Session.stats),
        "info": ("info", Session.info),
    }
    for key, (what, ask) in asked.items():
        times = alternate(
            [
                Step("small", lambda _, ask=ask: ask(small)),
                Step("large", lambda _, ask=ask: ask(large)),
                Step("wide", lambda _, ask=ask: ask(wide)),
            ],
            rounds=sizes.reads,
        )
        yield line_of(
            site,
            f"{key}.growth",
            f"{what}, {sizes_shown}",
            f"{sizes.short:,}, {few:,}",
            times["large"],
            times["small"],
            2.0,
        )
        more = max(times["wide"].p50 - times["small"].p50, 1e-6)
        yield line_of(
            site,
            f"{key}.visible",
            f"{what}, {sizes.aged_visible:,} visible, more than with 20",
            "5 ms",
            Samples([more]),
            Samples([0.005]),
            1.0,
        )


def cutting(site: Site, sizes: Sizes) -> Iterator[Line]:
    """The same where each condensation ended at a rewind that was undone, and where none did."""
    store = site.store("cut", durability="normal")
    plain, cut = (
        _called(_cut(store.create(), sizes.condensations, rewound=rewound))
        for rewound in (False, True)
    )
    site.settle("cut")
    context = ContextManager(limit=WINDOW, output=1_000, counter="opencode", drift_ratio=1e9)
    asked = {
        "manage": ("manage with nothing to do", context.manage),
        "stats": ("stats", Session.stats),
    }
    for key, (what, ask) in asked.items():
        times = alternate(
            [
                Step("plain", lambda _, ask=ask: ask(plain)),
                Step("cut", lambda _, ask=ask: ask(cut)),
            ],
            rounds=sizes.reads,
        )
        yield line_of(
            site,
            f"{key}.cut",
            f"{what}, {sizes.condensations} condensations, each up to a rewind and its undo",
            "without rewinds",
            times["cut"],
            times["plain"],
            1.5,
        )


def _cut(chat: Session, rounds: int, *, rewound: bool) -> Session:
    """Condensed so often, each time up to where a rewind was undone."""
    for _ in range(rounds):
        grow(chat, 20)
        if rewound:
            chat.rewind(chat.head_seq() - 1)
            chat.undo()
        grow(chat, 20)
        view = chat.view()
        hide = [shown.seq for shown in view.messages[:-20]]
        chat.commit(Plan.condense(view, hide, "What was said before, in short."))
    return chat


def _called(chat: Session) -> Session:
    """With an answer whose usage the provider reported, and a user message after it."""
    chat.append("assistant", content(1), model="a model", usage=USAGE)
    chat.append("user", content(2))
    return chat
