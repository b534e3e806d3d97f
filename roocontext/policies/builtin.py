"""The registry of policies.

Our own policies are registered here. Those that imitate a real program are entry points of this
distribution and are found like the plugins of other packages.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from roocontext.policies.default import Default
from roocontext.policies.hybrid import Hybrid
from roocontext.policies.server import ServerPolicy
from roocontext.policies.situation import LastResort, Policy
from roocontext.policies.sliding_window import SlidingWindow
from roocontext.registry import Registry

PolicyFactory: TypeAlias = Callable[..., Policy]
"""Creates a policy from settings given by keyword."""

policies: Final[Registry[PolicyFactory]] = Registry("roocontext.policies")


def policy_for(name: str, **settings: Any) -> Policy:
    """Create the policy with this name; UnknownPlugin if there is none."""
    return policies[name](**settings)


for _policy in (Default, Hybrid, ServerPolicy, SlidingWindow):
    policies.register(_policy.name, _policy)

FALLBACK: Final[LastResort] = Default()
"""Cuts where a policy has no way to: on request, or when a provider refused the request."""
