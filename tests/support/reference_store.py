"""A driver for our own store, for the suite of `roocontext.testing`: its ten methods."""

from collections.abc import Mapping

from roocontext import NewMessage, Plan, Session, Store
from roocontext.log.entries import Kind
from roocontext.testing.protocol import (
    Append,
    Capability,
    Condense,
    Fork,
    History,
    Message,
    Receipt,
    Sent,
    Version,
    View,
)


class Reference:
    """A session of a roocontext store. The version is its head."""

    lacks: Mapping[Capability, str] = {}

    def __init__(self, url: str) -> None:
        self._store = Store.open(url)
        self._session: Session

    def open(self, session: str) -> Receipt:
        """Open the session with this id, or create it."""
        self._session = self._store.open_session(session)
        return Receipt(self._session.head_seq())

    def append(self, new: Append) -> Receipt:
        """Store a message at the end of the session."""
        receipt = self._session.append(
            new.message.role,
            new.message.content,
            client_id=new.retry_key,
            expected_seq=_seq(new.expected),
        )
        return Receipt(receipt.head_seq)

    def view(self) -> View:
        view = self._session.view()
        return View(view.head_seq, tuple(Message(it.role, it.content) for it in view.messages))

    def sent(self) -> Sent:
        """Make the messages that Anthropic's Messages API would be sent now."""
        messages = (Message(it["role"], _blocks(it["content"])) for it in self._session.messages())
        return Sent(tuple(messages), "anthropic")

    def history(self) -> History:
        audit = [entry for entry in self._session.audit() if entry.kind is Kind.MESSAGE]
        return History(tuple(Message(str(entry.role), entry.content) for entry in audit))

    def rewind(self, to: Version) -> Receipt:
        """Make the session what it was at a version."""
        return Receipt(self._session.rewind(_seq(to)).head_seq)

    def condense(self, plan: Condense) -> Receipt:
        """Replace the oldest messages of the view by a summary."""
        view = self._session.view()
        summary = NewMessage("user", [{"type": "text", "text": plan.summary}])
        hidden = [message.seq for message in view.messages[: plan.first]]
        self._session.commit(Plan.condense(view, hidden, summary))
        return Receipt(self._session.head_seq())

    def fork(self, copy: Fork) -> None:
        """Begin another session as a copy of this one."""
        self._session.fork(_seq(copy.at), session_id=copy.session)

    def delete(self) -> None:
        """Hide all messages, as the adapters do when a framework deletes a session."""
        self._session.rewind(0)

    def close(self) -> None:
        self._store.close()


def _seq(version: Version | None) -> int | None:
    return None if version is None else int(version)


def _blocks(content: object) -> list[object]:
    """Content as blocks: a string is one text."""
    return content if isinstance(content, list) else [{"type": "text", "text": content}]
