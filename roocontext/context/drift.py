"""What calls were estimated at, beside what the provider reported for them."""

import logging
from typing import Final

from roocontext.context.desk import Desk, Steps
from roocontext.context.hooks import Drifted
from roocontext.store.calls import Call
from roocontext.tokens import Drift, drift, usage_tokens

_log: Final = logging.getLogger(__name__)


def watched(desk: Desk, calls: list[Call]) -> Steps:
    """Keep the estimate of each call that has none yet; the events of those that were far off."""
    counter = desk.settings.counter
    events = []
    for call in calls:
        used = usage_tokens(call.usage)
        if used is None or counter.name in call.estimates:
            continue
        seen = yield desk.chat.tokens(counter, as_of=call.seq - 1)
        estimated = seen + desk.frame.overhead.tokens
        kept = yield desk.chat.keep_estimate(call.seq, counter, estimated)
        if kept and Drift(1, estimated, used.input).exceeds(desk.settings.drift_ratio):
            event = Drifted(
                *(desk.chat.id, call.seq, call.model, counter.name, estimated, used.input)
            )
            _warn(event)
            events.append(event)
    return events


def drifted(calls: list[Call], counter: str) -> dict[str, Drift]:
    """How far a counter's estimates were from the reports, by model."""
    told = []
    for call in calls:
        used = usage_tokens(call.usage)
        if used is not None and counter in call.estimates:
            told.append((call.model or "", call.estimates[counter], used.input))
    return drift(told)


def _warn(event: Drifted) -> None:
    _log.warning(
        "Entry %d of session %s: %s estimated %d tokens, and %s reported %d.",
        *(event.seq, event.session_id, event.counter),
        *(event.estimated, event.model, event.reported),
    )
