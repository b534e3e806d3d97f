"""The dialects of servers that are compatible with OpenAI's Chat Completions.

Such a server returns fields that OpenAI does not have, and some refuse a history without them. They
are given back to the model that wrote them, byte for byte, and left out for any other. OpenAI's own
API refuses them, so a history without such fields is written for OpenAI.

The dialect of a request is the one that the caller names. Otherwise it follows from what the same
model's replies hold; if they hold nothing of the kind, from the name of the model, if only one
vendor's own server has models of that name. The sources were read in November 2026.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from roocontext.log.readings import Block
from roocontext.log.readings.blocks import as_dict, dicts, string

_USUAL_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,40}")
"""At most 40 characters (agno-agi/agno#5382). Anthropic's and the Responses API's may be longer."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The differences of a server from OpenAI's own."""

    name: str
    text: str = ""
    """The field in which the server reads the text of its model's reasoning."""
    fields: frozenset[str] = frozenset()
    """Other fields of a reply that it takes back."""
    call_fields: frozenset[str] = frozenset()
    """Fields of a reply's calls that it takes back."""
    wants: re.Pattern[str] | None = None
    """The models that refuse calls without the text of reasoning, while they reason."""
    on_every_reply: bool = False
    """True if they want it of every reply, and not only of those with calls."""
    signs: bool = False
    """True if the first call of a reply carries a thought signature of Gemini."""
    in_content: bool = False
    """True if reasoning is a part of the content."""
    has_developer: bool = False
    """True if the role `developer` exists."""
    is_strict: bool = False
    """True if only documented fields are accepted, no user right after a result, and no system
    prompt but at the beginning.
    """
    tool_id: re.Pattern[str] = _USUAL_ID


_ANY: Final = re.compile(r".*")

OPENAI_ITSELF: Final = Dialect("openai", has_developer=True)

DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.name: dialect
    for dialect in (
        OPENAI_ITSELF,
        # api-docs.deepseek.com/guides/thinking_mode: without it, an error 400 once a tool was
        # called. A blank one is refused (NousResearch/hermes-agent#17341), and some models want it
        # of replies without calls too (earendil-works/pi#3640); elsewhere it is ignored.
        Dialect("deepseek", "reasoning_content", wants=_ANY, on_every_reply=True),
        # platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model; continuedev/continue#11806. A
        # blank one is refused (HKUDS/nanobot#946).
        Dialect("kimi", "reasoning_content", wants=_ANY),
        # help.aliyun.com/en/model-studio/deep-thinking: accepted back, and never required.
        Dialect("qwen", "reasoning_content"),
        # openrouter.ai/docs/guides/best-practices/reasoning-tokens: `reasoning_details` unmodified.
        # The rules of the vendors that it forwards to still hold.
        Dialect(
            "openrouter",
            "reasoning",
            fields=frozenset({"reasoning_details"}),
            wants=re.compile(r"(?:deepseek|moonshotai)/.*"),
            on_every_reply=True,
            has_developer=True,
        ),
        # ai.google.dev/gemini-api/docs/thought-signatures. Vertex AI has the same field
        # (earendil-works/pi#7745). Without it, an error 400 (tinyhumansai/openhuman#3548).
        Dialect(
            "gemini",
            fields=frozenset({"extra_content"}),
            call_fields=frozenset({"extra_content"}),
            signs=True,
            has_developer=True,
        ),
        # docs.vllm.ai/en/latest/features/reasoning_outputs: `reasoning`. The older name is not read
        # in a request (vllm-project/vllm#38488).
        Dialect("vllm", "reasoning"),
        # ollama/ollama#15288: `/v1` has `reasoning`, and reads it from the messages too.
        Dialect("ollama", "reasoning"),
        # docs.mistral.ai/capabilities/reasoning. It checks ids (anomalyco/opencode#1680) and the
        # order of roles (pipecat-ai/pipecat-flows#178), and refuses other fields
        # (microsoft/autogen#2892).
        Dialect("mistral", in_content=True, is_strict=True, tool_id=re.compile(r"[a-zA-Z0-9]{9}")),
        # docs.x.ai/developers/model-capabilities/text/best-practices: this API has no field for
        # reasoning; the Responses API has one.
        Dialect("xai", has_developer=True),
        # docs.litellm.ai/docs/reasoning_content: its objects, whichever provider it forwards to.
        Dialect(
            "litellm",
            "reasoning_content",
            fields=frozenset({"thinking_blocks", "provider_specific_fields"}),
            call_fields=frozenset({"provider_specific_fields"}),
            wants=re.compile(r"(?:deepseek|moonshot)/.*"),
            has_developer=True,
        ),
    )
}

_TEXT_FIELDS: Final = ("reasoning_content", "reasoning")

REASONING_FIELDS: Final = frozenset(_TEXT_FIELDS).union(
    *(dialect.fields for dialect in DIALECTS.values())
)
"""The fields of a reply that only compatible servers have."""

CALL_FIELDS: Final = frozenset().union(*(dialect.call_fields for dialect in DIALECTS.values()))

_OF_MODELS: Final = (
    (re.compile(r"deepseek-(?:chat|reasoner|v\d.*)"), "deepseek"),
    (re.compile(r"kimi-(?:k\d|latest|thinking).*"), "kimi"),
    (re.compile(r"(?:(?:open-)?mi[sx]tral|magistral|ministral|codestral|devstral)-.*"), "mistral"),
    (re.compile(r"(?:models/)?gemini-.*"), "gemini"),
)
"""The models that their vendors' own servers offer under these names."""


def dialect_for(replies: Iterable[Block], model: str | None) -> Dialect:
    """The dialect of the server that sent these replies of a model, newest first."""
    sent = list(replies)
    marks = (mark for mark in map(_marked, sent) if mark)
    named = next((name for pattern, name in _OF_MODELS if pattern.fullmatch(model or "")), None)
    name = next(marks, None) or named or next(filter(None, map(_worded, sent)), "openai")
    return DIALECTS[name]


def reasoning_text(message: Block) -> str:
    """The text of a reply's reasoning, whichever field it is in."""
    return next(filter(str.strip, (string(message, name) for name in _TEXT_FIELDS)), "")


def has_reasoned(message: Block) -> bool:
    """Return True if the server reported reasoning, be it blank."""
    return any(isinstance(message.get(name), str) for name in _TEXT_FIELDS)


def _marked(message: Block) -> str | None:
    """The dialect that alone has a field of this reply."""
    if dicts(message.get("reasoning_details")):
        return "openrouter"
    calls = dicts(message.get("tool_calls"))
    if dicts(message.get("thinking_blocks")) or any(
        "provider_specific_fields" in call for call in calls
    ):
        return "litellm"
    if any(as_dict(it.get("extra_content")) for it in (message, *calls)):
        return "gemini"
    is_mistral = any(part.get("type") == "thinking" for part in dicts(message.get("content")))
    return "mistral" if is_mistral else None


def _worded(message: Block) -> str | None:
    """A dialect that has the field in which the reasoning of this reply is."""
    names = {"reasoning_content": "qwen", "reasoning": "vllm"}
    return next((names[field] for field in _TEXT_FIELDS if string(message, field)), None)
