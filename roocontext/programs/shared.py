"""Shared by the policies that follow a program and obey the laws: the request and the last resort.

The programs always ask for a summary and know no other way. Where a summary would leave a context
that cannot be sent, rows are left out as our default policy does it.
"""

from collections.abc import Sequence
from dataclasses import replace

from roocontext.log.entries import Kind, NewMessage
from roocontext.log.summary import SummaryRequest
from roocontext.policies.builtin import FALLBACK
from roocontext.policies.layout import total_size
from roocontext.policies.make_plan import (
    measured,
    naming_hidden,
    outgoing,
    say,
    summarised_before,
)
from roocontext.policies.situation import Aim, Decision, Nothing, Row, Situation, Totals


def summary_request(
    situation: Situation,
    old: Sequence[Row],
    companions: Sequence[NewMessage],
    *,
    style: str,
    model: str | None = None,
) -> SummaryRequest | None:
    """The request for a summary of these rows; None if no summary could make the context smaller.

    `companions` replace the old rows together with the summary. A summary among the
    old rows is passed on as the previous one.
    """
    news = [row for row in old if row.message.kind is Kind.MESSAGE]
    size = total_size(old)
    line = naming_hidden(situation, "", [row.seq for row in old])
    beside = [*companions, say(situation, "user", line)] if line else companions
    extra = measured(situation, beside).tokens
    longest = size.tokens - extra - 1
    room = situation.window - (situation.size.tokens - size.tokens) - extra
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
    """True if the provider would refuse the request, by our count or by its reported usage."""
    reported = totals.reported.total if totals.reported else 0
    over = max(totals.size.tokens, reported) > totals.window
    return over or bool(totals.limits.exceeded_by(totals.size))


def leave_out_rows(situation: Situation, reason: str) -> Decision:
    """Leave rows out if the request is over a limit, or refuse; otherwise do nothing."""
    if situation.aim is Aim.MANAGE and is_over(situation.totals):
        decision = FALLBACK.decide(replace(situation, aim=Aim.TRUNCATE))
        if not isinstance(decision, Nothing):
            return decision
    return Nothing(reason)
