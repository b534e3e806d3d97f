"""The policies by name. What is built in is registered as a plugin would register itself."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from roocontext.policies.decision import Policy
from roocontext.policies.default import Default
from roocontext.policies.gemini import Gemini, GeminiUpstream
from roocontext.policies.hybrid import Hybrid
from roocontext.policies.opencode import OpenCode, OpenCodeUpstream
from roocontext.policies.roo import Roo, Roo2026
from roocontext.policies.sliding_window import SlidingWindow
from roocontext.policies.sliding_window_upstream import SlidingWindowUpstream
from roocontext.registry import Registry

PolicyFactory: TypeAlias = Callable[..., Policy]
"""Makes a policy; settings are given by keyword."""

policies: Final[Registry[PolicyFactory]] = Registry("roocontext.policies")


def policy_for(name: str, **settings: Any) -> Policy:
    """The policy that is registered under a name; UnknownPlugin if there is none."""
    return policies[name](**settings)


for _policy in (
    Default,
    Gemini,
    GeminiUpstream,
    Hybrid,
    OpenCode,
    OpenCodeUpstream,
    Roo,
    Roo2026,
    SlidingWindow,
    SlidingWindowUpstream,
):
    policies.register(_policy.name, _policy)
