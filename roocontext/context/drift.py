"""What calls were estimated at, beside what the provider reported for them."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from roocontext.context.session_port import DueCheck
from roocontext.context.settings import Settings
from roocontext.log.events import Drifted
from roocontext.store.reading.usage import Call
from roocontext.tokens import Drift, drift, usage_tokens

_log: Final = logging.getLogger(__name__)


def far_off(check: DueCheck, session_id: str, settings: Settings) -> Iterator[Drifted]:
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


def news(check: DueCheck, settings: Settings) -> frozenset[int]:
    """The calls of this check that are worth a warning: the first far-off one of each cause.

    A cause is a model and a direction. The first call is none: one report shows no pattern yet.
    """
    counter, causes, found = settings.counter.name, set(), set()
    for call in check.calls[1:]:
        used = usage_tokens(call.usage)
        estimated = check.estimates.get(call.seq, call.estimates.get(counter))
        if used is None or estimated is None:
            continue
        cause = call.model, estimated < used.input
        if Drift(1, estimated, used.input).exceeds(settings.drift_ratio) and cause not in causes:
            causes.add(cause)
            found.add(call.seq)
    return frozenset(found & check.estimates.keys())


def drift_of(calls: Iterable[Call], counter: str) -> dict[str, Drift]:
    """How far a counter's estimates were from the reports, by model."""
    both = []
    for call in calls:
        used = usage_tokens(call.usage)
        if used is not None and counter in call.estimates:
            both.append((call.model or "", call.estimates[counter], used.input))
    return drift(both)


def warn(event: Drifted) -> None:
    """Warn in the log of the program."""
    _log.warning(
        "Entry %d of session %s: %s estimated %d tokens, and %s reported %d.",
        *(event.seq, event.session_id, event.counter),
        *(event.estimated, event.model, event.reported),
    )
