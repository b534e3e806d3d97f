"""Gemini CLI's event of a compression, made from ours."""

from typing import Any

from roocontext.log.events import AfterCompact, Event
from roocontext.log.plan import Action


def gemini_event(event: Event) -> dict[str, Any] | None:
    """ChatCompressed; None where the program has no event. Its status is a name, not a number."""
    if not isinstance(event, AfterCompact) or event.step.plan.action is not Action.CONDENSE:
        return None
    return {
        "type": "chat_compressed",
        "value": {
            "originalTokenCount": event.step.before.tokens,
            "newTokenCount": event.step.after.tokens,
            "compressionStatus": "COMPRESSED",
        },
    }
