"""The built-in counters, and which counter belongs to which model.

Our own counters are registered here. Those that imitate a real program are entry points of this
distribution and are found like the plugins of other packages.
"""

from collections.abc import Sequence
from inspect import iscoroutine
from typing import Any

from roocontext.errors import InvalidOption
from roocontext.log.counting import BYTES, Counter, CounterFactory, counters
from roocontext.log.encoding import whole
from roocontext.log.readings import Block
from roocontext.tokens.bpe import CL100K, O200K, Tiktoken
from roocontext.tokens.limits import families
from roocontext.tokens.usage import IMAGES, TextCounter, split_message

OTHERWISE = "multi_llm_chat"
"""The counter for models of no registered family."""


def counter_for(model: str, *, name: str | None = None, client: Any = None) -> Counter:
    """The counter for a model or its family, or else the fallback.

    With `name`, the counter of that name; UnknownPlugin if there is none.
    """
    if not isinstance(name, str | None):
        raise InvalidOption("name must be the name of a counter.", name="name")
    chosen = name or counters.first(families(model)) or OTHERWISE
    return counters[chosen](model, client)


def always(counter: Counter) -> CounterFactory:
    """A factory that returns this counter for every model."""
    return lambda _model, _client: counter


class CountTokens:
    """Anthropic's own count, from its endpoint; the client's exceptions are not caught.

    `request` returns the provider's count. The endpoint takes whole requests and refuses a tool
    call without its result. So for `count` each message is a request of its own, with tool calls
    and results as text: a sum of these is an estimate and a little too high.
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


_O200K = Tiktoken("o200k_base", O200K)
_CL100K = Tiktoken("cl100k_base", CL100K)
_CLAUDE = Tiktoken("o200k_base*1.5", O200K, percent=150)

for _counter in (
    BYTES,
    IMAGES,
    _O200K,
    _CL100K,
    _CLAUDE,
    TextCounter("characters*1.5", lambda text: -(-len(text) * 3 // 2)),
):
    counters.register(_counter.name, always(_counter))

for _model in ("gpt", "chatgpt", "codex", "o1", "o3", "o4"):
    counters.register(_model, always(_O200K))
for _model in ("gpt-4", "gpt-3.5", "gpt-35"):
    counters.register(_model, always(_CL100K))
counters.register(
    "claude", lambda model, client: _CLAUDE if client is None else CountTokens(client, model)
)
