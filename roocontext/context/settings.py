"""The settings of a manager: its options, checked, and what follows from the model at each run."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from roocontext.context.hooks import Hooks
from roocontext.errors import InvalidOption
from roocontext.log.counting import FREE, UNLIMITED, Budget, Counter, Size, counter_named
from roocontext.log.encoding import MAX_INTEGER, check_model_size
from roocontext.log.request import GivenFrame
from roocontext.policies.builtin import policies, policy_for
from roocontext.policies.situation import Aim, Measure, Policy
from roocontext.store.engine.clock_and_ids import Clock
from roocontext.summarisers import (
    AnySummariser,
    as_summariser,
    is_async,
    summariser_for,
    summariser_over,
    with_fallback,
)
from roocontext.tokens import Limit, counter_for, limit_for, size_of, switches
from roocontext.tokens.refusals import with_remembered

_POLICY: Final = ("name", "compat", "due", "decide")


def positive(name: str, value: Any) -> int | None:
    """Check a limit: a positive int, or None for no limit."""
    if value is not None and (type(value) is not int or not 1 <= value <= MAX_INTEGER):
        raise InvalidOption(f"{name} must be a positive integer of 64 bits.", name=name)
    limit: int | None = value
    return limit


def model_name(model: Any) -> str:
    """Check the name of a model; an empty one stands for no model."""
    if not isinstance(model, str):
        raise InvalidOption("model must be a name.", name="model")
    check_model_size(model)
    return model


def tool_names(names: Any) -> frozenset[str]:
    """Check a collection of tool names."""
    is_list = isinstance(names, Collection) and not isinstance(names, str)
    if not (is_list and all(isinstance(name, str) for name in names)):
        raise InvalidOption("protected_tools must be a list of names.", name="protected_tools")
    return frozenset(names)


def policy_of(policy: str | Policy, environ: Mapping[str, str] | None) -> Policy:
    """The policy itself, or the policy of this name as the environment switches it."""
    if not isinstance(policy, str):
        if isinstance(policy, type) or not all(hasattr(policy, part) for part in _POLICY):
            raise InvalidOption(f"A policy must have {', '.join(_POLICY)}.", name="policy")
        return policy
    is_switched = getattr(policies[policy], "switched", False)
    return policy_for(policy, **(switches(environ)._asdict() if is_switched else {}))


def counter_of(counter: str | Counter | None, model: str, policy: Policy) -> Counter:
    """The counter itself or of this name; by default that of the policy's program or the model."""
    if counter is None or isinstance(counter, str):
        return counter_for(model, name=counter or getattr(policy, "counted_as", None))
    return counter_named(counter)


def summariser_of(summariser: Any, client: Any) -> AnySummariser:
    """The summariser itself or of this name; by default one that asks the client's model.

    A summary that the client's model fails to write is extracted instead, which needs no model.
    Without a client all summaries are extracted.
    """
    if isinstance(summariser, str):
        return summariser_for(summariser, client=client)
    if summariser is not None:
        return as_summariser(summariser)
    extractive = summariser_for("extractive")
    if client is None:
        return extractive
    return with_fallback(summariser_over(client), extractive)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a manager."""

    model: str
    policy: Policy
    counter: Counter
    summariser: AnySummariser
    clock: Clock
    limit: int | None = None
    output: int | None = None
    limits: Budget = UNLIMITED
    protected_tools: frozenset[str] = frozenset()
    hooks: Hooks = field(default_factory=Hooks)
    drift_ratio: float = 1.5
    recall: bool = False
    environ: Mapping[str, str] | None = field(default=None, repr=False)
    """The variables that set limits, or None for those of the process; they may hold secrets."""

    def __post_init__(self) -> None:
        ratio = self.drift_ratio
        for name, is_right, what in (
            ("limits", isinstance(self.limits, Budget), "a Budget"),
            ("hooks", isinstance(self.hooks, Hooks), "Hooks"),
            ("clock", callable(self.clock), "a function without arguments"),
            ("drift_ratio", isinstance(ratio, int | float) and ratio >= 1, "a number, at least 1"),
            ("recall", isinstance(self.recall, bool), "True or False"),
        ):
            if not is_right:
                raise InvalidOption(f"{name} must be {what}.", name=name)
        for unit in Size._fields:
            positive(unit, getattr(self.limits, unit))

    def refuse_async(self) -> None:
        """Refuse settings that must be awaited, where no event loop is running."""
        if is_async(self.summariser):
            raise InvalidOption(
                "An asynchronous summariser needs AsyncContextManager.", name="summariser"
            )
        self.hooks.refuse_async()

    @property
    def measure(self) -> Measure:
        """The function that measures a message."""
        return partial(size_of, self.counter)

    def window(self, remembered: Mapping[str, Any] | None = None) -> Limit:
        """The limits of the model, determined anew at each run.

        `remembered` is the session's note of the limits that providers named.
        """
        profile = getattr(self.policy, "limited_as", "default")
        limit = limit_for(self.model, override=self.limit, profile=profile, environ=self.environ)
        limit = with_remembered(limit, self.model, remembered)
        if self.output is not None:
            limit = limit._replace(output=self.output)
        if self.limits.tokens is not None and self.limits.tokens < limit.context:
            limit = limit._replace(context=self.limits.tokens, source="limits")
        return limit


GivenTools: TypeAlias = Sequence[Mapping[str, Any]] | None
"""Tool definitions; an empty list offers none, and None leaves the recorded ones as they are."""


@dataclass(frozen=True, slots=True)
class SizedFrame(GivenFrame):
    """The system prompt and the tools of a request, as given to a call, and their cost."""

    system_size: Size = FREE
    overhead: Size = FREE


def frame_of(measure: Measure, system: Any, tools: Any) -> SizedFrame:
    """Count the system prompt and the tools; they are never messages of the log."""
    frame = GivenFrame.checked(system, tools)
    try:
        offer = json.dumps(frame.tools, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError):
        raise InvalidOption("tools must be definitions that JSON can hold.", name="tools") from None
    size = measure("user", frame.system, "anthropic") if frame.system else FREE
    offered = measure("user", offer, "anthropic") if frame.tools else FREE
    return SizedFrame(frame.system, frame.tools, size, size.plus(offered))


AIMS: Final = {
    "manage": Aim.MANAGE,
    "condense": Aim.CONDENSE,
    "truncate": Aim.TRUNCATE,
    "prune": Aim.CLEAR,
    "clear": Aim.CLEAR,
}
"""The names of the aims that a preview takes."""
