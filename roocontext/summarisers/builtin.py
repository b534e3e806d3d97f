"""The registry of summarisers. The built-in ones register with the same call as a plugin."""

from collections.abc import Callable
from typing import Any, TypeAlias

from roocontext.registry import Registry
from roocontext.summarisers import anthropic
from roocontext.summarisers.by_model import ModelProvider
from roocontext.summarisers.extractive import Extractive
from roocontext.summarisers.new_clients import new_client
from roocontext.summarisers.protocol import AnySummariser
from roocontext.summarisers.providers import CHAT, GEMINI, RESPONSES, summariser_over

SummariserFactory: TypeAlias = Callable[[str | None, Any], AnySummariser]
"""Takes the name of the model that writes the summary, and the caller's client, or None."""

summarisers: Registry[SummariserFactory] = Registry("roocontext.summarisers")


def summariser_for(name: str, *, model: str | None = None, client: Any = None) -> AnySummariser:
    """Create the summariser with this name; UnknownPlugin if there is none."""
    return summarisers[name](model, client)


def _with(provider: ModelProvider) -> SummariserFactory:
    """The factory of the summarisers that ask this provider, by default with a new client."""
    return lambda model, client: summariser_over(
        new_client(provider.name) if client is None else client, model, provider=provider
    )


summarisers.register("anthropic", lambda model, client: anthropic.over(client, model))
for _provider in (CHAT, RESPONSES, GEMINI):
    summarisers.register(_provider.name, _with(_provider))
summarisers.register("extractive", lambda _model, _client: Extractive())
