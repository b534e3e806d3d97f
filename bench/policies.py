"""`python -m bench.policies`: all policies on the same growing sessions, side by side.

Nothing here is a time: the counts are the same on every machine. The summariser is the one that
needs no model, so what is compared is when a policy acts, and what it leaves in view.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.growing import SHAPES, Fact, Shape, session
from roocontext import ContextManager, Store
from roocontext.context import Outcome
from roocontext.errors import BudgetExceeded
from roocontext.log.entries import Message
from roocontext.log.forms import Outgoing, forms
from roocontext.policies.builtin import policies
from roocontext.policies.server import ServerPolicy
from roocontext.summarisers import summariser_for
from roocontext.tokens import counter_for

WINDOW = 100_000
OUTPUT = 8_192
LAST = 3
"""How many of the newest requests are looked for in the view."""

SAMPLE = 8
"""Of this many pairs of requests between which nothing left, the prefix of one is measured."""

PAGE = Path(__file__).parents[1] / "docs" / "policies" / "index.md"
COMPARISON, PREFIXES = "comparison", "prefixes"
"""The names of the two tables in the page."""


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
    calm: int = 0
    """How often nothing left the view between two requests."""
    same: dict[str, list[float]] = field(default_factory=dict)
    cut: dict[str, list[float]] = field(default_factory=dict)
    """By form, the shares of the earlier request: if nothing left the view, and else."""
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
            **{kind: round(fmean(self.seen[kind]), 3) for kind in sorted(self.seen)},
            "plans": dict(sorted(self.steps.items())),
            "prefixes": {form: self._prefix(form) for form in forms.known()},
        }

    def _prefix(self, form: str) -> tuple[float, float]:
        """The mean share between requests from which nothing left, and between all."""
        same, cut = fmean(self.same[form]), self.cut.get(form, [])
        return round(same, 3), round((self.calm * same + sum(cut)) / (self.calm + len(cut)), 3)


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
    before: Sequence[Message] = ()
    with Store.open(":memory:") as store:
        chat = store.create()
        for saying in session(shape):
            chat.append(saying.role, saying.content)
            facts += saying.facts
            if saying.role == "user" and (outcome := _managed(context, chat, tally)):
                rows = chat.view().messages
                _look(tally, rows, chat.tokens(counter), facts)
                if before:
                    _compare(tally, before, rows, calm=not outcome.changed)
                before = rows
    tally.summaries += summariser.asked
    tally.sent += summariser.sent


def _managed(context: ContextManager, chat: Any, tally: Tally) -> Outcome | None:
    """Manage the context; None if there is no call of the model at all."""
    tally.calls += 1
    try:
        outcome = context.manage(chat)
    except BudgetExceeded:
        tally.refused += 1
        return None
    tally.steps.update(step.status.value for step in outcome.steps)
    return outcome


def _look(tally: Tally, rows: Sequence[Message], tokens: int, facts: Sequence[Fact]) -> None:
    """Look at what is in view now."""
    tally.kept.append(tokens)
    tally.largest = max(tally.largest, tokens)
    tally.over += tokens > WINDOW
    text = "\n".join(json.dumps(row.content, ensure_ascii=False) for row in rows)
    for kind, found in _wanted(facts).items():
        share = fmean(fact.words in text for fact in found)
        tally.seen.setdefault(kind, []).append(share)


def _compare(
    tally: Tally, before: Sequence[Message], now: Sequence[Message], *, calm: bool
) -> None:
    """Make both requests in every form: all that differ, and some of the many that only grew."""
    tally.calm += calm
    if calm and tally.calm % SAMPLE:
        return
    for form in forms.known():
        earlier, later = (_flat(forms[form].compose(rows, complete=True)) for rows in (before, now))
        found = tally.same if calm else tally.cut
        found.setdefault(form, []).append(_share(earlier, later))


def _flat(out: Outgoing) -> list[Any]:
    """The blocks of a request in order: providers compare what is said, not how it is grouped."""
    found: list[Any] = []
    for item in out.messages:
        blocks = item.get("content", item.get("parts"))
        found += [
            (item.get("role"), it) for it in ([blocks] if isinstance(blocks, str) else blocks or [])
        ]
        rest = {key: it for key, it in item.items() if key not in ("role", "content", "parts")}
        found += [rest] if rest else []
    return found


def _share(earlier: list[Any], later: list[Any]) -> float:
    """The share of the earlier request, by its length as JSON, that the later one begins with."""
    if later[: len(earlier)] == earlier:
        return 1.0
    same = next(at for at, it in enumerate(earlier) if later[at : at + 1] != [it])
    return len(json.dumps(earlier[:same])) / len(json.dumps(earlier))


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
    heads = [name for name in rows[0] if name not in ("plans", "prefixes")]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [f"`{row['policy']}`", *(_cell(row[name]) for name in heads[1:])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def prefix_table(rows: Sequence[dict[str, Any]]) -> str:
    """The shares of the earlier requests as the documentation shows them."""
    lines = ["| policy | " + " | ".join(f"`{form}`" for form in rows[0]["prefixes"]) + " |"]
    lines.append("|---" * (len(rows[0]["prefixes"]) + 1) + "|")
    for row in rows:
        cells = (f"{calm:.1%} / {all_:.1%}" for calm, all_ in row["prefixes"].values())
        lines.append(f"| `{row['policy']}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_table(page: Path, name: str, made: str) -> None:
    """Renew one table of a page."""
    begin, end = f"<!-- {name} -->\n", f"<!-- {name} ends -->"
    head, rest = page.read_text().split(begin)
    page.write_text(f"{head}{begin}\n{made}\n{end}{rest.split(end, 1)[1]}")


def _cell(value: float) -> str:
    return f"{value:.0%}" if isinstance(value, float) else f"{value:,}"


def main() -> None:
    """Compare, and print a table; or put it into the documentation."""
    parser = argparse.ArgumentParser(prog="python -m bench.policies", description=main.__doc__)
    parser.add_argument("policy", nargs="*", help="the policies; all that are built in")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", action="store_true", help="renew the table in the documentation")
    given = parser.parse_args()
    # Without a provider, `server` does what `default` does.
    compared = [name for name in policies.known() if name != ServerPolicy.name]
    rows = [tally.row() for tally in compare(given.policy or compared)]
    if given.write:
        write_table(PAGE, COMPARISON, table(rows))
        write_table(PAGE, PREFIXES, prefix_table(rows))
    made = f"{table(rows)}\n{prefix_table(rows)}"
    print(json.dumps(rows, indent=2) if given.json else made)


if __name__ == "__main__":
    main()
