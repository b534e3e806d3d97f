"""A process that runs an agent of LangGraph on a thread until it is killed.

Its arguments: the store's URL, the thread, the first turn, the last. It writes each turn it begins.
"""

import sys

from langgraph.prebuilt import create_react_agent

from roocontext import Store
from roocontext.adapters.langgraph import RooContextSaver
from support.scripted_chat_model import TOOLS, ScriptedChatModel


def main() -> None:
    url, thread, first, last = sys.argv[1:]
    config = {"configurable": {"thread_id": thread}}
    with Store.open(url, durability="normal") as store:
        agent = create_react_agent(ScriptedChatModel(), TOOLS, checkpointer=RooContextSaver(store))
        for number in range(int(first), int(last)):
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
            agent.invoke({"messages": [("user", f"place {number}")]}, config)


if __name__ == "__main__":
    main()
