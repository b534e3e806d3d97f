"""What an earlier import has left in a session: a tree of events, and where its tip is.

The client id of an imported entry names the event: its digest, its number among equal ones, the
source's id, and the generation, which grows when the import goes to another branch. So the log
itself says what was imported, and in which order.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from hashlib import blake2b, sha256

import msgspec

from roocontext.errors import InvalidIdentifier
from roocontext.formats.events import Added, Cleared, Event, Hid, Noted, TitleSet, WentBack
from roocontext.formats.numbered_names import NumberedNames
from roocontext.log.encoding import check_id, encode
from roocontext.log.entries import Entry, Kind
from roocontext.store.reading.audit import AuditEntry

_OURS = "import"
_SWITCH = "switch"
COMPANION = "with"
"""How the key of a message begins that came with another one."""
AGAIN = "again"
"""How the key of a message begins that a compaction kept, and that was written again behind it."""
_LONGEST = 300
_encode = msgspec.json.Encoder().encode


class Imported:
    """The tree of what was imported into a session.

    Its nodes are events by their numbers in the order of the log. There may be very many, so two
    arrays hold what each has; most follow the one before, and only the others are in a dictionary.
    """

    ROOT = 0

    def __init__(self) -> None:
        self.notes = NumberedNames()
        self.tip = self.ROOT
        self.generation = 0
        self.foreign: int | None = None
        """The first entry that somebody else has added behind the newest imported one."""
        self._marks, self._seqs = array("q", [0]), array("Q", [0])
        self._parents: dict[int, int] = {}
        self._branches: dict[int, list[int]] = {}
        self._ends: dict[int, int] = {}
        self._extended: dict[int, int] = {}
        self._again: dict[int, list[tuple[str | None, int]]] = {}
        self._plan: str | None = None
        self._waiting: str | None = None

    @classmethod
    def read(cls, audit: Iterable[AuditEntry]) -> "Imported":
        """The tree that the entries of a session make."""
        found = cls()
        for shown in audit:
            generation, key = _parsed(shown.entry.client_id)
            if shown.kind is Kind.NOTE:
                if key:
                    found.notes[key] = shown.seq
            elif key is None:
                found._take_other(shown.entry)
            else:
                found._take_own(shown.entry, generation, key)
        return found

    def child(self, node: int, key: str) -> int | None:
        """The event with this key that followed another one."""
        mark = hash(key)
        following = node + 1
        is_next = following < len(self._marks) and self._parents.get(following, node) == node
        candidates = (*reversed(self._branches.get(node, ())), *([following] if is_next else ()))
        return next((one for one in candidates if self._marks[one] == mark), None)

    def end(self, node: int) -> int:
        """The last entry of an event; 0 at the root."""
        return self._ends.get(node, self._seqs[node])

    def again(self, node: int) -> Sequence[tuple[str | None, int]]:
        """The messages that were written again behind an event, by their message ids."""
        return self._again.get(node, ())

    def _take_own(self, entry: Entry, generation: int, key: str) -> None:
        if self._waiting is not None and self._waiting == entry.compaction_id:
            self.foreign = self._waiting = None  # it was a companion ahead of its summary
        if key.startswith(_SWITCH):
            self.generation = generation
            self.tip = self._node_of(entry.details["to"])
        elif key.startswith(COMPANION):
            self._extend(entry)
        elif key.startswith(AGAIN):
            self._extend(entry)
            self._again.setdefault(self.tip, []).append((entry.message_id, entry.seq))
        else:
            self._add(key, entry.seq)
            self._plan = entry.compaction_id

    def _add(self, key: str, seq: int) -> None:
        node = len(self._marks)
        self._marks.append(hash(key))
        self._seqs.append(seq)
        if self.tip != node - 1:
            self._parents[node] = self.tip
            self._branches.setdefault(self.tip, []).append(node)
        self.tip = node

    def _node_of(self, seq: int) -> int:
        """The node that an entry belongs to; the root if it is none of ours."""
        if seq in self._extended:
            return self._extended[seq]
        node = bisect_left(self._seqs, seq)
        return node if node < len(self._seqs) and self._seqs[node] == seq else self.ROOT

    def _take_other(self, entry: Entry) -> None:
        if entry.kind is Kind.COMPANION and entry.compaction_id == self._plan:
            self._extend(entry)
        elif self.foreign is None:
            self.foreign, self._waiting = entry.seq, entry.compaction_id

    def _extend(self, entry: Entry) -> None:
        """A row that came with the newest event: behind it is where the event ends."""
        self._ends[self.tip] = entry.seq
        self._extended[entry.seq] = self.tip

    def client_id(self, key: str) -> str:
        """The client id of an event in the current generation."""
        return f"{_OURS}#{self.generation}#{key}"

    def switch(self, node: int) -> str:
        """Go to another branch; the client id of the rewind that does it."""
        self.generation += 1
        self.tip = node
        return self.client_id(f"{_SWITCH}#{self.end(node)}")


class Keys:
    """Names the events of a stream, so that equal streams give equal names."""

    def __init__(self) -> None:
        self._seen = NumberedNames()

    def key(self, event: Event) -> tuple[str, int]:
        """The event's digest, its number among equal ones, and its own id; and its size."""
        text = _text_of(event)
        digest = blake2b(text, digest_size=12).hexdigest()
        name = storable(getattr(event, "id", None)) or "-"
        number = (self._seen.get((digest, name)) or 0) + 1
        self._seen[digest, name] = number
        return f"{digest}#{number}#{name}", len(text)


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
    said = _said(event)
    try:
        return _encode(said)
    except (UnicodeError, OverflowError, RecursionError):
        # Lone surrogates and big numbers; what this refuses the store would refuse too.
        return encode(said).encode()


def _said(event: Event) -> object:
    match event:
        case Added(message=message):
            return ["added", message.role, message.format, message.content]
        case Noted():
            return ["noted", event.kind, event.record]
        case Hid():
            rows = [[row.role, row.format, row.content] for row in event.rows]
            hides = None if event.hides is None else sorted(event.hides)
            return ["hid", event.truncates, rows, hides, sorted(event.keeps)]
        case Cleared():
            return ["cleared", [list(block) for block in event.blocks], event.placeholder]
        case WentBack():
            return ["went back", event.to]
        case TitleSet():
            return ["titled", event.title]
