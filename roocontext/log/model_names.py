"""Names of models: without their prefixes, and which names are one model.

A request names a model, and its reply often names it in another way: with a date, without the
prefix of a gateway, or as the model that an alias stands for. The thinking of a reply goes back to
the model that wrote it, so all of these must be recognised as one.

Two names are one model if they are equal without prefixes and suffixes of the service, their dates
are equal where both have one, and they do not name different services. An alias such as
`gemini-flash-latest` stands for other models over time: it is equal to itself alone.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from roocontext.log.encoding import check_model_size

_BEDROCK: Final = re.compile(r"(?:[a-z]+(?:-gov)?\.)+(?=[a-z]{2})")
"""A region and a maker: `us.anthropic.` and `meta.`."""

_NEUTRAL: Final = ("models", "accounts", "google")
"""Prefixes that name no service: `models/gemini-3-flash` and `google/gemini-3-flash`."""

# Not `:70b` of Ollama and the like: that is another model.
_SERVICE: Final = re.compile(
    r"(?:-v?\d+:\d+(?::\w+)?|\[\w+\]|@default|:(?:latest|free|nitro|floor|online|exacto|thinking))$"
)
"""A version of the service or a way to serve the model, after its name."""

_VERSION_OF_CLAUDE: Final = re.compile(r"-v\d+$")

_DATE: Final = re.compile(
    r"(?:[-@](\d{4}-?\d\d-?\d\d)"
    r"|-(\d\d-(?:20)?\d\d)"
    r"|-((?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])|2[3-9](?:0[1-9]|1[0-2]))"
    r"|-(00\d))$"
)
"""A date or a number of a revision: 2025-08-07, 20250514, 05-06, 09-2025, 0613, 2411, 001."""


class ModelName(NamedTuple):
    """The parts of a name: the services before it, the name itself, and its date or revision."""

    services: tuple[str, ...]
    name: str
    date: str | None


def without_prefixes(model: str) -> tuple[tuple[str, ...], str]:
    """The services that a name begins with, and the rest, in lower case.

    Claude's versions are written with a hyphen: `claude-opus-4.6` is `claude-opus-4-6`.
    """
    check_model_size(model)
    *path, name = model.strip().lower().split("/")
    if "publishers" in path:  # after the names of a project and of a place
        path = path[path.index("publishers") + 1 :]
    services = tuple(part for part in path if part and part not in _NEUTRAL and ":" not in part)
    # One of Bedrock's prefixes names no service: the name itself says who made the model.
    name = _BEDROCK.sub("", name, count=1) if _BEDROCK.match(name) else name
    return services, name.replace(".", "-") if name.startswith("claude-") else name


@lru_cache(maxsize=1024)
def model_parts(model: str) -> ModelName:
    """Divide the name of a model into its parts."""
    services, name = without_prefixes(model)
    while (shorter := _SERVICE.sub("", name)) not in ("", name):
        name = shorter
    if name.startswith("claude-"):
        # Its thinking is valid on every platform.
        services, name = (), _VERSION_OF_CLAUDE.sub("", name)
    # The date in the name of a tuned model is that of another one.
    dated = None if name.startswith("ft:") else _DATE.search(name)
    if dated is None or not dated.start():
        return ModelName(services, name, None)
    date = next(filter(None, dated.groups())).replace("-", "")
    return ModelName(services, name[: dated.start()], date)


@lru_cache(maxsize=4096)
def is_same_model(model: str | None, other: str | None) -> bool:
    """True if two names are one model; a name that is not known is equal to another such."""
    if model is None or other is None:
        return model is other
    if model == other:
        return True
    first, second = model_parts(model), model_parts(other)
    is_dated = first.date is not None and second.date is not None
    if first.name != second.name or (is_dated and first.date != second.date):
        return False
    # Neither may name a service that the other excludes: the shorter list ends the longer.
    shorter, longer = sorted((first.services, second.services), key=len)
    return longer[len(longer) - len(shorter) :] == shorter


def is_requested_as(model: str, requested: str | None) -> bool:
    """True if a reply was requested under this very name, whatever the reply calls itself."""
    if requested is None or not is_same_model(model, requested):
        return False
    return model_parts(model).date == model_parts(requested).date
