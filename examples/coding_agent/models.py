"""The two SDKs. Each streams the reply of a model and returns the SDK's object for it."""

from collections.abc import Callable

import anthropic

from roocontext import Request


class Claude:
    """A model behind Anthropic's Messages API, or at ANTHROPIC_BASE_URL."""

    form = "anthropic"
    errors = (anthropic.AnthropicError, TypeError)  # without a key it is a TypeError

    def __init__(self, name: str) -> None:
        self.name, self.client = name, anthropic.Anthropic()

    def reply(self, request: Request, show: Callable[[str], None]) -> object:
        """Ask for the next message, and show its text while it comes."""
        with self.client.messages.stream(model=self.name, max_tokens=8_000, **request) as stream:
            for text in stream.text_stream:
                show(text)
            return stream.get_final_message()


class Gpt:
    """A model behind OpenAI's Responses API, or at OPENAI_BASE_URL."""

    form = "openai-responses"

    def __init__(self, name: str) -> None:
        import openai  # noqa: PLC0415 - only needed here

        # Only an Anthropic client writes summaries. Without one they are extracted from the text.
        self.name, self.client, self.errors = name, None, (openai.OpenAIError,)
        self._responses = openai.OpenAI().responses

    def reply(self, request: Request, show: Callable[[str], None]) -> object:
        """Ask for the next message, and show its text while it comes."""
        for event in self._responses.create(model=self.name, stream=True, **request):
            if event.type == "response.output_text.delta":
                show(event.delta)
        return event.response


def model_named(name: str) -> Claude | Gpt:
    """The model of a name such as `claude-opus-5` or `openai:gpt-5`."""
    return Gpt(name.removeprefix("openai:")) if name.startswith("openai:") else Claude(name)
