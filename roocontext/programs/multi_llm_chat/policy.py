"""multi_llm_chat's sliding window as the program behaves, including its defects.

The program walks back over its list and keeps turns until one does not fit. An unanswered question
that does not fit is skipped and the walk continues, even for the newest one. Entries that are
neither a question nor a model's answer are dropped, as are answers without a question directly
before them. The program puts the questions first and the answers last. The view cannot show that
order: rows keep their own.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Final, NamedTuple

from roocontext.log.entries import Kind, Message
from roocontext.log.plan import Action
from roocontext.log.readings import read_message, results
from roocontext.policies.layout import Layout, whole_groups
from roocontext.policies.make_plan import hide_plan, marker
from roocontext.policies.situation import Aim, Decision, Nothing, Ready, Row, Situation, Totals
from roocontext.policies.sliding_window import PruningInfo

ANSWERING: Final = ("gemini", "chatgpt")
"""The roles under which the program stores models' answers."""


class Weighed(NamedTuple):
    """The facts of an entry that the program looks at."""

    role: str
    tokens: int


def kept_of(entries: Sequence[Weighed], max_tokens: int, system: int) -> list[int] | None:
    """The indices that are kept, in the program's order; None if everything fits."""
    room = max_tokens - system
    if tokens_of(entries) <= room:
        return None
    asked: list[int] = []
    answered: list[int] = []
    end = len(entries)
    while end:
        start = start_of_answers(entries, end)
        first = start - 1 if start and entries[start - 1].role == "user" else start
        turn = tokens_of(entries[first:end])
        if turn > room and first < start < end:
            break
        if turn <= room and first < start:
            room -= turn
            asked.insert(0, first)
            answered += range(start, end)
        end = min(first, end - 1)
    return asked + answered


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingWindowUpstream:
    """Hides what the program would not send. `limit` is its max_tokens; None means the window.

    The program has no summaries or markers. Rows hidden by a summary are not in its list, rows
    hidden only by markers still are, and summaries and markers cost nothing.
    """

    limit: int | None = None
    name: ClassVar[str] = "sliding-window-upstream"
    compat: ClassVar[bool] = True
    counted_as: ClassVar[str] = "multi_llm_chat"
    limited_as: ClassVar[str] = "multi_llm_chat"

    def due(self, totals: Totals) -> bool:  # noqa: ARG002 - the totals do not include hidden rows
        """Always: the program weighs its whole list each time, including hidden messages."""
        return True

    def decide(self, situation: Situation) -> Decision:
        """Hide what the program would leave out of the next request."""
        if situation.aim not in (Aim.MANAGE, Aim.TRUNCATE):
            return Nothing("The program prunes, and does nothing else.")
        listed = [row for row in situation.rows if _listed(row)]
        entries = [Weighed(_role(row.message), row.size.tokens) for row in listed]
        limit = situation.window if self.limit is None else self.limit
        system = situation.system_size.tokens
        kept = kept_of(entries, limit, system)
        drops = set(range(len(listed))).difference(range(len(listed)) if kept is None else kept)
        gone = {listed[index].seq for index in drops}
        return _hide(situation, gone, info_of(entries, kept, system))


def _hide(situation: Situation, gone: set[int], info: PruningInfo) -> Decision:
    layout = Layout(situation)
    fixed = whole_groups(layout.groups, layout.fixed)
    leaves = {row.seq for row in situation.visible if row.seq in gone} - fixed
    if not leaves:
        return Nothing("The program would leave out nothing more.")
    markers = {row.seq for row in situation.visible if row.message.kind is Kind.MARKER} - fixed
    plan = hide_plan(
        situation,
        Action.TRUNCATE,
        leaves | markers,
        [marker(situation)],
        policy=SlidingWindowUpstream.name,
        compat=True,
        record=asdict(info),
    )
    return Ready(plan, "truncated")


def _listed(row: Row) -> bool:
    return row.message.kind is Kind.MESSAGE and row.condense_parent is None


def _role(message: Message) -> str:
    """The program's role for a message; all models' answers have the same one."""
    role, blocks = read_message(message)
    if role == "assistant":
        return ANSWERING[0]
    only_results = bool(blocks) and len(results(blocks)) == len(blocks)
    return message.role if message.role != "user" else "tool" if only_results else "user"


def info_of(entries: Sequence[Weighed], kept: list[int] | None, system: int) -> PruningInfo:
    """The number of entries that are removed, and the size of the context before and after."""
    before = system + tokens_of(entries)
    if kept is None:
        return PruningInfo(0, before, before)
    after = system + tokens_of([entries[index] for index in kept])
    return PruningInfo(len(entries) - len(kept), before, after)


def tokens_of(entries: Sequence[Weighed]) -> int:
    """The tokens of these entries together."""
    return sum(entry.tokens for entry in entries)


def start_of_answers(entries: Sequence[Weighed], end: int) -> int:
    """The beginning of the run of answers that ends at `end`; `end` if there is none."""
    while end and entries[end - 1].role in ANSWERING:
        end -= 1
    return end
