"""Which rows stay: the newest parts that fit, and what must stay regardless of its age.

A part is a tuple of rows that stay or leave together, held ones apart. Parts are given oldest
first, no group is in two of them, and the last one always stays.
"""

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import TypeAlias

from roocontext.log.budget import Budget, Size
from roocontext.log.entries import NewMessage
from roocontext.log.plan import LEFT_OUT
from roocontext.policies.layout import Layout, joined, total_size
from roocontext.policies.make_plan import say
from roocontext.policies.situation import Row, Situation, Totals

Part: TypeAlias = tuple[Row, ...]


def marker(situation: Situation) -> NewMessage:
    """The marker in the place of the rows that were left out."""
    return say(situation, "user", LEFT_OUT)


def budget_of(totals: Totals, limit: int | None, reserve: int, cap: int | None = None) -> Budget:
    """The most that a request may cost: `limit` or the model's window, less what is reserved."""
    tokens = max(min(totals.window, totals.window if limit is None else limit) - reserve, 0)
    others = [other for other in (totals.limits.tokens, cap) if other is not None]
    return Budget(min([tokens, *others]), totals.limits.bytes, totals.limits.images)


def whole_turns(layout: Layout) -> list[Part]:
    """The turns, oldest first; turns that share a group are one part."""
    turns = layout.turns
    place = {row.seq: index for index, turn in enumerate(turns) for row in turn.rows}
    bonds = (
        bond for group in layout.groups for bond in pairwise(place[row.seq] for row in group.rows)
    )
    return [
        tuple(row for index in indices for row in turns[index].rows)
        for indices in joined(len(turns), bonds)
    ]


def narrowest(situation: Situation, parts: Sequence[Part], held: Collection[int]) -> Size:
    """What the request costs when only the last part and what is held stay."""
    last = {row.seq for part in parts[-1:] for row in part}
    stays = (row for row in situation.visible if row.seq in held or row.seq in last)
    return situation.overhead.plus(total_size(stays))


def leaving(
    parts: Sequence[Part], held: Collection[int], spent: Size, budget: Budget
) -> tuple[Row, ...]:
    """The rows that leave when, from the newest on, as many parts stay as the budget holds.

    `spent` is what the last part, what is held and all else that stays costs already.
    """
    older = without(parts[:-1], held)
    while older:
        more = spent.plus(total_size(older[-1]))
        if budget.exceeded_by(more):
            break
        spent = more
        older.pop()
    return tuple(row for part in older for row in part)


def without(parts: Sequence[Part], seqs: Collection[int]) -> list[Part]:
    """The parts without these rows, and without the parts that held no others."""
    left = (tuple(row for row in part if row.seq not in seqs) for part in parts)
    return [part for part in left if part]


def turns_among(layout: Layout, seqs: Collection[int]) -> int:
    """How many turns lose rows when these leave; rows before the first turn are no turn."""
    asked = (turn for turn in layout.turns if turn.question is not None)
    return sum(not turn.seqs.isdisjoint(seqs) for turn in asked)
