"""One test for both managers: an AsyncContextManager that is driven from synchronous code."""

import inspect
from math import ceil
from typing import Any

from roocontext import AsyncContextManager, ContextManager, NewMessage
from roocontext.log.summary import Summary
from support.async_driver import Driven
from support.dialogue import WORDS, exchange, fill

WINDOW = 4_000
"""A context that the histories of `grow` fill soon."""


class DrivenManager:
    """An AsyncContextManager with the methods of a ContextManager."""

    def __init__(self, target: AsyncContextManager, runner: Any) -> None:
        self.target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if not inspect.iscoroutinefunction(value):
            return value

        def call(chat: Driven, *args: Any, **options: Any) -> Any:
            return self._runner.run(value(chat.target, *args, **options))

        return call


def manager(chat: Any, model: str = "gpt-4o", **options: Any) -> Any:
    """The manager that goes with a session's interface."""
    options = {"limit": WINDOW, "clock": lambda: 1_700_000_000_000, **options}
    if isinstance(chat, Driven):
        return DrivenManager(AsyncContextManager(model, **options), chat._runner)
    return ContextManager(model, **options)


def grow(chat: Any, tokens: int = 3_500, output: str = WORDS * 6, counter: Any = None) -> list[int]:
    """Work of an agent, until the view holds so many bytes by four; the seqs."""
    said = [NewMessage("user", "Mend the parser in src/parse.py: it drops the last token.")]
    for number in range(ceil(tokens * 4 / (len(output) + 150))):
        said += exchange((f"tool-{number + 1}",), output)
    return [receipt.seq for receipt in chat.append_many(said)]


def talk(chat: Any, tokens: int, counter: Any) -> list[int]:
    """Talk until the view costs so many tokens; the seqs. The last word is the assistant's."""
    seqs: list[int] = []
    while chat.tokens(counter) < tokens:
        seqs += fill(chat, 2)
    return seqs


class Scripted:
    """A summariser that is asked, and answers or raises what it was given."""

    def __init__(self, *answers: Any) -> None:
        self.name = "scripted"
        self.answers = list(answers) or ["What was done so far."]
        self.requests: list[Any] = []

    def summarise(self, request: Any) -> Summary:
        self.requests.append(request)
        answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if callable(answer):
            answer = answer(request)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, Summary):
            return answer
        return Summary(text=answer, summariser=self.name, model="m", calls=1, cost=0.25)
