"""pydantic-ai: `InMemoryConversationStore`, the only store that it ships.

A version is the record's revision with the entry that its history ends at. A rewind is `branch`,
a compaction is a save of a rewritten history.
"""

from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import InMemoryConversationStore
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from adapters.drivers.shapes import TOOL, Loop, NoSuchBlock, kept_in_memory
from roocontext.testing import Capability, History, Message, Receipt, Sent, View

STORES = kept_in_memory(InMemoryConversationStore)


class InMemory:
    """One conversation."""

    lacks = {Capability.DURABLE: "it keeps conversations in the process's memory"}

    def __init__(self, place):
        self._store = STORES[place]
        self._run = Loop()
        self._id = ""

    def open(self, session):
        self._id = session
        return Receipt(self.view().version)

    def append(self, new):
        conversation = self._loaded()
        if new.expected is not None:
            conversation.revision = new.expected.partition(" ")[0] or None
        conversation.messages.append(to_model_message(new.message))
        return self._saved(conversation)

    def view(self):
        conversation = self._loaded()
        return View(self._version(), tuple(map(to_message, conversation.messages)))

    def sent(self):
        heard = []

        def answer(messages, info):
            heard.extend(messages)
            return ModelResponse(parts=[TextPart("ok")])

        self._run(Agent(FunctionModel(answer)).run("next", message_history=self._loaded().messages))
        return Sent(tuple(message for it in heard for message in to_messages(it)))

    def history(self):
        """The entries of the conversation and of the branches that it has left."""
        record = self._run(self._store.read_record(self._id))
        found = {}
        for tip in [*record.branches, record.head_id] if record else ():
            for entry in self._run(self._store.read_history(tip)):
                found[entry.id] = to_message(entry.message)
        return History(tuple(found.values()))

    def rewind(self, to):
        revision = self._run(self._store.read_record(self._id)).revision
        entry = {"from_entry": to.partition(" ")[2]}
        self._run(self._store.branch(self._id, **entry, expected_revision=revision))
        return Receipt(self._version())

    def condense(self, plan):
        old = self._loaded()
        messages = [ModelRequest(parts=[UserPromptPart(plan.summary)]), *old.messages[plan.first :]]
        new = Conversation(
            messages=messages, usage=old.usage, conversation_id=self._id, revision=old.revision
        )
        return self._saved(new)

    def fork(self, copy):
        entry = {"from_entry": copy.at.partition(" ")[2]}
        self._run(self._store.fork(self._id, **entry, new_conversation_id=copy.session))

    def delete(self):
        self._run(self._store.delete(self._id))

    def close(self):
        self._run.close()

    def _loaded(self):
        return self._run(self._store.load(self._id)) or Conversation(conversation_id=self._id)

    def _saved(self, conversation):
        self._run(self._store.save(conversation))
        return Receipt(self._version())

    def _version(self):
        record = self._run(self._store.read_record(self._id))
        return f"{record.revision} {record.head_id}" if record else " "


def to_model_message(message):
    """A message as one of pydantic-ai's, with a part for each block."""
    parts = [_part(message.role, block) for block in message.content]
    return ModelRequest(parts=parts) if message.role == "user" else ModelResponse(parts=parts)


def _part(role, block):
    if block["type"] == "tool_use":
        return ToolCallPart(block["name"], block["input"], block["id"])
    if block["type"] == "tool_result":
        return ToolReturnPart(TOOL, block["content"], block["tool_use_id"])
    if block.keys() != {"type", "text"}:
        raise NoSuchBlock(block["type"])
    return UserPromptPart(block["text"]) if role == "user" else TextPart(block["text"])


def to_message(message):
    """One of pydantic-ai's messages."""
    role = "user" if isinstance(message, ModelRequest) else "assistant"
    return Message(role, [_block(part) for part in message.parts])


def to_messages(message):
    """One of pydantic-ai's messages; a request may hold results and what the user said next."""
    whole = to_message(message)
    results = [block for block in whole.content if block["type"] == "tool_result"]
    others = [block for block in whole.content if block["type"] != "tool_result"]
    return [Message(whole.role, part) for part in (results, others) if part]


def _block(part):
    if isinstance(part, ToolCallPart):
        called = {"id": part.tool_call_id, "name": part.tool_name, "input": part.args}
        return {"type": "tool_use", **called}
    if isinstance(part, ToolReturnPart):
        return {"type": "tool_result", "tool_use_id": part.tool_call_id, "content": part.content}
    return {"type": "text", "text": part.content}
