"""Readable extracts of what sealed compactions hide, written by the next `manage`.

A sealed compaction can be read by the model alone, and people ask what was dropped. The extract is
made without a model, so it costs nothing. It is a note: it changes no view, and no model sees it.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from roocontext.context.session_port import AnySession
from roocontext.context.steps import Steps, ask
from roocontext.errors import StoreReadOnly, SummaryFailed
from roocontext.log.counting import FREE
from roocontext.log.summary import Summary, SummaryRequest
from roocontext.policies.make_plan import outgoing
from roocontext.policies.situation import Row

Extracting = Callable[[SummaryRequest], Summary | Awaitable[Summary]]


def write_extracts(chat: AnySession, extract: Extracting) -> Steps[None]:
    """Write the extract of each sealed covering that has none, oldest first.

    The extract of a later one then has that of an earlier one that it hides.
    """
    for covering in (yield from ask(chat.internals.unextracted)):
        hidden = yield from ask(partial(chat.internals.hidden_by, covering))
        rows = [Row(message, FREE) for message in hidden.messages]
        try:
            summary = yield from ask(partial(extract, SummaryRequest(messages=outgoing(rows))))
            text = summary.text
        except SummaryFailed:  # no message has a text
            text = ""
        with suppress(StoreReadOnly):
            yield from ask(partial(chat.internals.keep_extract, hidden, text))
