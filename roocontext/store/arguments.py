"""What an argument may be. Checked where it comes in, so that no driver has to say it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from roocontext.errors import InvalidMessage, InvalidOption
from roocontext.log.encoding import MAX_INTEGER, check_id
from roocontext.log.entries import NewMessage
from roocontext.log.plan import Plan, checked


def check_whole(name: str, value: object, *, least: int = 0) -> None:
    """Refuse what is not a whole number of 64 bits from `least` up."""
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        raise InvalidOption(
            f"{name} must be a whole number of 64 bits, at least {least}.", name=name
        )


def check_maybe(name: str, value: object, *, least: int = 0) -> None:
    """Refuse what is neither None nor such a number."""
    if value is not None:
        check_whole(name, value, least=least)


def check_moment(name: str, value: object) -> None:
    """Refuse what is neither None, a seq, nor a datetime with a zone."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidOption(f"{name} needs a time zone.", name=name)
    else:
        check_maybe(name, value)


def check_mapping(name: str, value: object) -> None:
    """Refuse what is no mapping."""
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{name} must be a mapping.", name=name)


def check_target(name: str, value: object) -> None:
    """Refuse what names no entry: it takes a seq, a message id, or a datetime with a zone."""
    if isinstance(value, str):
        check_id(name, value)
    else:
        check_moment(name, value)


def to_message(message: NewMessage | Mapping[str, Any]) -> NewMessage:
    """A message that may be given as a mapping of its fields."""
    if isinstance(message, NewMessage):
        return message
    try:
        return NewMessage(**message)
    except TypeError:
        known = ", ".join(NewMessage.__struct_fields__)
        raise InvalidMessage(f"A message has the fields {known}.", path="message") from None


def to_plan(plan: object) -> Plan:
    """A plan, its content as plain data."""
    if not isinstance(plan, Plan):
        raise InvalidOption("What is committed is a Plan.", name="plan")
    return checked(plan)
