"""Sessions of a coding agent that outgrow a context, with the facts that must not be lost.

They are invented, from a seed, and the same for every policy: what the user wants, what may never
be done, files that are read and written, commands whose output is long, and further requests.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

WORDS = [
    "parser",
    "token",
    "buffer",
    "stream",
    "cursor",
    "branch",
    "commit",
    "retry",
    "socket",
    "router",
    "schema",
    "cache",
    "ledger",
    "queue",
    "worker",
    "index",
    "digest",
    "header",
    "footer",
    "column",
    "widget",
    "layout",
    "render",
    "deploy",
    "rollback",
    "signal",
]


@dataclass(frozen=True)
class Fact:
    """Something that was said or done, known by words that stand nowhere else."""

    kind: str
    words: str


@dataclass(frozen=True)
class Saying:
    """One message of a session, and the facts that it brings."""

    role: str
    content: Any
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True)
class Shape:
    """What a session is like: how often the user speaks, and how long outputs are."""

    name: str
    steps: int
    turns: int
    output: int
    talk: int = 40
    seed: int = field(default=1)


SHAPES = (
    Shape("one long turn", steps=260, turns=1, output=900),
    Shape("many short turns", steps=300, turns=100, output=600, seed=2),
    Shape("talk more than tools", steps=500, turns=250, output=60, talk=500, seed=3),
    Shape("huge outputs", steps=70, turns=14, output=6_000, seed=4),
)


def session(shape: Shape) -> Iterator[Saying]:
    """A session, message by message. A call of the model comes after each user message."""
    random = Random(shape.seed)
    every = max(1, shape.steps // shape.turns)
    for step in range(shape.steps):
        if step == 0:
            yield _task(random)
        elif step % every == 0 and step // every < shape.turns:
            yield Saying("assistant", f"Part {step // every} is done. {_prose(random, shape.talk)}")
            yield _request(random, step // every, shape.talk)
        yield from _work(random, step, shape)


def _task(random: Random) -> Saying:
    words = "mend the lost token of parse_stream so that case 4711 passes"
    rule = "never change vendor/legacy_tables.c"
    text = f"Please {words}, and {rule}. {_prose(random, 60)}"
    return Saying("user", text, (Fact("task", words), Fact("rule", rule)))


def _request(random: Random, number: int, talk: int) -> Saying:
    words = f"wish {number}: make {random.choice(WORDS)}_{number:03} {random.choice(WORDS)}"
    return Saying("user", f"Next {words}. {_prose(random, talk)}", (Fact("request", words),))


def _work(random: Random, step: int, shape: Shape) -> Iterator[Saying]:
    path = f"src/{random.choice(WORDS)}/{random.choice(WORDS)}_{step % 40:02}.py"
    tool = random.choice(("read_file", "write_file", "bash"))
    given = {"command": f"pytest {path}"} if tool == "bash" else {"path": path}
    text = {"type": "text", "text": f"Step {step}: {_prose(random, shape.talk)}"}
    call = {"type": "tool_use", "id": f"call_{step}", "name": tool, "input": given}
    facts = (Fact("file", path),) if tool == "write_file" else ()
    yield Saying("assistant", [text, call], facts)
    output = _prose(random, random.randrange(shape.output // 2, shape.output * 3 // 2 + 1))
    done = {"type": "tool_result", "tool_use_id": f"call_{step}", "content": output}
    yield Saying("user", [done])


def _prose(random: Random, words: int) -> str:
    return " ".join(random.choices(WORDS, k=words))
