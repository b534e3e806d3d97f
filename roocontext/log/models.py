"""What the table of models says about a model that the log has to know."""

from collections.abc import Callable
from typing import Final

from roocontext.registry import Registry

model_facts: Final[Registry[Callable[[str], bool]]] = Registry(
    "roocontext.models", home="roocontext.tokens.limits"
)
"""The yes-or-no columns of the table, by name."""


def binds_thinking(model: str | None) -> bool:
    """Whether a model refuses its thinking behind another prefix than the one it was made for."""
    return model is not None and model_facts["binds_thinking"](model)
