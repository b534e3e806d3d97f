"""Keeps the context of sessions within what a model holds: for Session, and for AsyncSession.

Both managers drive the same runs. A manager holds no session, no lock and no state of a session, so
one serves any number of sessions, and another process goes on where this one ended.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from inspect import isawaitable, iscoroutine
from typing import Any, ClassVar, Final

from roocontext.context.desk import Desk, Paper, Steps
from roocontext.context.drift import drifted
from roocontext.context.hooks import Hooks
from roocontext.context.outcome import Outcome, Status
from roocontext.context.recovery import RECOVERIES, recovered, recoveries
from roocontext.context.refusals import too_long
from roocontext.context.run import Run
from roocontext.context.settings import (
    Settings,
    check_options,
    counter_of,
    frame_of,
    policy_of,
    positive,
    summariser_of,
)
from roocontext.errors import InvalidOption, RecoveryExhausted
from roocontext.log.budget import UNLIMITED, Budget
from roocontext.log.counting import Counter
from roocontext.log.summary import SummaryRequest
from roocontext.policies.decision import Policy
from roocontext.policies.situation import Aim
from roocontext.store.aio import AsyncSession
from roocontext.store.clock_and_ids import Clock, system_clock
from roocontext.store.session import Session
from roocontext.summarisers import is_async, summarised
from roocontext.tokens import Drift


class _Manager:
    """What both managers know, and the runs that they drive."""

    _awaits: ClassVar[bool]

    def __init__(
        self,
        model: str = "",
        *,
        policy: str | Policy = "default",
        limit: int | None = None,
        output: int | None = None,
        counter: str | Counter | None = None,
        summariser: Any = None,
        client: Any = None,
        limits: Budget = UNLIMITED,
        protected_tools: Collection[str] = (),
        hooks: Hooks | None = None,
        drift_ratio: float = 1.5,
        clock: Clock = system_clock,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Limit, counter and summariser follow from the model where they are not given.

        `limit` is the model's context, in tokens: one that is none warns, and the next source is
        asked. `output` is its longest answer; `limits` are the bytes and images of a request.
        `client` is one of the Anthropic SDK, and writes the summaries; without it and without a
        `summariser` they are extracted, offline.
        """
        check_options(
            model=model,
            limits=limits,
            hooks=hooks,
            clock=clock,
            protected_tools=protected_tools,
            drift_ratio=drift_ratio,
        )
        chosen = policy_of(policy, environ)
        self.settings = Settings(
            model=model,
            policy=chosen,
            counter=counter_of(counter, model, chosen),
            summariser=summariser_of(summariser, client),
            limit=limit,
            output=positive("output", output),
            limits=limits,
            protected_tools=frozenset(protected_tools),
            hooks=hooks or Hooks(allow_async=self._awaits),
            drift_ratio=drift_ratio,
            clock=clock,
            environ=environ,
        )
        if not self._awaits:
            _refuse_async(self.settings)

    @property
    def hooks(self) -> Hooks:
        """Where hooks are registered: `context.hooks.on(AfterCompact, function)`."""
        return self.settings.hooks

    def _ask(self, request: SummaryRequest) -> Any:
        return self.settings.summariser.summarise(request)

    def _run(
        self,
        chat: Any,
        aim: Aim,
        *,
        system: Any,
        tools: Sequence[Mapping[str, Any]],
        trigger: str = "manual",
        cap: int | None = None,
        on_paper: bool = False,
    ) -> Run:
        settings = self.settings
        if not (self._awaits or on_paper):  # others may have registered hooks since
            settings.hooks.refuse_async()
        desk = (Paper if on_paper else Desk)(
            _session(chat), settings, frame_of(settings, system, tools), settings.window()
        )
        return Run(desk, aim, trigger, self._ask, cap, quiet=on_paper)

    def _previewed(
        self, chat: Any, aim: str, *, system: Any, tools: Sequence[Mapping[str, Any]]
    ) -> Steps:
        if aim not in _AIMS:
            raise InvalidOption(f"What is previewed is one of {', '.join(_AIMS)}.", name="aim")
        wanted = _AIMS[aim]
        trigger = "auto" if wanted is Aim.MANAGE else "manual"
        run = self._run(chat, wanted, system=system, tools=tools, trigger=trigger, on_paper=True)
        outcome: Outcome = yield from run.whole()
        seen = run.desk.situated if isinstance(run.desk, Paper) else None
        if seen is None:
            view = (yield chat.view()).messages
        else:
            view = tuple(row.message for row in seen.visible)
        return replace(outcome, dry_run=True, view=view)

    def _recovered(
        self, chat: Any, error: BaseException, *, system: Any, tools: Sequence[Mapping[str, Any]]
    ) -> Steps:
        if not isinstance(error, BaseException):
            raise InvalidOption("What is recovered from is the provider's error.", name="error")
        refusal = too_long(error)
        if refusal is None:
            raise error
        before = yield from recoveries(_session(chat))
        frame = frame_of(self.settings, system, tools)
        counted = (yield chat.tokens(self.settings.counter)) + frame.overhead.tokens
        limit = self.settings.window().context
        if before.done >= RECOVERIES:
            raise RecoveryExhausted(
                f"It was cut {before.done} times, to {counted:,} tokens, and refused again.",
                attempts=before.done,
                needed=counted,
                limit=limit,
            ) from error
        cap = refusal.cap(counted)
        run = self._run(chat, Aim.RECOVER, system=system, tools=tools, trigger="recover", cap=cap)
        outcome: Outcome = yield from run.whole()
        if outcome.status in (Status.VETOED, Status.CONFLICT):
            return outcome
        if not outcome.changed:
            raise RecoveryExhausted(
                f"Nothing of the {counted:,} tokens may be left out. {outcome.reason}".strip(),
                attempts=before.done + 1,
                needed=counted,
                limit=limit,
            ) from error
        yield from recovered(chat, before)
        return outcome

    def _drifted(self, chat: Any) -> Steps:
        return drifted((yield _session(chat).calls()), self.settings.counter.name)


class ContextManager(_Manager):
    """Keeps the context of sessions within what a model holds."""

    _awaits = False

    def will_manage(
        self, chat: Session, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> bool:
        """Whether `manage` would look for something to do; costs the counting of new messages."""
        run = self._run(chat, Aim.MANAGE, system=system, tools=tools, trigger="auto")
        return bool(_drive(run.foreseen()))

    def manage(
        self, chat: Session, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Outcome:
        """Before each call of the model: clear, condense or truncate what must be, or do nothing.

        Raises BudgetExceeded when what may not be left out is more than the model holds.
        """
        return self._driven(chat, Aim.MANAGE, system, tools, trigger="auto")

    def condense(
        self, chat: Session, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Outcome:
        """Condense now, however full the context is."""
        return self._driven(chat, Aim.CONDENSE, system, tools)

    def truncate(
        self, chat: Session, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Outcome:
        """Hide the oldest messages now, however full the context is."""
        return self._driven(chat, Aim.TRUNCATE, system, tools)

    def prune(
        self, chat: Session, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Outcome:
        """Clear old tool outputs now, however full the context is."""
        return self._driven(chat, Aim.CLEAR, system, tools)

    def preview(
        self,
        chat: Session,
        aim: str = "manage",
        *,
        system: Any = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Outcome:
        """What the same call would do now, and the view it would leave; nothing is written.

        The aim is `manage`, `condense`, `truncate` or `prune`. The summariser is asked, because the
        view depends on its answer; no hook is told.
        """
        outcome: Outcome = _drive(self._previewed(chat, aim, system=system, tools=tools))
        return outcome

    def recover(
        self,
        chat: Session,
        error: BaseException,
        *,
        system: Any = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Outcome:
        """After a provider refused the request as too long: cut it to three quarters or less.

        Another error is raised again. After three cuts without a reply of the model, by whichever
        manager or process, RecoveryExhausted is raised.
        """
        outcome: Outcome = _drive(self._recovered(chat, error, system=system, tools=tools))
        return outcome

    def drift(self, chat: Session) -> dict[str, Drift]:
        """How far this counter's estimates were from what the providers reported, by model."""
        found: dict[str, Drift] = _drive(self._drifted(chat))
        return found

    def _driven(
        self, chat: Session, aim: Aim, system: Any, tools: Any, trigger: str = "manual"
    ) -> Outcome:
        run = self._run(chat, aim, system=system, tools=tools, trigger=trigger)
        outcome: Outcome = _drive(run.whole())
        return outcome


class AsyncContextManager(_Manager):
    """The same for AsyncSession. A summariser that blocks runs in a thread."""

    _awaits = True

    def _ask(self, request: SummaryRequest) -> Any:
        return summarised(self.settings.summariser, request)

    async def will_manage(
        self, chat: AsyncSession, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> bool:
        """See ContextManager.will_manage."""
        run = self._run(chat, Aim.MANAGE, system=system, tools=tools, trigger="auto")
        return bool(await _drive_async(run.foreseen()))

    async def manage(
        self, chat: AsyncSession, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Outcome:
        """See ContextManager.manage."""
        return await self._driven(chat, Aim.MANAGE, system, tools, trigger="auto")

    async def condense(
        self, chat: AsyncSession, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Outcome:
        """See ContextManager.condense."""
        return await self._driven(chat, Aim.CONDENSE, system, tools)

    async def truncate(
        self, chat: AsyncSession, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Outcome:
        """See ContextManager.truncate."""
        return await self._driven(chat, Aim.TRUNCATE, system, tools)

    async def prune(
        self, chat: AsyncSession, *, system: Any = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> Outcome:
        """See ContextManager.prune."""
        return await self._driven(chat, Aim.CLEAR, system, tools)

    async def preview(
        self,
        chat: AsyncSession,
        aim: str = "manage",
        *,
        system: Any = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Outcome:
        """See ContextManager.preview."""
        steps = self._previewed(chat, aim, system=system, tools=tools)
        outcome: Outcome = await _drive_async(steps)
        return outcome

    async def recover(
        self,
        chat: AsyncSession,
        error: BaseException,
        *,
        system: Any = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Outcome:
        """See ContextManager.recover."""
        steps = self._recovered(chat, error, system=system, tools=tools)
        outcome: Outcome = await _drive_async(steps)
        return outcome

    async def drift(self, chat: AsyncSession) -> dict[str, Drift]:
        """See ContextManager.drift."""
        found: dict[str, Drift] = await _drive_async(self._drifted(chat))
        return found

    async def _driven(
        self, chat: AsyncSession, aim: Aim, system: Any, tools: Any, trigger: str = "manual"
    ) -> Outcome:
        run = self._run(chat, aim, system=system, tools=tools, trigger=trigger)
        outcome: Outcome = await _drive_async(run.whole())
        return outcome


_AIMS: Final = {
    "manage": Aim.MANAGE,
    "condense": Aim.CONDENSE,
    "truncate": Aim.TRUNCATE,
    "prune": Aim.CLEAR,
    "clear": Aim.CLEAR,
}


def _drive(steps: Steps) -> Any:
    """Run it; what is yielded was done already and is its own result."""
    go, done = steps.send, None
    while True:
        try:
            done = go(done)
        except StopIteration as stop:
            return stop.value
        go = steps.send
        if iscoroutine(done):
            done.close()
            error = InvalidOption("What must be awaited needs AsyncContextManager.", name="hooks")
            go, done = steps.throw, error


async def _drive_async(steps: Steps) -> Any:
    """Run it; what is yielded is awaited where it must be."""
    go, given = steps.send, None
    while True:
        try:
            step = go(given)
        except StopIteration as stop:
            return stop.value
        try:
            given, go = (await step if isawaitable(step) else step), steps.send
        except BaseException as error:  # noqa: BLE001 - the run decides, cancellation included
            given, go = error, steps.throw


def _refuse_async(settings: Settings) -> None:
    """Nothing that must be awaited can be used without a loop."""
    if is_async(settings.summariser):
        raise InvalidOption(
            "An asynchronous summariser needs AsyncContextManager.", name="summariser"
        )
    settings.hooks.refuse_async()


def _session(chat: Any) -> Any:
    if not isinstance(chat, Session | AsyncSession):
        raise InvalidOption("What is managed is a session.", name="chat")
    return chat
