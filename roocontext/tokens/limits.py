"""The context limit of a model, the source of that number, and the families of model names.

The caller's number takes precedence, then the environment, then limits.toml, then its default. An
invalid value logs a warning and the next source is used: a mistyped variable must not stop an
agent. Nothing is cached between calls, so a changed environment takes effect at once.

`us.anthropic.claude-opus-4-6-v1:0` belongs to the family `claude`.
"""

import logging
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from roocontext.errors import InvalidOption, UnknownPlugin
from roocontext.log.compactions import model_groups
from roocontext.log.counting import model_facts
from roocontext.log.encoding import MAX_INTEGER, check_model_size
from roocontext.log.model_names import without_prefixes

_STEP: Final = re.compile(r"[-_:@\[][^-_:@\[]*$")


def bare(model: str) -> str:
    """The name without its provider, in lower case; Claude's versions are written with a hyphen."""
    return without_prefixes(model)[1].removeprefix("ft:")


def families(model: str) -> Iterator[str]:
    """Yield the name, then the bare name, then shorter ones: trailing words are removed one by one.

    A dot does not separate words: gpt-4.1-mini belongs to gpt-4.1 and gpt, but not to gpt-4. A
    colon does, as in qwen3:32b.
    """
    name = bare(model).replace(":", "-")
    yield model
    while name:
        yield name
        shorter = _STEP.sub("", name)
        if shorter == name:
            return
        name = shorter


_log = logging.getLogger(__name__)

OVERRIDE: Final = "override"
DEFAULT: Final = "default"
TABLE: Final = "table:"


class Limit(NamedTuple):
    """The tokens of a model's context and, if known, of its longest answer.

    `source` says where `context` comes from: `override`, the name of an environment variable, the
    line of the table (`table:gpt-4o`), or `default`. A manager may also take it from a provider's
    `refusal`, or from its `limits`.
    """

    context: int
    output: int | None
    source: str


class Switches(NamedTuple):
    """The settings that OpenCode's environment variables leave.

    `output_max` is the most that is kept free for an answer.
    """

    autocompact: bool
    prune: bool
    output_max: int = 32_000


def limit_for(
    model: str,
    *,
    override: Any = None,
    profile: str = "default",
    environ: Mapping[str, str] | None = None,
) -> Limit:
    """The limits of a model, by the profile's table and rules."""
    check_model_size(model)
    rules = _profile(profile)
    line = _line(rules, model)
    known = rules["models"].get(line, {})
    output = known.get("output")
    if override is not None:
        if type(override) is int and 0 < override <= MAX_INTEGER:
            return Limit(override, output, OVERRIDE)
        _log.warning("limit= is not a positive integer of 64 bits and is ignored.")
    for name, context in _from_environment(rules, model, _variables(environ)):
        return Limit(context, output, name)
    if line is not None:
        return Limit(known["context"], output, f"{TABLE}{line}")
    return Limit(rules["context"], output, DEFAULT)


def binds_thinking(model: str) -> bool:
    """True if a model refuses its thinking after another prefix than the one it was made for."""
    return re.match(_profile("default")["binds_thinking"], bare(model)) is not None


def compaction_group(model: str) -> str | None:
    """The group of models that can read each other's sealed compactions; None if it has none."""
    groups = (group["models"] for group in _profile("default")["reads_compactions"])
    return next((group for group in groups if re.match(group, bare(model))), None)


def compacting_form(model: str) -> str | None:
    """The outgoing form whose requests can ask a model's provider to compact; None if none can."""
    lines = _profile("default")["compacts"]
    return next((line["form"] for line in lines if re.match(line["models"], bare(model))), None)


def models() -> dict[str, int]:
    """The models of the default table with the tokens of their contexts."""
    return {line: known["context"] for line, known in _profile("default")["models"].items()}


def variable_of(model: str) -> str:
    """The environment variable that sets the limit of this model alone."""
    return _names("<MODEL>_MAX_CONTEXT_TOKENS", model)[-1]


def switches(environ: Mapping[str, str] | None = None) -> Switches:
    """Read OPENCODE_DISABLE_AUTOCOMPACT and OPENCODE_DISABLE_PRUNE: `1` or `true` switches off.

    Also OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX, if it is a positive integer.
    """
    names = ("DISABLE_AUTOCOMPACT", "DISABLE_PRUNE", "EXPERIMENTAL_OUTPUT_TOKEN_MAX")
    *off, most = (str(_variables(environ).get(f"OPENCODE_{name}", "")).lower() for name in names)
    autocompact, prune = (value not in ("1", "true") for value in off)
    known = {"output_max": int(most)} if most.isdecimal() and int(most) else {}
    return Switches(autocompact, prune, **known)


def _variables(environ: Mapping[str, str] | None) -> Mapping[str, str]:
    """The variables, or those of the process. As a default, help would print their values."""
    if environ is None:
        return os.environ
    if not isinstance(environ, Mapping):
        raise InvalidOption("environ must be a mapping of variables.", name="environ")
    return environ


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("limits.toml").read_text("utf-8"))


def _profile(name: str) -> dict[str, Any]:
    table = _table()
    if not isinstance(name, str) or name not in table:
        known = tuple(table)
        raise UnknownPlugin(
            f"There is no profile of limits named {name!r}; known profiles are {', '.join(known)}.",
            group="limits",
            name=name,
            known=known,
        )
    rules: dict[str, Any] = table[name]
    return {**table[rules["like"]], **rules} if "like" in rules else rules


def _line(rules: Mapping[str, Any], model: str) -> str | None:
    """Find the line of the table for the model."""
    lines = rules["models"]
    match rules["match"]:
        case "exact":
            candidates: Iterator[str] = iter([model])
        case "substring":
            candidates = (line for line in lines if line in model.lower())
        case _:
            candidates = families(model)
    return next((name for name in candidates if name in lines), None)


def _from_environment(
    rules: Mapping[str, Any], model: str, environ: Mapping[str, str]
) -> Iterator[tuple[str, int]]:
    """Yield every variable that sets a limit for this model, the most specific first."""
    for rule in rules["environment"]:
        if re.search(rule.get("models", ""), model.lower()):
            for name in _names(rule["name"], model):
                context = _parse(name, environ.get(name), positive=rules["positive"])
                if context is not None:
                    yield name, context


def _names(pattern: str, model: str) -> list[str]:
    if "<MODEL>" not in pattern:
        return [pattern]
    spelled = [re.sub("[^A-Z0-9]", "_", name.upper()) for name in (model, bare(model))]
    return [pattern.replace("<MODEL>", name) for name in dict.fromkeys(spelled) if name]


def _parse(name: str, value: str | None, *, positive: bool) -> int | None:
    if not value:
        return None
    try:
        context = int(value)
    except (ValueError, TypeError):
        context = MAX_INTEGER + 1
    if abs(context) > MAX_INTEGER:
        _log.warning("%s is not an integer of 64 bits and is ignored.", name)
        return None
    if positive and context <= 0:
        _log.warning("%s is not positive and is ignored.", name)
        return None
    return context


model_facts.register("binds_thinking", binds_thinking)
model_groups.register("compactions", compaction_group)
model_groups.register("compacts", compacting_form)
