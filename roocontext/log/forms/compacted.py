"""Histories that a provider compacted itself, as each model can read them.

A model that can read a compaction gets the reply that holds it, byte for byte, and nothing that it
hides. Others get the text of the compaction in its place, as a summary. A sealed one has no text.

A compaction for which no covering stands does not count: the provider would drop messages that the
view shows. It is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from roocontext.errors import InvalidOption, SummarySealed
from roocontext.log.compactions import (
    Compaction,
    as_summary,
    can_read,
    compactions_in,
    model_groups,
    without_compactions,
)
from roocontext.log.encoding import plain
from roocontext.log.entries import Kind, Message
from roocontext.log.forms.repairs import Repair, Rule
from roocontext.log.model_names import is_same_model


def readable_by(
    messages: Sequence[Message], form: str, model: str | None
) -> tuple[Sequence[Message], list[Repair]]:
    """The messages of a view for a model, and the compactions that were left out.

    SummarySealed is raised if the model cannot read one that counts.
    """
    held = {
        message.seq: compactions
        for message in messages
        if message.kind is Kind.MESSAGE
        and (compactions := compactions_in(message.format, message.content))
    }
    if not held:
        return messages, []
    newest = max(
        (index for index, message in enumerate(messages) if message.compacted), default=None
    )
    # The provider drops everything before the last compaction that it gets. Another one that is
    # visible was made while the newest was: the newest stands for its messages too.
    messages = [
        replace(message, compacted=None) if message.compacted and index != newest else message
        for index, message in enumerate(messages)
    ]
    repairs = [
        Repair(message.seq, Rule.UNCOMPACTED, compaction.block)
        for message in messages
        for compaction in held.get(message.seq, ())
        if _made(message) is None
    ]
    ordered = messages if newest is None else [*_unread_last(messages, newest)]
    outgoing = [
        row
        for message in ordered
        for row in (_rows(message, form, model) if message.seq in held else (message,))
    ]
    return outgoing, repairs


def compacting(form: str, body: dict[str, Any]) -> dict[str, Any]:
    """The body of a request as one that only compacts; InvalidOption if the provider has none."""
    if form == "anthropic":
        return {**body, "compaction": {"type": "summarize"}}
    if form == "openai-responses":
        return {name: body[name] for name in ("input", "instructions") if name in body}
    raise InvalidOption(
        f"The provider of the form {form!r} does not compact on demand.", name="compact"
    )


_LEAST: Final = 50_000
"""The lowest threshold that Anthropic accepts."""


def asking_to_compact(form: str, threshold: int) -> dict[str, Any]:
    """The fields of a request in which the provider compacts above so many tokens, if it can."""
    if form == "openai-responses":
        return {"context_management": [{"type": "compaction", "compact_threshold": threshold}]}
    if form != "anthropic" or threshold < _LEAST:
        return {}
    trigger = {"type": "input_tokens", "value": threshold}
    edits = [{"type": "compact_20260112", "trigger": trigger}]
    return {"context_management": {"edits": edits}, "betas": ["compact-2026-01-12"]}


_MANAGEMENT: Final = {"anthropic": dict, "openai-responses": list}
"""The type of the field with which a request says how the provider manages its context."""


def managing(
    form: str, body: dict[str, Any], given: Mapping[str, Any], *, compact: bool
) -> dict[str, Any]:
    """The body with the fields that say how the provider manages the context."""
    # A tuple of names is as good as a list.
    fields = {name: plain(value) for name, value in given.items() if value is not None}
    fields = {name: [*it] if isinstance(it, tuple) else it for name, it in fields.items()}
    for name, value in fields.items():
        wanted = _MANAGEMENT.get(form) if name == "context_management" else list
        if wanted is None or (name == "betas" and form != "anthropic"):
            raise InvalidOption(f"The form {form!r} has no field {name}.", name=name)
        if not isinstance(value, wanted):
            raise InvalidOption(f"{name} of the form {form!r} is a {wanted.__name__}.", name=name)
    if compact and "context_management" in fields:
        raise InvalidOption(
            "A request that only compacts has no context_management.", name="context_management"
        )
    return {**body, **fields}


def _unread_last(messages: Sequence[Message], newest: int) -> Iterator[Message]:
    """The messages with those after the newest compaction that its request had not read."""
    reply, before = messages[newest], messages[:newest]
    last_read = reply.seq - 1 if reply.asked_at is None else reply.asked_at
    companions = reply.compacted.companions if reply.compacted else ()
    unread = {message.seq for message in before if message.seq > last_read} - {*companions}
    yield from (message for message in before if message.seq not in unread)
    yield reply
    yield from (message for message in before if message.seq in unread)
    yield from messages[newest + 1 :]


def _rows(message: Message, form: str, model: str | None) -> Iterator[Message]:
    """A message with compactions, as the model can read it."""
    if (made := _made(message)) is not None:
        if message.format == form and _takes(form, model, message, made):
            yield message
            return
        yield _summary(message, made)
    rest = without_compactions(message.format, message.content)
    if rest:
        yield replace(message, content=rest, compacted=None)


def _takes(form: str, model: str | None, message: Message, made: Compaction) -> bool:
    """True if a model accepts the compaction of its form as it is stored, or may be the maker."""
    if made.text is None:
        return can_read(model, message.model)
    if model is None or is_same_model(model, message.model):
        return True
    return model_groups["compacts"](model) == form


def _made(message: Message) -> Compaction | None:
    """The compaction of a message that is in effect; None if nothing is left of it."""
    block = message.compacted and message.compacted.block
    compactions = compactions_in(message.format, message.content)
    return next((it for it in compactions if it.block == block and not it.failed), None)


def _summary(message: Message, made: Compaction) -> Message:
    """The text of a compaction as a message of its own."""
    if made.text is None:
        raise SummarySealed(
            f"Entry {message.seq} is a compaction by {message.model or 'another model'}, which"
            " no other model can read.",
            seq=message.seq,
            model=message.model,
        )
    return as_summary(message, made.text)
