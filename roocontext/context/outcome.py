"""What a run of the manager did, with its numbers.

What a run writes into the log beside its plans: numbers, names and ids, never content.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from roocontext.context.hooks import Heard
from roocontext.errors import BudgetExceeded, SummaryFailed, SystemPromptTooLarge, TurnTooLarge
from roocontext.log.counting import FAILED_SUMMARIES
from roocontext.log.entries import Message
from roocontext.log.events import Status, Step
from roocontext.log.summary import FailedCalls, Summary, failed_calls
from roocontext.policies.situation import TooLarge


class Ended(NamedTuple):
    """How one attempt ended. `detail` is the policy's own name for it."""

    status: Status
    detail: str = ""
    reason: str = ""
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run.

    Tokens are those of the whole request, system prompt and tools included, before and after, by
    one counter. `hidden` counts messages and `cleared` tool outputs. `reason` says why nothing was
    done or what failed. `excess` is by how much a limit is exceeded now: tokens, bytes or images.
    `view` is what the model would see, in a preview only.
    """

    status: Status
    policy: str
    trigger: str
    counter: str
    exact: bool
    window: int
    window_source: str
    tokens_before: int
    tokens_after: int
    excess: Mapping[str, int] = field(default_factory=dict)
    detail: str = ""
    reason: str = ""
    steps: tuple[Step, ...] = ()
    cost: float | None = None
    calls: int = 0
    dry_run: bool = False
    view: tuple[Message, ...] | None = None

    @property
    def changed(self) -> bool:
        """Whether the view changed, or in a preview would."""
        return bool(self.steps)

    @property
    def fits(self) -> bool:
        """Whether the request is within the model's context, and the bytes and images, now."""
        return not self.excess

    @property
    def hidden(self) -> int:
        """How many messages left the view."""
        return sum(step.committed.hidden for step in self.steps)

    @property
    def cleared(self) -> int:
        """How many tool outputs were cleared."""
        return sum(step.committed.cleared for step in self.steps)

    @property
    def seqs(self) -> tuple[int, ...]:
        """The summary, marker or clearing of each step."""
        return tuple(step.committed.seq for step in self.steps)

    @property
    def compaction_ids(self) -> tuple[str, ...]:
        """The condense or truncation id of each step that has one."""
        found = (step.committed.compaction_id for step in self.steps)
        return tuple(one for one in found if one is not None)

    @property
    def summary_model(self) -> str | None:
        """The model that wrote the newest summary; None if there is none or no model wrote it."""
        summaries = [step.summary for step in self.steps if step.summary]
        return summaries[-1].model if summaries else None

    @property
    def bytes_before(self) -> int | None:
        """The bytes of the request before, if anything was done."""
        return self.steps[0].before.bytes if self.steps else None

    @property
    def bytes_after(self) -> int | None:
        """The bytes of the request after."""
        return self.steps[-1].after.bytes if self.steps else None

    def to_dict(self) -> dict[str, Any]:
        """All of it but the plans, as JSON can hold it."""
        found = {name: getattr(self, name) for name in _SHOWN}
        lists = {"seqs": list(self.seqs), "compaction_ids": list(self.compaction_ids)}
        return {**found, "status": self.status.value, "excess": dict(self.excess), **lists}


_SHOWN: Final = (
    *("status", "detail", "reason", "policy", "trigger", "counter", "exact", "window"),
    *("window_source", "tokens_before", "tokens_after", "excess", "bytes_before", "bytes_after"),
    *("hidden", "cleared", "seqs", "compaction_ids", "summary_model", "cost", "calls", "dry_run"),
)
"""The fields and properties of an outcome that are data."""


def record_of(summary: Summary | None, heard: Heard) -> dict[str, Any]:
    """What is recorded of the summariser and of the hooks, with the entry."""
    record: dict[str, Any] = {"hooks": heard.results} if heard.results else {}
    return record if summary is None else {**record, "summary": facts_of(summary)}


def facts_of(summary: Summary) -> dict[str, Any]:
    """What a summary was made by, and what it cost."""
    failed = [asdict(one) for one in summary.failed]
    return {
        "summariser": summary.summariser,
        "model": summary.model,
        "calls": summary.calls,
        "input_tokens": summary.input_tokens,
        "output_tokens": summary.output_tokens,
        "cost": summary.cost,
        "fallback": summary.fallback,
        **({"failed": failed} if failed else {}),
        **summary.facts,
    }


def paid_for(failed: Exception | Summary) -> tuple[FailedCalls, ...]:
    """The calls that came to nothing: those before an error, or for a summary that was refused."""
    if isinstance(failed, Exception):
        return failed_calls(failed) if isinstance(failed, SummaryFailed) else ()
    own = FailedCalls(
        summariser=failed.summariser,
        kind="refused",
        model=failed.model,
        calls=failed.calls,
        input_tokens=failed.input_tokens,
        output_tokens=failed.output_tokens,
        cost=failed.cost,
    )
    return (*failed.failed, own)


def facts_of_failure(paid: Sequence[FailedCalls]) -> dict[str, Any]:
    """The calls that gave no usable summary, as a note keeps them."""
    made = [asdict(one) for one in paid if one.calls]
    return {FAILED_SUMMARIES: made} if made else {}


def reason_of(error: Exception) -> str:
    """Who failed and how, by names alone: the text of an error may hold content."""
    if not isinstance(error, SummaryFailed):
        return type(error).__name__
    cause = f" ({type(error.__cause__).__name__})" if error.__cause__ else ""
    return f"{error.summariser or 'The summariser'} gave no summary: {error.kind}{cause}."


def refusal_of(large: TooLarge) -> BudgetExceeded:
    """The error that says what is too large, with both numbers."""
    kind = SystemPromptTooLarge if large.part == "system" else TurnTooLarge
    return kind(
        f"{large.needed:,} {large.unit} are needed, and {large.limit:,} are the limit.",
        needed=large.needed,
        limit=large.limit,
        unit=large.unit,
    )
