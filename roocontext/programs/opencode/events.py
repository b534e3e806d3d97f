"""OpenCode's event of a compaction, made from ours."""

from typing import Any

from roocontext.log.events import AfterCompact, Event
from roocontext.log.plan import Action


def opencode_event(event: Event) -> dict[str, Any] | None:
    """session.compacted; None where the program has no event."""
    if not isinstance(event, AfterCompact) or event.step.plan.action is not Action.CONDENSE:
        return None
    return {"type": "session.compacted", "properties": {"sessionID": event.session_id}}
