"""`python -m bench.recall`: which facts of hidden messages a model can still answer.

By the summary alone, and with recall. The session is one of a coding agent, in which facts are
said once: file names, numbers and texts of errors.
Nothing here is a time: the counts are the same on every machine. The summariser is the one that
needs no model. What stands for the model asks for a fact by words that were said beside it, and
reads the best hit if the excerpt does not hold the answer.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from bench.growing import WORDS
from bench.policies import table, write_table
from roocontext import ContextManager, Session, Store
from roocontext.errors import BudgetExceeded
from roocontext.policies.builtin import policies
from roocontext.recall import Recall

WINDOW, OUTPUT = 30_000, 2_000
STEPS = 240
KINDS = ("file name", "number", "error text")
PAGE = Path(__file__).parents[1] / "docs" / "guide" / "recall.md"


class Fact(NamedTuple):
    """Something that was said once: what it is about, and the words that answer a question."""

    kind: str
    about: str
    answer: str
    seq: int = 0


class Answered(NamedTuple):
    """Of the facts of one kind: whether the view alone answers each, and whether recall does."""

    alone: list[bool]
    recalled: list[bool]


def measured(policy: str, steps: int = STEPS) -> dict[str, Any]:
    """The shares of the facts of hidden messages that are answered under a policy."""
    context = ContextManager(policy=policy, limit=WINDOW, output=OUTPUT, counter="opencode")
    with Store.open(":memory:") as store:
        chat = store.create()
        facts = []
        for role, content, fact in _session(steps):
            receipt = chat.append(role, content)
            if fact is not None:
                facts.append(fact._replace(seq=receipt.seq))
            if role == "user":
                _managed(context, chat)
        hidden = _hidden(chat, facts)
        view = json.dumps([row.content for row in chat.view().messages], ensure_ascii=False)
        recall = Recall(store, chat, counter="opencode")
        found = {kind: Answered([], []) for kind in KINDS}
        for fact in hidden:
            alone = fact.answer in view
            found[fact.kind].alone.append(alone)
            found[fact.kind].recalled.append(alone or _recalled(recall, fact))
    return _row(policy, len(hidden), found)


def _row(policy: str, hidden: int, found: dict[str, Answered]) -> dict[str, Any]:
    shares: dict[str, Any] = {}
    for kind, answered in found.items():
        shares[f"{kind}s"] = fmean(answered.alone) if answered.alone else 0.0
        shares[f"{kind}s with recall"] = fmean(answered.recalled) if answered.recalled else 0.0
    return {"policy": policy, "hidden facts": hidden, **shares}


def _managed(context: ContextManager, chat: Session) -> None:
    with suppress(BudgetExceeded):  # a policy of whole turns cannot cut a single one
        context.manage(chat)


def _hidden(chat: Session, facts: Sequence[Fact]) -> list[Fact]:
    """The facts whose message is hidden, or whose output is cleared."""
    seen = {row.seq for row in chat.view().messages if not row.cleared}
    return [fact for fact in facts if fact.seq not in seen]


def _recalled(recall: Recall, fact: Fact) -> bool:
    """Whether the model finds the answer, by a search and by reading the best hit."""
    hits = recall.handle("search_history", {"query": fact.about})
    if fact.answer in hits.text or not hits.quotes:
        return fact.answer in hits.text
    best = hits.quotes[0].lo
    return fact.answer in recall.handle("read_history", {"first": best, "last": best}).text


def _session(steps: int) -> Iterator[tuple[str, Any, Fact | None]]:
    """The messages of a session, and the fact that each brings."""
    random = Random(18)
    yield "user", f"Please fix the parser. {_prose(random, 60)}", None
    for step in range(steps):
        job = f"{random.choice(WORDS)} job {step:03}"
        number = random.randrange(10_000, 99_999)
        kind = KINDS[step % len(KINDS)]
        if kind == "file name":
            path = f"src/{random.choice(WORDS)}/{random.choice(WORDS)}_{number}.py"
            yield (
                *_call(random, step, "write_file", path=path, content=f"# {job}"),
                Fact(kind, job, path),
            )
            yield *_result(step, "written"), None
        elif kind == "number":
            said = f"The {job} listens on port {number}. {_prose(random, 20)}"
            yield (
                *_call(random, step, "bash", said, command=f"make {random.choice(WORDS)}"),
                Fact(kind, job, str(number)),
            )
            yield *_result(step, _prose(random, 300)), None
        else:
            error = f"E{number}: {random.choice(WORDS)} refused at 0x{number:x}"
            yield *_call(random, step, "bash", command=f"make {random.choice(WORDS)}"), None
            output = f"{_prose(random, 150)}\n{job} failed: {error}\n{_prose(random, 150)}"
            yield *_result(step, output, is_error=True), Fact(kind, job, error)
        if step % 6 == 5:
            yield "assistant", f"Part {step // 6} is done. {_prose(random, 40)}", None
            yield "user", f"Next part {step // 6}. {_prose(random, 40)}", None


def _call(random: Random, step: int, tool: str, said: str = "", **given: str) -> tuple[str, Any]:
    text = {"type": "text", "text": f"{_prose(random, 20)}. {said}"}
    return "assistant", [text, {"type": "tool_use", "id": f"c{step}", "name": tool, "input": given}]


def _result(step: int, output: str, **flags: bool) -> tuple[str, Any]:
    result = {"type": "tool_result", "tool_use_id": f"c{step}", "content": output, **flags}
    return "user", [result]


def _prose(random: Random, words: int) -> str:
    return " ".join(random.choices(WORDS, k=words))


def main() -> None:
    """Measure, and print a table; or put it into the documentation."""
    parser = argparse.ArgumentParser(prog="python -m bench.recall", description=main.__doc__)
    parser.add_argument("policy", nargs="*", help="the policies; all that are built in")
    parser.add_argument("--write", action="store_true", help="renew the table in the documentation")
    given = parser.parse_args()
    made = table([measured(policy) for policy in given.policy or policies.known()])
    if given.write:
        write_table(PAGE, "recall", made)
    print(made)


if __name__ == "__main__":
    main()
