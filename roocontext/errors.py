"""Every error roocontext raises, in one tree.

A class's docstring describes in general what happened. An instance adds the facts of the case
(numbers and ids, never a message's content) and advises what to do. The facts are also attributes.
An instance can override the class's advice.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar


class Category(StrEnum):
    """The kind of reaction that an error needs. Exit codes and protocol statuses follow from it."""

    NOT_FOUND = "not_found"
    """A session, an entry or a database does not exist."""
    USAGE = "usage"
    """The input is invalid: the same call will never succeed."""
    REFUSED = "refused"
    """The input is valid, but a rule forbids the operation in this state."""
    CONFLICT = "conflict"
    """Another write came first: read again before you decide."""
    DATABASE = "database"
    """The database cannot be used, or its data is damaged."""
    UNCERTAIN = "uncertain"
    """The connection broke while a change was sent: it may or may not have been made."""


class RooContextError(Exception):
    """roocontext could not do what it was asked to do."""

    advice: ClassVar[str] = ""
    category: Category = Category.REFUSED

    def __init__(self, fact: str = "", **facts: Any) -> None:
        self.fact = fact
        self.facts = facts
        for name, value in facts.items():
            setattr(self, name, value)
        super().__init__(fact)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.statement, self.advice)))

    @classmethod
    def general(cls) -> str:
        """Describe all errors of this class: the first line of the docstring."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    @property
    def statement(self) -> str:
        """The fact, or else what is true of all errors of this class; without advice."""
        return self.fact or self.general()


class SessionNotFound(RooContextError, LookupError):
    """No session has this id."""

    category = Category.NOT_FOUND
    advice = "List the sessions to see which ids exist."
    session_id: str = ""


class SessionPurged(SessionNotFound):
    """The session was purged: only its receipt is left, and its id is never used again."""

    advice = "Use another id; the receipt of the purge is an attribute of this error."
    receipt: Mapping[str, Any] = MappingProxyType({})


class SessionArchived(RooContextError):
    """The session is archived: its entries are in a file, and its row keeps their head."""

    advice = "Import that file to bring it back with the same hashes."
    session_id: str = ""
    file: str = ""
    digest: str = ""
    archived_at: int = 0
    seq: int = 0
    hash: str = ""


class SessionExists(RooContextError, ValueError):
    """A session with this id exists already."""

    category = Category.CONFLICT
    advice = "Open it with Store.session(id), or create one with another id."
    session_id: str = ""


class TurnTaken(RooContextError):
    """Another runner has the turn of the session."""

    category = Category.CONFLICT
    advice = "Try again when it has ended, or pass wait= to wait for it."
    session_id: str = ""
    holder: str = ""
    expires_at: int = 0


class TurnLost(RooContextError):
    """This runner no longer has the turn of the session."""

    category = Category.CONFLICT
    advice = "Nothing was written. Stop: the next runner continues from what is recorded."
    session_id: str = ""
    holder: str | None = None


class MessageNotFound(RooContextError, LookupError):
    """The entry or message is not in the session, or not in the part of it that is read."""

    category = Category.NOT_FOUND
    advice = "Choose one of the candidates, or look in the audit."
    candidates: tuple[Any, ...] = ()


class NoSuchCall(RooContextError, LookupError):
    """The session has no such tool call to answer."""

    advice = "Nothing was written. pending() lists the calls that wait."
    seq: int = 0
    block: int = 0


class NotTheModelsTurn(RooContextError):
    """It is not the model's turn."""

    advice = (
        "Answer pending() calls first, or append what the user says. Pass unanswered=True to send"
        " the request despite pending calls, or prefill=True to let the model continue its last"
        " message."
    )
    waits_for: str = ""
    pending: tuple[tuple[int, int], ...] = ()


class InvalidMessage(RooContextError, ValueError):
    """This is not a valid message, or cannot be stored without loss."""

    category = Category.USAGE
    advice = "Nothing was stored. Fix the part that is named and append the message again."
    path: str = ""
    index: int | None = None

    def at(self, name: str, index: int) -> "InvalidMessage":
        """The same error of an item of a list."""
        return InvalidMessage(f"{name}[{index}]: {self.statement}", path=self.path, index=index)


class InvalidOption(RooContextError, ValueError):
    """An argument has an invalid value."""

    category = Category.USAGE
    advice = "Nothing was done."
    name: str = ""


class InvalidIdentifier(RooContextError, ValueError):
    """An id or a title breaks the rule for ids and titles."""

    category = Category.USAGE
    advice = "Use 1 to 1,000 bytes of UTF-8 without NUL."
    name: str = ""


class InvalidPlan(RooContextError, ValueError):
    """The plan cannot be committed to this session."""

    advice = "Nothing was changed. Make a new plan from the current view."


class VersionConflict(RooContextError):
    """The session has changed since the version that this operation is based on."""

    category = Category.CONFLICT
    advice = "Read the session again and decide whether to repeat the operation."
    expected: int | None = None
    actual: int | None = None


class DuplicateMessage(VersionConflict):
    """An entry with different content already has this client id."""

    advice = "Use a new client id for a new message or note."
    client_id: str | None = None
    seq: int | None = None


class UnknownPlugin(RooContextError, LookupError):
    """Nothing is registered under this name."""

    category = Category.USAGE
    advice = "Use one of the known names, or install the package that provides this one."
    group: str
    name: str
    known: tuple[str, ...]


class NothingToUndo(RooContextError, LookupError):
    """The session has no rewind to undo."""


class UndoRefused(RooContextError):
    """Undoing this rewind would hide newer messages, or it is not the newest rewind."""

    advice = "Pass force=True to hide the newer messages, or use rewind(to=...) to go to any entry."


class UncoverRefused(RooContextError):
    """The messages that this entry hides or clears cannot be uncovered now."""

    advice = "Nothing was changed; audit() shows what each entry is and what hides it."
    seq: int = 0
    hidden_by: int | None = None


class SummarySealed(RooContextError):
    """A provider compacted the history in a form that this model cannot read."""

    advice = (
        "Ask the model that made it, or uncover the compaction: the messages that it hides are"
        " then sent again."
    )
    seq: int = 0
    model: str | None = None


class BudgetExceeded(RooContextError, ValueError):
    """The parts of a request that must be sent exceed the model's context window."""

    advice = "The request cannot be sent as it is. The error has both numbers."
    needed: int = 0
    limit: int = 0
    unit: str = "tokens"


class SystemPromptTooLarge(BudgetExceeded):
    """The system prompt and the tools alone exceed the model's context window."""

    advice = "Shorten the prompt, offer fewer tools, or choose a model with a larger window."


class TurnTooLarge(BudgetExceeded):
    """The system prompt and the newest turn together exceed the model's context window."""

    advice = "Shorten or split the newest message, unpin messages, or choose a larger model."


class RecoveryExhausted(BudgetExceeded):
    """The provider refuses the request as too long, and it is not cut any further."""

    advice = "Compare the model's limit and the counter with the numbers that the provider reports."
    attempts: int = 0


class SchemaMismatch(RooContextError):
    """This release does not work with the database's schema."""

    category = Category.DATABASE
    advice = "Open it with upgrade=True, or install the release that wrote it."
    current: str | None = None
    wanted: str = ""
    release: str = ""
    oldest_release: str | None = None


class ForeignDatabase(RooContextError, ValueError):
    """This database or file is not a roocontext store. It was not changed."""

    category = Category.DATABASE
    advice = "Name a new file, or use a database or schema that holds nothing else."


class DistributionRefused(RooContextError):
    """The store cannot be distributed over the nodes of a cluster."""

    advice = "Nothing was changed."
    code: str | None = None


class StoreUnavailable(RooContextError, OSError):
    """The database cannot be reached or does not answer."""

    category = Category.DATABASE
    advice = "Try again. With a client_id it is safe to repeat an append."
    outcome_unknown: bool = False

    def __init__(self, fact: str = "", **facts: Any) -> None:
        super().__init__(fact, **facts)
        if self.outcome_unknown:
            self.category = Category.UNCERTAIN


class StoreNotFound(StoreUnavailable):
    """There is no database with this name."""

    category = Category.NOT_FOUND
    advice = "Name an existing database, or pass upgrade=True to create it."


class StoreClosed(StoreUnavailable):
    """The store was closed."""

    advice = "Open it again."


class PoolExhausted(StoreUnavailable):
    """All connections of the store's pool are in use."""

    advice = "Open the store with a larger pool_size or max_overflow, or with fewer threads."
    pool_size: int = 0
    max_overflow: int = 0
    pool_timeout: float = 0


class StoreForked(StoreUnavailable):
    """The store was open when this process was forked, and cannot be used in it."""

    advice = (
        "Close the store before forking, or start the process with spawn or forkserver. A store in"
        " memory belongs to the process that created it."
    )


class StoreReadOnly(StoreUnavailable):
    """The database can be read but not written."""

    advice = "Nothing was changed. Fix the permissions and try again."


class StoreFull(StoreUnavailable):
    """No space is left for the database to grow."""

    advice = "Nothing was changed. Free some space and try again."


class HistoryCorrupt(RooContextError):
    """The stored data contradicts itself."""

    category = Category.DATABASE
    advice = "Run verify() to find the first bad entry. rebuild() repairs caches, never the log."
    seq: int | None = None


class UnreadableSource(RooContextError, ValueError):
    """A file cannot be imported, or not all of it."""

    category = Category.NOT_FOUND
    advice = "Only the entries before it can be restored. Import the complete file again."
    path: str = ""
    line: int | None = None


class SourceDiverged(RooContextError):
    """The session was changed after its import, and its source has changed too."""

    category = Category.CONFLICT
    advice = "Nothing was written. Import it with on_conflict='fork' to continue in a fork."
    session_id: str = ""
    seq: int = 0


class FrameworkMissing(RooContextError, ImportError):
    """A framework is not installed, or the adapter does not work with its version."""

    package: str = ""
    works: str = ""
    found: str | None = None


class SummaryFailed(RooContextError):
    """A summariser did not produce a usable summary."""

    advice = "Nothing was changed. `kind` says why; another summariser may still succeed."
    summariser: str = ""
    kind: str = "error"
    status: int | None = None
    model: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    attempts: tuple[Any, ...] = ()
