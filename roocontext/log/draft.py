"""Entries on their way into the log: checked, encoded and digested, all before any lock is taken.

What is left to do under the lock is to take the next seq and to chain the hash.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from roocontext.log.blocks import reader
from roocontext.log.chain import Sealed, content_digest, entry_digest
from roocontext.log.encoding import check_id, check_integer, encode, encode_plain
from roocontext.log.entries import MESSAGE_KINDS, Control, Kind, NewMessage
from roocontext.log.pairs import tools_of

Salts = Callable[[], bytes]


class Draft(msgspec.Struct, frozen=True):
    """An entry without its place in the log."""

    sealed: Sealed
    content: str | None
    salt: bytes | None
    content_digest: bytes | None
    digest: bytes
    tools: str | None = None

    @property
    def is_message(self) -> bool:
        """Whether the model may see it, so that the totals count it."""
        return self.sealed.kind in MESSAGE_KINDS

    @property
    def is_note(self) -> bool:
        """Whether it leaves the view and the head as they are."""
        return self.sealed.kind == Kind.NOTE


def message_draft(
    message: NewMessage,
    *,
    now: int,
    salts: Salts,
    kind: Kind = Kind.MESSAGE,
    compaction_id: str | None = None,
    details: str | None = None,
) -> Draft:
    """A message, summary, marker or companion, or the error that says why it cannot be stored."""
    content, text = encode_plain(message.content)
    _check(message, content)
    return _draft(
        Sealed(
            kind.value,
            message.format,
            message.role,
            message.ts,
            now,
            message.message_id,
            message.client_id,
            message.model,
            None if message.usage is None else encode_plain(message.usage, "usage")[1],
            compaction_id,
            None,
            None,
            details,
            len(text),
        ),
        text,
        salts,
        tools_text(message.format, message.role, content),
    )


def tools_text(format_: str, role: str, content: Any) -> str | None:
    """What the log keeps of the tools in a message beside its content; None if there are none."""
    tools = tools_of(reader(format_).blocks(role, content))
    return tools and tools.text()


def note_draft(
    note: str, content: Mapping[str, Any], *, now: int, salts: Salts, target: int | None = None
) -> Draft:
    """A note, which changes neither view nor head."""
    text = encode(dict(content), note)
    return _draft(_bare(Kind.NOTE, now, note=note, target=target, size=len(text)), text, salts)


def control_draft(kind: Kind, details: str, *, now: int, compaction_id: str | None = None) -> Draft:
    """A clearing or a rewind: it has details and no content."""
    sealed = _bare(kind, now, details=details, compaction_id=compaction_id)
    return Draft(sealed, None, None, None, entry_digest(sealed, None))


def details_of(control: Control, record: Mapping[str, Any]) -> str:
    """The stored details of a control row: what it decides, and the record of why."""
    decided: dict[str, Any] = {
        "hides": [list(stretch) for stretch in control.hides],
        "position": control.position,
        "clears": [list(block) for block in control.clears],
        "placeholder": control.placeholder,
        "to": control.to,
    }
    kept = {name: value for name, value in decided.items() if value not in (None, [], "")}
    return encode({**kept, "record": dict(record)}, "record")


def control_of(seq: int, kind: str, details: Mapping[str, Any]) -> Control:
    """The control row that these stored details make."""
    return Control(
        seq,
        Kind(kind),
        hides=tuple((lo, hi) for lo, hi in details.get("hides", ())),
        position=details.get("position"),
        clears=tuple((row, block) for row, block in details.get("clears", ())),
        placeholder=details.get("placeholder", ""),
        to=details.get("to"),
    )


def _check(message: NewMessage, content: Any) -> None:
    check_id("role", message.role)
    reader(message.format).check(message.role, content)
    if message.message_id is not None:
        check_id("message_id", message.message_id)
    if message.client_id is not None:
        check_id("client_id", message.client_id)
    if message.model is not None:
        check_id("model", message.model)
    if message.ts is not None:
        check_integer("ts", message.ts)


def _bare(
    kind: Kind,
    now: int,
    *,
    note: str | None = None,
    target: int | None = None,
    details: str | None = None,
    compaction_id: str | None = None,
    size: int = 0,
) -> Sealed:
    return Sealed(
        kind=kind.value,
        format=None,
        role=None,
        ts=None,
        recorded_at=now,
        message_id=None,
        client_id=None,
        model=None,
        usage=None,
        compaction_id=compaction_id,
        note=note,
        target=target,
        details=details,
        size=size,
    )


def _draft(sealed: Sealed, content: str, salts: Salts, tools: str | None = None) -> Draft:
    salt = salts()
    digest = content_digest(salt, content)
    return Draft(sealed, content, salt, digest, entry_digest(sealed, digest), tools)
