"""Token counts, limits and prices of models, and how far estimates are from reported usage.

This package reads its own data files and is otherwise pure: no network, no clock, no store.
The vocabularies and the tiktoken engine are loaded by the first count that needs them.
"""

from roocontext.log.counting import Budget, Size, counters
from roocontext.tokens.builtin import counter_for
from roocontext.tokens.limits import Limit, Switches, limit_for, switches
from roocontext.tokens.prices import Price, Prices, Rates, prices
from roocontext.tokens.spending import Spent, spending
from roocontext.tokens.usage import Drift, Usage, drift, last_request, size_of, usage_tokens

__all__ = [
    "Budget",
    "Drift",
    "Limit",
    "Price",
    "Prices",
    "Rates",
    "Size",
    "Spent",
    "Switches",
    "Usage",
    "counter_for",
    "counters",
    "drift",
    "last_request",
    "limit_for",
    "prices",
    "size_of",
    "spending",
    "switches",
    "usage_tokens",
]
