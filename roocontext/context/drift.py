"""What calls were estimated at, beside what the provider reported for them."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from roocontext.context.session_port import Check
from roocontext.context.settings import Settings
from roocontext.log.events import Drifted
from roocontext.store.calls import Call
from roocontext.tokens import Drift, drift, usage_tokens

_log: Final = logging.getLogger(__name__)


def far_off(check: Check, session_id: str, settings: Settings) -> Iterator[Drifted]:
    """The estimates of this check that are further from the report than the ratio allows."""
    for call in check.calls:
        used = usage_tokens(call.usage)
        estimated = check.estimates.get(call.seq)
        if used is None or estimated is None:
            continue
        if Drift(1, estimated, used.input).exceeds(settings.drift_ratio):
            yield Drifted(
                session_id, call.seq, call.model, settings.counter.name, estimated, used.input
            )


def drift_of(calls: Iterable[Call], counter: str) -> dict[str, Drift]:
    """How far a counter's estimates were from the reports, by model."""
    both = []
    for call in calls:
        used = usage_tokens(call.usage)
        if used is not None and counter in call.estimates:
            both.append((call.model or "", call.estimates[counter], used.input))
    return drift(both)


def warn(event: Drifted) -> None:
    """Tell whoever reads the program's log."""
    _log.warning(
        "Entry %d of session %s: %s estimated %d tokens, and %s reported %d.",
        *(event.seq, event.session_id, event.counter),
        *(event.estimated, event.model, event.reported),
    )
