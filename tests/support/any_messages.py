"""Any messages that an agent could have stored, and many that none could."""

from hypothesis import strategies as st

from roocontext.summarisers.extractive.outline import HEADLINE
from support.dialogue import text

everything = st.text(st.characters(exclude_categories=()), max_size=40)
phrases = st.sampled_from(
    [
        "Mend it, but never change `parse()`'s signature.",
        HEADLINE,
        "## Goal\n> x",
        "- [ ] a\n- [x] b",
        "1. a\n2. b",
        "never `x` a/b.c",
        "日本語。必ず",
        "\ud83d",
    ]
)
anything = st.lists(everything | phrases, min_size=1, max_size=4).map("\n".join)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | anything,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
names = st.sampled_from(["bash", "read_file", "TodoWrite", "edit"])
inputs = st.dictionaries(
    st.sampled_from(["command", "path", "todos", "files", "input", "status", "content"]),
    json,
    max_size=3,
)
tools = st.sampled_from(["a", "b", "c"])
blocks = st.one_of(
    anything.map(text),
    st.builds(
        lambda i, n, g: {"type": "tool_use", "id": i, "name": n, "input": g},
        tools,
        names | json,
        inputs | json,
    ),
    st.builds(
        lambda i, c, e: {"type": "tool_result", "tool_use_id": i, "content": c, "is_error": e},
        tools,
        json,
        json,
    ),
    st.dictionaries(st.sampled_from(["type", "text", "content", "id"]), json, max_size=3),
)
messages = st.lists(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "assistant"]),
        anything | st.lists(blocks, max_size=3) | json,
    ),
    max_size=8,
)
