"""Roo Code's functions as operations of a store, with the two policies.

What the program hands back is made of what the operation says and of what the session holds after
it. Where the program and a store do not mean the same, `Unheld` says why, judging by the input.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from roocontext.errors import MessageNotFound
from roocontext.log.counting import FREE, Size
from roocontext.log.summary import Summary
from roocontext.policies.situation import (
    Aim,
    Ask,
    Decision,
    Nothing,
    Ready,
    ReportedTokens,
    Row,
    Situation,
)
from roocontext.programs.roo.condensing import Condensation
from roocontext.programs.roo.history import TRUNCATED, message_blocks, truncation
from roocontext.programs.roo.policy import FAILED, roo_message
from support.situations import situated
from vectors.programs.roo_history import boundary
from vectors.roo_program import (
    APRIL,
    DECEMBER,
    StreamBroken,
    answer_of,
    condensation,
    count,
    failure_of,
    load_of,
    policy_of,
    request_of,
    tools_cost,
)
from vectors.roo_store import (
    Shelf,
    Unheld,
    history,
    is_announced,
    is_hidden,
    own_tag,
    parted,
    times_of,
)

Operation = Callable[[Shelf, Any, str], Any]

OPERATIONS: dict[str, Operation] = {}

CALL, RESULT = ("assistant", "tool_use"), ("user", "tool_result")


class Recorded:
    """The recorded counter."""

    name, exact = "recorded", False

    def count(self, role: str, content: Any, form: str) -> int:
        return count(message_blocks({"content": content}))


def operates(name: str) -> Callable[[Operation], Operation]:
    """Says which recordings an operation answers."""

    def keep(operation: Operation) -> Operation:
        OPERATIONS[name] = operation
        return operation

    return keep


@operates("getEffectiveApiHistory")
def effective(shelf: Shelf, given: Any, version: str) -> Any:
    chat = shelf.told(given["messages"])
    if version == APRIL:
        refuse_place_for_tags(given["messages"])
    return [roo_message(Row(message, FREE)) for message in chat.view().messages]


@operates("cleanupAfterTruncation")
def cleanup(shelf: Shelf, given: Any, version: str) -> Any:
    return history(shelf.told(given["messages"]))


@operates("truncateConversation")
def truncate(shelf: Shelf, given: Any, version: str) -> Any:
    chat = shelf.told(given["messages"])
    refuse_misplaced(given)
    decision = policy_of(given, version).decide(situation_of(chat, given, Aim.TRUNCATE))
    told = _cut(chat, decision) if isinstance(decision, Ready) else {"messages": history(chat)}
    return {
        key: told[key] for key in ("messages", "truncationId", "messagesRemoved") if key in told
    }


@operates("summarizeConversation")
def summarise(shelf: Shelf, given: Any, version: str) -> Any:
    previous = given["prevContextTokens"]
    chat = shelf.told(given["messages"])
    refuse_empty_summary(given, version, previous)
    if given.get("handlerInvalid"):
        raise Unheld("a caller without a model")
    situation = situation_of(chat, given, Aim.CONDENSE, reported=ReportedTokens(previous, 0, 0))
    decision = policy_of(given, version).decide(situation)
    return {
        "result": _carried_out(chat, decision, given, version),
        "request": request_of(decision.request) if isinstance(decision, Ask) else None,
    }


@operates("manageContext")
def manage(shelf: Shelf, given: Any, version: str) -> Any:
    chat = shelf.told(given["messages"])
    last = count(message_blocks(given["messages"][-1]))
    policy, totals = policy_of(given, version), load_of(given, last)
    if policy.auto and policy.due(totals):
        refuse_empty_summary(given, version, given["totalTokens"] + last)
    if replace(policy, auto=False).due(totals):
        refuse_misplaced({"fracToRemove": 0.5, **given})
    facts = {"output": totals.output, "reported": totals.reported}
    situation = situation_of(chat, given, Aim.MANAGE, **facts)
    assert policy.due(situation.totals) == policy.due(totals)
    result = _carried_out(chat, policy.decide(situation), given, version)
    if "throws" not in result:
        result["prevContextTokens"] = situation.reported.total
    return {
        "willManageContext": policy.due(situation.totals),
        "lastMessageTokens": situation.rows[-1].size.tokens,
        "result": result,
    }


@operates("rewindToTimestamp")
def rewind_to_time(shelf: Shelf, given: Any, version: str) -> Any:
    messages, events, ts = given["apiConversationHistory"], given["clineMessages"], given["ts"]
    chat = shelf.retold(messages, events)
    index = next((i for i, event in enumerate(events) if event["ts"] == ts), None)
    if index is None:
        return _not_found(chat, messages, ts)
    return _rewound(chat, given, index + given["options"].get("includeTargetMessage", False), ts)


@operates("rewindToIndex")
def rewind_to_index(shelf: Shelf, given: Any, version: str) -> Any:
    events, index = given["clineMessages"], given["toIndex"]
    chat = shelf.retold(given["apiConversationHistory"], events)
    ts = events[index]["ts"] if index < len(events) else given["now"]
    return _rewound(chat, given, index, ts)


def situation_of(chat: Any, given: Any, aim: Aim, **facts: Any) -> Situation:
    """The situation of the session for the policy, with the recorded surroundings."""
    counter = Recorded()
    system = given.get("systemPrompt")
    size = Size(counter.count("user", system, "anthropic")) if system else FREE
    return situated(
        chat,
        counter,
        hidden=True,
        window=given.get("contextWindow", 200_000),
        system=system,
        system_size=size,
        overhead=size.plus(Size(tools_cost(given))),
        now=given["now"],
        aim=aim,
        trigger="auto" if given.get("isAutomaticTrigger", True) else "manual",
        **facts,
    )


def wanted(output: Any) -> Any:
    """The part of the program's result that a store is to give back.

    A store makes no id of a truncation that hides nothing, and keeps no list of what a user sees.
    """
    if not isinstance(output, dict):
        return parted(output)
    unsaid = {"decision", "clineMessagesKept", "clineMessagesArePrefix"}
    if output.get("messagesRemoved") == 0:
        unsaid |= {"truncationId", "messagesRemoved", "newContextTokensAfterTruncation"}
    told = {key: value for key, value in output.items() if key not in unsaid}
    for key in {"messages", "apiConversationHistory"} & told.keys():
        told[key] = parted(told[key])
    return told | {key: wanted(told[key]) for key in {"result"} & told.keys()}


def _carried_out(chat: Any, decision: Decision, given: Any, version: str) -> dict[str, Any]:
    """Do what the program does with a decision; what it hands back."""
    result: dict[str, Any] = {"messages": None, "summary": "", "cost": 0}
    otherwise: Any = decision
    if isinstance(decision, Ask):
        otherwise = decision.otherwise
        try:
            text, cost, tokens = answer_of(given["stream"])
        except StreamBroken as error:
            if version == DECEMBER:
                assert history(chat) == given["messages"]
                return {"throws": str(error)}
            result |= failure_of(error)
        else:
            summary = Summary(text=text, summariser="recorded", output_tokens=tokens, cost=cost)
            made = decision.compose(summary)
            result["cost"] = cost
            if isinstance(made, Ready):
                return {**result, **_condensed(chat, made)}
            result["error"] = made.reason
    if isinstance(otherwise, Nothing) and otherwise.status == FAILED:
        result["error"] = otherwise.reason
    if isinstance(otherwise, Ready):
        return {**result, **_cut(chat, otherwise)}
    return {**result, "messages": history(chat)}


def _condensed(chat: Any, made: Ready) -> dict[str, Any]:
    done = chat.commit(made.plan)
    row = chat.message(done.seq)
    texts = [block["text"] for block in row.content if block["type"] == "text"]
    return {
        "messages": history(chat),
        "summary": texts[0].removeprefix("## Conversation Summary\n"),
        "newContextTokens": made.plan.record["new_context_tokens"],
        "condenseId": done.compaction_id,
    }


def _cut(chat: Any, ready: Ready) -> dict[str, Any]:
    record = ready.plan.record
    done = chat.commit(ready.plan)
    told = {
        "messages": history(chat),
        "truncationId": done.compaction_id,
        "messagesRemoved": record["messages_removed"],
        "newContextTokensAfterTruncation": record["new_context_tokens"],
    }
    return told | ({"error": record["error"]} if "error" in record else {})


def _not_found(chat: Any, messages: Sequence[Any], ts: int) -> Any:
    if any(message["ts"] == ts for message in messages):
        raise Unheld("a time of a message and of no event")
    error = None
    try:
        chat.rewind(ts=ts)
    except MessageNotFound:
        error = f"Message with timestamp {ts} not found in clineMessages"
    return {"apiConversationHistory": history(chat), "apiWritten": False, "error": error}


def _rewound(chat: Any, given: Any, cut: int, ts: int) -> Any:
    messages, events = given["apiConversationHistory"], given["clineMessages"]
    limit = boundary(messages, ts)
    refuse_other_cut(messages, events, cut, limit, dirty=given["options"].get("skipCleanup", False))
    came = sorted(zip(times_of(messages, events), messages, strict=True), key=lambda it: it[0])
    stays = [message for time, message in came if time < limit]
    first = next((message for time, message in came if time >= limit), None)
    if first is None or own_tag(first) is not None:
        rewound = chat.rewind(to=len(stays))
    else:
        rewound = chat.rewind(ts=first["ts"], keep_target=False)
    return {"apiConversationHistory": history(chat), "apiWritten": rewound.changed, "error": None}


def refuse_place_for_tags(messages: Sequence[Any]) -> None:
    """April's program sends what follows the last summary, whatever the tags say of it."""
    summaries = [index for index, one in enumerate(messages) if one.get("isSummary") is True]
    if not summaries:
        return
    sent = messages[summaries[-1] :]
    markers = {one[TRUNCATED.id] for one in sent if TRUNCATED.id in one}
    left = [one for one in sent if one.get(TRUNCATED.key) not in markers]
    if left != [one for one in messages if not is_hidden(one)]:
        raise Unheld("a last summary whose place and tags disagree")
    blocks = [(one["role"], block) for one in sent for block in message_blocks(one)]
    asked = {block.get("id") for role, block in blocks if (role, block["type"]) == CALL}
    told = {block.get("tool_use_id") for role, block in blocks if (role, block["type"]) == RESULT}
    if told - asked or any(one["role"] == "user" and not one["content"] for one in sent):
        raise Unheld("contents that the program mends on the way out")


def refuse_misplaced(given: Any) -> None:
    """The marker would follow an older one, which a store puts it before."""
    messages = given["messages"]
    edit = truncation(messages, given["fracToRemove"], truncation_id="", now=0)
    if edit is not None and edit.at < len(messages):
        between = messages[edit.tagged[-1] + 1 : edit.at]
        if not all(map(is_hidden, between)):
            raise Unheld("an older marker between what is hidden and what is kept")


def refuse_empty_summary(given: Any, version: str, previous: int) -> None:
    """The program makes a summary that stands for nothing; a store refuses one."""
    begun = condensation(given, version, previous)
    if isinstance(begun, Condensation) and not begun.tagged:
        raise Unheld("a new summary that would stand for nothing")


def refuse_other_cut(
    messages: Sequence[Any], events: Sequence[Any], cut: int, limit: int, *, dirty: bool
) -> None:
    """The program cuts what is later; a store goes back to what was there before.

    A `dirty` rewind leaves the tags that name what is gone, which a store never does.
    """
    times = times_of(messages, events)
    for time, message in zip(times, messages, strict=True):
        if own_tag(message) is None:
            continue
        stays = message["ts"] < limit and not is_announced(message, events[cut:])
        if stays != (time < limit):
            raise Unheld("a summary or marker that goes without what came after it, or stays")
        if dirty and not stays:
            raise Unheld("tags that are left on purpose")
