"""What a form is."""

from collections.abc import Collection, Sequence
from typing import Protocol

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
