"""The part of a session that lists show: its title, its metadata and its first prompt.

They are cached on the session's row, and are functions of its log: a title and metadata are those
of the newest notes, the first prompt is that of the first message that a person wrote. The
top-level strings of the metadata are also in the index `facts`, so that sessions can be found by
them.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import bindparam, delete, insert, select, text, update

from roocontext.errors import InvalidOption
from roocontext.log.draft import Draft
from roocontext.log.encoding import encode
from roocontext.log.entries import Kind
from roocontext.log.summary import prompt_text
from roocontext.store.engine.schema import entries, facts, log_rows, of_session, sessions
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.notes import METADATA, TITLE, newest_note

LONGEST_INDEXED = 256
"""Longer texts are indexed by their digest: PostgreSQL refuses index rows of about 2,700 bytes."""

_PROMPT: Final = "first_prompt"
_PAGE = 50
_SHOWN = select(*(sessions.c[name] for name in (TITLE, METADATA, _PROMPT))).where(
    of_session(sessions)
)
_SHOW = {
    name: update(sessions).where(of_session(sessions)).values({name: bindparam("shown")})
    for name in (TITLE, METADATA, _PROMPT)
}
_FOUND = select(sessions.c.session_id).where(of_session(sessions))
_FACTS = select(facts.c.key, facts.c.value).where(of_session(facts))
_DROP_FACTS = delete(facts).where(of_session(facts))
_ADD_FACT = insert(facts).values({column.name: bindparam(column.name) for column in facts.columns})
# A redacted row has no salt.
_WRITTEN = (
    log_rows("seq", "format", "role", "content", "extra")
    .where(
        entries.c.seq.between(bindparam("after"), bindparam("last")),
        text(f"kind = '{Kind.MESSAGE}' AND salt IS NOT NULL AND tools IS NULL"),
    )
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)


def show(log: SessionLog, name: str | None, value: Any) -> None:
    """Cache a title or metadata, given the kind of its note; other notes change nothing."""
    if name == METADATA:
        log.change(_DROP_FACTS)
        rows = _facts_of(value).items()
        log.many(_ADD_FACT, [{"key": k, "value": v} for k, v in rows])
        if log.tx.is_filtered and log.row(_FOUND) is None:
            line = "A store that was opened with `where` keeps this metadata of its sessions."
            raise InvalidOption(line, name="where")
        value = None if value is None else encode(value, METADATA)
    if name in _SHOW:
        log.change(_SHOW[name], shown=value)


def show_prompt(log: SessionLog, drafts: Iterable[Draft]) -> None:
    """Cache the first prompt among the entries of a session that had none before."""
    prompt = next(filter(None, map(drafted_prompt, drafts)), None)
    if prompt is not None:
        show(log, _PROMPT, prompt)


def drafted_prompt(draft: Draft) -> str | None:
    """The prompt in an entry that is about to be written."""
    sealed = draft.sealed
    if sealed.kind != Kind.MESSAGE or draft.tools is not None:
        return None
    return prompt_text(sealed.format, sealed.role, draft.content, draft.extra)


def refresh_shown(log: SessionLog, last: int, *, has_prompt: bool = True) -> None:
    """Compute the title, the metadata and the first prompt anew from the entries up to `last`.

    If it is known that no entry is a prompt, none is searched for: that would read all messages.
    """
    for name, value in _values_of_log(log, last, has_prompt=has_prompt).items():
        show(log, name, value)


def shown_problem(log: SessionLog, last: int) -> str | None:
    """The first value that is not that of the log, if any is not."""
    values = _values_of_log(log, last)
    title, metadata, prompt = log.row(_SHOWN) or (None, None, None)
    # As texts: both are encoded from the same note.
    newest = None if values[METADATA] is None else encode(values[METADATA], METADATA)
    is_indexed = dict(log.rows(_FACTS)) == _facts_of(values[METADATA])
    if (title, metadata) != (values[TITLE], newest) or not is_indexed:
        return "title or metadata are not those of the log"
    return None if prompt == values[_PROMPT] else "the first prompt is not that of the log"


def index_key(text: str) -> str:
    """Encode a key or a value for the index.

    As JSON, because a text of PostgreSQL holds neither NUL nor lone surrogates. A digest has no
    quotation marks, so it never equals a text.
    """
    encoded = encode(text)
    return encoded if len(encoded) <= LONGEST_INDEXED else sha256(encoded.encode()).hexdigest()


def _facts_of(metadata: Mapping[str, Any] | None) -> dict[str, str]:
    strings = {key: value for key, value in (metadata or {}).items() if isinstance(value, str)}
    return {index_key(key): index_key(value) for key, value in strings.items()}


def _values_of_log(log: SessionLog, last: int, *, has_prompt: bool = True) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in (TITLE, METADATA):
        note = newest_note(log, name, None, last)
        values[name] = note and note.content.get(name)
    return {**values, _PROMPT: _first_prompt(log, last) if has_prompt else None}


def _first_prompt(log: SessionLog, last: int) -> str | None:
    after, page = 1, 1  # nearly every session begins with its prompt
    while rows := log.rows(_WRITTEN, after=after, last=last, page=page):
        for seq, *written in rows:
            if prompt := prompt_text(*written):
                return prompt
            after = seq + 1
        page = _PAGE
    return None
