"""The input of a policy: the live messages with their sizes and tags, and the limits.

The protocol of a policy, and its answers.

A policy is pure: it is given a situation and answers with data. It never calls a summariser, reads
a clock or uses a store. If a model must be asked, the policy returns the request, together with the
function that makes a plan of the answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

from roocontext.log.counting import FREE, UNLIMITED, Budget, Size
from roocontext.log.entries import Kind, Message
from roocontext.log.plan import Plan
from roocontext.log.summary import Summary, SummaryRequest

Measure: TypeAlias = Callable[[str, Any, str], Size]
"""Measures a message, given its role, content and format."""


class Aim(StrEnum):
    """The task of the policy."""

    MANAGE = "manage"  # whatever the context needs, if anything
    CONDENSE = "condense"
    TRUNCATE = "truncate"
    CLEAR = "clear"
    RECOVER = "recover"  # the provider refused the request: get to `cap`, whatever the counts say


class ReportedTokens(NamedTuple):
    """The provider's report of the last call, and our count of the messages since."""

    input: int
    output: int
    since: int

    @property
    def total(self) -> int:
        """The tokens of the next request by that report."""
        return self.input + self.output + self.since


@dataclass(frozen=True, slots=True)
class Row:
    """A live message, what it costs, and the ids of the summary and marker that hide it."""

    message: Message
    size: Size
    condense_parent: str | None = None
    truncation_parent: str | None = None

    @property
    def seq(self) -> int:
        """Its place in the log."""
        return self.message.seq

    @property
    def visible(self) -> bool:
        """True if the model sees it."""
        return self.condense_parent is None and self.truncation_parent is None

    @property
    def summarises(self) -> bool:
        """True of a summary, and of a visible reply in which a provider compacted others."""
        return self.message.kind is Kind.SUMMARY or self.message.compacted is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals, known without reading a message: enough to decide whether anything is due.

    `size` is the whole request: the view, the system prompt and the tools.
    """

    size: Size
    window: int
    output: int | None = None
    reported: ReportedTokens | None = None
    limits: Budget = UNLIMITED
    failures: int = 0
    model: str = ""

    @property
    def most(self) -> Budget:
        """The limits of a request: the model's window, and the bytes and images."""
        return replace(self.limits, tokens=self.window)

    @property
    def is_over(self) -> bool:
        """True if the request is over any of these, by our count."""
        return bool(self.most.exceeded_by(self.size))


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that a policy may know.

    `seen` is the last entry, notes included. `rows` are in view order. Only a compat policy is
    given rows that are hidden. `window` and `output` are what the model holds and may answer,
    `limits` the bytes and images that a request may have. `cap` is what a recovery must get under.
    `failures` is how many condensations of this session have failed in a row. `recall` says that
    the model has the tools to read what is hidden.
    """

    session_id: str
    head_seq: int
    seen: int | None = None
    rows: tuple[Row, ...]
    window: int
    measure: Measure
    counter: str
    exact: bool = False
    output: int | None = None
    system: Any = None
    tools: Sequence[Mapping[str, Any]] = ()
    system_size: Size = FREE
    overhead: Size = FREE
    limits: Budget = UNLIMITED
    reported: ReportedTokens | None = None
    now: int = 0
    aim: Aim = Aim.MANAGE
    trigger: str = "auto"
    cap: int | None = None
    pins: frozenset[int] = frozenset()
    protected_tools: frozenset[str] = frozenset()
    failures: int = 0
    model: str = ""
    recall: bool = False

    @cached_property
    def visible(self) -> tuple[Row, ...]:
        """The rows that the model sees."""
        return tuple(row for row in self.rows if row.visible)

    @cached_property
    def size(self) -> Size:
        """The size of the request: the visible rows, the system prompt and the tools."""
        total = self.overhead
        for row in self.visible:
            total = total.plus(row.size)
        return total

    @property
    def totals(self) -> Totals:
        """The same without the messages."""
        return Totals(
            size=self.size,
            window=self.window,
            output=self.output,
            reported=self.reported,
            limits=self.limits,
            failures=self.failures,
            model=self.model,
        )


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do, and why. `status` is the policy's own name for it.

    If it is `final`, the manager does not cut either, however large the request is.
    """

    reason: str
    status: str = "noop"
    final: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """A plan that can be committed as it is."""

    plan: Plan
    status: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The summary cannot be used, and why; nothing changes. With `latch` it counts as a failure."""

    reason: str
    status: str
    latch: bool = True


@dataclass(frozen=True, slots=True)
class Ask:
    """A summary is needed. `compose` makes the plan of it, or says why it cannot be used.

    `hides` are the seqs that the plan would hide. `otherwise` is done if no usable summary is made:
    a plan that needs none, or nothing. With `latch` an error of the summariser counts as a failure.
    """

    request: SummaryRequest
    compose: Callable[[Summary], Ready | Refused]
    hides: tuple[int, ...]
    otherwise: Ready | None = None
    latch: bool = True


@dataclass(frozen=True, slots=True)
class TooLarge:
    """The rows that may not be left out are over the limit: no plan can help.

    `part` is `system` for the system prompt alone, `turn` for it with the newest turn.
    """

    part: str
    needed: int
    limit: int
    unit: str = "tokens"

    @classmethod
    def if_over(cls, part: str, size: Size, budget: Budget) -> "TooLarge | None":
        """The refusal of what must be sent and is over the budget; None when it is not."""
        for unit in budget.exceeded_by(size):
            return cls(part, getattr(size, unit), getattr(budget, unit), unit)
        return None


Decision: TypeAlias = Nothing | Ready | Ask | TooLarge


class Policy(Protocol):
    """Decides what is hidden or cleared, and when.

    `compat` policies imitate a real program with its defects. They are given hidden rows too,
    and their plans are checked less.

    Five more attributes are read where a policy has them: `counted_as` and `limited_as` name the
    counter and the limits of the program it follows, in place of the model's; `models` are the
    models that its program's names for them stand for; `switched` says that it is made with what
    OpenCode's environment variables leave switched on; `options` is a method that returns the
    fields with which the next request asks the provider to compact.
    """

    @property
    def name(self) -> str:
        """The name it is registered and recorded under."""

    @property
    def compat(self) -> bool:
        """True if it imitates a real program, its defects included."""

    def due(self, totals: Totals) -> bool:
        """True if `decide` may find something to do. False must mean that it would not."""

    def decide(self, situation: Situation) -> Decision:
        """Decide how to reach the situation's aim."""


class LastResort(Policy, Protocol):
    """A policy that takes over where another has no way to cut, on every aim.

    What it decides is committed without asking anything of a model, and it knows what no plan can
    take away.
    """

    def irreducible(self, situation: Situation) -> TooLarge | None:
        """The numbers of what no plan can take away, if they are over the limits."""
