"""How much a message costs, how much a model holds, and how far both are from the truth.

Pure but for reading the data files beside it: no network, no clock, no store. The ranks and the
engine of tiktoken are loaded by the first count that needs them, never by an import.
"""

from roocontext.log.budget import Budget, Size
from roocontext.tokens.builtin import counter_for, counters
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
