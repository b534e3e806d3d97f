"""A dry run: it writes to a store in memory, so that it counts exactly what an import would write.

The session, as it is, is copied there first. Most dry runs of an import that was made before find
nothing new, so the events are first compared with the session itself, and copied only if they
differ.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Final, Self

from roocontext.errors import SessionNotFound
from roocontext.formats.events import Source
from roocontext.formats.imported import storable
from roocontext.formats.play import OnConflict, play
from roocontext.formats.played import Played
from roocontext.formats.writing import WouldWriteError
from roocontext.store.store import Store

_ROOM: Final = 64 << 20
"""How many bytes of sessions the store in memory holds before it is replaced by an empty one."""


class Rehearsal:
    """Plays sources as an import would, and leaves the store as it is."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._copies: Store | None = None
        self._held: set[str] = set()
        self._dropped: set[str] = set()
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._copies is not None:
            self._copies.close()
            self._copies = None

    def play(
        self,
        source: Source,
        *,
        on_conflict: OnConflict = "refuse",
        read: Callable[[int], None] | None = None,
    ) -> Played:
        """What an import of this source would write."""
        problems = [*source.problems]
        with suppress(WouldWriteError):
            return play(self._store, source, only_look=True)
        source.problems[:] = problems  # the events come once more
        copies = self._with_copy(storable(source.session_id) or "-")
        done = play(copies, source, on_conflict=on_conflict, read=read)
        self._size += copies.session(done.session_id).info().bytes if done.new else 0
        return done

    def adds_messages(self, source: Source) -> bool:
        """Whether a source has messages beyond those of another one of its session.

        That one was imported, or has been played here. What this one adds is not kept.
        """
        session_id = storable(source.session_id) or "-"
        if session_id in self._dropped:
            return False  # what was played of it is known no more
        store = self._store
        if self._copies is not None and session_id in self._held:
            store = self._copies
        with Rehearsal(store) as beside:
            return bool(beside.play(source).messages)

    def _with_copy(self, session_id: str) -> Store:
        """The store in memory with this session, and with its forks that imports have made."""
        if self._size > _ROOM or session_id in self._held:
            self.__exit__()
            self._dropped |= self._held
            self._held, self._size = set(), 0
        self._held.add(session_id)
        self._dropped.discard(session_id)
        copies = self._copies = self._copies or Store.open(":memory:")
        for number in count(1):
            name = session_id if number == 1 else f"{session_id}~{number}"
            try:
                session = self._store.session(name)
            except SessionNotFound:
                return copies
            copies.restore(name, session.stored())
            self._size += session.info().bytes
        return copies
