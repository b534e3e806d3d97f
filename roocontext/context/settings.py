"""What a manager is given when it is made, and what follows from the model at each run."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

from roocontext.context.hooks import Hooks
from roocontext.errors import InvalidOption
from roocontext.log.counting import FREE, UNLIMITED, Budget, Counter, Size, counter_named
from roocontext.log.encoding import check_model_size
from roocontext.policies.builtin import policies, policy_for
from roocontext.policies.situation import Aim, Measure, Policy
from roocontext.store.engine.clock_and_ids import Clock
from roocontext.summarisers import (
    AnySummariser,
    as_summariser,
    is_async,
    summariser_for,
    with_fallback,
)
from roocontext.tokens import Limit, counter_for, limit_for, size_of, switches

_POLICY: Final = ("name", "compat", "due", "decide")


def check_options(
    *,
    model: Any,
    limits: Any,
    hooks: Any,
    clock: Any,
    protected_tools: Any,
    drift_ratio: Any,
    recall: Any,
) -> None:
    """Refuse what would only fail much later."""
    is_number = isinstance(drift_ratio, int | float) and drift_ratio >= 1
    rules = (
        ("model", isinstance(model, str), "a name"),
        ("limits", isinstance(limits, Budget), "a Budget"),
        ("hooks", hooks is None or isinstance(hooks, Hooks), "Hooks"),
        ("clock", callable(clock), "a function without arguments"),
        ("protected_tools", _are_names(protected_tools), "a list of names"),
        ("drift_ratio", is_number, "a number, at least 1"),
        ("recall", isinstance(recall, bool), "True or False"),
    )
    for name, is_right, what in rules:
        if not is_right:
            raise InvalidOption(f"{name} is {what}.", name=name)
    check_model_size(model)
    for name in ("tokens", "bytes", "images"):
        positive(name, getattr(limits, name))


def positive(name: str, value: Any) -> int | None:
    """A positive int, or None for no limit."""
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidOption(f"{name} is a positive whole number.", name=name)
    limit: int | None = value
    return limit


def _are_names(names: Any) -> bool:
    is_list = isinstance(names, Collection) and not isinstance(names, str)
    return is_list and all(isinstance(name, str) for name in names)


def policy_of(policy: str | Policy, environ: Mapping[str, str] | None) -> Policy:
    """The policy itself, or the one of this name as the environment switches it."""
    if not isinstance(policy, str):
        if isinstance(policy, type) or not all(hasattr(policy, part) for part in _POLICY):
            raise InvalidOption(f"A policy has {', '.join(_POLICY)}.", name="policy")
        return policy
    is_switched = getattr(policies[policy], "switched", False)
    return policy_for(policy, **(switches(environ)._asdict() if is_switched else {}))


def counter_of(counter: str | Counter | None, model: str, policy: Policy) -> Counter:
    """The counter itself, the one of this name, or the one of the policy's program or the model."""
    if counter is None or isinstance(counter, str):
        return counter_for(model, name=counter or getattr(policy, "counted_as", None))
    return counter_named(counter)


def summariser_of(summariser: Any, client: Any) -> AnySummariser:
    """The summariser itself, the one of this name, or what goes with the client.

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
    return with_fallback(summariser_for("anthropic", client=client), extractive)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a manager works with."""

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

    @property
    def measure(self) -> Measure:
        """What a message costs."""
        return partial(size_of, self.counter)

    def window(self) -> Limit:
        """The limits of the model, asked for anew at each run."""
        profile = getattr(self.policy, "limited_as", "default")
        found = limit_for(self.model, override=self.limit, profile=profile, environ=self.environ)
        if self.output is not None:
            found = found._replace(output=self.output)
        if self.limits.tokens is not None and self.limits.tokens < found.context:
            found = found._replace(context=self.limits.tokens, source="limits")
        return found


GivenTools: TypeAlias = Sequence[Mapping[str, Any]] | None
"""Tool definitions; an empty list offers none, and None leaves the recorded ones as they are."""


@dataclass(frozen=True, slots=True)
class SizedFrame:
    """What is sent around the messages: the system prompt and the tools, and what they cost.

    What was left out is None; empty tools are an offer of none.
    """

    system: Any = None
    tools: GivenTools = None
    system_size: Size = FREE
    overhead: Size = FREE


def frame_of(measure: Measure, system: Any, tools: Any) -> SizedFrame:
    """Count the system prompt and the tools; they are never messages of the log."""
    if not isinstance(system, str | list | tuple | None):
        raise InvalidOption("A system prompt is a text or a list of blocks.", name="system")
    if not isinstance(tools, list | tuple | None):
        raise InvalidOption("Tools are a list of definitions.", name="tools")
    prompt = list(system) if isinstance(system, tuple) else system
    size = measure("user", prompt, "anthropic") if prompt else FREE
    offered = measure("user", _text(tools), "anthropic") if tools else FREE
    return SizedFrame(prompt, None if tools is None else tuple(tools), size, size.plus(offered))


def _text(tools: Sequence[Any]) -> str:
    try:
        return json.dumps(list(tools), separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError):
        raise InvalidOption("Tools are definitions that JSON can hold.", name="tools") from None


AIMS: Final = {
    "manage": Aim.MANAGE,
    "condense": Aim.CONDENSE,
    "truncate": Aim.TRUNCATE,
    "prune": Aim.CLEAR,
    "clear": Aim.CLEAR,
}
"""The names of the aims that a preview takes."""


def refuse_async(settings: Settings) -> None:
    """Refuse what must be awaited: there is no loop to await it in."""
    if is_async(settings.summariser):
        raise InvalidOption(
            "An asynchronous summariser needs AsyncContextManager.", name="summariser"
        )
    settings.hooks.refuse_async()
