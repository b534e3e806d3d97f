"""A provider's refusal of a request that is too long, with the numbers that it names.

The limit in a refusal is a fact about the server, and the table of models is not: the account, the
gateway or the server's start options decide. So it is remembered in a note of the session, and used
from then on for that model (0065).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from roocontext.log.encoding import MAX_MODEL
from roocontext.log.model_names import is_same_model
from roocontext.tokens.limits import DEFAULT, TABLE, Limit

CUT: Final = 0.75
"""The largest part of a refused request that a recovery leaves."""

MARGIN: Final = 0.95
"""The largest part of the provider's limit that a recovery fills."""

# Texts of the providers, without the commas in their numbers. A text that is missing here is still
# recognised by its phrase; the request is then cut to three quarters.
_SENT, _LIMIT = r"(?P<sent>\d{1,18})", r"(?P<limit>\d{1,18})"
_NUMBERS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # Anthropic, also on Bedrock and Vertex
        rf"too long: {_SENT} tokens > {_LIMIT}",
        rf"exceed context limit: {_SENT} \+ \d+ > {_LIMIT}",
        # OpenAI, DeepSeek, vLLM, SGLang, OpenRouter, and other servers that imitate OpenAI
        rf"maximum context length (?:is|of) {_LIMIT}(?: tokens)?\D+{_SENT}(?: input)? tokens",
        rf"configured limit of {_LIMIT} tokens\D+{_SENT} tokens",
        rf"prompt \((?:total )?length {_SENT}\) is longer than the maximum \w+ length of {_LIMIT}",
        rf"input \({_SENT} tokens\) is longer than the model's context length \({_LIMIT}",
        rf"input length \(?{_SENT}\)? exceeds (?:the )?model's maximum context length \(?{_LIMIT}",
        # xAI
        rf"maximum prompt length is {_LIMIT}\D+{_SENT}",
        # Amazon
        rf"max input tokens: {_LIMIT} request input token count: {_SENT}",
        # Gemini
        rf"input token count \(?{_SENT}\)?\D+number of tokens allowed \(?{_LIMIT}",
        # GitHub Copilot
        rf"prompt token count of {_SENT} exceeds the limit of {_LIMIT}",
        # Mistral
        rf"contains {_SENT} tokens[^.]*too large for model with {_LIMIT}",
        # Moonshot AI
        rf"model token limit: {_LIMIT} \(requested: {_SENT}\)",
        # llama.cpp, whose error object has the numbers too
        rf"request \({_SENT} tokens\) exceeds the available context size \({_LIMIT}",
        rf"n_prompt_tokens\W+{_SENT}\W+n_ctx\W+{_LIMIT}",
        rf"prompt has {_SENT} tokens? but the configured context size is {_LIMIT}",
        # Text Generation Inference
        (
            rf"inputs. (?:tokens \+ .max_new_tokens. must be <=|must have less than) {_LIMIT}"
            rf"(?: tokens)?\. Given: {_SENT}"
        ),
        # Cohere
        rf"in the prompt cannot exceed {_LIMIT} - received {_SENT}",
    )
)
_LIMITS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"maximum (?:context|prompt) length (?:is|of) {_LIMIT}",
        rf"context length (?:is|of) only {_LIMIT}",
        rf"number of tokens allowed \(?{_LIMIT}",
        rf"model token limit: {_LIMIT}",
        rf"too large for model with {_LIMIT}",
        # Alibaba: `[1, 30720]`
        rf"range of input length should be \[\d+ {_LIMIT}\]",
        rf"maximum allowed input length of {_LIMIT}",
        rf"in the prompt cannot exceed {_LIMIT}",
    )
)
"""Texts that name the limit alone."""

_PHRASES: Final = re.compile(
    r"prompt (?:is )?too long|context.length.exceeded|maximum context length|context limit"
    r"|context window|context size|context length|too many tokens|input token count"
    r"|request.too.large|input is too long|reduce the length|maximum prompt length"
    r"|prompt.tokens.exceeded|prompt token count|model token limit|prompt exceeds max"
    r"|range of input length|inputs. tokens \+|too many images|at most \d+ images"
    r"|exceeds the maximum (?:size|number of tokens)|maximum model length|input tokens exceed"
    r"|too large for model with|maximum allowed input length|input length.{1,20}exceeds"
    r"|too many total text bytes|context(?:window|length)(?:exceed|overflow)",
    re.IGNORECASE,
)
"""Texts of refusals, and the names that gateways and agents give to the classes of such errors."""
_RATE: Final = re.compile(
    r"per min|per day|rate.?limit|\bTPM\b|throttl|please wait before", re.IGNORECASE
)
"""A rate limit: retry later, even if the refusal speaks of length."""

TOO_MANY_REQUESTS: Final = 429
ENTITY_TOO_LARGE: Final = 413

LEAST: Final = 1_024
"""The smallest number that is believed to be a model's limit."""


class PromptTooLong(NamedTuple):
    """The provider's numbers, if it named any."""

    sent: int | None = None
    limit: int | None = None

    @property
    def share(self) -> float | None:
        """The share of the refused request that the limit leaves, if both numbers say so."""
        if self.sent and self.limit and self.limit < self.sent:
            return self.limit / self.sent
        return None

    def cap(self, counted: int) -> int:
        """The size to cut to, as the manager counts: three quarters, or less if necessary."""
        cap = counted * CUT
        if self.share is not None:
            cap = min(cap, counted * self.share * MARGIN)
        elif self.limit is not None:
            cap = min(cap, self.limit * MARGIN)
        return max(1, int(cap))


def too_long(error: BaseException) -> PromptTooLong | None:
    """Read a provider's refusal, also as the cause of another error; None for other errors."""
    return next(filter(None, map(_read, _chain(error))), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, each once: an error may be its own cause."""
    todo: list[BaseException | None] = [error]
    met: set[int] = set()
    # Not by recursion: each attempt of an agent may have the one before as its cause.
    while todo:
        one = todo.pop()
        if one is not None and id(one) not in met:
            met.add(id(one))
            yield one
            # Agents wrap the SDK's error in their own, and task groups in a group.
            inside = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
            todo += [one.__cause__, *reversed(inside)]


def _read(error: BaseException) -> PromptTooLong | None:
    names = " ".join(kind.__name__ for kind in type(error).__mro__)
    text = f"{names} {error} {getattr(error, 'body', '')} {getattr(error, 'code', '')}"
    text, status = text.replace(",", ""), _status(error)
    # Before the numbers: a limit per minute also names how many tokens were sent.
    if _RATE.search(text) or status == TOO_MANY_REQUESTS:
        return None
    for pattern in _NUMBERS:
        if numbers := pattern.search(text):
            return PromptTooLong(int(numbers["sent"]), int(numbers["limit"]))
    for pattern in _LIMITS:
        if numbers := pattern.search(text):
            return PromptTooLong(None, int(numbers["limit"]))
    return PromptTooLong() if status == ENTITY_TOO_LARGE or _PHRASES.search(text) else None


def _status(error: BaseException) -> Any:
    """The HTTP status of a refusal; botocore has it in the response."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        metadata = response.get("ResponseMetadata")
        return metadata.get("HTTPStatusCode") if isinstance(metadata, dict) else None
    return getattr(error, "status_code", None)


REFUSED: Final = "model_limits"
"""The kind of the note with the limits that providers named."""

SOURCE: Final = "refusal"
"""The source of a limit that a provider named when it refused a request."""


def remembered(
    known: Mapping[str, Any] | None, model: str, named: int, used: Limit
) -> dict[str, Any] | None:
    """The content of the note with one more limit; None if it changes nothing.

    `used` is the limit that was in use when the provider refused.
    """
    if named < LEAST or (used.source == SOURCE and named == used.context):
        return None
    new = {"model": model, "limit": named, "used": used.context}
    others = [noted for noted in _listed(known) if not is_same_model(noted["model"], model)]
    return {"limits": [*others, new]}


def with_remembered(limit: Limit, model: str, known: Mapping[str, Any] | None) -> Limit:
    """The limit of a model, corrected by what a provider has named for it.

    An assumed limit is replaced; any other is lowered. A limit that is given after the refusal, and
    that is larger than the one in use at the time, is taken as given: the server was changed.
    """
    for noted in _listed(known):
        if is_same_model(noted["model"], model):
            is_assumed = limit.source == DEFAULT
            is_given = not is_assumed and not limit.source.startswith(TABLE)
            if is_given and limit.context > noted["used"]:
                return limit
            if is_assumed or noted["limit"] < limit.context:
                return limit._replace(context=noted["limit"], source=SOURCE)
    return limit


def _listed(known: Mapping[str, Any] | None) -> list[Any]:
    """The limits of a note, which any program may have written."""
    listed = (known or {}).get("limits")
    if not isinstance(listed, list):
        return []
    return [noted for noted in listed if isinstance(noted, dict) and _is_limit(noted)]


def _is_limit(it: Mapping[str, Any]) -> bool:
    numbers = (it.get("limit"), it.get("used"))
    is_named = isinstance(it.get("model"), str) and len(it["model"]) <= MAX_MODEL
    return is_named and all(type(number) is int and number > 0 for number in numbers)
