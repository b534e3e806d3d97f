"""What servers refuse that are compatible with Chat Completions, each by its own sources.

Written independently of the code that makes the lists. The rules of Chat Completions hold for all
of them (`chat`), but for the fields that a server adds. Read in November 2026; T =
documented, else a public issue.

deepseek  (T api-docs.deepseek.com/guides/thinking_mode)
    D-REASONING: with thinking on, replies have `reasoning_content` (continuedev/continue#10193,
    anomalyco/opencode#24722), those without calls too for some models (earendil-works/pi#3640); a
    blank one is refused (NousResearch/hermes-agent#17341). D-ROLE: no `developer`.
kimi      (T platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model)
    K-REASONING: with thinking on, replies with calls have it (continuedev/continue#11806), and not
    a blank one (HKUDS/nanobot#946). D-ROLE.
qwen      (T help.aliyun.com/en/model-studio/deep-thinking) `reasoning_content` is optional. D-ROLE.
openrouter (T openrouter.ai/docs/guides/best-practices/reasoning-tokens) `reasoning`, and
    `reasoning_details`, which is a list; of DeepSeek's and Moonshot's models D-REASONING holds for
    either.
gemini    (T ai.google.dev/gemini-api/docs/thought-signatures)
    GO-SIGNATURE: from Gemini 3 on, the first call of a reply has `extra_content` with a signature
    (tinyhumansai/openhuman#3548), under `google` or `vertex` (earendil-works/pi#7745).
vllm      (T docs.vllm.ai/en/latest/features/reasoning_outputs) `reasoning`; `reasoning_content` is
    not read (vllm-project/vllm#38488). D-ROLE: its chat templates have no `developer`.
ollama    (ollama/ollama#15288) `reasoning`. D-ROLE.
mistral   (T docs.mistral.ai/capabilities/reasoning: a part `thinking`, a list of texts)
    M-ID: ids are nine letters and digits (anomalyco/opencode#1680). M-ORDER: after `tool` only
    `assistant` or `tool` (pipecat-ai/pipecat-flows#178, datapizza-labs/datapizza-ai#98), and
    `system` only after `system` or `user` (mistral-common). M-LAST: the last is of the user or a
    tool (0xPlaygrounds/rig#1130). M-EMPTY: a reply has words, thinking or calls (mistral-common).
    M-FIELD: other fields are refused (microsoft/autogen#2892). D-ROLE. A document is a part
    `document_url` of the user (T docs.mistral.ai/capabilities/document_qna).
xai       (T docs.x.ai/developers/model-capabilities/text/best-practices) no field for reasoning.
litellm   (T docs.litellm.ai/docs/reasoning_content) `reasoning_content`, `thinking_blocks` and
    `provider_specific_fields`.
"""

import re
from typing import Any

from support.provider_rules import chat

FIELDS: dict[str, set[str]] = {
    "openai": set(),
    "deepseek": {"reasoning_content"},
    "kimi": {"reasoning_content"},
    "qwen": {"reasoning_content"},
    "openrouter": {"reasoning", "reasoning_details"},
    "gemini": {"extra_content"},
    "vllm": {"reasoning"},
    "ollama": {"reasoning"},
    "mistral": set(),
    "xai": set(),
    "litellm": {"reasoning_content", "thinking_blocks", "provider_specific_fields"},
}
CALL_FIELDS = {"gemini": {"extra_content"}, "litellm": {"provider_specific_fields"}}
WITHOUT_DEVELOPER = {"deepseek", "kimi", "qwen", "vllm", "ollama", "mistral"}
MISTRALS = {
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


def violations(
    messages: list[Any],
    dialect: str,
    *,
    complete: bool = False,
    model: str | None = None,
    reasons: bool = False,
) -> list[str]:
    """Everything that this server refuses; `reasons` says that thinking is on."""
    bare = [_without_fields(message, dialect) for message in messages]
    found = chat.violations(bare, complete=complete, model=model)
    for index, message in enumerate(messages):
        before = messages[index - 1]["role"] if index else None
        found += [
            f"messages[{index}] {fault}"
            for fault in (
                *_reasoning(message, dialect, model, reasons=reasons),
                *(_mistral(message, before) if dialect == "mistral" else []),
                *(_signature(message, model) if dialect == "gemini" else []),
            )
        ]
        if message["role"] == "developer" and dialect in WITHOUT_DEVELOPER:
            found.append(f"messages[{index}] D-ROLE")
    if dialect == "mistral" and complete and messages[-1]["role"] not in ("user", "tool"):
        found.append("M-LAST")
    return found


def _without_fields(message: dict[str, Any], dialect: str) -> dict[str, Any]:
    bare = {key: it for key, it in message.items() if key not in FIELDS[dialect]}
    if message["role"] == "assistant" and isinstance(bare.get("content"), list):
        parts = [it for it in bare["content"] if dialect != "mistral" or it["type"] != "thinking"]
        bare["content"] = parts or "thinking only"
    if message["role"] == "user" and isinstance(bare.get("content"), list):
        kept = [
            it for it in bare["content"] if dialect != "mistral" or it["type"] != "document_url"
        ]
        bare["content"] = kept or "document only"
    if "tool_calls" in bare:
        drop = CALL_FIELDS.get(dialect, set())
        bare["tool_calls"] = [
            {key: it for key, it in call.items() if key not in drop} for call in bare["tool_calls"]
        ]
        known = {"id", "type", "function", "custom"}
        found = [sorted(call.keys() - known) for call in bare["tool_calls"]]
        bare |= {"unknown": found} if any(found) else {}  # O-FIELD reports it
    return bare


def _reasoning(
    message: dict[str, Any], dialect: str, model: str | None, *, reasons: bool
) -> list[str]:
    found = []
    for name in FIELDS[dialect] & {"reasoning", "reasoning_content"}:
        if name in message and not isinstance(message[name], str):
            found.append(f"{name} is no text")
    if "reasoning_details" in message and not isinstance(message["reasoning_details"], list):
        found.append("reasoning_details is no list")
    vendor = re.match(r"(deepseek|moonshotai)/", model or "") if dialect == "openrouter" else None
    if (
        not reasons
        or message["role"] != "assistant"
        or not (vendor or dialect in ("deepseek", "kimi"))
    ):
        return found
    if dialect == "kimi" and not message.get("tool_calls"):
        return found
    said = [it for name in FIELDS[dialect] if (it := message.get(name))]
    if not any(it.strip() if isinstance(it, str) else it for it in said):
        found.append("K-REASONING" if dialect == "kimi" else "D-REASONING")
    return found


def _signature(message: dict[str, Any], model: str | None) -> list[str]:
    if not message.get("tool_calls") or re.match(r"gemini-[12]\b", model or "gemini-1"):
        return []
    vendors = message["tool_calls"][0].get("extra_content", {}).values()
    return [] if any(it.get("thought_signature") for it in vendors) else ["GO-SIGNATURE"]


def _mistral(message: dict[str, Any], before: str | None) -> list[str]:
    found, role = [], message["role"]
    if message.keys() - MISTRALS.get(role, {"role", "content"}):
        found.append("M-FIELD")
    if before == "tool" and role not in ("assistant", "tool"):
        found.append("M-ORDER")
    if role == "system" and before not in (None, "system", "user"):
        found.append("M-ORDER")
    ids = [call["id"] for call in message.get("tool_calls", [])]
    ids += [message["tool_call_id"]] if role == "tool" else []
    if not all(re.fullmatch(r"[a-zA-Z0-9]{9}", it) for it in ids):
        found.append("M-ID")
    if role == "assistant" and not message.get("content") and not message.get("tool_calls"):
        found.append("M-EMPTY")
    content = message["content"] if isinstance(message.get("content"), list) else []
    for part in content:
        if part["type"] == "thinking" and not all(it["type"] == "text" for it in part["thinking"]):
            found.append("M-FIELD thinking")
        if part["type"] not in ("text", "thinking", "image_url", "document_url"):
            found.append("M-FIELD part")
        if part["type"] == "document_url" and not isinstance(part["document_url"], str):
            found.append("M-FIELD document")
    return found
