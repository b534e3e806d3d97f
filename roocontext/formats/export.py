"""Sessions as other programs take them: what a provider would be sent, or a page to read."""

import json
from collections.abc import Callable, Iterator

from roocontext.errors import InvalidOption
from roocontext.formats import jsonl, markdown
from roocontext.store.session import Session
from roocontext.store.store import Store

Exporter = Callable[[Session], Iterator[bytes]]
JSONL = "jsonl"
FORMS = ("anthropic", "openai", "openai-responses", "gemini")


def _request(form: str) -> Exporter:
    def export(session: Session) -> Iterator[bytes]:
        # As of an entry, because a request for now records the frame.
        last = session.head().seq
        request = session.request(form, as_of=last, unanswered=True, prefill=True)
        yield json.dumps(dict(request), indent=1).encode() + b"\n"

    return export


EXPORTERS: dict[str, Exporter] = {
    JSONL: jsonl.export_session,
    "markdown": markdown.export_session,
    **{form: _request(form) for form in FORMS},
}
"""The formats by name."""


def export(store: Store, session: Session, to: str, *, family: bool = False) -> Iterator[bytes]:
    """The session in this format, and with `family` those of its sub-agents behind it."""
    if to not in EXPORTERS:
        raise InvalidOption(f"There is no format {to!r}: {', '.join(EXPORTERS)}.", name="to")
    if family and to in FORMS:
        raise InvalidOption("A request is of one session.", name="family")
    yield from EXPORTERS[to](session)
    if family:
        for child in session.children():
            yield from export(store, store.session(child.session_id), to, family=True)
