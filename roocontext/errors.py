"""Every error roocontext raises, in one tree.

The docstring of a class is what happened, in general; an instance adds the facts of the case (the
numbers and the ids, never a message's content) and what to do. The facts are attributes too; a case
may bring an advice of its own.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar


class RooContextError(Exception):
    """Something roocontext was asked to do could not be done."""

    advice: ClassVar[str] = ""

    def __init__(self, fact: str = "", **facts: Any) -> None:
        self.fact = fact
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)
        super().__init__(fact)

    def __str__(self) -> str:
        general = (type(self).__doc__ or "").strip().splitlines()[0]
        return " ".join(part for part in (self.fact or general, self.advice) if part)


class SessionNotFound(RooContextError, LookupError):
    """No session has this id."""

    advice = "List the sessions to see which ids exist."
    session_id: str = ""


class SessionPurged(SessionNotFound):
    """The session was purged: only its receipt is left, and its id is never used again."""

    advice = "Use another id; the receipt of the purge is an attribute of this error."
    receipt: Mapping[str, Any] = MappingProxyType({})


class SessionExists(RooContextError, ValueError):
    """A session with this id exists already."""

    advice = "Open it with Store.session(id), or create one with another id."
    session_id: str = ""


class MessageNotFound(RooContextError, LookupError):
    """The target of a rewind, a pin, a fork or a redaction is not in the session."""

    advice = "Choose one of the candidates, or read the audit."
    candidates: tuple[Any, ...] = ()


class InvalidMessage(RooContextError, ValueError):
    """This cannot be a message, or cannot be stored without loss."""

    advice = "Nothing was stored; mend the named place and append again."
    path: str = ""


class InvalidOption(RooContextError, ValueError):
    """An argument has a value that it cannot have."""

    advice = "Nothing was done; see the reference for what it may be."
    name: str = ""


class InvalidIdentifier(RooContextError, ValueError):
    """An id or a title breaks the rule for ids and titles."""

    advice = "Use 1 to 1,000 bytes of UTF-8 without NUL."
    name: str = ""


class InvalidPlan(RooContextError, ValueError):
    """The plan may not be committed to this session."""

    advice = "Nothing was changed; plan again on the current view."


class VersionConflict(RooContextError):
    """The session moved on since the version this operation was based on."""

    advice = "Read the session again and decide whether to repeat the operation."
    expected: int | None = None
    actual: int | None = None


class DuplicateMessage(VersionConflict):
    """The client id is taken by an entry with other content."""

    advice = "Use a new client id for a new message or note."
    client_id: str | None = None
    seq: int | None = None


class UnknownPlugin(RooContextError, LookupError):
    """Nothing is registered under this name."""

    advice = "Use one of the known names, or install the package that offers this one."
    group: str
    name: str
    known: tuple[str, ...]


class NothingToUndo(RooContextError, LookupError):
    """The session has no rewind that could be taken back."""


class UndoRefused(RooContextError):
    """Taking back this rewind would hide what was appended since, or it is not the newest."""

    advice = "Pass force=True to hide what came since, or rewind(to=...) to any entry."


class UncoverRefused(RooContextError):
    """What this entry hides or clears cannot be uncovered now."""

    advice = "Nothing was changed; audit() tells what each entry is and what hides it."
    seq: int = 0
    hidden_by: int | None = None


class BudgetExceeded(RooContextError, ValueError):
    """What may not be left out of a request is more than the model holds."""

    advice = "Nothing may be sent as it is; see the numbers."
    needed: int = 0
    limit: int = 0
    unit: str = "tokens"


class SystemPromptTooLarge(BudgetExceeded):
    """The system prompt alone, with the tools, is more than the model holds."""

    advice = "Shorten it, offer fewer tools, or choose a model with a larger context."


class TurnTooLarge(BudgetExceeded):
    """The system prompt and the newest turn together are more than the model holds."""

    advice = "Shorten or split what was said last, unpin messages, or choose a larger model."


class RecoveryExhausted(BudgetExceeded):
    """The provider refused the request as too long again and again, however much was cut."""

    advice = "Compare the model's limit and the counter with what the provider says."
    attempts: int = 0


class SchemaMismatch(RooContextError):
    """The database's schema is not the one this version works with."""

    advice = "Open it with upgrade=True, or install the release that wrote it."
    current: str | None = None
    wanted: str = ""


class ForeignDatabase(RooContextError, ValueError):
    """This database or file is not a roocontext store, and is left as it is."""

    advice = "Give a new file, or a database or schema of its own."


class StoreUnavailable(RooContextError, OSError):
    """The database cannot be reached or does not answer."""

    advice = "Try again; a client_id makes repeating an append safe."
    outcome_unknown: bool = False


class StoreNotFound(StoreUnavailable):
    """There is no database of this name, and none may be made."""

    advice = "Name one that exists, or let upgrade=True make it."


class StoreClosed(StoreUnavailable):
    """The store was closed."""

    advice = "Open it again."


class StoreForked(StoreUnavailable):
    """The store was in use when this process was forked, and cannot be used in it."""

    advice = (
        "Start the process with spawn or forkserver, or finish what uses the store (an audit, a"
        " transaction) before forking; a store in memory belongs to the process that made it."
    )


class StoreReadOnly(StoreUnavailable):
    """The database can be read but not written."""

    advice = "Mend the permissions, then try again: nothing was changed."


class StoreFull(StoreUnavailable):
    """No space is left for the database to grow."""

    advice = "Make room, then try again: nothing was changed."


class HistoryCorrupt(RooContextError):
    """What is stored contradicts itself."""

    advice = "Run verify() for the first bad entry. rebuild() renews the caches, never the log."
    seq: int | None = None


class SummaryFailed(RooContextError):
    """A summariser did not give a summary of use."""

    advice = "Nothing was changed; the kind says why, and a fallback may still give one."
    summariser: str = ""
    kind: str = "error"
    status: int | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
