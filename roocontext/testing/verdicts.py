"""What a check comes to, and the exceptions by which it says so."""

from enum import StrEnum


class Verdict(StrEnum):
    """What a check comes to.

    `refused` is no loss: the store raised an error and stayed as it was. `missing` means that the
    store has no such operation, and `failed` that it raised an error where it should not.
    """

    KEPT = "kept"
    REFUSED = "refused"
    LOST = "lost"
    MISSING = "missing"
    FAILED = "failed"
    NOT_RUN = "not run"


class Lost(AssertionError):
    """The store lost or changed something that it had accepted."""


class Refused(Exception):
    """The store refused part of a check with an error, and lost nothing."""


class NotRun(Exception):
    """The check cannot be run here."""
