"""What Bedrock's Converse API refuses, written independently of the code that makes the lists.

D = documented (docs.aws.amazon.com/bedrock/latest/APIReference, API_runtime_Converse and the types
that it names, November 2026), else a public issue.

B-ROLE: user and assistant (D). B-FIRST-USER, B-ALTERNATE: "A conversation must alternate between
    user and assistant roles" (langchain-ai/langchain-aws#130), and begins with the user
    (microsoft/semantic-kernel#10281). B-LAST-USER: it ends with the user, when the model is to act.
B-EMPTY: "The content field in the Message object is empty" (archestra-ai/archestra#4220).
B-TEXT-BLANK: "The text field in the ContentBlock object is blank" (OpenHands/OpenHands#5339), also
    white space alone (NousResearch/hermes-agent#67978), also in results.
B-BLOCK: a block has one value (D), of those that its role may have.
B-CALL-UNANSWERED, B-COUNT: the next message answers each call, and nothing else
    (strands-agents/harness-sdk#1435). B-RESULT-FIRST: results come first, as Claude wants it.
B-CALL-ID, B-NAME: letters, digits, _ and -, at most 64 (D). B-CALL-ID-UNIQUE: once in a request.
B-INPUT: an object (D). B-STATUS: success or error; of an error only texts (as Claude wants it).
B-IMAGE: png, jpeg, gif, webp; data is `bytes` in boto3 (D).
B-DOCUMENT: letters, digits, single spaces, hyphens, brackets (langchain-ai/deepagents#2433), at
    most 200 characters (D), never twice (maximhq/bifrost#7003), and a text beside it
    (archestra-ai/archestra#4220).
B-REASONING: signed or sealed (D), never the last of a message.
B-TOOLCONFIG: required with calls or results in the history (langgenius/dify#17545).
"""

import json
import re
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
DOCUMENT = re.compile(r"(?!.*  )[a-zA-Z0-9 ()\[\]-]{1,200}")
VALUES = {
    "assistant": {"text", "toolUse", "toolResult", "reasoningContent", "citationsContent"},
    "user": {
        *("text", "image", "document", "video", "audio", "toolResult", "guardContent"),
        *("cachePoint", "searchResult"),
    },
}


def violations(
    messages: list[Any], *, complete: bool = False, model: str | None = None
) -> list[str]:
    """Everything that is refused; calls at the very end may wait unless it must be complete."""
    found: list[str] = []
    names: list[str] = []
    ids: list[str] = []
    waiting: list[str] = []
    before = "assistant"
    for index, message in enumerate(messages):
        role, content = message["role"], message["content"]
        faults = [*_content(role, content)]
        faults += ["B-ALTERNATE"] if role == before else []
        before = role
        calls = [it["toolUse"] for it in content if "type" not in it.get("toolUse", {"type": 0})]
        results = [it["toolResult"] for it in content if "toolResult" in it]
        answered = [it["toolUseId"] for it in results if "type" not in it]
        faults += ["B-CALL-UNANSWERED"] if sorted(answered) != sorted(waiting) else []
        places = [at for at, it in enumerate(content) if "toolResult" in it and role == "user"]
        faults += ["B-RESULT-FIRST"] if places != list(range(len(places))) else []
        waiting = [call["toolUseId"] for call in calls]
        ids += waiting
        inner = [part for it in results for part in it["content"]]
        names += [it["document"]["name"] for it in (*content, *inner) if "document" in it]
        found += [f"messages[{index}] {fault}" for fault in faults]
    found += ["B-CALL-ID-UNIQUE"] if len(set(ids)) < len(ids) else []
    found += ["B-DOCUMENT twice"] if len(set(names)) < len(names) else []
    if complete and (waiting or before == "assistant"):
        found.append("B-LAST-USER")
    try:
        json.dumps(messages, ensure_ascii=False, default=lambda it: it.hex()).encode()
    except UnicodeEncodeError:
        found.append("B-UTF8")
    return found


def undefined(body: dict[str, Any]) -> list[str]:
    text = str(body["messages"])
    uses = "'toolUse'" in text or "'toolResult'" in text
    tools = body.get("toolConfig", {}).get("tools", [])
    found = ["B-TOOLCONFIG"] if uses and not tools else []
    marks = str(body).count("cachePoint")
    found += ["B-CACHE-COUNT"] if marks > 4 else []
    for tool in tools:
        spec = tool.get("toolSpec")
        if spec and not NAME.fullmatch(spec["name"]):
            found.append("B-NAME")
    return found


def _content(role: str, content: Any) -> list[str]:
    found = [] if content else ["B-EMPTY"]
    for block in content:
        if len(block) != 1 or not block.keys() <= VALUES[role]:
            found.append(f"B-BLOCK {[*block]}")
            continue
        ((name, held),) = block.items()
        found += _value(name, held)
        if name == "toolResult":
            found += _result(held)
        if name == "toolUse":
            found += [] if NAME.fullmatch(held["toolUseId"]) else ["B-CALL-ID"]
            found += [] if NAME.fullmatch(held["name"]) else ["B-NAME"]
            found += [] if isinstance(held["input"], dict) else ["B-INPUT"]
        if name == "reasoningContent":
            signed = held.get("reasoningText", {}).get("signature")
            found += [] if signed or "redactedContent" in held else ["B-REASONING"]
    if any("document" in it for it in content) and not any("text" in it for it in content):
        found.append("B-DOCUMENT text")
    if role == "assistant" and content and "reasoningContent" in content[-1]:
        found.append("B-REASONING last")
    return found


def _result(result: dict[str, Any]) -> list[str]:
    parts = result["content"]
    found = [] if parts else ["B-EMPTY result"]
    found += [
        fault for part in parts for name, held in part.items() for fault in _value(name, held)
    ]
    if result.get("status", "success") not in ("success", "error"):
        found.append("B-STATUS")
    if result.get("status") == "error" and any(
        part.keys() & {"image", "document"} for part in parts
    ):
        found.append("B-STATUS image")
    return found


def _value(name: str, held: Any) -> list[str]:
    if name == "text":
        return [] if isinstance(held, str) and held.strip() else ["B-TEXT-BLANK"]
    if name == "image":
        known = held["format"] in ("png", "jpeg", "gif", "webp")
        inline = isinstance(held["source"].get("bytes"), bytes) or "s3Location" in held["source"]
        return [] if known and inline else ["B-IMAGE"]
    if name == "document":
        return [] if DOCUMENT.fullmatch(held["name"]) and held["source"] else ["B-DOCUMENT"]
    return []
