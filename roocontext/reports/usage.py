"""What messages cost by role and by tool, and what the calls of models have cost."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.log.readings import Holds, Piece, pieces, reader
from roocontext.reports import gauge
from roocontext.reports.document import Document, Text
from roocontext.reports.gauge import Gauge
from roocontext.tokens import counter_for, drift, usage_tokens

if TYPE_CHECKING:
    from roocontext import Call, Session
    from roocontext.log.counting import Counter
    from roocontext.store.verify import Progress

_COSTS = ("cost", "total_cost", "cost_usd")
"""The names under which agents record the cost of a call."""


class Tally(Document):
    """The tokens of the messages of a role, or of the calls and results of a tool."""

    name: Text
    count: int
    tokens: int


class ModelUsage(Document):
    """What the provider reported of the calls of a model.

    `ratio` is what the estimates made before the calls must be multiplied by. `cost` is the sum of
    the recorded costs.
    """

    model: str | None
    calls: int
    input: int
    output: int
    cached: int
    estimated: int | None
    ratio: float | None
    cost: float | None


class SummaryUsage(Document):
    """What the summaries of a session have cost, as far as the summarisers reported it."""

    count: int
    calls: int
    input: int
    output: int
    cost: float | None


class UsageReport(Document):
    """What the view costs by role and by tool, and what the calls of models have cost."""

    session_id: str
    everything: bool
    context: Gauge
    roles: list[Tally]
    tools: list[Tally]
    models: list[ModelUsage]
    summaries: SummaryUsage


def usage_of(
    chat: "Session",
    given: str | None = None,
    *,
    everything: bool = False,
    progress: "Progress" = gauge.silent,
) -> UsageReport:
    """The usage of a session: of what the model sees, or of every message in the log."""
    context = gauge.counted_gauge(chat, given, progress=progress)
    counter = counter_for(context.model or "")
    roles, tools = _tallied(_messages(chat, everything=everything), counter)
    calls: defaultdict[str | None, list[Call]] = defaultdict(list)
    for call in chat.calls():
        calls[call.model].append(call)
    return UsageReport(
        session_id=chat.id,
        everything=everything,
        context=context,
        roles=_rows(roles),
        tools=_rows(tools),
        models=[_of_model(model, these, counter.name) for model, these in calls.items()],
        summaries=_of_summaries(chat),
    )


def _messages(chat: "Session", *, everything: bool) -> Iterator[tuple[str, Any, str]]:
    """The role, content and format of the visible messages, or of all."""
    if not everything:
        for message in chat.view().messages:
            yield message.role, message.content, message.format
        return
    for found in chat.audit():
        if found.kind in MESSAGE_KINDS:
            yield found.role or "", found.content, found.entry.format or "anthropic"


def _tallied(
    messages: Iterable[tuple[str, Any, str]], counter: "Counter"
) -> tuple[Mapping[str, list[int]], Mapping[str, list[int]]]:
    """The tokens of each message by role, and those of each call and result by tool."""
    roles: defaultdict[str, list[int]] = defaultdict(list)
    tools: defaultdict[str, list[int]] = defaultdict(list)
    called: dict[str, str] = {}
    for role, content, form in messages:
        roles[role].append(counter.count(role, content, form))
        read_role, blocks = reader(form).blocks(role, content)
        for piece in pieces(blocks):
            tool = _tool(piece, called)
            if tool is not None:
                tools[tool].append(counter.count(read_role, [piece.block], "anthropic"))
    return roles, tools


def _tool(piece: Piece, called: dict[str, str]) -> str | None:
    """The tool of a call or a result, if it is one; `called` has the tools by call id."""
    if piece.kind is Holds.CALL and piece.text is not None:
        called[str(piece.block.get("id"))] = piece.text
        return piece.text
    if piece.kind is Holds.OUTPUT:
        return called.get(str(piece.block.get("tool_use_id")), "(unknown)")
    return None


def _rows(tallies: Mapping[str, list[int]]) -> list[Tally]:
    """The tallies, the highest first."""
    rows = [
        Tally(name=name, count=len(tokens), tokens=sum(tokens)) for name, tokens in tallies.items()
    ]
    return sorted(rows, key=lambda row: (-row.tokens, row.name))


def _of_model(model: str | None, calls: "list[Call]", counter: str) -> ModelUsage:
    read = [(call, usage_tokens(call.usage)) for call in calls]
    known = [(call, usage) for call, usage in read if usage is not None]
    estimated = [
        (str(model), call.estimates[counter], usage.input)
        for call, usage in known
        if counter in call.estimates
    ]
    drifted = drift(estimated).get(str(model))
    return ModelUsage(
        model=model,
        calls=len(calls),
        input=sum(usage.input for _, usage in known),
        output=sum(usage.output for _, usage in known),
        cached=sum(usage.cached for _, usage in known),
        estimated=drifted.estimated if drifted else None,
        ratio=drifted.ratio if drifted else None,
        cost=_cost(call.usage for call in calls),
    )


def _of_summaries(chat: "Session") -> SummaryUsage:
    """What was recorded with the summaries, live or not."""
    records = [
        control.details.get("record", {}).get("summary")
        for control in chat.outline().controls
        if control.kind is Kind.SUMMARY
    ]
    return SummaryUsage(
        count=len(records),
        calls=_sum(records, "calls"),
        input=_sum(records, "input_tokens"),
        output=_sum(records, "output_tokens"),
        cost=_cost(records),
    )


# An agent may record anything: what is no number is left out.


def _cost(records: Iterable[Any]) -> float | None:
    """The sum of the costs in some records, if any of them has one."""
    costs: list[Any] = []
    for record in records:
        found = [record.get(name) for name in _COSTS] if isinstance(record, dict) else []
        costs += [cost for cost in found if type(cost) in (int, float)][:1]
    return sum(costs) if costs else None


def _sum(records: Iterable[Any], name: str) -> int:
    found = [record.get(name) for record in records if isinstance(record, dict)]
    return sum(number for number in found if type(number) is int)
