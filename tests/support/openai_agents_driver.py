"""Conversations of the OpenAI Agents SDK to test with: items of every kind."""

from roocontext import Plan, Store
from roocontext.adapters.openai_agents import RooContextSession

USER = {"role": "user", "content": "Which files?"}

REASONING = {
    "id": "rs_1",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA",
}

CALLS = [
    {"type": "function_call", "call_id": f"c{n}", "name": "ls", "arguments": "{}", "id": f"fc_{n}"}
    for n in (1, 2)
]

OUTPUTS = [
    {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
    {
        "type": "function_call_output",
        "call_id": "c2",
        "output": [
            {"type": "input_text", "text": "b"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
        ],
    },
]

ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Two.", "annotations": []}],
}

TURN = [USER, REASONING, *CALLS, *OUTPUTS, ANSWER]

UNUSUAL = [
    {"role": "developer", "content": "Be brief."},
    {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "x"}]},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
    {
        "type": "mcp_approval_request",
        "id": "a",
        "name": "n",
        "arguments": "{}",
        "server_label": "s",
    },
    {"type": "mcp_approval_response", "approval_request_id": "a", "approve": True},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    {"type": "tool_search_call", "call_id": "t", "execution": "server", "arguments": {}},
    {"type": "tool_search_output", "call_id": "t", "execution": "server", "tools": []},
    {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
    {"type": "shell_call_output", "call_id": "s", "output": []},
    {"type": "item_reference", "id": "msg_9"},
    {"type": "telepathy_call_of_2030", "thought": {"deep": [1, 1.0, None, 2**70]}},
    {"type": "roocontext.item", "item": {"type": "roocontext.item"}},
    {"type": "tool_use", "id": "another format's"},
    {"role": "tool", "content": "a role that the API does not have"},
    {"role": "user", "content": [{"type": "input_text", "text": "lone \ud800, NUL \0"}]},
    {"role": "user"},
    {"type": "message", "role": "user", "content": None},
    {},
    "text",
    None,
]


class OpenAIAgentsDriver:
    """A store, and a loop to await it in."""

    def __init__(self, lab):
        self.url = lab.url
        self.store = lab.store.target
        self.run = lab.store._runner.run
        self.sync = lab.store._runner.run(self.store.run(_given))
        self._number = 0

    def session(self, **options):
        self._number += 1
        return RooContextSession(f"s{self._number}", self.store, **options)

    def add(self, session, items):
        self.run(session.add_items(items))

    def items(self, session, limit=None):
        return self.run(session.get_items(limit))

    def pop(self, session):
        return self.run(session.pop_item())


def _given(plain: Store) -> Store:
    return plain


LONG = [{"role": "user", "content": "word " * 50}, {"role": "assistant", "content": "word " * 50}]

SUMMARY = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "They are two."}],
}


def condensed(driver, session, count):
    chat = driver.sync.session(session.session_id)
    view = chat.view()
    chat.commit(Plan.condense(view, [one.seq for one in view.messages[:count]], "They are two."))
    return chat
