"""The answers to many tool calls of one message: how their time grows with their number."""

from collections.abc import Iterator
from itertools import count

from bench.report import Line
from bench.sites import Site, line_of
from bench.sizes import Sizes
from bench.timing import Step, alternate
from roocontext import Session

FEW, MANY = 100, 600


def answering(site: Site, sizes: Sizes) -> Iterator[Line]:
    store, names = site.store("answered"), count()

    def answered(calls: int) -> None:
        chat = store.create(f"answered {next(names)}")
        chat.append("user", "go")
        asked = [
            {"type": "tool_use", "id": f"toolu_{number}", "name": "run", "input": {"n": number}}
            for number in range(calls)
        ]
        _answer_all(chat, chat.append("assistant", asked).seq, calls)

    times = alternate(
        [Step("few", lambda _: answered(FEW)), Step("many", lambda _: answered(MANY))],
        rounds=min(sizes.heavy, 3),
    )
    yield line_of(
        site,
        "answer.calls",
        f"answer {MANY} calls of one message",
        f"{FEW} calls of one message",
        times["many"],
        times["few"],
        12.0,
    )


def _answer_all(chat: Session, seq: int, calls: int) -> None:
    for number in range(calls):
        chat.answer((seq, number), "done")
