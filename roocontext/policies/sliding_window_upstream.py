"""multi_llm_chat's sliding window as the program does it, its defects included.

It walks back over its list and keeps the turns that fit, until one does not. A question that has no
answer and does not fit is passed over without an end to that, even the newest one. Entries that are
neither the user's nor a model's answer are dropped, and so are answers without a question right
before them. Of its result the questions come first and the answers last. The view cannot show
that: rows stay in their order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

from roocontext.log.entries import Kind, Message
from roocontext.log.plan import Action
from roocontext.log.readings import reader, results
from roocontext.policies.building import hiding
from roocontext.policies.decision import Decision, Nothing, Ready, TooLarge
from roocontext.policies.groups import bound, groups
from roocontext.policies.situation import Aim, Load, Seen, Situation
from roocontext.policies.sliding_window import PruningInfo
from roocontext.policies.window import marker

Entry: TypeAlias = Mapping[str, Any]
"""One of the program's messages: its `role` and `content`."""

Count: TypeAlias = Callable[[Any], int]
"""What a content costs; of the system prompt too."""

ANSWERING: Final = ("gemini", "chatgpt")
"""The roles under which the program keeps what models answered."""


class Weighed(NamedTuple):
    """All that the program looks at."""

    role: str
    tokens: int


def prune_history_sliding_window(
    history: Sequence[Entry], max_tokens: int, count: Count, system_prompt: str | None = None
) -> Sequence[Entry]:
    """What the program sends: the list itself when it fits, else what is kept in its own order."""
    if not history:
        return history
    kept = kept_of(_weigh(history, count), max_tokens, _system(system_prompt, count))
    return history if kept is None else [history[index] for index in kept]


def get_pruning_info(
    history: Sequence[Entry], max_tokens: int, count: Count, system_prompt: str | None = None
) -> PruningInfo:
    """What it would remove. `turns_to_remove` counts messages, and nothing is zeros."""
    if not history:
        return PruningInfo(0, 0, 0)
    entries, system = _weigh(history, count), _system(system_prompt, count)
    return _info(entries, kept_of(entries, max_tokens, system), system)


def validate_system_prompt_length(
    system_prompt: str | None, max_tokens: int, count: Count
) -> TooLarge | None:
    """Whether the system prompt alone is over the limit; None is valid, as no prompt always is."""
    needed = _system(system_prompt, count)
    return TooLarge("system", needed, max_tokens) if system_prompt and needed > max_tokens else None


def validate_context_length(
    history: Sequence[Entry], max_tokens: int, count: Count, system_prompt: str | None = None
) -> TooLarge | None:
    """Whether the newest turn with the system prompt is over the limit; None is valid.

    Behind anything but a question or answers it finds no turn, and counts nothing for it.
    """
    entries = _weigh(history, count)
    start = _start_of_answers(entries, len(entries))
    if start and entries[start - 1].role == "user":
        start -= 1
    needed = _system(system_prompt, count) + _tokens(entries[start:])
    part = "turn" if history else "system"
    return TooLarge(part, needed, max_tokens) if needed > max_tokens else None


def kept_of(entries: Sequence[Weighed], max_tokens: int, system: int) -> list[int] | None:
    """The indices that are kept, in the program's order; None when everything fits."""
    room = max_tokens - system
    if _tokens(entries) <= room:
        return None
    asked: list[int] = []
    answered: list[int] = []
    end = len(entries)
    while end:
        start = _start_of_answers(entries, end)
        first = start - 1 if start and entries[start - 1].role == "user" else start
        turn = _tokens(entries[first:end])
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
    """Hides what the program would not send. `limit` is its max_tokens; None is the window.

    The program has no summaries and no markers: to it, what a summary hides is gone, what only
    markers hide is still in its list, and neither summaries nor markers cost anything.
    """

    limit: int | None = None
    name: ClassVar[str] = "sliding-window-upstream"
    compat: ClassVar[bool] = True
    counted_as: ClassVar[str] = "multi_llm_chat"
    limited_as: ClassVar[str] = "multi_llm_chat"

    def due(self, load: Load) -> bool:  # noqa: ARG002 - the totals do not tell what is hidden
        """Always: it weighs its whole list each time, hidden messages too."""
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
        return _hide(situation, gone, _info(entries, kept, system))


def _hide(situation: Situation, gone: set[int], info: PruningInfo) -> Decision:
    pinned = bound(groups(situation), situation.pins)
    leaves = {row.seq for row in situation.visible if row.seq in gone} - pinned
    if not leaves:
        return Nothing("The program would leave out nothing more.")
    markers = {row.seq for row in situation.visible if row.message.kind is Kind.MARKER} - pinned
    plan = hiding(
        situation,
        Action.TRUNCATE,
        leaves | markers,
        [marker(situation)],
        policy=SlidingWindowUpstream.name,
        compat=True,
        record={
            "turns_to_remove": info.turns_to_remove,
            "original_length": info.original_length,
            "pruned_length": info.pruned_length,
        },
    )
    return Ready(plan, "truncated")


def _listed(row: Seen) -> bool:
    return row.message.kind is Kind.MESSAGE and row.condense_parent is None


def _role(message: Message) -> str:
    """The program's role for a message: of all models' answers the same."""
    role, blocks = reader(message.format).blocks(message.role, message.content)
    if role == "assistant":
        return ANSWERING[0]
    only_results = bool(blocks) and len(results(blocks)) == len(blocks)
    return message.role if message.role != "user" else "tool" if only_results else "user"


def _info(entries: Sequence[Weighed], kept: list[int] | None, system: int) -> PruningInfo:
    before = system + _tokens(entries)
    if kept is None:
        return PruningInfo(0, before, before)
    after = system + _tokens([entries[index] for index in kept])
    return PruningInfo(len(entries) - len(kept), before, after)


def _weigh(history: Sequence[Entry], count: Count) -> list[Weighed]:
    return [Weighed(entry["role"], count(entry.get("content", ""))) for entry in history]


def _system(prompt: str | None, count: Count) -> int:
    return count(prompt) if prompt else 0


def _tokens(entries: Sequence[Weighed]) -> int:
    return sum(entry.tokens for entry in entries)


def _start_of_answers(entries: Sequence[Weighed], end: int) -> int:
    """Where the run of answers begins that ends here; the end itself when there is none."""
    while end and entries[end - 1].role in ANSWERING:
        end -= 1
    return end
