"""The rules of Gemini's generateContent for `contents`, written independently.

T = the SDK's types, D = documented, ? = a careful reading without a source, else a public issue;
`#n` alone is google-gemini/gemini-cli.

G-ROLE: user and model (songquanpeng/one-api#1385). G-FIRST-USER (NousResearch/hermes-agent#55427).
G-LAST-USER, in a request (songquanpeng/one-api#836, crewAIInc/crewAI#6973). G-ALTERNATE (#7003).
G-PARTS: at least one part. G-PART-DATA: each holds one datum (router-for-me/CLIProxyAPI#1292).
G-TEXT-BLANK: no empty text (zuisong/gemini-openai-proxy#86), unless it has a signature (D).
G-CALL-PLACE: calls come from the model (#26486). G-COUNT: as many responses as calls, all in the
    next content (#4217). G-RESPONSE-ORPHAN: no others (langchain-ai/langchain#27799).
G-RESPONSE-ID: ids on both or on neither (router-for-me/CLIProxyAPI#5199); without ids, the names
    are in the order of the calls (?).
G-NAME: a letter or _, then letters, digits, _ . -, at most 64 (#2966). G-ARGS, G-RESPONSE: objects.
G-SIGNATURE: from Gemini 3 on, the first call of each step of the current turn has a
    thoughtSignature (D thought-signatures, chatboxai/chatbox#3308).
G-IMAGE-TYPE: png, jpeg, webp, heic, heif (D).
G-CASE: names on the wire are camelCase (T).
G-UTF8: the request is UTF-8 (any JSON API).
"""

import json
import re
from typing import Any

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}")
DATA = {
    *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse"),
}
IMAGES = {f"image/{kind}" for kind in ("png", "jpeg", "webp", "heic", "heif")}


def violations(
    contents: list[Any], *, complete: bool = False, model: str | None = None
) -> list[str]:
    """Everything that is refused; calls at the very end may wait unless it must be complete."""
    found: list[str] = []
    for index, content in enumerate(contents):
        where = f"contents[{index}]"
        role = content.get("role")
        if content.keys() != {"role", "parts"} or role not in ("user", "model"):
            found.append(f"{where} G-ROLE")
        if role != ("user", "model")[index % 2]:
            found.append(f"{where} G-ALTERNATE")
        if not content["parts"]:
            found.append(f"{where} G-PARTS")
        found += [f"{where} {fault}" for part in content["parts"] for fault in _part(role, part)]
        before = contents[index - 1]["parts"] if index else []
        found += [f"{where} {fault}" for fault in _answers(before, content["parts"])]
        calls = [part for part in content["parts"] if "functionCall" in part]
        signs = calls and model and re.match(r"gemini-[3-9]", model)
        if signs and not calls[0].get("thoughtSignature"):
            found.append(f"{where} G-SIGNATURE")
    if complete and (not contents or contents[-1]["role"] != "user"):
        found.append("G-LAST-USER")
    try:
        json.dumps(contents, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        found.append("G-UTF8")
    return found


def _part(role: str, part: dict[str, Any]) -> list[str]:
    found = []
    if _snake(part):
        found.append("G-CASE")
    if len(part.keys() & DATA) != 1:
        found.append("G-PART-DATA")
    if "text" in part and not part["text"].strip() and not part.get("thoughtSignature"):
        found.append("G-TEXT-BLANK")
    if call := part.get("functionCall"):
        found += [] if role == "model" else ["G-CALL-PLACE"]
        found += [] if NAME.fullmatch(call["name"]) else ["G-NAME"]
        found += [] if isinstance(call.get("args", {}), dict) else ["G-ARGS"]
    if given := part.get("functionResponse"):
        found += [] if role == "user" else ["G-RESPONSE-ORPHAN"]
        found += [] if isinstance(given["response"], dict) else ["G-RESPONSE"]
    mime = part.get("inlineData", {}).get("mimeType", "")
    return found + (["G-IMAGE-TYPE"] if mime.startswith("image/") and mime not in IMAGES else [])


def _snake(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_snake, value))
    if not isinstance(value, dict):
        return False
    inner = (it for key, it in value.items() if key not in ("args", "response", "partMetadata"))
    return any("_" in key for key in value) or any(map(_snake, inner))


def _answers(before: list[Any], parts: list[Any]) -> list[str]:
    calls = [part["functionCall"] for part in before if "functionCall" in part]
    given = [part["functionResponse"] for part in parts if "functionResponse" in part]
    if len(calls) != len(given):
        return ["G-COUNT"] if calls else ["G-RESPONSE-ORPHAN"]
    if all("id" in call for call in calls):
        same = sorted(it["id"] for it in calls) == sorted(it.get("id", "") for it in given)
        return [] if same else ["G-RESPONSE-ID"]
    pairs = zip(calls, given, strict=True)
    same = all((a["name"], a.get("id")) == (b["name"], b.get("id")) for a, b in pairs)
    return [] if same else ["G-RESPONSE-ID"]
