"""The rules of Anthropic's Messages API, written independently of the code that makes the lists.

D = documented, T = the SDK's types, ? = a careful reading without a source, else a public issue;
`#n` alone is anthropics/claude-code.

A-FIRST-USER: the user comes first (lobehub/lobehub#1601). A-MESSAGES: a request has messages.
A-COMPACTION: the API drops everything before the newest compaction block, so nothing is sent before
    it; a request may begin with an assistant message whose first block is one, and may end with
    one that holds nothing else (D compaction).
A-ALTERNATE: roles alternate; the API merges runs of one role (D), which is not safe for results.
A-SYSTEM-PLACE: no role system: older models refuse it (maximhq/bifrost#3945).
A-CONTENT-EMPTY: no empty content (#6774). A-TEXT-BLANK: no blank text (#59812, #23369), in results
    neither (?). A-RESULT-FIRST: results come before anything else in their message (D).
A-CALL-UNANSWERED: each call is answered in the next message (#8210), all in one
    (1jehuang/jcode#276). A-RESULT-ORPHAN: no result without its call before it (#18947).
A-RESULT-DUPLICATE: one result for a call (#14110).
A-CALL-ID: letters, digits, _ and - (maximhq/bifrost#5097), 128 (experientiallabs/experiential#801).
A-CALL-ID-UNIQUE: unique in the request (#20901). A-NAME: the same letters, at most 200 (#2673).
A-INPUT: an object (#6696).
A-BLOCK-ROLE: images and results from the user, thinking and calls from the assistant (T).
A-RESULT-ERROR: with is_error only text (vellum-ai/vellum-assistant#18387).
A-IMAGE-TYPE: jpeg, png, gif and webp (T). A-TYPE: only known types (T). A-FIELD: no unknown fields
    (#4378). A-THINK-SIGNATURE, A-THINK-DATA: both are required (T).
A-THINK-LAST: thinking never ends an assistant's message (tailcallhq/forgecode#2107).
A-THINK-FIRST: with thinking enabled, the replies of the running tool loop begin with thinking
    (pydantic/pydantic-ai#2075); not in adaptive mode (?).
A-PREFILL: newer models refuse a request that ends with the assistant
    (agenticloops-ai/agentic-ai-engineering#43), unless a tool of the provider's own is running (D
    server-tools).
A-TRAILING-SPACE: older ones refuse white space at that end (langchain-ai/langchain#35071).
A-SERVER-UNANSWERED: a call of the provider's own tools has its result, in its message or later in
    the turn (anthropics/anthropic-sdk-python#961); only the last turn may wait (D server-tools).
A-SERVER-ORPHAN: such a result has its call before it (#65726).
A-CACHE-COUNT: at most four `cache_control` (tghamm/Anthropic.SDK#50). A-CACHE-PLACE: none on
    thinking (UKGovernmentBEIS/inspect_ai#3967) or on empty text (#62379).
A-UTF8: the request is UTF-8 (any JSON API).
"""

import json
import re
from typing import Any

TOOL_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,200}")
THINKING = {"thinking": ("thinking", "signature"), "redacted_thinking": ("data",)}
IMAGES = {f"image/{kind}" for kind in ("jpeg", "png", "gif", "webp")}
KNOWN = re.compile(
    r"text|image|document|search_result|thinking|redacted_thinking|tool_use|tool_result|compaction"
    r"|server_tool_use|mcp_tool_use|\w+_tool_result|container_upload|tool_reference|fallback"
    r"|tool_addition|tool_removal|mcp_tool_listing"
)
SERVER_CALLS = {"server_tool_use", "mcp_tool_use"}
FIELDS = {
    "text": {"type", "text", "citations", "cache_control"},
    "image": {"type", "source", "cache_control", "transformations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"},
    "tool_result": {
        *("type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name")
    },
}
USERS = {"image", "document", "search_result", "tool_result"}
ASSISTANTS = re.compile(
    r"(redacted_)?thinking|(server_|mcp_)?tool_use|\w+_tool_result|compaction|fallback"
    r"|mcp_tool_listing"
)


def violations(
    messages: list[Any], *, complete: bool = False, model: str | None = None
) -> list[str]:
    """Everything that is refused; calls at the very end may wait unless it must be complete."""
    found: list[str] = []
    compacts = [_compacts(message["content"]) for message in messages]
    begins = int(
        bool(messages) and messages[0]["role"] == "assistant" and compacts[0][:1] == [True]
    )
    if any(any(made) for made in compacts[1:]):
        found.append("A-COMPACTION")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if set(message) != {"role", "content"}:
            found.append(f"{where} has other keys than role and content")
        if message["role"] not in {"user", "assistant"}:
            found.append(f"{where} A-SYSTEM-PLACE")
        if message["role"] != ("user", "assistant")[(index + begins) % 2]:
            found.append(f"{where} A-ALTERNATE")
        found += [f"{where}: {fault}" for fault in _faults(message["role"], message["content"])]
    found += _tool_faults(messages)
    waiting, faults = _server_tools(messages)
    found += faults
    is_paused = bool(messages) and bool(compacts[-1]) and all(compacts[-1])
    if complete and not (messages and (messages[-1]["role"] == "user" or is_paused or waiting)):
        found.append("A-PREFILL")
    if messages and messages[-1]["role"] == "assistant":
        last = messages[-1]["content"]
        last = last if isinstance(last, str) else last[-1].get("text", "")
        found += ["A-TRAILING-SPACE"] if last != last.rstrip() else []
    marks = json.dumps([it["content"] for it in messages]).count('"cache_control":')
    found += ["A-CACHE-COUNT"] if marks > 4 else []
    try:
        json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        found.append("A-UTF8")
    return found


def _compacts(content: Any) -> list[bool]:
    """The blocks that are compactions that did not fail."""
    blocks = content if isinstance(content, list) else []
    return [
        isinstance(block, dict)
        and block.get("type") == "compaction"
        and isinstance(block.get("content"), str)
        for block in blocks
    ]


def thoughtless(messages: list[Any]) -> list[str]:
    """Find what is refused if thinking is enabled: A-THINK-FIRST."""
    found = []
    for index in range(len(messages) - 2, 0, -2):
        said, told = messages[index]["content"], messages[index + 1]["content"]
        kinds = [isinstance(told, list) and it["type"] == "tool_result" for it in told]
        is_last = index == len(messages) - 2
        if not (kinds[0] if is_last else all(kinds)):
            break
        if said[0]["type"] not in THINKING:
            found.append(f"messages[{index}] A-THINK-FIRST")
    return found


def displaced(stored: list[Any], messages: list[Any]) -> list[str]:
    """Find the thinking that a repair has put something before, inside its message.

    The API compares thinking with what it signed: "thinking or redacted_thinking blocks in the
    latest assistant message cannot be modified" (anthropics/claude-code#63284); a block that was
    moved is an "Invalid signature in thinking block" (anthropics/anthropic-sdk-python#1598).
    """
    found = []
    rows = [content for content in stored if isinstance(content, list)]
    for index, message in enumerate(messages):
        content = message["content"] if isinstance(message["content"], list) else []
        for place, block in enumerate(content):
            if block["type"] in THINKING:
                # Two rows may hold the very same object, so that one of its places has to do.
                places = [at for row in rows for at, own in enumerate(row) if _is_same(own, block)]
                begun = any(_waiting(content[: place - at]) for at in places if at < place)
                if not begun and all(at < place for at in places):
                    found.append(f"messages[{index}][{place}] is thinking after something else")
    return found


def _is_same(own: Any, block: Any) -> bool:
    """True if it is this block, except for a client's mark."""
    return own is block or {k: v for k, v in own.items() if k != "cache_control"} == block


def _waiting(content: list[Any]) -> set[Any]:
    """The calls of the provider's own tools that wait, after which the same message continues."""
    return _server_tools([{"role": "assistant", "content": content}])[0]


def _faults(role: str, content: Any) -> list[str]:
    if isinstance(content, str):
        return [] if content.strip() else ["a blank content"]
    if not isinstance(content, list) or not content:
        return ["no content"]
    found = []
    for index, block in enumerate(content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            found.append(f"[{index}] is no block")
            continue
        if not KNOWN.fullmatch(block["type"]):
            found.append(f"[{index}] A-TYPE")
            continue
        if block.keys() - FIELDS.get(block["type"], block.keys()):
            found.append(f"[{index}] A-FIELD")
        found += [f"[{index}] {fault}" for fault in _block_faults(role, block)]
    kinds = [block.get("type") for block in content if isinstance(block, dict)]
    if role == "assistant" and kinds[-1:] and kinds[-1] in THINKING:
        found.append("thinking at the end")
    outputs = [kind == "tool_result" for kind in kinds]
    if outputs != sorted(outputs, reverse=True):
        found.append("a tool result after something else")
    return found


def _block_faults(role: str, block: dict[str, Any]) -> list[str]:
    found = []
    kind = block["type"]
    if (ASSISTANTS.fullmatch(kind) and role != "assistant") or (
        kind in USERS and role == "assistant"
    ):
        found.append(f"A-BLOCK-ROLE {kind} of the {role}")
    if kind == "text" and not (isinstance(block.get("text"), str) and block["text"].strip()):
        found.append("blank or ill-typed text")
    if any(not isinstance(block.get(key), str) for key in THINKING.get(kind, ())):
        found.append("thinking without what makes it valid")
    if kind == "tool_use":
        if not isinstance(block.get("input"), dict):
            found.append("input is no object")
        if not isinstance(block.get("name"), str) or not NAME.fullmatch(block["name"]):
            found.append("A-NAME")
    if kind in {"image", "document"} and set(block) == {"type"}:
        found.append(f"{kind} without a source")
    source = block["source"] if kind == "image" else {}
    if source.get("type") == "base64" and source["media_type"] not in IMAGES:
        found.append("A-IMAGE-TYPE")
    failed = kind == "tool_result" and block.get("is_error") is True
    inner = block["content"] if failed and isinstance(block["content"], list) else []
    if any(part.get("type") != "text" for part in inner):
        found.append("A-RESULT-ERROR")
    if kind == "tool_result" and not isinstance(block.get("content", ""), str):
        inner = block["content"]
        if not isinstance(inner, list):
            found.append("a result that is neither text nor blocks")
        elif inner:
            found += [f"inside: {fault}" for fault in _faults("inside", inner)]
            if any(isinstance(it, dict) and it.get("type") == "tool_result" for it in inner):
                found.append("a result inside a result")
    return found


def _server_tools(messages: list[Any]) -> tuple[set[Any], list[str]]:
    """The calls of the provider's own tools that still wait at the end, and what is refused."""
    found = []
    waiting: set[Any] = set()
    for index, message in enumerate(messages):
        blocks = message["content"] if isinstance(message["content"], list) else [{}]
        if message["role"] == "user":
            if waiting and any(block.get("type") != "tool_result" for block in blocks):
                found.append(f"messages[{index}] A-SERVER-UNANSWERED")
                waiting.clear()
            continue
        for block in blocks:
            if block.get("type") in SERVER_CALLS:
                waiting.add(block.get("id"))
            elif str(block.get("type")).endswith("_tool_result"):
                found += [] if block.get("tool_use_id") in waiting else ["A-SERVER-ORPHAN"]
                waiting.discard(block.get("tool_use_id"))
    return waiting, found


def _ids(message: Any, kind: str, key: str) -> list[Any]:
    content = message["content"]
    if not isinstance(content, list):
        return []
    return [it.get(key) for it in content if isinstance(it, dict) and it.get("type") == kind]


def _tool_faults(messages: list[Any]) -> list[str]:
    found = []
    seen: set[Any] = set()
    for index, message in enumerate(messages):
        asked = _ids(message, "tool_use", "id")
        for tool_id in asked:
            if not isinstance(tool_id, str) or not TOOL_ID.fullmatch(tool_id):
                found.append(f"messages[{index}] has a tool id that is refused")
            elif tool_id in seen:
                found.append(f"messages[{index}] uses a tool id again")
            seen.add(tool_id)
        before = _ids(messages[index - 1], "tool_use", "id") if index else []
        given = _ids(message, "tool_result", "tool_use_id")
        if sorted(map(str, given)) != sorted(map(str, before)):
            found.append(f"messages[{index}] does not answer exactly the calls before it")
    return found
