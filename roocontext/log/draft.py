"""Drafts of entries: checked, encoded and digested before any lock is taken.

Under the lock, a draft only gets the next seq and a chained hash. Also the details of control rows,
as the log stores them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from roocontext.errors import HistoryCorrupt, InvalidMessage
from roocontext.log.chain import Sealed, content_digest, entry_digest
from roocontext.log.encoding import (
    MAX_INTEGER,
    check_id,
    check_integer,
    check_model,
    decode,
    encode,
    encode_plain,
)
from roocontext.log.entries import (
    MESSAGE_KINDS,
    Control,
    Kind,
    NewMessage,
    are_distinct,
    are_kept_of,
    ascending,
)
from roocontext.log.pairs import may_hold_tools, tools_of
from roocontext.log.readings import reader

ItemT = TypeVar("ItemT")
DraftT = TypeVar("DraftT")
Salts = Callable[[], bytes]

KEPT_UNDER = "roocontext"
"""The name in an object of `extra` under which the store keeps the other fields of a reply."""


class Sources(NamedTuple):
    """All that an entry takes from outside: the time, and the makers of salts and ids."""

    now: int
    salts: Salts
    new_id: Callable[[], str]


class Draft(msgspec.Struct, frozen=True):
    """An entry without its place in the log, which must be after the entry it `refers_to`."""

    sealed: Sealed
    content: str | None
    salt: bytes | None
    content_digest: bytes | None
    digest: bytes
    tools: str | None = None
    extra: str | None = None
    refers_to: int = 0

    @property
    def is_message(self) -> bool:
        """True if the model may see it. The totals count such entries."""
        return self.sealed.kind in MESSAGE_KINDS

    @property
    def is_note(self) -> bool:
        """True for a note, which changes neither view nor head."""
        return self.sealed.kind == Kind.NOTE


def each_drafted(
    name: str, items: Iterable[ItemT], draft: Callable[[ItemT], DraftT]
) -> list[DraftT]:
    """Draft the items of a list; an error names the item in the list of this name."""
    drafts: list[DraftT] = []
    try:
        for item in items:
            drafts.append(draft(item))  # noqa: PERF401 - the error has to know how many there are
    except InvalidMessage as error:
        raise error.at(name, len(drafts)) from None
    return drafts


def message_draft(
    message: NewMessage,
    sources: Sources,
    *,
    kind: Kind = Kind.MESSAGE,
    compaction_id: str | None = None,
    details: str | None = None,
    kept: Any = None,
) -> Draft:
    """Draft a message, summary, marker or companion.

    `kept` is the store's own part of the extra data. A message that cannot be stored raises
    InvalidMessage or InvalidIdentifier.
    """
    # Everything that can fail comes before the lock: encoding, the format's check and the digests.
    content, text = encode_plain(message.content)
    _check(message, content)
    extra = None if message.extra is None and kept is None else _extra(message.extra, kept)
    answers_seq, answers_block = message.answers or (None, None)
    return _draft(
        # By position: keywords take almost three times as long, and every message is made here.
        Sealed(
            kind.value,
            message.format,
            message.role,
            message.ts,
            sources.now,
            message.message_id,
            message.client_id,
            message.model,
            None if message.usage is None else encode_plain(message.usage, "usage")[1],
            compaction_id,
            None,
            None,
            message.asked_at,
            answers_seq,
            answers_block,
            details,
            len(text),
        ),
        text,
        sources.salts,
        # A search in the text first: most messages have no tools, and need not be read for them.
        tools=tools_text(message.format, message.role, content) if may_hold_tools(text) else None,
        extra=extra,
        # 0 is allowed: a request may have read an empty log.
        refers_to=max(message.asked_at or 0, answers_seq or 0),
    )


def tools_text(format_: str, role: str, content: Any) -> str | None:
    """The tool ids of a message, which the log stores in a column; None if it has no tools."""
    tools = tools_of(reader(format_).blocks(role, content))
    return tools and tools.text()


def note_draft(
    note: str,
    content: Mapping[str, Any],
    sources: Sources,
    *,
    target: int | None = None,
    ts: int | None = None,
    client_id: str | None = None,
) -> Draft:
    """Draft a note, which changes neither view nor head."""
    _check_request(ts, client_id)
    _, text = encode_plain(dict(content), note)
    sealed = Sealed(
        Kind.NOTE.value,
        ts=ts,
        recorded_at=sources.now,
        client_id=client_id,
        note=note,
        target=target,
        size=len(text),
    )
    return _draft(sealed, text, sources.salts)


def control_draft(
    kind: Kind,
    details: str,
    *,
    now: int,
    client_id: str | None = None,
    ts: int | None = None,
    compaction_id: str | None = None,
) -> Draft:
    """Draft a covering, clearing, rewind or uncovering: it has details and no content."""
    _check_request(ts, client_id)
    sealed = Sealed(
        kind.value,
        ts=ts,
        recorded_at=now,
        client_id=client_id,
        details=details,
        compaction_id=compaction_id,
    )
    return Draft(sealed, None, None, None, entry_digest(sealed, None))


def details_of(control: Control, record: Mapping[str, Any]) -> str:
    """The stored details of a control row: its decision, and the record of the reason."""
    decided: dict[str, Any] = {
        "hides": [list(stretch) for stretch in control.hides],
        "position": control.position,
        "clears": [list(block) for block in control.clears],
        "keeps": [list(kept) for kept in control.keeps],
        "placeholder": control.placeholder,
        "to": control.to,
        "uncovers": list(control.uncovers),
        "source": control.source and list(control.source),
        "sealed": control.sealed or None,
    }
    # A field that is not set is left out, so that a kind that comes later changes no old details.
    details = {name: value for name, value in decided.items() if value not in (None, [], "")}
    return encode({**details, "record": dict(record)}, "record")


def control_of(seq: int, kind: str, details: str | None) -> Control:
    """Read a control row from its stored details, or raise HistoryCorrupt if they are invalid.

    All code that follows control rows relies on this: with a rewind to a later entry, the walk
    through the live entries would never end.
    """
    control = _read_control(seq, kind, details)
    source, hides = control.source or (0, 0), control.hides
    uncovers, clears = control.uncovers, control.clears
    for is_sound, why in (
        (_names(control) == _DECIDES[kind], f"its details are not those of a {kind}"),
        ((control.to or 0) < seq, "it rewinds to an entry that is not earlier"),
        (ascending(hides, seq - 1), "the ranges it hides overlap, or are not earlier entries"),
        (
            source[0] < seq and not any(lo <= source[0] <= hi for lo, hi in hides),
            "its compaction is in an entry that it hides, or a later one",
        ),
        (
            are_distinct(clears) and all(row < seq for row, _ in clears),
            "it clears a block twice, or one of a later entry",
        ),
        (
            are_kept_of(control.keeps, clears),
            "it keeps parts of a block that it does not clear, or twice",
        ),
        (
            are_distinct(uncovers) and all(row < seq for row in uncovers),
            "it uncovers an entry twice, or a later one",
        ),
    ):
        if not is_sound:
            raise _contradiction(seq, why)
    return control


def _read_control(seq: int, kind: str, details: str | None) -> Control:
    if details is None:
        raise _contradiction(seq, f"a {kind} has details, and it has none")
    if kind not in _DECIDES:
        raise _contradiction(seq, "it has details, and its kind is not that of a control row")
    try:
        # The record of the reason is not read.
        return msgspec.convert({**decode(details), "seq": seq, "kind": kind}, Control)
    except (TypeError, msgspec.ValidationError):  # TypeError: no object
        raise _contradiction(seq, "its details are not those of a control row") from None
    except HistoryCorrupt:
        raise _contradiction(seq, "its details are not JSON") from None


def check_uncoverings(controls: Sequence[Control], since: int = 1) -> None:
    """Refuse an uncovering of other rows, given all control rows from `since` on.

    It must name a summary, marker, covering or clearing first, and then its companions.
    """
    kinds = {control.seq: control.kind for control in controls}
    for control in controls:
        check_uncovered(control, kinds, since)


def check_uncovered(control: Control, kinds: Mapping[int, Kind], since: int = 1) -> None:
    """Do the same for one control row, given the kinds of all from `since` on."""
    for number, row in enumerate(control.uncovers):
        allowed = (Kind.COMPANION,) if number else UNCOVERED
        if row >= since and kinds.get(row) not in allowed:
            raise _contradiction(control.seq, f"it uncovers entry {row}, which cannot be uncovered")


def _names(control: Control) -> set[str]:
    """The details that are set; a placeholder and a seal are details of others."""
    names = {name for name in _DECIDING if getattr(control, name) not in (None, ())}
    if control.placeholder and not control.clears:
        names.add("placeholder")
    if control.sealed and not control.source:
        names.add("sealed")
    return names


_DECIDING: Final = ("hides", "position", "clears", "to", "uncovers", "source")

_DECIDES: Final[Mapping[str, set[str]]] = {
    Kind.SUMMARY: {"hides", "position"},
    Kind.MARKER: {"hides", "position"},
    Kind.COMPANION: {"position"},
    Kind.COVERING: {"hides", "source"},
    Kind.CLEARING: {"clears"},
    Kind.REWIND: {"to"},
    Kind.UNCOVERING: {"uncovers"},
}
"""The details that the control rows of each kind must have."""

UNCOVERED = (Kind.SUMMARY, Kind.MARKER, Kind.COVERING, Kind.CLEARING)
"""The kinds that an uncovering may take back."""


def _contradiction(seq: int, why: str) -> HistoryCorrupt:
    return HistoryCorrupt(f"Entry {seq} contradicts itself: {why}.", seq=seq)


def _check(message: NewMessage, content: Any) -> None:
    check_id("role", message.role)
    reader(message.format).check(message.role, content)
    if message.message_id is not None:
        check_id("message_id", message.message_id)
    if message.model is not None:
        check_model(message.model)
    _check_request(message.ts, message.client_id)

    if message.asked_at is not None:
        _check_number("asked_at", message.asked_at)
    if message.answers is not None:
        _check_answers(message.answers)


def _check_number(name: str, value: object, least: int = 0) -> None:
    # Not `isinstance`: True is an int, and would come back as 1.
    if type(value) is not int or not least <= value <= MAX_INTEGER:
        raise InvalidMessage(f"{name} must be a whole number, at least {least}.", path=name)


def _check_answers(answers: object) -> None:
    if not isinstance(answers, tuple | list) or len(answers) != 2:
        raise InvalidMessage(
            "answers must be a pair of numbers: the call's entry and its number there.",
            path="answers",
        )
    _check_number("answers[0]", answers[0], least=1)
    _check_number("answers[1]", answers[1])


def _extra(own: Any, kept: Any) -> str:
    """Encode a message's extra data: the agent's own, and the store's."""
    extra, text = encode_plain(own, "extra")
    # The agent's fields and the store's share one object: neither may overwrite the other.
    if isinstance(extra, dict) and KEPT_UNDER in extra:
        raise InvalidMessage(
            f"The name {KEPT_UNDER!r} in extra is reserved for the store.", path="extra"
        )
    if kept is None:
        return text
    if not isinstance(extra, dict | None):
        raise InvalidMessage("The extra of a recorded reply must be an object.", path="extra")
    return encode({**(extra or {}), KEPT_UNDER: kept}, "extra")


def _check_request(ts: int | None, client_id: str | None) -> None:
    if client_id is not None:
        check_id("client_id", client_id)
    if ts is not None:
        check_integer("ts", ts)


def _draft(
    sealed: Sealed,
    content: str,
    salts: Salts,
    *,
    tools: str | None = None,
    extra: str | None = None,
    refers_to: int = 0,
) -> Draft:
    salt = salts()
    digest = content_digest(salt, content, extra)
    own = entry_digest(sealed, digest)
    return Draft(sealed, content, salt, digest, own, tools, extra, refers_to)
