"""`python -m bench.policies`: all policies on the same growing sessions, side by side.

Nothing here is a time: the counts are the same on every machine. The summariser is the one that
needs no model, so what is compared is when a policy acts, and what it leaves in view.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.growing import SHAPES, Fact, Shape, session
from roocontext import ContextManager, Store
from roocontext.context import Outcome
from roocontext.errors import BudgetExceeded
from roocontext.policies.builtin import policies
from roocontext.summarisers import summariser_for
from roocontext.tokens import counter_for

WINDOW = 100_000
OUTPUT = 8_192
LAST = 3
"""How many of the newest requests are looked for in the view."""

PAGE = Path(__file__).parents[1] / "docs" / "policies" / "index.md"
BEGIN, END = "<!-- comparison -->\n", "<!-- comparison ends -->"


@dataclass
class Tally:
    """What one policy did over all sessions. Shares are means over the calls that were made."""

    policy: str
    calls: int = 0
    summaries: int = 0
    sent: int = 0
    refused: int = 0
    over: int = 0
    largest: int = 0
    kept: list[float] = field(default_factory=list)
    prefix: list[float] = field(default_factory=list)
    seen: dict[str, list[float]] = field(default_factory=dict)
    steps: Counter[str] = field(default_factory=Counter)

    def row(self) -> dict[str, Any]:
        """The figures."""
        return {
            "policy": self.policy,
            "summaries": self.summaries,
            "tokens sent to the summariser": self.sent,
            "tokens in view": round(fmean(self.kept)),
            "refused with numbers": self.refused,
            "calls over the window": self.over,
            "prefix kept": round(fmean(self.prefix), 3),
            **{kind: round(fmean(self.seen[kind]), 3) for kind in sorted(self.seen)},
            "plans": dict(sorted(self.steps.items())),
        }


class Weighed:
    """The extractive summariser, and how often and with how much it was asked."""

    name = "extractive"

    def __init__(self, counter: Any) -> None:
        self._summariser = summariser_for("extractive")
        self._counter = counter
        self.asked = 0
        self.sent = 0

    def summarise(self, request: Any) -> Any:
        """Ask it."""
        self.asked += 1
        for said in request.messages:
            self.sent += self._counter.count(said["role"], said["content"], "anthropic")
        return self._summariser.summarise(request)


def compare(names: Sequence[str], shapes: Sequence[Shape] = SHAPES) -> list[Tally]:
    """Every policy on every session."""
    tallies = []
    for name in names:
        tally = Tally(name)
        for shape in shapes:
            _live(tally, shape)
        tallies.append(tally)
    return tallies


def _live(tally: Tally, shape: Shape) -> None:
    """One session under one policy: before each call of the model the context is managed."""
    counter = counter_for("", name="opencode")
    summariser = Weighed(counter)
    context = ContextManager(
        policy=tally.policy, limit=WINDOW, output=OUTPUT, counter=counter, summariser=summariser
    )
    facts: list[Fact] = []
    before: list[str] = []
    with Store.open(":memory:") as store:
        chat = store.create()
        for saying in session(shape):
            chat.append(saying.role, saying.content)
            facts += saying.facts
            if saying.role == "user" and _tell(tally, _managed(context, chat)):
                before = _look(tally, chat, counter, facts, before)
    tally.summaries += summariser.asked
    tally.sent += summariser.sent


def _managed(context: ContextManager, chat: Any) -> Outcome | None:
    try:
        return context.manage(chat)
    except BudgetExceeded:
        return None


def _tell(tally: Tally, outcome: Outcome | None) -> bool:
    """Whether there is a call of the model at all."""
    tally.calls += 1
    if outcome is None:
        tally.refused += 1
        return False
    tally.steps.update(step.status.value for step in outcome.steps)
    return True


def _look(
    tally: Tally, chat: Any, counter: Any, facts: Sequence[Fact], before: list[str]
) -> list[str]:
    """What the model would be sent now."""
    view = [json.dumps(m.content, ensure_ascii=False) for m in chat.view().messages]
    tokens = chat.tokens(counter)
    tally.kept.append(tokens)
    tally.largest = max(tally.largest, tokens)
    tally.over += tokens > WINDOW
    if before:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, view, strict=False))
        tally.prefix.append(sum(len(text) for text, _ in same) / len("".join(before)))
    text = "\n".join(view)
    for kind, found in _wanted(facts).items():
        share = fmean(fact.words in text for fact in found)
        tally.seen.setdefault(kind, []).append(share)
    return view


def _wanted(facts: Sequence[Fact]) -> dict[str, list[Fact]]:
    """What should be in view: the task, its rule, the files written, the newest requests."""
    by_kind: dict[str, list[Fact]] = {}
    for fact in facts:
        by_kind.setdefault(fact.kind, []).append(fact)
    if "request" in by_kind:
        by_kind["request"] = by_kind["request"][-LAST:]
    return by_kind


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as the documentation shows them."""
    heads = [name for name in rows[0] if name != "plans"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [f"`{row['policy']}`", *(_cell(row[name]) for name in heads[1:])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: float) -> str:
    return f"{value:.0%}" if isinstance(value, float) else f"{value:,}"


def main() -> None:
    """Compare, and print a table; or put it into the documentation."""
    parser = argparse.ArgumentParser(prog="python -m bench.policies", description=main.__doc__)
    parser.add_argument("policy", nargs="*", help="the policies; all that are built in")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="renew the table in the documentation")
    given = parser.parse_args()
    rows = [tally.row() for tally in compare(given.policy or policies.known())]
    if given.write:
        text = PAGE.read_text()
        head, rest = text.split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{table(rows)}\n{END}{rest.split(END, 1)[1]}")
    print(json.dumps(rows, indent=2) if given.json else table(rows))


if __name__ == "__main__":
    main()
