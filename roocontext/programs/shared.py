"""What policies share that follow a program and keep the laws: the request, and the last resort.

The programs ask for a summary whatever it may cost, and know no way but a summary. Where that would
end in a context that cannot be sent, rows are left out as the product's own policy does it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from roocontext.log.entries import Kind, NewMessage
from roocontext.log.summary import SummaryRequest
from roocontext.policies.decision import Decision, Nothing
from roocontext.policies.default import Default
from roocontext.policies.layout import size_of
from roocontext.policies.make_plan import measured, outgoing, summarised_before
from roocontext.policies.situation import Aim, Row, Situation, Totals

CUTTING: Final = Default()


def summary_request(
    situation: Situation,
    old: Sequence[Row],
    beside: Sequence[NewMessage],
    *,
    style: str,
    model: str | None = None,
) -> SummaryRequest | None:
    """Ask for a summary of these rows; None when no summary could make the context smaller.

    `beside` are the other rows that are to stand for the old ones. A summary among the old ones is
    handed on as the previous one.
    """
    news = [row for row in old if row.message.kind is Kind.MESSAGE]
    size = size_of(old)
    stands = measured(situation, beside).tokens
    longest = size.tokens - stands - 1
    room = situation.window - (situation.size.tokens - size.tokens) - stands
    if 0 < room < longest:
        longest = room
    if not news or longest < 1:
        return None
    return SummaryRequest(
        messages=outgoing(news),
        style=style,
        previous=summarised_before(old),
        longest=longest,
        characters=longest * size.bytes // size.tokens,
        model=model,
    )


def is_over(totals: Totals) -> bool:
    """Whether the request would be refused, by our count or by what the provider reported."""
    reported = totals.reported.total if totals.reported else 0
    over = max(totals.size.tokens, reported) > totals.window
    return over or bool(totals.limits.exceeded_by(totals.size))


def cut(situation: Situation, reason: str) -> Decision:
    """Leave rows out if the request is over a limit, or say what cannot be; else do nothing."""
    if situation.aim is Aim.MANAGE and is_over(situation.totals):
        decision = CUTTING.decide(replace(situation, aim=Aim.TRUNCATE))
        if not isinstance(decision, Nothing):
            return decision
    return Nothing(reason)
