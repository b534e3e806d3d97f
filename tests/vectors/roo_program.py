"""Roo Code's functions, made of ours: called with what the recordings called the program with.

What the program makes of a list of messages is a function here only if one of ours makes it, or if
other tests use a replica of it. A view, a rewind or the choice between both compactions is an
operation of a store (`roo_operations.py`).
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from roocontext.log.counting import FREE
from roocontext.log.readings import Block
from roocontext.log.summary import SummaryRequest
from roocontext.policies.situation import ReportedTokens, Totals
from roocontext.programs.roo import condensing, history
from roocontext.programs.roo.condensing import Condensation, CondensationSkipped, Surroundings
from roocontext.programs.roo.history import truncation
from roocontext.programs.roo.policy import Roo, Roo2026
from roocontext.tokens.javascript import stringify
from vectors.programs.roo_history import effective_2025, effective_2026, merged

DECEMBER = "roo-2025-12"
APRIL = "roo-2026-04"
VERSIONS = (DECEMBER, APRIL)

NEW = "<uuid>"
"""The id of every new summary and marker in the recordings."""

NO_HANDLER = "API handler for condensing context is invalid"

FUNCTIONS: dict[str, Callable[[Any, str], Any]] = {}


class StreamBroken(Exception):
    """The recorded model raised this after its last chunk."""

    def __init__(self, told: dict[str, Any], cost: float) -> None:
        super().__init__(told["message"])
        self.props = told.get("props") or {}
        self.cost = cost


def replays(function: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Says that a function answers the recordings of its name."""
    FUNCTIONS[function.__name__] = function
    return function


def count(blocks: Sequence[Block]) -> int:
    """The recorded counter: the code points of a text, and 50 for everything else."""
    return sum(len(block["text"]) if block.get("type") == "text" else 50 for block in blocks)


def policy_of(given: Any, version: str) -> Roo | Roo2026:
    """The policy with the recorded settings."""
    settings = {
        "auto": given.get("autoCondenseContext", True),
        "threshold": given.get("autoCondenseContextPercent", 100),
        "profile_thresholds": given.get("profileThresholds", {}),
        "profile": given.get("currentProfileId", "default"),
        "prompt": given.get("customCondensingPrompt"),
        "images": given.get("supportsImages", True),
        "fraction": given.get("fracToRemove", 0.5),
    }
    if version == DECEMBER:
        return Roo(**settings, native_tools=given.get("useNativeTools", False))
    return Roo2026(**settings, environment=given.get("environmentDetails") or "")


def request_of(request: SummaryRequest) -> dict[str, Any]:
    """The messages sent to the model; Roo's own prompts stand for the summariser's."""
    said = request.instruction or "<DEFAULT_CONDENSE_INSTRUCTIONS>"
    return {
        "system": request.prompt or "<DEFAULT_SYSTEM_PROMPT>",
        "messages": [*request.messages, {"role": "user", "content": said}],
    }


def answer_of(stream: Any) -> tuple[str, float, int]:
    """The recorded answer, its cost and the number of tokens that the provider reported."""
    said, cost, tokens = "", 0, 0
    for chunk in stream["chunks"]:
        if chunk["type"] == "text":
            said += chunk["text"]
        elif chunk["type"] == "usage":
            cost, tokens = chunk.get("totalCost") or 0, chunk.get("outputTokens") or 0
    if "error" in stream:
        raise StreamBroken(stream["error"], cost)
    return said, cost, tokens


def failure_of(error: StreamBroken) -> dict[str, Any]:
    """A failed call, as April's program describes it."""
    details = f"Error: {error}"
    if "status" in error.props:
        details += f"\n\nHTTP Status: {error.props['status']}"
    if "code" in error.props:
        details += f"\nError Code: {error.props['code']}"
    for prop, title in (("response", "API Response"), ("body", "Response Body")):
        if prop in error.props:
            shown = json.dumps(error.props[prop], indent=2, ensure_ascii=False)
            details += f"\n\n{title}:\n{shown}"
    told = f"Condensing API call failed: {error}"
    return {"cost": error.cost, "error": told, "errorDetails": details}


def tools_cost(given: Any) -> int:
    tools = given.get("tools")
    return count([{"type": "text", "text": stringify(tools)}]) if tools else 0


@replays
def getEffectiveApiHistory(given: Any, version: str) -> Any:  # noqa: N802 - the program's names
    effective = effective_2025 if version == DECEMBER else effective_2026
    return effective(given["messages"])


@replays
def getMessagesSinceLastSummary(given: Any, version: str) -> Any:  # noqa: N802
    if version == APRIL:
        return history.since_summary_2026(given["messages"])
    return history.since_summary_2025(given["messages"], now=given.get("now", 0))


@replays
def mergeConsecutiveApiMessages(given: Any, version: str) -> Any:  # noqa: N802
    return merged(given["messages"], given["roles"])


@replays
def getKeepMessagesWithToolBlocks(given: Any, version: str) -> Any:  # noqa: N802
    kept = condensing.kept_with_calls(given["messages"], given["keepCount"])
    return {
        "keepMessages": kept.messages,
        "toolUseBlocksToPreserve": kept.calls,
        "reasoningBlocksToPreserve": kept.reasoning,
    }


@replays
def injectSyntheticToolResults(given: Any, version: str) -> Any:  # noqa: N802
    return condensing.with_deferred_results(given["messages"], now=given["now"])


@replays
def transformMessagesForCondensing(given: Any, version: str) -> Any:  # noqa: N802
    as_text = condensing.with_tools_as_text
    return [{**one, "content": as_text(one["content"])} for one in given["messages"]]


@replays
def truncateConversation(given: Any, version: str) -> Any:  # noqa: N802
    messages, fraction = given["messages"], given["fracToRemove"]
    edit = truncation(messages, fraction, truncation_id=NEW, now=given["now"])
    return {
        "messages": edit.applied(messages) if edit else messages,
        "truncationId": NEW,
        "messagesRemoved": len(edit.tagged) if edit else 0,
    }


@replays
def summarizeConversation(given: Any, version: str) -> Any:  # noqa: N802
    begun = condensation(given, version, given["prevContextTokens"])
    nothing = {"messages": given["messages"], "summary": "", "cost": 0}
    if isinstance(begun, CondensationSkipped):
        return {"result": {**nothing, "error": begun.reason}, "request": None}
    if given.get("handlerInvalid"):
        return {"result": {**nothing, "error": NO_HANDLER}, "request": None}
    return {
        "result": _summarised(given, version, begun, nothing),
        "request": request_of(begun.request),
    }


def condensation(given: Any, version: str, previous: int) -> Condensation | CondensationSkipped:
    """The messages as the version prepares them before it asks the model."""
    around = Surroundings(
        system=[{"type": "text", "text": given["systemPrompt"]}],
        count=count,
        previous=previous,
        now=given["now"],
        condense_id=NEW,
        tools=tools_cost(given),
        prompt=given.get("customCondensingPrompt"),
        images=given.get("supportsImages", True),
    )
    if version == DECEMBER:
        native = given.get("useNativeTools", False)
        return condensing.condensation_2025(given["messages"], around, native_tools=native)
    shown = given.get("environmentDetails") if given.get("isAutomaticTrigger") else ""
    return condensing.condensation_2026(given["messages"], around, environment=shown or "")


def load_of(given: Any, last: int) -> Totals:
    """The recorded numbers as a policy is told them."""
    return Totals(
        size=FREE,
        window=given["contextWindow"],
        output=given.get("maxTokens"),
        reported=ReportedTokens(given["totalTokens"], 0, last),
    )


def _summarised(given: Any, version: str, begun: Condensation, nothing: Any) -> Any:
    try:
        said, cost, tokens = answer_of(given["stream"])
    except StreamBroken as error:
        if version == DECEMBER:
            return {"throws": str(error)}
        return {**nothing, **failure_of(error)}
    made = begun.compose(said, tokens)
    if isinstance(made, CondensationSkipped):
        return {**nothing, "cost": cost, "error": made.reason}
    return {
        "messages": made.edit.applied(given["messages"]),
        "summary": made.summary,
        "cost": cost,
        "newContextTokens": made.tokens,
        "condenseId": NEW,
    }
