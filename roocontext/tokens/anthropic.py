"""Anthropic's own token count, from its endpoint. It is used only if the caller gives a client.

The endpoint takes whole requests and refuses a tool call without its result. So each message is
counted as a request of its own in which tool calls and results are texts. `request` counts a whole
request as it will be sent.
"""

from collections.abc import Sequence
from inspect import iscoroutine
from typing import Any

from roocontext.log.encoding import whole
from roocontext.log.readings import Block
from roocontext.tokens.usage import split_message


class CountTokens:
    """Counts with a client of the Anthropic SDK; the client's exceptions are not caught.

    `request` returns the provider's count. A sum of `count` is an estimate and a little too high,
    because each message is counted as a request of its own, with tool calls and results as text.
    """

    exact = False

    def __init__(self, client: Any, model: str) -> None:
        self.name = f"anthropic:{model}"
        self._client = client
        self._model = model

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """The tokens of one message, with the few of its own request; 0 if it is blank."""
        texts, images = split_message(role, content, format)
        text_blocks = [{"type": "text", "text": whole(text)} for text in texts if text.strip()]
        # Blank texts are refused by the endpoint.
        blocks = [*images, *text_blocks]
        return self.request([{"role": "user", "content": blocks}]) if blocks else 0

    def request(
        self,
        messages: Sequence[Block],
        *,
        system: str | Sequence[Block] | None = None,
        tools: Sequence[Block] = (),
    ) -> int:
        """The tokens of a whole request."""
        body: dict[str, Any] = {"model": self._model, "messages": messages}
        if system:
            body["system"] = system
        if tools:
            body["tools"] = tools
        answer = self._client.messages.count_tokens(**body)
        if iscoroutine(answer):
            answer.close()
            raise TypeError("A counter needs a synchronous client: anthropic.Anthropic().")
        return int(answer.input_tokens)
