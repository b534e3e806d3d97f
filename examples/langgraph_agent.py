"""LangGraph on a roocontext store: no key and no network, the model is a stub.

It asks two questions, and forks the thread after the first. Install `langgraph` in addition to
`roocontext[langgraph]`. Run it twice: the second run continues the thread of the first.
"""

import sys
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from roocontext import Store
from roocontext.adapters.langgraph import RooContextSaver


def model(state: MessagesState) -> dict[str, list[BaseMessage]]:
    """Instead of a model: it asks for a price, and then says it."""
    newest = state["messages"][-1]
    if isinstance(newest, ToolMessage):
        return {"messages": [AIMessage(f"It costs {newest.text}.")]}
    call = {"name": "price", "args": {"of": newest.text}, "id": f"call_{newest.id}"}
    return {"messages": [AIMessage("Let me see.", tool_calls=[call])]}


def tools(state: MessagesState) -> dict[str, list[BaseMessage]]:
    """Answers the calls of the newest message."""
    newest = state["messages"][-1]
    assert isinstance(newest, AIMessage)
    answers = [ToolMessage("12 EUR", tool_call_id=call["id"]) for call in newest.tool_calls]
    return {"messages": [*answers]}


def asks(state: MessagesState) -> str:
    """Where the graph goes after the model."""
    newest = state["messages"][-1]
    return "tools" if isinstance(newest, AIMessage) and newest.tool_calls else END


def main(path: str) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", asks, ["tools", END])
    builder.add_edge("tools", "model")

    with Store.open(path) as store:
        graph = builder.compile(checkpointer=RooContextSaver(store))
        thread: Any = {"configurable": {"thread_id": "shop"}}
        graph.invoke({"messages": [("user", "tea")]}, thread)
        behind_tea = graph.get_state(thread).config
        graph.invoke({"messages": [("user", "coffee")]}, thread)
        graph.invoke({"messages": [("user", "cocoa")]}, behind_tea)

        chat = store.session("langgraph:shop")
        for message in chat.view().messages:
            print(f"{message.seq:3} {message.role:9} {message.content['data']['content']}")
        print(f"{chat.stats().rewound_messages} messages of other branches are in the audit.")
        assert chat.verify().ok


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "agents.db")
