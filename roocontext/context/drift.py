"""The estimates of calls, compared with the provider's reports."""

import logging
from collections.abc import Iterable
from typing import Final

from roocontext.context.session_port import DueCheck
from roocontext.context.settings import Settings
from roocontext.log.events import Drifted
from roocontext.store.reading.usage import Call
from roocontext.tokens import Drift, drift, last_request

_log: Final = logging.getLogger(__name__)


def far_off(
    check: DueCheck, session_id: str, settings: Settings
) -> tuple[list[Drifted], frozenset[int]]:
    """The new estimates that differ from the report by more than the ratio.

    Also those of them that deserve a warning: the first of each cause, which is a model and a
    direction. The first call never does: one report shows no pattern yet.
    """
    counter, causes = settings.counter.name, set()
    drifted, warned = [], set()
    for number, call in enumerate(check.calls):
        used = last_request(call.usage)
        estimated = check.estimates.get(call.seq, call.estimates.get(counter))
        if used is None or estimated is None:
            continue
        if not Drift(1, estimated, used.input).exceeds(settings.drift_ratio):
            continue
        if call.seq in check.estimates:
            drifted.append(
                Drifted(session_id, call.seq, call.model, counter, estimated, used.input)
            )
        cause = call.model, estimated < used.input
        if number and cause not in causes:
            causes.add(cause)
            warned.add(call.seq)
    return drifted, frozenset(warned & check.estimates.keys())


def drift_of(calls: Iterable[Call], counter: str) -> dict[str, Drift]:
    """The differences between a counter's estimates and the reports, by model."""
    both = []
    for call in calls:
        used = last_request(call.usage)
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
