"""The registry of summarisers. The built-in ones register with the same call as a plugin."""

from collections.abc import Callable
from typing import Any, TypeAlias

from roocontext.registry import Registry
from roocontext.summarisers import anthropic
from roocontext.summarisers.extractive import Extractive
from roocontext.summarisers.protocol import AnySummariser

SummariserFactory: TypeAlias = Callable[[str | None, Any], AnySummariser]
"""Takes the name of the model that writes the summary, and the caller's client, or None."""

summarisers: Registry[SummariserFactory] = Registry("roocontext.summarisers")


def summariser_for(name: str, *, model: str | None = None, client: Any = None) -> AnySummariser:
    """Create the summariser with this name; UnknownPlugin if there is none."""
    return summarisers[name](model, client)


summarisers.register("anthropic", lambda model, client: anthropic.over(client, model))
summarisers.register("extractive", lambda _model, _client: Extractive())
