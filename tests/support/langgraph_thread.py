"""Checkpoints as a graph puts them, and what the session of their thread shows."""

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from roocontext.adapters.langgraph import RooContextSaver


def at(thread: str, checkpoint_id: str | None = None, namespace: str = "") -> Any:
    named = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": named | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


class Thread:
    """Puts checkpoints as a graph does."""

    def __init__(self, saver: RooContextSaver, name: str) -> None:
        self.saver, self.name, self.versions = saver, name, {}
        self.config = at(name)

    def put(self, parent: Any = None, **values: Any) -> Any:
        """Put a checkpoint with these values after the last one or after a parent."""
        checkpoint = empty_checkpoint()
        for channel in values:
            self.versions[channel] = self.saver.get_next_version(self.versions.get(channel), None)
        checkpoint["channel_values"] = values
        checkpoint["channel_versions"] = dict(self.versions)
        self.config = self.saver.put(parent or self.config, checkpoint, {"step": 1}, self.versions)
        return self.config

    def values(self, config: Any = None) -> Any:
        """The values at a checkpoint, or at the newest."""
        return (
            RooContextSaver(self.store)
            .get_tuple(config or at(self.name))
            .checkpoint["channel_values"]
        )

    @property
    def store(self) -> Any:
        return self.saver._given.run_now(lambda store: store)

    @property
    def session(self) -> Any:
        return self.store.session(f"langgraph:{self.name}")

    def shown(self) -> list[str]:
        return [message.content["data"]["content"] for message in self.session.view().messages]

    def written(self) -> list[str]:
        return [one.content["data"]["content"] for one in self.session.audit() if one.role]


def said(*texts: str) -> list[BaseMessage]:
    kinds = (HumanMessage, AIMessage)
    return [kinds[index % 2](text, id=text) for index, text in enumerate(texts)]
