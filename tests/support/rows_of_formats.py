"""Random rows of every format; each text, call and result has a mark to find it again by."""

import json
from typing import Any

from hypothesis import strategies as st

from roocontext.log.entries import Kind, Message

MODELS = {
    "anthropic": "claude-x",
    "openai": "gpt-5",
    "openai-responses": "gpt-5",
    "gemini": "gemini-3",
    "bedrock-converse": "us.anthropic.claude-x-v1:0",
}
PNG = "AAAA"
URL = f"data:image/png;base64,{PNG}"

ids = st.sampled_from(["a", "b", "c", "", "x.y", "f" * 70])
names = st.sampled_from(["read", "run", "no spaces", "9th", "n" * 70])
acts = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["user", "assistant", "system"])),
    st.tuples(st.just("show"), st.just("user")),
    st.tuples(st.just("call"), ids, names, st.booleans(), st.booleans()),
    st.tuples(st.just("calls"), ids, ids),
    st.tuples(st.just("answer"), ids, st.sampled_from(["text", "image", "error"])),
    st.tuples(st.just("answer"), ids, st.just("text")),
    st.tuples(st.just("answers"), ids, ids),
    st.tuples(st.just("blank"), st.sampled_from(["user", "assistant"])),
    st.tuples(st.just("think"), st.booleans()),
)
formats = st.sampled_from(sorted(MODELS))
histories = st.lists(st.tuples(formats, acts), max_size=9)
"""What is done in which format; `rows` makes it."""


def rows(history: list[Any]) -> list[Message]:
    """The messages of a view, seq from 1 on."""
    made = []
    for seq, (format_, (act, *given)) in enumerate(history, 1):
        role, content = _MAKERS[format_](seq, act, *given)
        made.append(message(seq, role, content, format_, MODELS[format_]))
    return made


def message(seq: int, role: str, content: Any, format_: str, model: str | None = None) -> Message:
    return Message(seq, Kind.MESSAGE, role, content, format_, None, 0, None, None, model)


def marks(seq: int, act: str, *given: Any) -> list[str]:
    """The marks by which a row can be found again."""
    return {
        "say": [f"T{seq}."],
        "show": [f"T{seq}."],
        "call": [*[f"T{seq}."][: len(given) > 2 and given[2]], f"C{seq}."],
        "calls": [f"C{seq}.", f"D{seq}."],
        "answer": [f"R{seq}."],
        "answers": [f"R{seq}.", f"S{seq}."],
        "blank": [],
        "think": [f"T{seq}."],
    }[act]


def _anthropic(seq: int, act: str, *given: Any) -> tuple[str, Any]:
    def text(said: str) -> dict[str, Any]:
        return {"type": "text", "text": said}

    def call(mark: str, tool_id: str, name: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": tool_id, "name": name, "input": {"m": mark}}

    def result(mark: str, tool_id: str, kind: str = "text") -> dict[str, Any]:
        inner = [text(mark), image] if kind != "text" else mark
        flag = {"is_error": True} if kind == "error" else {}
        return {"type": "tool_result", "tool_use_id": tool_id, "content": inner, **flag}

    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    image = {"type": "image", "source": source}
    thought = {"type": "thinking", "thinking": f"hm {seq}", "signature": "c2ln"}
    match act, given:
        case "say", [role]:
            return ("user" if role == "system" else role), f"T{seq}."
        case "show", _:
            return "user", [text(f"T{seq}."), image]
        case "call", [tool_id, name, said, thinks]:
            front = [thought] * thinks + [text(f"T{seq}.")] * said
            return "assistant", [*front, call(f"C{seq}.", tool_id, name)]
        case "calls", [first, second]:
            return "assistant", [call(f"C{seq}.", first, "f"), call(f"D{seq}.", second, "g")]
        case "answer", [tool_id, kind]:
            return "user", [result(f"R{seq}.", tool_id, kind)]
        case "answers", [first, second]:
            return "user", [result(f"R{seq}.", first), result(f"S{seq}.", second)]
        case "think", [trails]:
            return "assistant", [text(f"T{seq}."), thought] if trails else [
                thought,
                text(f"T{seq}."),
            ]
    return given[0], [text(" ")]


def _chat(seq: int, act: str, *given: Any) -> tuple[str, Any]:
    def call(mark: str, tool_id: str, name: str) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps({"m": mark})}
        return {"id": tool_id, "type": "function", "function": function}

    def row(role: str, **fields: Any) -> tuple[str, Any]:
        return role, {"role": role, **fields}

    match act, given:
        case "say", [role]:
            return row(role, content=f"T{seq}.")
        case "show", _:
            image = {"type": "image_url", "image_url": {"url": URL}}
            return row("user", content=[{"type": "text", "text": f"T{seq}."}, image])
        case "call", [tool_id, name, said, thinks]:
            extra = {"reasoning_content": "hm"} if thinks else {}
            content = f"T{seq}." if said else None
            calls = [call(f"C{seq}.", tool_id, name)]
            return row("assistant", content=content, tool_calls=calls, **extra)
        case "calls", [first, second]:
            calls = [call(f"C{seq}.", first, "f"), call(f"D{seq}.", second, "g")]
            return row("assistant", content=None, tool_calls=calls)
        case ("answer", [tool_id, _]) | ("answers", [tool_id, _]):
            said = f"R{seq}." if act == "answer" else f"R{seq}. S{seq}."
            return row("tool", tool_call_id=tool_id, content=said)
        case "think", [trails]:
            return row("assistant", content=f"T{seq}.", **({"tool_calls": []} if trails else {}))
    return row(given[0], content="")


def _responses(seq: int, act: str, *given: Any) -> tuple[str, Any]:
    def call(mark: str, tool_id: str, name: str) -> dict[str, Any]:
        arguments = json.dumps({"m": mark})
        return {
            "type": "function_call",
            "id": f"fc_{mark[:-1]}",
            "call_id": tool_id,
            "name": name,
            "arguments": arguments,
        }

    def said(role: str, mark: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": mark}]}

    def output(mark: str, tool_id: str, kind: str = "text") -> dict[str, Any]:
        shown = [{"type": "input_text", "text": mark}, {"type": "input_image", "image_url": URL}]
        told = mark if kind == "text" else shown
        return {"type": "function_call_output", "call_id": tool_id, "output": told}

    thought = {"type": "reasoning", "id": f"rs_{seq}", "summary": [], "encrypted_content": "x"}
    match act, given:
        case "say", [role]:
            return role, said(role, f"T{seq}.")
        case "show", _:
            content = [{"type": "input_text", "text": f"T{seq}."}]
            content.append({"type": "input_image", "image_url": URL})
            return "user", [{"type": "message", "role": "user", "content": content}]
        case "call", [tool_id, name, speaks, thinks]:
            front = [thought] * thinks + [said("assistant", f"T{seq}.")] * speaks
            return "assistant", [*front, call(f"C{seq}.", tool_id, name)]
        case "calls", [first, second]:
            shell = {"type": "shell_call", "call_id": second, "action": {"commands": [f"D{seq}."]}}
            return "assistant", [call(f"C{seq}.", first, "f"), shell]
        case "answer", [tool_id, kind]:
            return "user", [output(f"R{seq}.", tool_id, kind)]
        case "answers", [first, second]:
            return "user", [output(f"R{seq}.", first), output(f"S{seq}.", second)]
        case "think", [trails]:
            items = [thought, said("assistant", f"T{seq}.")]
            return "assistant", items[::-1] if trails else items
    return given[0], [said(given[0], " ")]


def _gemini(seq: int, act: str, *given: Any) -> tuple[str, Any]:
    def row(role: str, *parts: Any) -> tuple[str, Any]:
        return role, {"role": role, "parts": list(parts)}

    def call(mark: str, tool_id: str, name: str) -> dict[str, Any]:
        return {"functionCall": {"name": name, "args": {"m": mark}, **with_id(tool_id)}}

    def response(mark: str, tool_id: str, name: str, key: str = "output") -> dict[str, Any]:
        return {"functionResponse": {"name": name, "response": {key: mark}, **with_id(tool_id)}}

    def with_id(tool_id: str) -> dict[str, Any]:
        return {"id": tool_id} if tool_id not in ("", "a") else {}

    match act, given:
        case "say", [role]:
            return row("model" if role == "assistant" else role, {"text": f"T{seq}."})
        case "show", _:
            image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
            return row("user", {"text": f"T{seq}."}, image)
        case "call", [tool_id, name, said, thinks]:
            asked = call(f"C{seq}.", tool_id, name)
            signed = {**asked, "thoughtSignature": "c2ln"} if thinks else asked
            return row("model", *[{"text": f"T{seq}."}] * said, signed)
        case "calls", [first, second]:
            return row("model", call(f"C{seq}.", first, "f"), call(f"D{seq}.", second, "g"))
        case "answer", [tool_id, kind]:
            key = "error" if kind == "error" else "output"
            return row("user", response(f"R{seq}.", tool_id, "read", key))
        case "answers", [first, second]:
            there = [response(f"R{seq}.", first, "f"), response(f"S{seq}.", second, "g")]
            return row("user", *there)
        case "think", [trails]:
            parts = [{"text": "hm", "thought": True}, {"text": f"T{seq}."}]
            return row("model", *(parts[::-1] if trails else parts))
    return row("model" if given[0] == "assistant" else "user", {"text": ""})


def _converse(seq: int, act: str, *given: Any) -> tuple[str, Any]:
    def row(role: str, *blocks: Any) -> tuple[str, Any]:
        return role, {"role": role, "content": list(blocks)}

    def call(mark: str, tool_id: str, name: str) -> dict[str, Any]:
        return {"toolUse": {"toolUseId": tool_id, "name": name, "input": {"m": mark}}}

    def result(mark: str, tool_id: str, kind: str = "text") -> dict[str, Any]:
        shown = [{"text": mark}, image] if kind != "text" else [{"text": mark}]
        status = {"status": "error"} if kind == "error" else {}
        return {"toolResult": {"toolUseId": tool_id, "content": shown, **status}}

    image = {"image": {"format": "png", "source": {"bytes": PNG}}}
    said = {"text": f"T{seq}."}
    signed = {"text": f"hm {seq}", "signature": "c2ln"}
    thought = {"reasoningContent": {"reasoningText": signed}}
    match act, given:
        case "say", [role]:
            return row("user" if role == "system" else role, said)
        case "show", _:
            return row("user", said, image)
        case "call", [tool_id, name, speaks, thinks]:
            return row(
                "assistant", *[thought] * thinks, *[said] * speaks, call(f"C{seq}.", tool_id, name)
            )
        case "calls", [first, second]:
            return row("assistant", call(f"C{seq}.", first, "f"), call(f"D{seq}.", second, "g"))
        case "answer", [tool_id, kind]:
            return row("user", result(f"R{seq}.", tool_id, kind))
        case "answers", [first, second]:
            return row("user", result(f"R{seq}.", first), result(f"S{seq}.", second))
        case "think", [trails]:
            return row("assistant", *([said, thought] if trails else [thought, said]))
    return row(given[0], {"text": " "})


_MAKERS: dict[str, Any] = {
    "anthropic": _anthropic,
    "openai": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
    "bedrock-converse": _converse,
}
