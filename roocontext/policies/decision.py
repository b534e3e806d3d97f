"""What a policy is, and what it answers.

A policy is pure: it is given a situation and answers with data. It never calls a summariser, reads
a clock or uses a store. If a model must be asked, the policy returns the request, together with the
function that makes a plan of the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from roocontext.log.budget import Budget, Size
from roocontext.log.plan import Plan
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.policies.situation import Situation, Totals


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
    a plan that needs none, or nothing.
    """

    request: SummaryRequest
    compose: Callable[[Summary], Ready | Refused]
    hides: tuple[int, ...]
    otherwise: Ready | None = None


@dataclass(frozen=True, slots=True)
class TooLarge:
    """What may not be left out is over the limit: no plan can help.

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

    Three more attributes are read where a policy has them: `counted_as` and `limited_as` name the
    counter and the limits of the program it follows, in place of the model's; `switched` says
    that it is made with what OpenCode's environment variables leave switched on.
    """

    @property
    def name(self) -> str:
        """The name it is registered and recorded under."""
        ...

    @property
    def compat(self) -> bool:
        """Whether it imitates a real program, its defects included."""
        ...

    def due(self, totals: Totals) -> bool:
        """Whether `decide` may find something to do. False must mean that it would not."""
        ...

    def decide(self, situation: Situation) -> Decision:
        """Decide how to reach the situation's aim."""
        ...


class LastResort(Policy, Protocol):
    """A policy that takes over where another has no way to cut, on every aim.

    What it decides is committed without asking anything of a model, and it knows what no plan can
    take away.
    """

    def irreducible(self, situation: Situation) -> TooLarge | None:
        """The numbers of what no plan can take away, if they are over the limits."""
        ...
