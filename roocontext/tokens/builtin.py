"""The built-in counters, and which counter belongs to which model.

Our own counters are registered here. Those that imitate a real program are entry points of this
distribution and are found like the plugins of other packages.
"""

from typing import Any

from roocontext.log.counting import BYTES, Counter, CounterFactory, counters
from roocontext.tokens.anthropic import CountTokens
from roocontext.tokens.bpe import CL100K, O200K, Tiktoken
from roocontext.tokens.limits import families
from roocontext.tokens.usage import IMAGES, TextCounter

OTHERWISE = "multi_llm_chat"
"""The counter for models of no registered family."""


def counter_for(model: str, *, name: str | None = None, client: Any = None) -> Counter:
    """The counter for a model or its family, or else the fallback.

    With `name`, the counter of that name; UnknownPlugin if there is none.
    """
    chosen = name or counters.first(families(model)) or OTHERWISE
    return counters[chosen](model, client)


def always(counter: Counter) -> CounterFactory:
    """A factory that returns this counter for every model."""
    return lambda _model, _client: counter


_O200K = Tiktoken("o200k_base", O200K)
_CL100K = Tiktoken("cl100k_base", CL100K)
_CLAUDE = Tiktoken("o200k_base*1.5", O200K, percent=150)

for _counter in (
    BYTES,
    IMAGES,
    _O200K,
    _CL100K,
    _CLAUDE,
    TextCounter("characters*1.5", lambda text: -(-len(text) * 3 // 2)),
):
    counters.register(_counter.name, always(_counter))

for _model in ("gpt", "chatgpt", "codex", "o1", "o3", "o4"):
    counters.register(_model, always(_O200K))
for _model in ("gpt-4", "gpt-3.5", "gpt-35"):
    counters.register(_model, always(_CL100K))
counters.register(
    "claude", lambda model, client: _CLAUDE if client is None else CountTokens(client, model)
)
