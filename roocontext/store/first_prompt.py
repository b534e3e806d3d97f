"""The first prompt, which is kept on the session's row for lists.

It is a function of the log. The append that writes it keeps it, later ones find it there.
"""

from collections.abc import Iterable

from sqlalchemy import bindparam, select, text, update

from roocontext.log.draft import Draft
from roocontext.log.entries import Kind
from roocontext.log.prompt import prompt_text
from roocontext.store.engine.transaction import Transaction
from roocontext.store.schema import entries, sessions

_PAGE = 50
_KEPT = select(sessions.c.first_prompt).where(sessions.c.session_id == bindparam("session_id"))
_KEEP = (
    update(sessions)
    .where(sessions.c.session_id == bindparam("of"))
    .values(first_prompt=bindparam("prompt"))
)
# A redacted row has no salt.
_WRITTEN = (
    select(
        *(entries.c.seq, entries.c.format, entries.c.role),
        *(entries.c.content, entries.c.extra),
    )
    .where(
        entries.c.session_id == bindparam("session_id"),
        entries.c.seq.between(bindparam("after"), bindparam("last")),
        text(f"kind = '{Kind.MESSAGE}' AND salt IS NOT NULL AND tools IS NULL"),
    )
    .order_by(entries.c.seq)
    .limit(bindparam("page"))
)


def drafted_prompt(draft: Draft) -> str | None:
    """The prompt in an entry that is about to be written."""
    sealed = draft.sealed
    if sealed.kind != Kind.MESSAGE or draft.tools is not None:
        return None
    return prompt_text(sealed.format, sealed.role, draft.content, draft.extra)


def keep_first(tx: Transaction, session_id: str, drafts: Iterable[Draft]) -> None:
    """Keep the first prompt of these entries with a session that has none yet."""
    prompt = next(filter(None, map(drafted_prompt, drafts)), None)
    if prompt is not None:
        tx.run(_KEEP, of=session_id, prompt=prompt)


def refresh_prompt(tx: Transaction, session_id: str, last: int) -> None:
    """Find the first prompt of a log that ends at entry `last`, and keep it."""
    tx.run(_KEEP, of=session_id, prompt=_found(tx, session_id, last))


def prompt_is_fresh(tx: Transaction, session_id: str, last: int) -> bool:
    """Whether the prompt that is kept is the first one of the log."""
    return tx.row(_KEPT, session_id=session_id) == (_found(tx, session_id, last),)


def _found(tx: Transaction, session_id: str, last: int) -> str | None:
    after, page = 1, 1  # nearly every session begins with its prompt
    while rows := tx.rows(_WRITTEN, session_id=session_id, after=after, last=last, page=page):
        for seq, *written in rows:
            if prompt := prompt_text(*written):
                return prompt
            after = seq + 1
        page = _PAGE
    return None
