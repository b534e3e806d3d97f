"""Contents that `check` lets through and that are wrong in every way it does not look at."""

from hypothesis import strategies as st

from roocontext.errors import InvalidMessage
from roocontext.log.readings import reader

scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=4)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def holding(*keys):
    """Dicts with some of these keys and anything as values."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(keys, values | nested))


def typed(block):
    """True if it has no type, or a type that is not blank."""
    return not isinstance(block.get("type"), str) or bool(block["type"].strip())


tool_dicts = st.fixed_dictionaries({}, optional=dict.fromkeys(("id", "name", "args"), values))
nested = st.one_of(
    tool_dicts,
    st.fixed_dictionaries({}, optional={"url": values, "mimeType": values, "data": values}),
    st.fixed_dictionaries({}, optional={"name": values, "arguments": values, "response": values}),
    st.lists(st.fixed_dictionaries({"type": st.just("text")}, optional={"text": values})),
)
block_types = st.sampled_from(["text", "tool_use", "tool_result", "image", "thinking", "new"])
wrong_blocks = st.builds(
    lambda kind, rest: {**rest, "type": kind},
    block_types,
    holding("text", "id", "name", "input", "tool_use_id", "content", "is_error"),
)
openai_parts = holding("type", "text", "image_url", "refusal").filter(typed)
openai_calls = holding("id", "type", "function").filter(typed)
gemini_parts = holding(
    *("text", "thought", "functionCall", "functionResponse", "inlineData", "fileData"),
    *("function_call", "function_response", "inline_data", "executable_code"),
)
anthropic_cases = st.tuples(
    st.just("anthropic"),
    st.sampled_from(["user", "assistant"]),
    st.text(max_size=5) | st.lists(wrong_blocks, max_size=4),
)


def openai_case(role, said, tool_calls, rest):
    return "openai", role, {**rest, "role": role, "content": said, "tool_calls": tool_calls}


openai_cases = st.builds(
    openai_case,
    st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"]),
    st.none() | st.text(max_size=5) | st.lists(openai_parts, max_size=3),
    st.none() | st.lists(openai_calls, max_size=3),
    holding("tool_call_id", "name", "refusal"),
)
gemini_cases = st.builds(
    lambda role, parts: ("gemini", role, {"role": role, "parts": parts}),
    st.sampled_from(["user", "model", "function"]),
    st.none() | st.lists(gemini_parts, max_size=4),
)
item_types = st.sampled_from(
    [
        *("message", "reasoning", "function_call", "function_call_output", "custom_tool_call"),
        *("custom_tool_call_output", "shell_call", "shell_call_output", "local_shell_call"),
        *("local_shell_call_output", "apply_patch_call", "apply_patch_call_output"),
        *("computer_call", "computer_call_output", "web_search_call", "image_generation_call"),
        *("mcp_call", "item_reference", "tool_search_call", "tool_search_output", "new"),
    ]
)


def responses_item(kind, rest, said):
    message = {"content": said} if kind == "message" else {}
    return {**rest, "type": kind, **message}


responses_items = st.builds(
    responses_item,
    item_types,
    holding(
        *("id", "call_id", "name", "arguments", "input", "output", "summary", "status"),
        *("encrypted_content", "action", "result", "execution", "tools"),
    ),
    st.text(max_size=5) | st.lists(openai_parts, max_size=3),
)


@st.composite
def responses_cases(draw):
    role = draw(st.sampled_from(["user", "assistant", "developer"]))
    items = draw(st.lists(responses_items, max_size=2))
    kept = [item for item in items if is_accepted(role, [item])]
    return "openai-responses", role, kept[0] if len(kept) == 1 and len(items) == 2 else kept


def is_accepted(role, items):
    try:
        reader("openai-responses").check(role, items)
    except InvalidMessage:
        return False
    return True


@st.composite
def some_case(draw):
    return draw(st.one_of(anthropic_cases, openai_cases, gemini_cases, responses_cases()))


cases = some_case()  # a strategy with a short name: Hypothesis prints it
"""Format, role and content."""
