"""What a form is."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from roocontext.log.entries import Message
from roocontext.log.forms.repairs import Outgoing


class Form(Protocol):
    """Makes rows into what one provider accepts. It is pure, and it never changes a row."""

    def compose(
        self,
        messages: Sequence[Message],
        *,
        model: str | None = None,
        drop_thinking: Collection[int] = (),
        complete: bool = False,
    ) -> Outgoing:
        """Compose the messages of a view for a model, by default that of its newest reply.

        Thinking goes to an equal model only, and not from the rows in `drop_thinking`. A view may
        end with calls that wait or with the assistant; with `complete` those calls are answered and
        the user speaks last, as every request for the model's turn needs it.
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

        The system prompt goes where the provider wants it, and tool definitions of any provider are
        converted. With `cache`, breakpoints are set where the provider has them.
        """
