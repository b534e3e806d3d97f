"""Which counter a model gets. What is built in is registered as a plugin would register itself."""

from collections.abc import Callable
from typing import Any

from roocontext.log import opencode
from roocontext.log.counting import BYTES, Counter
from roocontext.registry import Registry
from roocontext.tokens import gemini, multi_llm_chat
from roocontext.tokens.anthropic import CountTokens
from roocontext.tokens.bpe import CL100K, O200K, Tiktoken
from roocontext.tokens.models import families
from roocontext.tokens.reading import IMAGES, TextCounter
from roocontext.tokens.roo import Roo

CounterFactory = Callable[[str, Any], Counter]
"""Given the model's name and the client that the caller has, or None."""

FALLBACK = "multi_llm_chat"
"""The counter of a model that nobody registered."""

counters: Registry[CounterFactory] = Registry("roocontext.counters")


def counter_for(model: str, *, name: str | None = None, client: Any = None) -> Counter:
    """The counter that is registered for the model or its family, or else the fallback.

    `name` asks for one counter, and raises UnknownPlugin when there is none of this name.
    """
    chosen = name or counters.first(families(model)) or FALLBACK
    return counters[chosen](model, client)


def _always(counter: Counter) -> CounterFactory:
    return lambda _model, _client: counter


def _claude(model: str, client: Any) -> Counter:
    return _CLAUDE if client is None else CountTokens(client, model)


_O200K = Tiktoken("o200k_base", O200K)
_CL100K = Tiktoken("cl100k_base", CL100K)
_CLAUDE = Tiktoken("o200k_base*1.5", O200K, percent=150)

for _counter in (
    BYTES,
    IMAGES,
    _O200K,
    _CL100K,
    _CLAUDE,
    Roo(),
    gemini.Gemini("gemini", gemini.estimate),
    gemini.Gemini("gemini-0.61", gemini.estimate_0_61),
    TextCounter("opencode", opencode.estimate),
    TextCounter("opencode-upstream", opencode.estimate_upstream),
    TextCounter("multi_llm_chat", multi_llm_chat.estimate_plain),
    TextCounter("multi_llm_chat-tools", multi_llm_chat.estimate_with_tools),
    TextCounter("characters*1.5", multi_llm_chat.characters),
):
    counters.register(_counter.name, _always(_counter))

for _model in ("gpt", "chatgpt", "codex", "o1", "o3", "o4"):
    counters.register(_model, _always(_O200K))
for _model in ("gpt-4", "gpt-3.5", "gpt-35"):
    counters.register(_model, _always(_CL100K))
counters.register("claude", _claude)
