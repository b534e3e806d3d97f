"""The summarisers by name. What is built in is registered as a plugin would register itself."""

from collections.abc import Callable
from typing import Any, TypeAlias

from roocontext.registry import Registry
from roocontext.summarisers import anthropic
from roocontext.summarisers.extractive import Extractive
from roocontext.summarisers.protocol import AnySummariser

SummariserFactory: TypeAlias = Callable[[str | None, Any], AnySummariser]
"""Given the name of the model that is to write, and the client that the caller has, or None."""

summarisers: Registry[SummariserFactory] = Registry("roocontext.summarisers")


def summariser_for(name: str, *, model: str | None = None, client: Any = None) -> AnySummariser:
    """The summariser of this name; UnknownPlugin if there is none."""
    return summarisers[name](model, client)


summarisers.register("anthropic", lambda model, client: anthropic.over(client, model))
summarisers.register("extractive", lambda _model, _client: Extractive())
