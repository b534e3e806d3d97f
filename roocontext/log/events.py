"""The events of a managed context, with which hooks are called.

They are pure data, so that the code that imitates other programs' events is pure too.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from roocontext.errors import BudgetExceeded
from roocontext.log.counting import Size
from roocontext.log.plan import Committed, Plan
from roocontext.log.summary import Summary
from roocontext.log.values import Value


class Status(StrEnum):
    """The end of a run."""

    NOOP = "noop"  # there was nothing to do, and nothing was written
    CLEARED = "cleared"
    CONDENSED = "condensed"
    TRUNCATED = "truncated"
    UNCOVERED = "uncovered"  # only compactions that the model cannot read were taken back
    FAILED = "failed"  # no useful summary could be made, and nothing else could be done
    VETOED = "vetoed"  # a hook stopped it
    CONFLICT = "conflict"  # the session was changed meanwhile, so the plan no longer fits


@dataclass(frozen=True, slots=True)
class Step(Value):
    """One plan that was committed, with the summary that it needed.

    `detail` is the policy's own name for the result. `before` and `after` are the sizes of the
    whole request.
    """

    plan: Plan
    committed: Committed
    detail: str
    before: Size
    after: Size
    summary: Summary | None = None

    @property
    def status(self) -> Status:
        """The status of a run that ends with this step."""
        return _STATUS[self.plan.action]


_STATUS = {
    "clear": Status.CLEARED,
    "condense": Status.CONDENSED,
    "truncate": Status.TRUNCATED,
}


@dataclass(frozen=True, slots=True)
class BeforeCheck:
    """The context of a session is about to be checked. Most checks find nothing to do."""

    session_id: str
    trigger: str


@dataclass(frozen=True, slots=True)
class BeforeCompact:
    """Messages are about to be hidden, or tool outputs cleared.

    `action` is condense, truncate or clear. `hides` are the seqs of the messages, `clears` the tool
    outputs. A condensation has no `plan` yet: no model was asked.
    """

    session_id: str
    trigger: str
    policy: str
    action: str
    tokens: int
    window: int
    hides: tuple[int, ...] = ()
    clears: tuple[tuple[int, int], ...] = ()
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class AfterCompact:
    """A plan was committed."""

    session_id: str
    trigger: str
    policy: str
    step: Step
    at: int


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """No useful summary could be made. `failures` counts such failures in a row."""

    session_id: str
    trigger: str
    policy: str
    reason: str
    failures: int
    at: int


@dataclass(frozen=True, slots=True)
class BudgetPassed:
    """The parts that must stay exceed the limit. The same error is raised to the agent."""

    session_id: str
    error: BudgetExceeded


@dataclass(frozen=True, slots=True)
class Drifted:
    """The tokens that a provider reported differ from the estimate by more than the ratio."""

    session_id: str
    seq: int
    model: str | None
    counter: str
    estimated: int
    reported: int


Event: TypeAlias = (
    BeforeCheck | BeforeCompact | AfterCompact | CompactionFailed | BudgetPassed | Drifted
)
