"""Sealed coverings: the models that can read their compactions, and what they hide.

A sealed compaction tells nobody what was dropped. So a note on its message holds an extract of what
the covering hides, which people read and no model sees.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from roocontext.errors import InvalidOption
from roocontext.log.compactions import as_summary, without_compactions
from roocontext.log.entries import Control, Message, common
from roocontext.log.replies import requested_model
from roocontext.log.spans import compacted_at
from roocontext.store.engine.schema import AT_SEQ, log_rows
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.reading.head import read_head
from roocontext.store.reading.messages import (
    SHOWN,
    bounds,
    read_compacted,
    read_controls,
    shown_messages,
)
from roocontext.store.reading.notes import EXTRACT, newest_note
from roocontext.store.reading.view import shown_after

_MODEL = log_rows("model", "extra").where(AT_SEQ)


class SealedCovering(NamedTuple):
    """A sealed covering, the entry of its compaction, and the model that made it.

    `requested` is the name under which that model was asked. `extracted` says that a note has the
    extract of what it hides.
    """

    seq: int
    source: int
    model: str | None
    requested: str | None = None
    extracted: bool = False


class Hidden(NamedTuple):
    """The messages that a covering hides, in view order; `last_seq` is the end of the log then."""

    covering: int
    source: int
    messages: tuple[Message, ...]
    last_seq: int


def sealed_by(
    log: SessionLog, coverings: Iterable[Control], last_seq: int
) -> tuple[SealedCovering, ...]:
    """Those of the coverings that are sealed, oldest first, with the models that made them."""
    sealed = []
    for covering in coverings:
        if covering.source is not None and covering.sealed:
            source, _ = covering.source
            model, extra = log.row(_MODEL, seq=source) or (None, None)
            has_note = newest_note(log, EXTRACT, source, last_seq) is not None
            sealed.append(
                SealedCovering(covering.seq, source, model, requested_model(extra), has_note)
            )
    return tuple(sorted(sealed))


def read_unextracted(log: SessionLog) -> tuple[int, ...]:
    """The standing sealed coverings without an extract, hidden ones too, oldest first."""
    last = read_head(log).last_seq
    standing = compacted_at(read_controls(log, last), last)
    sealed = sealed_by(log, standing.values(), last)
    return tuple(compaction.seq for compaction in sealed if not compaction.extracted)


def read_hidden(log: SessionLog, covering: int) -> Hidden:
    """Read what a covering hides, as it was visible before.

    Where an earlier sealed compaction was visible, its extract is read.
    """
    last = read_head(log).last_seq
    controls = read_controls(log, covering)
    own = controls.pop() if controls else None
    if own is None or own.seq != covering or own.source is None:
        raise InvalidOption(f"Entry {covering} is not a covering.", name="covering")
    visible = shown_after(controls, covering - 1)
    ranges = [part for stretch in visible.ranges for part in common([stretch], own.hides)]
    rows = shown_messages(
        log.each(SHOWN, bounds(ranges)), visible.cleared, read_compacted(log, visible.compacted)
    )
    messages = [part for row in rows for part in _readable(log, row, last)]
    return Hidden(covering, own.source[0], tuple(messages), last)


def _readable(log: SessionLog, message: Message, last_seq: int) -> Iterator[Message]:
    """A message, with an extract in place of a sealed compaction."""
    if message.compacted is None or not message.compacted.sealed:
        yield message
        return
    extract = newest_note(log, EXTRACT, message.seq, last_seq)
    if extract is not None and extract.content["text"]:
        yield as_summary(message, extract.content["text"])
    if rest := without_compactions(message.format, message.content):
        yield replace(message, content=rest, compacted=None)
