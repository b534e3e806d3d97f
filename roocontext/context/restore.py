"""Restoring: uncover what was condensed, truncated and cleared, as far as the window has room."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from roocontext.context.session_port import AnySession
from roocontext.context.settings import Settings, SizedFrame
from roocontext.context.steps import Steps, ask
from roocontext.errors import UncoverRefused, VersionConflict
from roocontext.log.counting import BYTES, Size
from roocontext.log.entries import Kind
from roocontext.log.values import Value
from roocontext.store.counting.count import Restorable
from roocontext.tokens import Limit
from roocontext.tokens.usage import IMAGES

SHARE: Final = 2
"""Half of the window is filled: the rest is for the work that the agent was restored for."""


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
    """What `restore` uncovered, newest first.

    Tokens are those of the whole request, system prompt and tools included; `room` is how many may
    be used. `stopped_at` is the entry that did not fit or that another writer changed, and
    `tokens_needed` what the request would have with it uncovered.
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
        """Whether anything was uncovered, or in a dry run would be."""
        return bool(self.steps)

    @property
    def seqs(self) -> tuple[int, ...]:
        """What was uncovered."""
        return tuple(step.seq for step in self.steps)


def restored(
    chat: AnySession, settings: Settings, frame: SizedFrame, window: Limit, *, dry_run: bool
) -> Steps[Restored]:
    """Uncover the newest that fits, and again, until one does not fit or nothing is left."""
    counter, overhead = settings.counter, frame.overhead
    before = (yield from ask(lambda: chat.tokens(counter))) + overhead.tokens
    done = Restored(
        counter=counter.name,
        exact=counter.exact,
        window=window.context,
        window_source=window.source,
        room=window.context // SHARE,
        tokens_before=before,
        tokens_after=before,
        dry_run=dry_run,
    )
    while True:
        given = done.seqs if dry_run else ()
        newest = yield from _next(chat, settings, given)
        if newest is None:
            return replace(done, reason="Nothing is left to uncover.")
        size = Size(*newest.costs).plus(overhead)
        stopped = replace(done, stopped_at=newest.seq, tokens_needed=size.tokens)
        if size.tokens > done.room or _is_over(settings, size):
            return replace(stopped, reason="The next one does not fit.")
        uncovering = None
        if not dry_run:
            try:
                # Each with the version that its cost was computed for.
                uncovering = yield from _uncovered(chat, newest)
            except (VersionConflict, UncoverRefused):
                return replace(stopped, reason="The session was changed meanwhile.")
        step = Restoration(newest.seq, newest.kind, uncovering, size.tokens)
        done = replace(done, steps=(*done.steps, step), tokens_after=size.tokens)


def _next(chat: AnySession, settings: Settings, given: Sequence[int]) -> Steps[Restorable | None]:
    counters = (settings.counter, BYTES, IMAGES)
    return (yield from ask(lambda: chat.internals.restorable(counters, given=given)))


def _uncovered(chat: AnySession, newest: Restorable) -> Steps[int]:
    at = newest.head_seq
    done = yield from ask(lambda: chat.uncover(newest.seq, expected_seq=at, trigger="restore"))
    return done.seq


def _is_over(settings: Settings, size: Size) -> bool:
    """Whether the request would have more bytes or images than a request may have."""
    limits = settings.limits
    bytes_over = limits.bytes is not None and size.bytes > limits.bytes
    return bytes_over or (limits.images is not None and size.images > limits.images)
