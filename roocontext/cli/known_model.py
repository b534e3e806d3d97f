"""Refuses a model whose context window is not known: a guess would cut the session to nothing."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from roocontext.cli.exit_codes import Code, Refusal

if TYPE_CHECKING:
    from roocontext import ContextManager

_OR_LIMIT = "give the size of its context window with --limit"


def check_given(model: str | None) -> str | None:
    """Accept the model of --model for a command that only reads, or none."""
    if model and not _is_known(model):
        raise Refusal(f"{_unknown(model)}.", Code.USAGE)
    return model


def check_window(manager: "ContextManager") -> None:
    """Let a manager change a session only if the size of the context window is known."""
    from roocontext.tokens.limits import DEFAULT  # noqa: PLC0415 - reads a data file

    settings = manager.settings
    if settings.window().source != DEFAULT or _is_known(settings.model):
        return
    if not settings.model:
        line = f"The session names no model: name it with --model, or {_OR_LIMIT}."
        raise Refusal(line, Code.USAGE)
    raise Refusal(f"{_unknown(settings.model)}, or {_OR_LIMIT}.", Code.USAGE)


def _is_known(model: str) -> bool:
    from roocontext.tokens.limits import DEFAULT, limit_for  # noqa: PLC0415 - reads a data file

    return limit_for(model).source != DEFAULT


def _unknown(model: str) -> str:
    from roocontext.tokens.limits import models  # noqa: PLC0415 - reads a data file

    near = get_close_matches(model.lower()[:64], models(), n=3, cutoff=0.4)
    nearest = f" The nearest names are {', '.join(near)}." if near else ""
    return f"The model {model[:64]!r} is not known.{nearest} Name another with --model"
