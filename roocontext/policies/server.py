"""Lets the provider compact the history, where it offers that, and acts itself where it does not.

The provider compacts while it answers a request that is over the threshold. Its compaction cannot
keep pinned messages, so with pins `default` acts. It also acts if the request is over the window,
which the provider would refuse, and if the newest reply answered a request over the threshold and
has no compaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from roocontext.log.compactions import model_groups
from roocontext.log.entries import Kind
from roocontext.log.forms import newest_reply
from roocontext.log.forms.compacted import asking_to_compact
from roocontext.policies.default import Default
from roocontext.policies.layout import total_size
from roocontext.policies.situation import Aim, Decision, Nothing, Situation, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPolicy(Default):
    """The thresholds are those of `default`."""

    name: ClassVar[str] = "server"

    def decide(self, situation: Situation) -> Decision:
        """Leave it to the provider, or decide as `default` does."""
        totals = situation.totals
        is_left = (
            situation.aim is Aim.MANAGE
            and not totals.is_over
            and bool(self.options(totals, pinned=bool(situation.pins)))
            and not self._was_asked(situation)
        )
        if not is_left:
            return Default.decide(self, situation)
        return Nothing("The provider is to compact the history in its next reply.", "delegated")

    def options(self, totals: Totals, *, pinned: bool) -> Mapping[str, Any]:
        """The fields of a request with which the provider compacts; none if `default` acts."""
        form = model_groups["compacts"](totals.model)
        if form is None or pinned:
            return {}
        # In the provider's own tokens: no report has to be compared with our count.
        threshold = self.level(replace(totals, reported=None), self.threshold).tokens
        return asking_to_compact(form, threshold or 0)

    def _was_asked(self, situation: Situation) -> bool:
        """True if the newest reply answered a request over the threshold and compacted nothing."""
        rows = situation.visible
        reply = newest_reply([row.message for row in rows])
        if reply is None or reply.compacted is not None:
            return False
        planned = (Kind.SUMMARY, Kind.MARKER)
        if any(row.seq > reply.seq and row.message.kind in planned for row in rows):
            return False  # it was sent another view
        last_read = reply.seq - 1 if reply.asked_at is None else reply.asked_at
        read = total_size(row for row in rows if row.seq <= last_read)
        threshold = self.level(situation.totals, self.threshold)
        return bool(threshold.exceeded_by(situation.overhead.plus(read)))
