"""The events of Roo Code, Gemini CLI and OpenCode, made of ours, for programs that expect those."""

from typing import Any

from roocontext.context.hooks import AfterCompact, CompactionFailed, Event
from roocontext.log.plan import Action, Counts


def roo_events(event: Event) -> list[dict[str, Any]]:
    """Roo Code's messages for the conversation that the user sees, in their order."""
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


def gemini_event(event: Event) -> dict[str, Any] | None:
    """Gemini CLI's ChatCompressed; None where it has none. Its status is a name, not a number."""
    if not isinstance(event, AfterCompact) or event.step.plan.action is not Action.CONDENSE:
        return None
    counts = _counts(event)
    return {
        "type": "chat_compressed",
        "value": {
            "originalTokenCount": counts.before,
            "newTokenCount": counts.after,
            "compressionStatus": "COMPRESSED",
        },
    }


def opencode_event(event: Event) -> dict[str, Any] | None:
    """OpenCode's session.compacted; None where it has none."""
    if not isinstance(event, AfterCompact) or event.step.plan.action is not Action.CONDENSE:
        return None
    return {"type": "session.compacted", "properties": {"sessionID": event.session_id}}


def _say(event: AfterCompact | CompactionFailed, say: str, **told: Any) -> dict[str, Any]:
    return {"type": "say", "say": say, "ts": event.at, **told}


def _condensed(event: AfterCompact) -> dict[str, Any]:
    summary = event.step.summary
    return {
        "cost": (summary.cost if summary else None) or 0,
        "summary": summary.text if summary else "",
        "condenseId": event.step.committed.compaction_id,
        **_roo_tokens(event),
    }


def _truncated(event: AfterCompact) -> dict[str, Any]:
    committed = event.step.committed
    return {
        "truncationId": committed.compaction_id,
        "messagesRemoved": event.step.plan.record.get("messages_removed", committed.hidden),
        **_roo_tokens(event),
    }


def _roo_tokens(event: AfterCompact) -> dict[str, int]:
    """The program's own numbers where its policy made the plan, else ours."""
    counts, record = _counts(event), event.step.plan.record
    return {
        "prevContextTokens": record.get("prev_context_tokens", counts.before),
        "newContextTokens": record.get("new_context_tokens", counts.after),
    }


def _counts(event: AfterCompact) -> Counts:
    counts = event.step.plan.counts
    assert counts is not None
    return counts
