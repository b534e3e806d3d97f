"""Recall: tools with which a model searches and reads what it no longer sees.

A summary hides messages and loses details, but the log has them all. Give the tools to the model,
and let the handler answer its calls:

    recall = Recall(store, chat)
    tools = [*my_tools, *recall.tools()]
    for call in chat.pending():
        recall.answer(call) or chat.answer(call, run(call.name, call.input))
"""

from roocontext.recall.answers import Recalled
from roocontext.recall.definitions import definitions
from roocontext.recall.runs import AsyncRecall, Recall

__all__ = ["AsyncRecall", "Recall", "Recalled", "definitions"]
