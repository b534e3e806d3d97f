"""What rewinds have taken back of a transcript of the Claude Agent SDK.

The program keeps all branches of its conversation, and goes on behind the newest entry. A rewind of
the adapter's own leads from one branch to another, and takes nothing back. After a rewind of
anybody else, the transcript is what was live at the entry that it names: the program resumes there.
"""

from bisect import bisect_right

from roocontext.log.entries import Control, Kind, Range, subtract
from roocontext.log.spans import live_ranges, within
from roocontext.store.audit import AuditEntry

NAME = "claude-agent-sdk"
"""The kind of our notes, the trigger of our rewinds and plans, and how our client ids begin."""


class Rewinds:
    """Which entries of a log are taken back, learned from all of them in their order."""

    def __init__(self) -> None:
        self._rewinds: list[Control] = []
        self._moves: list[int] = []
        self._live: tuple[Range, ...] = ()
        self._since = 0

    def take(self, shown: AuditEntry) -> None:
        """Learn of the next entry."""
        if shown.kind is Kind.REWIND:
            details = shown.entry.details
            self._rewind(shown.seq, details["to"], is_own=details["record"]["trigger"] == NAME)
        if shown.kind is not Kind.NOTE:
            self._moves.append(shown.seq)

    def kept(self, last: int) -> tuple[Range, ...]:
        """The ranges up to this entry that are not taken back."""
        return (*self._live, (self._since + 1, last))

    def _rewind(self, seq: int, to: int, *, is_own: bool) -> None:
        # The next entries may hang on the notes behind the one that the adapter went back to.
        until = self._with_notes(to, seq) if is_own else to
        self._rewinds.append(Control(seq, Kind.REWIND, to=until))
        if not is_own:
            self._live, self._since = live_ranges(self._rewinds, until), seq
        elif self._since and to and not within(kept := self.kept(seq), to):
            # A program that runs meanwhile goes on with what was taken back: that is back.
            back = subtract(live_ranges(self._rewinds, until), kept)
            self._live, self._since = tuple(sorted((*kept, *back))), seq

    def _with_notes(self, seq: int, now: int) -> int:
        """The last of the notes right behind an entry."""
        index = bisect_right(self._moves, seq)
        return (self._moves[index] if index < len(self._moves) else now) - 1
