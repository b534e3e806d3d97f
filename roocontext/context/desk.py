"""Where a run reads the session and carries its plans out: for real, or on paper.

Every method is a generator: what it yields is a call of the session, which may have to be awaited,
and it is given the result. So the same code serves Session and AsyncSession.
"""

from collections.abc import Generator
from dataclasses import replace
from typing import Any, TypeAlias

from roocontext.context import paper
from roocontext.context.guard import NOTE, Guard
from roocontext.context.settings import Frame, Settings
from roocontext.log.budget import Size
from roocontext.log.counting import BYTES
from roocontext.log.plan import Plan
from roocontext.policies.situation import Aim, Reported, Row, Situation, Totals
from roocontext.store.commit import Committed
from roocontext.store.count import Call
from roocontext.tokens import Limit, usage_tokens
from roocontext.tokens.reading import IMAGES

LOOK_BACK = 64
"""How many entries are searched for the last calls of the model."""

Steps: TypeAlias = Generator[Any, Any, Any]


class Desk:
    """Reads a session, and commits to it."""

    def __init__(self, chat: Any, settings: Settings, frame: Frame, window: Limit) -> None:
        self.chat = chat
        self.settings = settings
        self.frame = frame
        self.window = window

    def calls(self) -> Steps:
        """The last calls whose usage is known, oldest first."""
        found: list[Call] = yield self.chat.calls(last=LOOK_BACK)
        return found

    def totals(self, call: Call | None) -> Steps:
        """The totals; only messages that were never counted are read."""
        counter, limits = self.settings.counter, self.settings.limits
        tokens = yield self.chat.tokens(counter)
        size = Size(
            tokens,
            (yield from self._bytes()),
            (yield self.chat.tokens(IMAGES)) if limits.images is not None else 0,
        )
        return Totals(
            size=size.plus(self.frame.overhead),
            window=self.window.context,
            output=self.window.output,
            reported=(yield from self._reported(call)),
            limits=limits,
            model=self.settings.model,
        )

    def situation(self, totals: Totals, *, aim: Aim, trigger: str, cap: int | None) -> Steps:
        """All that the policy may know."""
        settings, frame = self.settings, self.frame
        rows, head_seq, seen = yield from self._rows()
        return Situation(
            session_id=self.chat.id,
            head_seq=head_seq,
            seen=seen,
            rows=rows,
            window=totals.window,
            output=totals.output,
            measure=settings.measure,
            counter=settings.counter.name,
            exact=settings.counter.exact,
            system=frame.system,
            tools=frame.tools,
            system_size=frame.system_size,
            overhead=frame.overhead,
            limits=settings.limits,
            reported=totals.reported,
            now=settings.clock(),
            aim=aim,
            trigger=trigger,
            cap=cap,
            pins=(yield self.chat.pins()),
            protected_tools=settings.protected_tools,
            failures=totals.failures,
            model=settings.model,
        )

    def guard(self) -> Steps:
        """What is known of earlier runs, and the newest note about one."""
        newest = yield self.chat.newest_note(NOTE)
        guard = Guard.of(newest)
        if guard.stalled is not None and (yield self.chat.uncovered_since(newest.seq)):
            guard = guard.uncovered()
        return guard, newest

    def commit(self, plan: Plan) -> Steps:
        """Carry a plan out."""
        done: Committed = yield self.chat.commit(plan)
        return done

    def note(self, content: dict[str, Any]) -> Steps:
        """Log what no model sees."""
        yield self.chat.note(NOTE, content)

    def _rows(self) -> Steps:
        """The rows that the policy may see, as of one head; what came later is left for later."""
        if self.settings.policy.compat:
            seen = (yield self.chat.head()).seq
            head_seq = yield self.chat.head_seq()
            live = yield self.chat.live()
            told = [row for row in live if row.message.seq <= head_seq]
        else:
            view = yield self.chat.view()
            head_seq, seen = view.head_seq, view.seq
            told = [(message, None, None) for message in view.messages]
        hidden = self.settings.policy.compat
        counts = yield self.chat.counts(self.settings.counter, hidden=hidden)
        rows = tuple(
            Row(message, self._size(message, counts), condensed, truncated)
            for message, condensed, truncated in told
        )
        return rows, head_seq, seen

    def _size(self, message: Any, counts: dict[int, int]) -> Size:
        content = (message.role, message.content, message.format)
        if message.seq not in counts:  # hidden since it was read
            return self.settings.measure(*content)
        return Size(counts[message.seq], BYTES.count(*content), IMAGES.count(*content))

    def _bytes(self) -> Steps:
        """What is visible, from the running totals; counted as it is shown where that matters."""
        if self.settings.limits.bytes is not None:
            return (yield self.chat.tokens(BYTES))
        return (yield self.chat.visible_bytes())

    def _reported(self, call: Call | None) -> Steps:
        used = usage_tokens(call.usage) if call else None
        if call is None or used is None or not call.current:
            return None
        since = yield self.chat.tokens(self.settings.counter, after=call.seq)
        return Reported(used.input, used.output, since)


class Paper(Desk):
    """Reads a session once, and tries plans on paper from there on. Nothing is written."""

    def __init__(self, chat: Any, settings: Settings, frame: Frame, window: Limit) -> None:
        super().__init__(chat, settings, frame, window)
        self.situated: Situation | None = None
        self._last_seq = 0
        self._untouched = True

    def situation(self, totals: Totals, *, aim: Aim, trigger: str, cap: int | None) -> Steps:
        """What is read, or what the last plan left behind."""
        if self.situated is None:
            self._last_seq = (yield self.chat.head()).seq
            self.situated = yield from super().situation(totals, aim=aim, trigger=trigger, cap=cap)
        told = {"reported": totals.reported, "failures": totals.failures}
        return replace(self.situated, aim=aim, cap=cap, **told)

    def commit(self, plan: Plan) -> Steps:
        """What carrying it out would do; the first plan is held against the store's checks."""
        assert self.situated is not None
        if self._untouched:
            yield self.chat.commit(plan, dry_run=True)
        before, first = self.situated, self._last_seq + 1
        self.situated = paper.after(before, plan, last_seq=self._last_seq)
        self._untouched = False
        self._last_seq = self.situated.head_seq
        gone = {row.seq for row in before.visible} - {row.seq for row in self.situated.visible}
        return Committed(
            before.session_id,
            plan.action,
            first + plan.lead,
            None,
            self._last_seq,
            None,
            tuple(range(first, first + len(plan.rows))),
            len(gone),
            len(plan.clears),
            dry_run=True,
        )

    def note(self, content: dict[str, Any]) -> Steps:  # noqa: ARG002 - on paper there is no log
        """Write nothing, but leave room for it: what a next plan inserts comes behind it."""
        self._last_seq += 1
        yield None
