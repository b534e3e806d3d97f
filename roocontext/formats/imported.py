"""The tree of events that earlier imports have left in a session, and its tip.

The client id of an imported entry names the event: its digest, its number among equal ones, the
source's id, and the generation, which grows when the import goes to another branch. So the log
itself says what was imported, and in which order.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b, sha256

import msgspec

from roocontext.errors import InvalidIdentifier
from roocontext.formats.events import Added, Cleared, Covered, Event, Hid, Noted, TitleSet, WentBack
from roocontext.log.encoding import check_id, check_model, encode
from roocontext.log.entries import Entry, Kind
from roocontext.store.reading.audit import AuditEntry
from roocontext.store.reading.notes import TITLE

_OURS = "import"
_SWITCH = "switch"
BEFORE, AFTER = "before", "after"
"""The beginnings of the keys of rows that came with an event, before or after its own row."""
AGAIN = "again"
"""The beginning of the key of a kept message that was written again after a compaction."""
_LONGEST = 300
_encode = msgspec.json.Encoder().encode


@dataclass(slots=True, eq=False)
class ImportedEvent:
    """An event that was imported: its last entry, and the events that followed it, by their keys.

    `again` are the messages that were written again with it, by their ids.
    """

    end: int = 0
    following: dict[str, "ImportedEvent"] = field(default_factory=dict)
    again: list[tuple[str | None, int]] = field(default_factory=list)


class Imported:
    """The tree of what was imported into a session."""

    def __init__(self) -> None:
        self.root = self.tip = ImportedEvent()
        self.notes: set[str] = set()
        self.title: str | None = None
        """The key of the newest title."""
        self.generation = 0
        self.foreign: int | None = None
        """The first entry after the newest imported one that no import wrote."""
        self._events = {0: self.root}
        """By their entries, which may be several."""

    @classmethod
    def read(cls, audit: Iterable[AuditEntry]) -> "Imported":
        """The tree that the entries of a session make."""
        imported = cls()
        for row in audit:
            generation, key = _parsed(row.entry.client_id)
            if row.kind is Kind.NOTE:
                imported.notes |= {key} if key else set()
                imported.title = key if key and row.entry.note == TITLE else imported.title
            elif key is not None:
                imported._take(row.entry, generation, key)
            elif imported.foreign is None:
                imported.foreign = row.seq
        return imported

    def _take(self, entry: Entry, generation: int, key: str) -> None:
        self.generation = generation  # a fork begins one without a switch
        if key.startswith(_SWITCH):
            self.tip = self._events.get(entry.details["to"], self.root)
        elif key.startswith((AFTER, AGAIN)):  # the event ends after this row
            self.tip.end = entry.seq
            self._events[entry.seq] = self.tip
            if key.startswith(AGAIN):
                self.tip.again.append((entry.message_id, entry.seq))
        elif not key.startswith(BEFORE):
            event = self._events[entry.seq] = ImportedEvent(entry.seq)
            self.tip.following[key] = event
            self.tip = event

    def title_key(self, key: str) -> str:
        """The key of a title: another one if the source has gone back to an earlier title."""
        while key in self.notes and key != self.title:
            key += "+"
        return key

    def client_id(self, key: str) -> str:
        """The client id of an event in the current generation."""
        return f"{_OURS}#{self.generation}#{key}"

    def switch(self, event: ImportedEvent) -> str:
        """Go to another branch; the client id of the rewind that does it."""
        self.generation += 1
        self.tip = event
        return self.client_id(f"{_SWITCH}#{event.end}")


class Keys:
    """Names the events of a stream, so that equal streams give equal names."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()

    def key(self, event: Event) -> tuple[str, int]:
        """The event's digest, its number among equal ones, and its own id; and its size."""
        text = _text_of(event)
        digest = blake2b(text, digest_size=12).hexdigest()
        name = storable(getattr(event, "id", None)) or "-"
        self._seen[digest, name] += 1
        return f"{digest}#{self._seen[digest, name]}#{name}", len(text)


def storable(name: str | None) -> str | None:
    """A source's id as the store takes it: a digest of one that it would refuse."""
    if name is None or (name.isascii() and 0 < len(name) <= _LONGEST and "\0" not in name):
        return name
    try:
        check_id("id", name)
        short = len(name.encode()) <= _LONGEST
    except InvalidIdentifier:
        short = False
    return name if short else sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def storable_model(name: str | None) -> str | None:
    """A source's name of a model; None for one that the store would refuse."""
    try:
        check_model(name or "-")
    except InvalidIdentifier:
        return None
    return name or None


def storable_title(title: str) -> str:
    """A title that every engine can index: it has neither NUL nor half of a character."""
    return title.replace("\0", " ").encode("utf-8", "replace").decode()


def _parsed(client_id: str | None) -> tuple[int, str | None]:
    ours, _, rest = (client_id or "").partition("#")
    generation, _, key = rest.partition("#")
    if ours != _OURS or not generation.isdecimal() or not key:
        return 0, None
    return int(generation), key


def _text_of(event: Event) -> bytes:
    identity = _said(event)
    try:
        return _encode(identity)
    except (UnicodeError, OverflowError, RecursionError):
        # Lone surrogates and big numbers; what this refuses the store would refuse too.
        return encode(identity).encode()


def _said(event: Event) -> object:
    identity: list[object]
    match event:
        case Added(message=message):
            identity = ["added", message.role, message.format, message.content]
        case Noted():
            identity = ["noted", event.kind, event.record]
        case Hid():
            rows = [[row.role, row.format, row.content] for row in event.rows]
            hides = None if event.hides is None else sorted(event.hides)
            identity = ["hid", event.truncates, rows, hides, sorted(event.keeps)]
        case Covered():
            rows = [[row.role, row.format, row.content] for row in event.rows]
            identity = ["covered", rows]
        case Cleared():
            identity = ["cleared", [list(block) for block in event.blocks], event.placeholder]
        case WentBack():
            identity = ["went back", event.to]
        case TitleSet():
            identity = ["titled", event.title]
    return identity
