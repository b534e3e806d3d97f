"""What messages cost by role and by tool, and what the calls of models have cost."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from roocontext.cli.answers import shapes
from roocontext.cli.waiting import progress
from roocontext.log.entries import MESSAGE_KINDS, Kind
from roocontext.log.readings import Block, reader

if TYPE_CHECKING:
    from roocontext import Call, Session
    from roocontext.log.counting import Counter

_COSTS = ("cost", "total_cost", "cost_usd")
"""Under which names agents record what a call has cost."""


class Tallies:
    """Sums by role and by tool, while messages come by in the order of the log."""

    def __init__(self, counter: "Counter") -> None:
        self._counter = counter
        self._roles: defaultdict[str, list[int]] = defaultdict(list)
        self._tools: defaultdict[str, list[int]] = defaultdict(list)
        self._called: dict[str, str] = {}

    def take(self, messages: Iterable[tuple[str, Any, str]]) -> "Tallies":
        """Count these: role, content and format of each."""
        with progress("Counting by role and tool", None):
            for role, content, form in messages:
                self._take(role, content, form)
        return self

    def _take(self, role: str, content: Any, form: str) -> None:
        self._roles[role].append(self._counter.count(role, content, form))
        read_role, blocks = reader(form).blocks(role, content)
        for block in blocks:
            tool = self._tool(block)
            if tool is not None:
                cost = self._counter.count(read_role, [block], "anthropic")
                self._tools[tool].append(cost)

    def roles(self) -> list[shapes.Tally]:
        """By role, the dearest first."""
        return _rows(self._roles)

    def tools(self) -> list[shapes.Tally]:
        """By tool, the dearest first: its calls and its results."""
        return _rows(self._tools)

    def _tool(self, block: Block) -> str | None:
        match block:
            case {"type": "tool_use", "name": str(name), **rest}:
                self._called[str(rest.get("id"))] = name
                return name
            case {"type": "tool_result", "tool_use_id": str(called)}:
                return self._called.get(called, "(unknown)")
        return None


def of_view(chat: "Session") -> Iterator[tuple[str, Any, str]]:
    """The messages that the model sees."""
    for message in chat.view().messages:
        yield message.role, message.content, message.format


def of_log(chat: "Session") -> Iterator[tuple[str, Any, str]]:
    """The messages that were ever said."""
    for found in chat.audit():
        if found.kind in MESSAGE_KINDS:
            yield found.role or "", found.content, found.entry.format or "anthropic"


def by_model(chat: "Session", counter: "Counter") -> list[shapes.ModelUsage]:
    """What was reported of each model's calls, beside what this counter had estimated."""
    calls: defaultdict[str | None, list[Call]] = defaultdict(list)
    for call in chat.calls():
        calls[call.model].append(call)
    return [_model(model, these, counter.name) for model, these in calls.items()]


def of_summaries(chat: "Session") -> shapes.SummaryUsage:
    """What the summaries have cost: kept with each of them, live or not."""
    told = [
        found.entry.details.get("record", {}).get("summary")
        for found in chat.audit()
        if found.kind is Kind.SUMMARY
    ]
    costs = [cost for one in told if (cost := _cost(one)) is not None]
    return {
        "count": len(told),
        "calls": sum(_told(one, "calls") for one in told),
        "input": sum(_told(one, "input_tokens") for one in told),
        "output": sum(_told(one, "output_tokens") for one in told),
        "cost": sum(costs) if costs else None,
    }


def _model(model: str | None, calls: "list[Call]", counter: str) -> shapes.ModelUsage:
    from roocontext.tokens import drift, usage_tokens  # noqa: PLC0415 - only this command needs them

    read = [(call, usage_tokens(call.usage)) for call in calls]
    known = [(call, usage) for call, usage in read if usage is not None]
    estimated = [
        (str(model), call.estimates[counter], usage.input)
        for call, usage in known
        if counter in call.estimates
    ]
    drifted = drift(estimated).get(str(model))
    costs = [cost for call in calls if (cost := _cost(call.usage)) is not None]
    return {
        "model": model,
        "calls": len(calls),
        "input": sum(usage.input for _, usage in known),
        "output": sum(usage.output for _, usage in known),
        "cached": sum(usage.cached for _, usage in known),
        "estimated": drifted.estimated if drifted else None,
        "ratio": drifted.ratio if drifted else None,
        "cost": sum(costs) if costs else None,
    }


def _cost(record: Any) -> float | None:
    """The cost in what an agent recorded, whatever that is."""
    told = record if isinstance(record, dict) else {}
    found = (told.get(name) for name in _COSTS)
    return next((one for one in found if type(one) in (int, float)), None)


def _told(record: Any, name: str) -> int:
    value = record.get(name) if isinstance(record, dict) else None
    return value if type(value) is int else 0


def _rows(tallies: dict[str, list[int]]) -> list[shapes.Tally]:
    rows: list[shapes.Tally] = [
        {"name": name, "count": len(costs), "tokens": sum(costs)} for name, costs in tallies.items()
    ]
    return sorted(rows, key=lambda row: (-row["tokens"], row["name"]))
