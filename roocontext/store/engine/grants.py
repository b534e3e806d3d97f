"""The rights that a role needs which does not own the tables."""

import re
from typing import Final, NamedTuple

from roocontext.log.encoding import check_id


class Right(NamedTuple):
    """What may be done with some tables. Only `redact` and `purge` need one that `erases`."""

    what: str
    tables: str
    erases: bool = False


RIGHTS: Final = (
    Right("SELECT, INSERT", "entries"),
    Right("SELECT, INSERT, UPDATE", "sessions"),
    Right("SELECT, INSERT, DELETE", "spans, clearings, facts"),
    Right("SELECT, INSERT", "counts"),
    Right("SELECT, INSERT, DELETE", "search_rows"),
    Right("SELECT, INSERT, UPDATE, DELETE", "search_marks, turns"),
    Right("SELECT", "roocontext_version, messages, effective_history"),
    Right("EXECUTE", "FUNCTION roocontext_matches_v1(tsquery)"),
    Right("UPDATE (content, salt, extra), DELETE", "entries", erases=True),
    Right("DELETE", "counts", erases=True),
)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def grants(role: str, *, erase: bool = True) -> list[str]:
    """The statements that give a role the rights of every call, or of all but the erasures."""
    name = quoted_role(role)
    return [
        f"GRANT {right.what} ON {right.tables} TO {name};"
        for right in RIGHTS
        if erase or not right.erases
    ]


def quoted_role(role: str) -> str:
    """A role as SQL names it."""
    check_id("role", role)
    return role if _PLAIN.fullmatch(role) else '"' + role.replace('"', '""') + '"'
