"""Purging by rule: sessions that are old, or whose metadata has given values, and their families.

A family, a session with its descendants, is purged in one transaction, and only if all of it is
old. Both are checked again under the locks: what was written since, or is on hold since, is kept.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias, get_args

from roocontext.errors import InvalidOption, SessionPurged
from roocontext.log.moments import EPOCH, milliseconds
from roocontext.store.engine.schema import sessions
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.families import descended
from roocontext.store.sessions.listing import ListFilter, page_of, wanted
from roocontext.store.writing import erase
from roocontext.store.writing.archived import head_or_tombstone
from roocontext.store.writing.erase import Purged

AgeClock: TypeAlias = Literal["later", "happened", "recorded"]

_COLUMNS = (sessions.c.session_id,)


class Retention(NamedTuple):
    """The sessions that are purged: those of a list that are older than a time in milliseconds."""

    listed: ListFilter
    before: int | None
    family: bool
    clock: AgeClock


def checked_retention(
    older_than: datetime | timedelta | None,
    where: Mapping[str, str] | None,
    *,
    family: bool,
    clock: AgeClock,
    now: int,
) -> Retention:
    """Check the conditions. Without any, every session would be purged."""
    if clock not in get_args(AgeClock):
        raise InvalidOption(f"clock must be one of {get_args(AgeClock)}.", name="clock")
    if older_than is None and not where:
        raise InvalidOption(
            "Name a session, or give older_than or where: they say which sessions are purged.",
            name="older_than",
        )
    end = None if older_than is None else cutoff(older_than, now)
    # A list goes by the earlier of both clocks, so it has every session that is old by the later.
    before = None if end is None else milliseconds(end)
    return Retention(wanted(None, where, None, end), before, family, clock)


def cutoff(older_than: object, now: int) -> datetime:
    """The time since which nothing may have happened: a datetime, or so long ago."""
    if isinstance(older_than, timedelta):
        if older_than < timedelta(0):
            raise InvalidOption("older_than must not be negative.", name="older_than")
        try:
            return EPOCH + timedelta(milliseconds=now) - older_than
        except OverflowError:
            raise InvalidOption("older_than is out of range.", name="older_than") from None
    if not isinstance(older_than, datetime) or older_than.tzinfo is None:
        raise InvalidOption(
            "older_than must be a datetime with a time zone, or a timedelta.", name="older_than"
        )
    return older_than


def purge_family(log: SessionLog, rule: Retention, *, now: int, dry_run: bool) -> list[Purged]:
    """Purge a session and its descendants, unless the rule no longer applies to all of them."""
    members: list[str] = []
    times: dict[str, int] = {}
    # A child may be created until its parent is locked.
    while members != (family := descended(log) if rule.family else [log.session_id]):
        members = family
        for member in sorted(members):  # in one order, so that two purges wait for each other
            with suppress(SessionPurged):
                times[member] = _time(log.of(member), rule.clock, locked=not dry_run)
    if not _applies(log, rule, times.values()):
        return []
    return [
        erase.purge(log.of(member), now=now, dry_run=dry_run)
        for member in members
        if member in times
    ]


def _applies(log: SessionLog, rule: Retention, times: Iterable[int]) -> bool:
    shape, params = rule.listed
    query = page_of(_COLUMNS, shape._replace(is_one=True), continues=False)
    if log.row(query, **params, one=log.session_id, page=1) is None:
        return False
    return rule.before is None or all(time < rule.before for time in times)


def _time(log: SessionLog, clock: AgeClock, *, locked: bool) -> int:
    """The time of a session by a clock, which the tombstone of an archived one has too."""
    head, _ = head_or_tombstone(log, locked=locked)
    return {
        "later": max(head.updated_at, head.happened_at),
        "happened": head.happened_at,
        "recorded": head.updated_at,
    }[clock]
