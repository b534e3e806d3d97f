"""Token counts, the limits of models, and how far estimates are from reported usage.

This package reads the data files beside it and is otherwise pure: no network, no clock, no store.
The vocabularies and the tiktoken engine are loaded by the first count that needs them.
"""

from roocontext.log.budget import Budget, Size
from roocontext.log.counting import counters
from roocontext.tokens.builtin import counter_for
from roocontext.tokens.limits import Limit, Switches, limit_for, switches
from roocontext.tokens.sizes import size_of
from roocontext.tokens.usage import Drift, Usage, drift, usage_tokens

__all__ = [
    "Budget",
    "Drift",
    "Limit",
    "Size",
    "Switches",
    "Usage",
    "counter_for",
    "counters",
    "drift",
    "limit_for",
    "size_of",
    "switches",
    "usage_tokens",
]
