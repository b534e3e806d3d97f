"""Roo Code's context management, of December 2025 (`roo`) and of April 2026 (`roo-2026`).

Both condense above a threshold, and truncate if condensing is off or fails. They show the live rows
to the program's logic as its own list of messages, do what it does to that list, defects included,
and turn the result into a plan. The one exception: they never hide pins and sealed compactions.

The program's prompt for a summary, in our own words.

Roo Code's messages about the context, made from our events.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.resources import files
from typing import Any, ClassVar, Final

from roocontext.log.entries import Kind, NewMessage
from roocontext.log.events import AfterCompact, CompactionFailed, Event
from roocontext.log.plan import Action, Plan
from roocontext.log.readings import Block, read_message
from roocontext.log.summary import Summary, total_cost
from roocontext.policies.layout import Layout, whole_groups
from roocontext.policies.make_plan import hide_plan
from roocontext.policies.situation import (
    Aim,
    Ask,
    Decision,
    Nothing,
    Ready,
    Refused,
    Row,
    Situation,
    Totals,
)
from roocontext.programs.roo.condensing import (
    Condensation,
    CondensationSkipped,
    Surroundings,
    condensation_2025,
    condensation_2026,
)
from roocontext.programs.roo.history import (
    CONDENSED,
    FRACTION,
    TRUNCATED,
    Edit,
    RooMessage,
    truncation,
    visible_to_roo,
)
from roocontext.summarisers.prompts import read_prompt

BUFFER: Final = 0.1
"""The part of the window that is always kept free."""

RESERVED: Final = 8192
"""The reserve for an answer if its maximum size is unknown."""

LEAST_THRESHOLD: Final = 5
MOST_THRESHOLD: Final = 100

INHERIT: Final = -1
"""The default threshold of a profile."""

RECOVERY_THRESHOLD: Final = 75
"""The threshold once a provider has refused the request."""

FAILED: Final = "condense_failed"
"""The status of a failed condensation."""

_NEW: Final = "new"
"""The id of a summary or marker until the store gives it one."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Task:
    """A situation as the program sees it: one list of messages with tags."""

    situation: Situation

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The live rows, except those that a compaction by the provider stands for."""
        rows: list[Row] = []
        known: set[str | None] = {None}
        # From the end, because a summary or marker comes after what it hides.
        for row in reversed(self.situation.rows):
            if {row.condense_parent, row.truncation_parent} <= known:
                rows.append(row)
                if row.message.kind in (Kind.SUMMARY, Kind.MARKER):
                    known.add(row.message.compaction_id)
        return tuple(reversed(rows))

    @cached_property
    def messages(self) -> list[RooMessage]:
        """The list of the program."""
        return [roo_message(row) for row in self.rows]

    @cached_property
    def held(self) -> frozenset[int]:
        """The indices of the messages that are never hidden, and of those that belong to them."""
        layout = Layout(self.situation)
        seqs = whole_groups(layout.groups, layout.fixed) | layout.fixed
        return frozenset(i for i, row in enumerate(self.rows) if row.seq in seqs)

    @property
    def previous(self) -> int:
        """The size of the context as the program reports it."""
        return _cost(self.situation.totals)

    def surroundings(self, prompt: str | None, *, images: bool) -> Surroundings:
        """The inputs of a condensation besides the messages."""
        situation = self.situation
        return Surroundings(
            system=_blocks(situation.system),
            count=lambda blocks: situation.measure("user", blocks, "anthropic").tokens,
            previous=self.previous,
            now=situation.now,
            condense_id=_NEW,
            tools=situation.overhead.minus(situation.system_size).tokens,
            prompt=prompt,
            images=images,
            held=self.held,
        )

    def seqs(self, indices: tuple[int, ...]) -> tuple[int, ...]:
        """The places in the log of these messages."""
        return tuple(self.rows[index].seq for index in indices)

    def left_by(self, edit: Edit) -> int:
        """The size after a truncation, by the program's count.

        It includes the rows that a summary replaces, and excludes the marker.
        """
        left = set(visible_to_roo(self.messages)) - set(edit.tagged)
        return self.situation.system_size.tokens + sum(self.rows[i].size.tokens for i in left)

    def plan(self, action: Action, edit: Edit, *, policy: str, record: Mapping[str, Any]) -> Plan:
        """Turn an edit of the list into a plan."""
        row = NewMessage(edit.row["role"], edit.row["content"], ts=edit.row["ts"])
        return hide_plan(
            self.situation,
            action,
            self.seqs(edit.tagged),
            [row],
            policy=policy,
            compat=True,
            at_end=edit.at == len(self.messages),
            record={"prev_context_tokens": self.previous, **record},
        )


@dataclass(frozen=True, kw_only=True)
class _Program(ABC):
    """The behaviour that both versions share.

    `auto` condenses at `threshold` percent of the window. `profile_thresholds` may override it for
    the `profile`: -1 inherits, 5 to 100 replaces it. `prompt` is the user's own prompt, `images`
    says whether the model reads images, and `fraction` is the share that a truncation hides.
    """

    auto: bool = True
    threshold: float = 100
    profile_thresholds: Mapping[str, float] = field(default_factory=dict)
    profile: str = "default"
    prompt: str | None = None
    images: bool = True
    fraction: float = FRACTION

    name: ClassVar[str]
    compat: ClassVar[bool] = True
    counted_as: ClassVar[str] = "roo"

    def due(self, totals: Totals) -> bool:
        """True if the context is over the threshold, or over the limit of a request."""
        return self._over(totals) or (self.auto and self._at_threshold(totals))

    def decide(self, situation: Situation) -> Decision:
        """Condense or truncate as the program would."""
        task = _Task(situation)
        match situation.aim:
            case Aim.CLEAR:
                return Nothing("Roo Code clears no outputs of tools.")
            case Aim.TRUNCATE:
                return self._truncate(task)
            case Aim.CONDENSE:
                return self._condense(task, None)
            case Aim.RECOVER:
                forced = replace(self, auto=True, threshold=RECOVERY_THRESHOLD)
                return forced.decide(replace(situation, aim=Aim.MANAGE))
        return self._manage(task)

    def _manage(self, task: _Task) -> Decision:
        totals = task.situation.totals
        if not task.messages or not self.due(totals):
            return Nothing("The context is under the threshold.")
        if not self.auto:
            return self._truncate(task)
        return self._condense(task, self._truncate(task) if self._over(totals) else None)

    def _condense(self, task: _Task, fallback: Ready | Nothing | None) -> Decision:
        """Ask for a summary, and truncate if that fails."""
        otherwise = fallback if isinstance(fallback, Ready) else None
        begun = self._condensation(task)
        if isinstance(begun, Condensation) and not begun.tagged:
            begun = CondensationSkipped("The summary would replace nothing.")
        if isinstance(begun, CondensationSkipped):
            return _instead(begun, otherwise)
        compose = partial(self._condensed, task, begun)
        return Ask(begun.request, compose, task.seqs(begun.tagged), otherwise)

    def _condensed(self, task: _Task, begun: Condensation, summary: Summary) -> Ready | Refused:
        made = begun.compose(summary.text, summary.output_tokens)
        if isinstance(made, CondensationSkipped):
            return Refused(made.reason, FAILED, latch=False)
        record = {"new_context_tokens": made.tokens}
        plan = task.plan(Action.CONDENSE, made.edit, policy=self.name, record=record)
        return Ready(plan, "condensed")

    def _truncate(self, task: _Task) -> Ready | Nothing:
        now, held = task.situation.now, task.held
        edit = truncation(task.messages, self.fraction, truncation_id=_NEW, now=now, held=held)
        if edit is None:
            return Nothing("A truncation would hide nothing.")
        removed = len(edit.tagged)
        record = {"new_context_tokens": task.left_by(edit), "messages_removed": removed}
        plan = task.plan(Action.TRUNCATE, edit, policy=self.name, record=record)
        return Ready(plan, "truncated")

    @abstractmethod
    def _condensation(self, task: _Task) -> Condensation | CondensationSkipped:
        """A condensation as this version does it, or the reason for none."""

    def _over(self, totals: Totals) -> bool:
        allowed = totals.window * (1 - BUFFER) - (totals.output or RESERVED)
        return _cost(totals) > allowed

    def _at_threshold(self, totals: Totals) -> bool:
        return 100 * _cost(totals) / totals.window >= self._percent

    @property
    def _percent(self) -> float:
        own = self.profile_thresholds.get(self.profile, INHERIT)
        if LEAST_THRESHOLD <= own <= MOST_THRESHOLD:
            return own
        if own != INHERIT:
            _log.warning("The threshold %s of profile %r is ignored.", own, self.profile)
        return self.threshold


@dataclass(frozen=True, kw_only=True)
class Roo(_Program):
    """Roo Code of December 2025: the first message, the last three and the summary stay.

    With `native_tools` the calls that the first kept results answer are copied into the summary.
    """

    native_tools: bool = True

    name: ClassVar[str] = "roo"

    def _condensation(self, task: _Task) -> Condensation | CondensationSkipped:
        around = task.surroundings(self.prompt, images=self.images)
        return condensation_2025(task.messages, around, native_tools=self.native_tools)


@dataclass(frozen=True, kw_only=True)
class Roo2026(_Program):
    """Roo Code of April 2026: only the summary stays.

    `environment` describes the editor's state; it is added to each automatic summary.
    """

    environment: str = ""

    name: ClassVar[str] = "roo-2026"

    def _condensation(self, task: _Task) -> Condensation | CondensationSkipped:
        around = task.surroundings(self.prompt, images=self.images)
        automatic = task.situation.trigger != "manual"
        return condensation_2026(
            task.messages, around, environment=self.environment if automatic else ""
        )


def roo_message(row: Row) -> RooMessage:
    """A live row as the program would keep it."""
    message = row.message
    role, blocks = read_message(message)
    content: Any = message.content if isinstance(message.content, str) else blocks
    fields = {"role": role, "content": content}
    tags = {CONDENSED.key: row.condense_parent, TRUNCATED.key: row.truncation_parent}
    own = {Kind.SUMMARY: CONDENSED, Kind.MARKER: TRUNCATED}.get(message.kind)
    if own is not None:
        fields |= {own.flag: True, own.id: message.compaction_id}
    optional = {"ts": message.ts, **tags}
    return fields | {key: value for key, value in optional.items() if value is not None}


def _cost(totals: Totals) -> int:
    """The size of the context: as the provider reported it, or else as it is counted."""
    return totals.reported.total if totals.reported else totals.size.tokens


def _blocks(system: Any) -> list[Block]:
    return [{"type": "text", "text": system}] if isinstance(system, str) else list(system or ())


def _instead(skipped: CondensationSkipped, otherwise: Ready | None) -> Ready | Nothing:
    """The decision when no model is asked."""
    if otherwise is None:
        return Nothing(skipped.reason, FAILED)
    record = {**otherwise.plan.record, "error": skipped.reason}
    return replace(otherwise, plan=replace(otherwise.plan, record=record))


DECEMBER_2025: Final = read_prompt(files(__package__) / "prompt_2025.md")
APRIL_2026: Final = read_prompt(files(__package__) / "prompt_2026.md")


def roo_events(event: Event) -> list[dict[str, Any]]:
    """The messages for the conversation that the user sees, in their order."""
    match event:
        case AfterCompact() if event.step.plan.action is Action.CONDENSE:
            return [_say(event, CONDENSED.event, **{CONDENSED.facts: _condensed(event)})]
        case AfterCompact() if event.step.plan.action is Action.TRUNCATE:
            why = event.step.plan.record.get("error")
            failed = [_say(event, "condense_context_error", text=why)] if why else []
            cut = _say(event, TRUNCATED.event, **{TRUNCATED.facts: _truncated(event)})
            return [*failed, cut]
        case CompactionFailed():
            return [_say(event, "condense_context_error", text=event.reason)]
    return []


def _say(event: AfterCompact | CompactionFailed, say: str, **fields: Any) -> dict[str, Any]:
    return {"type": "say", "say": say, "ts": event.at, **fields}


def _condensed(event: AfterCompact) -> dict[str, Any]:
    summary = event.step.summary
    return {
        "cost": (total_cost((*summary.failed, summary)) if summary else None) or 0,
        "summary": summary.text if summary else "",
        CONDENSED.id: event.step.committed.compaction_id,
        **_tokens(event),
    }


def _truncated(event: AfterCompact) -> dict[str, Any]:
    committed = event.step.committed
    return {
        TRUNCATED.id: committed.compaction_id,
        "messagesRemoved": event.step.plan.record.get("messages_removed", committed.hidden),
        **_tokens(event),
    }


def _tokens(event: AfterCompact) -> dict[str, int]:
    """The program's own numbers where its policy made the plan, else ours."""
    step = event.step
    return {
        "prevContextTokens": step.plan.record.get("prev_context_tokens", step.before.tokens),
        "newContextTokens": step.plan.record.get("new_context_tokens", step.after.tokens),
    }
