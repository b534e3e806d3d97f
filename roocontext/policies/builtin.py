"""The policies by name.

Our own are registered here. Those that follow a real program are entry points of the distribution
and are found as a plugin of another package would be.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from roocontext.policies.decision import Fallback, Policy
from roocontext.policies.default import Default
from roocontext.policies.hybrid import Hybrid
from roocontext.policies.sliding_window import SlidingWindow
from roocontext.registry import Registry

PolicyFactory: TypeAlias = Callable[..., Policy]
"""Makes a policy; settings are given by keyword."""

policies: Final[Registry[PolicyFactory]] = Registry("roocontext.policies")


def policy_for(name: str, **settings: Any) -> Policy:
    """The policy that is registered under a name; UnknownPlugin if there is none."""
    return policies[name](**settings)


for _policy in (Default, Hybrid, SlidingWindow):
    policies.register(_policy.name, _policy)

FALLBACK: Final[Fallback] = Default()
"""Cuts where a policy has no way to: on request, or when a provider refused the request."""
