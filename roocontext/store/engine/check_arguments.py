"""Checks of arguments, made at the front door so that no driver has to refuse them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from roocontext.errors import InvalidMessage, InvalidOption
from roocontext.log.check_plan import checked
from roocontext.log.encoding import MAX_INTEGER, check_id, check_integer
from roocontext.log.entries import NewMessage
from roocontext.log.moments import Moment, Point, milliseconds
from roocontext.log.plan import Plan

MOST_SECONDS = 1_000_000


def check_whole(name: str, value: object, *, least: int = 0) -> None:
    """Refuse anything but a whole number of 64 bits that is at least `least`."""
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        raise InvalidOption(
            f"{name} must be a whole number of 64 bits, at least {least}.", name=name
        )


def check_seconds(name: str, value: Any, *, least: float = 0) -> None:
    """Refuse anything but a number of seconds that both engines accept."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= value <= MOST_SECONDS:
        return
    raise InvalidOption(
        f"{name} must be a number of seconds from {least:g} to {MOST_SECONDS:,}.", name=name
    )


def check_maybe(name: str, value: object, *, least: int = 0) -> None:
    """Refuse anything but None and such a number."""
    if value is not None:
        check_whole(name, value, least=least)


def to_point(name: str, value: int | datetime | None, *, recorded: bool = False) -> Point:
    """The point in a log named by None, a seq, or a datetime with a zone; refuse anything else."""
    if not isinstance(value, datetime):
        check_maybe(name, value)
        return value
    if value.tzinfo is None:
        raise InvalidOption(f"{name} needs a time zone.", name=name)
    return Moment(milliseconds(value), bool(recorded))


def check_function(name: str, value: object) -> None:
    """Refuse anything but a function."""
    if not callable(value):
        raise InvalidOption(f"{name} must be a function.", name=name)


def check_progress(progress: object) -> None:
    """Refuse anything but None and a function, before anything is done."""
    if progress is not None:
        check_function("progress", progress)


def check_page(
    after: object = None, limit: object = None, before: object = None, last: object = None
) -> None:
    """Refuse arguments that do not name a page of a view, from its start or from its newest end."""
    check_maybe("after", after, least=1)
    check_maybe("limit", limit, least=1)
    check_maybe("before", before, least=1)
    check_maybe("last", last, least=1)
    if before is not None and last is None:
        raise InvalidOption("`before` needs `last`, the number of messages to read.", name="last")
    if last is not None and (after is not None or limit is not None):
        raise InvalidOption(
            "A page is read from the start (after, limit) or from the newest end (before, last).",
            name="last",
        )


def to_rewind_target(
    to: int | str | datetime | None, ts: object, *, recorded: bool
) -> int | str | Moment | None:
    """The target of a rewind; refuse a rewind that has no target, or two."""
    if (to is None) is (ts is None):
        raise InvalidOption("A rewind needs one target: `to` or `ts`.", name="to")
    if ts is not None:
        check_integer("ts", ts)
    if isinstance(to, str):
        check_id("to", to)
        return to
    return to_point("to", to, recorded=recorded)


def check_mapping(name: str, value: object) -> None:
    """Refuse anything but a mapping."""
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{name} must be a mapping.", name=name)


def given_messages(messages: Iterable[NewMessage | Mapping[str, Any]]) -> Iterator[NewMessage]:
    """The messages of a call, each given as a NewMessage or as a mapping of its fields."""
    if not isinstance(messages, Iterable):
        raise InvalidOption("messages must be a list of messages.", name="messages")
    return map(_to_message, messages)


def _to_message(message: NewMessage | Mapping[str, Any]) -> NewMessage:
    if isinstance(message, NewMessage):
        return message
    try:
        return NewMessage(**message)
    except TypeError:
        known = ", ".join(NewMessage.__struct_fields__)
        raise InvalidMessage(f"A message has the fields {known}.", path="message") from None


def to_plan(plan: object) -> Plan:
    """A checked plan with its content as plain data."""
    if not isinstance(plan, Plan):
        raise InvalidOption("plan must be a Plan.", name="plan")
    return checked(plan)
