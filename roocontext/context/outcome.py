"""The outcome of a run of the manager, with its numbers.

Also the records that a run writes to the log with its plans: numbers, names and ids, never content.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from roocontext.context.hooks import HookResults
from roocontext.context.restore import Restoration
from roocontext.errors import BudgetExceeded, SummaryFailed, SystemPromptTooLarge, TurnTooLarge
from roocontext.log.counting import FAILED_SUMMARIES
from roocontext.log.entries import Message
from roocontext.log.events import Status, Step
from roocontext.log.summary import FailedCalls, Summary, failed_calls, paid_in
from roocontext.log.values import as_json
from roocontext.policies.situation import TooLarge


class AttemptResult(NamedTuple):
    """The end of one attempt. `detail` is the policy's own name for it."""

    status: Status
    detail: str = ""
    reason: str = ""
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run.

    Tokens are those of the whole request, system prompt and tools included, before and after, by
    one counter. `hidden` counts messages and `cleared` tool outputs. `reason` says why nothing was
    done, or which part failed. `excess` holds the exceeded limits and by how much they are
    exceeded: tokens, bytes or images. `restorations` are the compactions by a provider that were
    uncovered first, because the model cannot read them. `options` are for the next request, as in
    `chat.request(form, **outcome.options)`: the policy `server` sets them. In a preview, `view` is
    the view that the run would leave.
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
    restorations: tuple[Restoration, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    cost: float | None = None
    calls: int = 0
    dry_run: bool = False
    view: tuple[Message, ...] | None = None

    @property
    def changed(self) -> bool:
        """True if the view changed, or in a preview would."""
        return bool(self.steps or self.restorations)

    @property
    def uncovered(self) -> tuple[int, ...]:
        """The coverings that were uncovered first, newest first."""
        return tuple(restoration.seq for restoration in self.restorations)

    @property
    def fits(self) -> bool:
        """True if the request is now within the limits of tokens, bytes and images."""
        return not self.excess

    @property
    def hidden(self) -> int:
        """The number of messages that left the view."""
        return sum(step.committed.hidden for step in self.steps)

    @property
    def cleared(self) -> int:
        """The number of tool outputs that were cleared."""
        return sum(step.committed.cleared for step in self.steps)

    @property
    def seqs(self) -> tuple[int, ...]:
        """The summary, marker or clearing of each step."""
        return tuple(step.committed.seq for step in self.steps)

    @property
    def compaction_ids(self) -> tuple[str, ...]:
        """The condense or truncation id of each step that has one."""
        ids = (step.committed.compaction_id for step in self.steps)
        return tuple(name for name in ids if name is not None)

    @property
    def summary_model(self) -> str | None:
        """The model that wrote the newest summary, if there is one and a model wrote it."""
        summaries = [step.summary for step in self.steps if step.summary]
        return summaries[-1].model if summaries else None

    @property
    def bytes_before(self) -> int | None:
        """The bytes of the request before the run, if anything was done."""
        return self.steps[0].before.bytes if self.steps else None

    @property
    def bytes_after(self) -> int | None:
        """The bytes of the request after the run, if anything was done."""
        return self.steps[-1].after.bytes if self.steps else None

    def to_dict(self) -> dict[str, Any]:
        """The outcome without its plans, as JSON can hold it."""
        return {name: as_json(getattr(self, name)) for name in _SHOWN}


_SHOWN: Final = (
    *("status", "detail", "reason", "policy", "trigger", "counter", "exact", "window"),
    *("window_source", "tokens_before", "tokens_after", "excess", "bytes_before", "bytes_after"),
    *("uncovered", "hidden", "cleared", "seqs", "compaction_ids", "summary_model", "cost"),
    *("calls", "options", "dry_run"),
)
"""The fields and properties of an outcome that are data."""


def record_of(summary: Summary | None, hooks: HookResults) -> dict[str, Any]:
    """The record of the summariser and of the hooks, for the entry."""
    record: dict[str, Any] = {"hooks": hooks.results} if hooks.results else {}
    return record if summary is None else {**record, "summary": facts_of(summary)}


def facts_of(summary: Summary) -> dict[str, Any]:
    """The summariser, the model and the cost of a summary."""
    failed = [asdict(attempt) for attempt in summary.failed]
    paid = {**paid_in(summary), "fallback": summary.fallback}
    return {**paid, **({"failed": failed} if failed else {}), **summary.facts}


def paid_for(failed: Exception | Summary) -> tuple[FailedCalls, ...]:
    """The calls that gave no summary: those before an error, or for a refused summary."""
    if isinstance(failed, Exception):
        return failed_calls(failed) if isinstance(failed, SummaryFailed) else ()
    return (*failed.failed, FailedCalls(kind="refused", **paid_in(failed)))


def facts_of_failure(paid: Sequence[FailedCalls]) -> dict[str, Any]:
    """The calls that gave no usable summary, as a note holds them."""
    attempts = [asdict(attempt) for attempt in paid if attempt.calls]
    return {FAILED_SUMMARIES: attempts} if attempts else {}


def reason_of(error: Exception) -> str:
    """The reason of a failure, in names only: the text of an error may hold content."""
    if not isinstance(error, SummaryFailed):
        return type(error).__name__
    cause = f" ({type(error.__cause__).__name__})" if error.__cause__ else ""
    return f"{error.summariser or 'The summariser'} gave no summary: {error.kind}{cause}."


def refusal_of(large: TooLarge) -> BudgetExceeded:
    """The error for a part that is too large, with both numbers."""
    kind = SystemPromptTooLarge if large.part == "system" else TurnTooLarge
    return kind(
        f"{large.needed:,} {large.unit} are needed, and {large.limit:,} are the limit.",
        needed=large.needed,
        limit=large.limit,
        unit=large.unit,
    )
