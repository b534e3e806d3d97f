"""Restoring: uncover condensed, truncated and cleared content, as far as the window has room."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from roocontext.context.session_port import AnySession, WindowOf
from roocontext.context.settings import Settings, SizedFrame
from roocontext.context.steps import Steps, ask
from roocontext.errors import UncoverRefused, VersionConflict
from roocontext.log.counting import BYTES, Size
from roocontext.log.entries import Kind
from roocontext.log.values import Value
from roocontext.tokens.refusals import REFUSED
from roocontext.tokens.usage import IMAGES

SHARE: Final = 2
"""Half of the window is filled: the rest is for the agent's next work."""


@dataclass(frozen=True, slots=True)
class Restoration(Value):
    """One summary, marker or clearing that was uncovered, and the tokens of the request after it.

    `uncovering` is the entry that did it; None in a dry run.
    """

    seq: int
    kind: Kind
    uncovering: int | None
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored(Value):
    """The result of `restore`: the uncovered entries, newest first.

    Tokens are those of the whole request, system prompt and tools included; `room` is how many may
    be used. `stopped_at` is the entry that did not fit or that another writer changed, and
    `tokens_needed` the size of the request with it uncovered.
    """

    steps: tuple[Restoration, ...] = ()
    counter: str
    exact: bool
    window: int
    window_source: str
    room: int
    tokens_before: int
    tokens_after: int
    stopped_at: int | None = None
    tokens_needed: int | None = None
    reason: str = ""
    dry_run: bool = False

    @property
    def changed(self) -> bool:
        """True if anything was uncovered, or in a dry run would be."""
        return bool(self.steps)

    @property
    def seqs(self) -> tuple[int, ...]:
        """The uncovered entries."""
        return tuple(step.seq for step in self.steps)


def restored(
    chat: AnySession, settings: Settings, frame: SizedFrame, window_of: WindowOf, *, dry_run: bool
) -> Steps[Restored]:
    """Uncover entries, newest first, until one does not fit or none is left."""
    counter, overhead = settings.counter, frame.overhead
    counters = (counter, BYTES, IMAGES)
    note = yield from ask(lambda: chat.newest_note(REFUSED))
    window = window_of(None if note is None else note.content)
    counted = yield from ask(lambda: chat.internals.counted(counter))
    before = counted.tokens + overhead.tokens
    done = Restored(
        counter=counter.name,
        exact=counted.exact,
        window=window.context,
        window_source=window.source,
        room=window.context // SHARE,
        tokens_before=before,
        tokens_after=before,
        dry_run=dry_run,
    )
    while True:
        seqs = done.seqs if dry_run else ()
        newest = yield from ask(partial(chat.internals.restorable, counters, given=seqs))
        if newest is None:
            return replace(done, reason="Nothing is left to uncover.")
        size = Size(*newest.costs).plus(overhead)
        stopped = replace(done, stopped_at=newest.seq, tokens_needed=size.tokens)
        if size.tokens > done.room or settings.limits.exceeded_by(size):
            return replace(stopped, reason="The next one does not fit.")
        uncovering = None
        if not dry_run:
            # Each with the version that its cost was computed for.
            uncover = partial(chat.uncover, newest.seq, expected_seq=newest.head_seq)
            try:
                uncovering = (yield from ask(partial(uncover, trigger="restore"))).seq
            except (VersionConflict, UncoverRefused):
                return replace(stopped, reason="Another writer changed the session.")
        step = Restoration(newest.seq, newest.kind, uncovering, size.tokens)
        exact = done.exact and newest.exact
        done = replace(done, steps=(*done.steps, step), tokens_after=size.tokens, exact=exact)
