"""Roo Code's messages about the context, made from our events."""

from typing import Any

from roocontext.log.events import AfterCompact, CompactionFailed, Event
from roocontext.log.plan import Action
from roocontext.log.summary import total_cost


def roo_events(event: Event) -> list[dict[str, Any]]:
    """The messages for the conversation that the user sees, in their order."""
    match event:
        case AfterCompact() if event.step.plan.action is Action.CONDENSE:
            return [_say(event, "condense_context", contextCondense=_condensed(event))]
        case AfterCompact() if event.step.plan.action is Action.TRUNCATE:
            why = event.step.plan.record.get("error")
            failed = [_say(event, "condense_context_error", text=why)] if why else []
            cut = _say(event, "sliding_window_truncation", contextTruncation=_truncated(event))
            return [*failed, cut]
        case CompactionFailed():
            return [_say(event, "condense_context_error", text=event.reason)]
    return []


def _say(event: AfterCompact | CompactionFailed, say: str, **fields: Any) -> dict[str, Any]:
    return {"type": "say", "say": say, "ts": event.at, **fields}


def _condensed(event: AfterCompact) -> dict[str, Any]:
    summary = event.step.summary
    return {
        "cost": (total_cost((*summary.failed, summary)) if summary else None) or 0,
        "summary": summary.text if summary else "",
        "condenseId": event.step.committed.compaction_id,
        **_tokens(event),
    }


def _truncated(event: AfterCompact) -> dict[str, Any]:
    committed = event.step.committed
    return {
        "truncationId": committed.compaction_id,
        "messagesRemoved": event.step.plan.record.get("messages_removed", committed.hidden),
        **_tokens(event),
    }


def _tokens(event: AfterCompact) -> dict[str, int]:
    """The program's own numbers where its policy made the plan, else ours."""
    step = event.step
    return {
        "prevContextTokens": step.plan.record.get("prev_context_tokens", step.before.tokens),
        "newContextTokens": step.plan.record.get("new_context_tokens", step.after.tokens),
    }
