"""What a form is."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from roocontext.log.entries import Message
from roocontext.log.forms.repairs import Outgoing


class Form(Protocol):
    """Turns rows into messages that one provider accepts. It is pure and never changes a row."""

    def compose(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        drop_thinking: Collection[int] = (),
        complete: bool = False,
    ) -> Outgoing:
        """Compose the messages of a view for a model, by default that of its newest reply.

        Thinking is sent only to the model that wrote it, and not from the rows in `drop_thinking`.
        A view may end with unanswered calls or with the assistant. With `complete`, those calls are
        answered and a user message comes last, as every request for the model's turn needs it.
        """

    def body(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        system: Any = None,
        tools: Sequence[Any] = (),
        cache: bool = False,
    ) -> dict[str, Any]:
        """Make the keyword arguments for the SDK from composed messages.

        The system prompt goes where the provider expects it, and tool definitions of any provider
        are converted. With `cache`, cache breakpoints are set if the provider has them.
        """
