"""Keeps the context of sessions within what a model holds: for Session, and for AsyncSession.

Both managers drive the same runs. A manager holds no session, no lock and no state of a session, so
one serves any number of sessions, and another process continues where this one ended.

What both managers have: the settings, and the runs that they drive.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from roocontext.context.drift import drift_of
from roocontext.context.hooks import Hooks
from roocontext.context.outcome import Outcome
from roocontext.context.prompt_too_long import RECOVERIES, recoveries, too_long
from roocontext.context.restore import Restored, restored
from roocontext.context.run import Run
from roocontext.context.session_port import AnySession, DryRun, LiveSession, any_session
from roocontext.context.settings import (
    AIMS,
    GivenTools,
    Settings,
    SizedFrame,
    check_options,
    counter_of,
    frame_of,
    policy_of,
    positive,
    refuse_async,
    summariser_of,
)
from roocontext.context.steps import Steps, ask, drive, drive_async
from roocontext.errors import InvalidOption, RecoveryExhausted
from roocontext.log.counting import UNLIMITED, Budget, Counter
from roocontext.log.events import Status
from roocontext.log.summary import SummaryRequest
from roocontext.policies.situation import Aim, Policy
from roocontext.store.aio import AsyncSession
from roocontext.store.engine.clock_and_ids import Clock, system_clock
from roocontext.store.session import Session
from roocontext.summarisers import summarised
from roocontext.tokens import Drift, Limit
from roocontext.tokens.limits import DEFAULT

_log: Final = logging.getLogger(__name__)


class ManagerRuns:
    """The settings of both managers, and the runs that they drive."""

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
        recall: bool = False,
        clock: Clock = system_clock,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Limit, counter and summariser follow from the model where they are not given.

        `limit` is the model's context, in tokens; if it is no positive number, a warning is logged
        and the next source is asked. `output` is its longest answer; `limits` are the bytes and
        images of a request. `client` is one of the Anthropic SDK, and writes the summaries;
        without it and without a `summariser` they are extracted, offline. With `recall`, the model
        is given the tools of `roocontext.recall`: then a summary names the entries that it hides,
        and the tools that find them.
        """
        check_options(
            model=model,
            limits=limits,
            hooks=hooks,
            clock=clock,
            protected_tools=protected_tools,
            drift_ratio=drift_ratio,
            recall=recall,
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
            recall=recall,
            clock=clock,
            environ=environ,
        )
        self._is_limit_known = True
        if not self._awaits:
            refuse_async(self.settings)

    @property
    def hooks(self) -> Hooks:
        """Where hooks are registered: `context.hooks.on(AfterCompact, function)`."""
        return self.settings.hooks

    def _summarise(self, request: SummaryRequest) -> Any:
        return self.settings.summariser.summarise(self._named(request))

    def _named(self, request: SummaryRequest) -> SummaryRequest:
        """The request with the manager's own model to write the summary, if it names none."""
        return replace(request, model=request.model or self.settings.model or None)

    def _window(self) -> Limit:
        """The limits of the model. One that is only assumed is warned of once."""
        window = self.settings.window()
        if self.settings.model and window.source == DEFAULT and self._is_limit_known:
            self._is_limit_known = False
            _log.warning(
                "The context of the model %r is not known: %d tokens are assumed. Give the manager"
                " limit=, or set MODEL_MAX_CONTEXT_TOKENS.",
                self.settings.model,
                window.context,
            )
        return window

    def _port(self, chat: AnySession, system: Any, tools: GivenTools) -> LiveSession:
        if not self._awaits:  # others may have registered hooks since
            self.settings.hooks.refuse_async()
        return LiveSession(*self._parts(chat, system, tools))

    def _parts(
        self, chat: AnySession, system: Any, tools: GivenTools
    ) -> tuple[AnySession, Settings, SizedFrame, Limit]:
        settings = self.settings
        frame = frame_of(settings.measure, system, tools)
        return any_session(chat), settings, frame, self._window()

    def _run(
        self,
        chat: AnySession,
        aim: Aim,
        system: Any,
        tools: GivenTools,
        trigger: str = "manual",
    ) -> Run:
        return Run(self._port(chat, system, tools), aim, trigger, self._summarise)

    def _previewed(
        self, chat: AnySession, aim: str, system: Any, tools: GivenTools
    ) -> Steps[Outcome]:
        if aim not in AIMS:
            raise InvalidOption(f"What is previewed is one of {', '.join(AIMS)}.", name="aim")
        wanted = AIMS[aim]
        trigger = "auto" if wanted is Aim.MANAGE else "manual"
        port = DryRun(*self._parts(chat, system, tools))
        outcome = yield from Run(port, wanted, trigger, self._summarise).run()
        if port.situated is None:
            view = (yield from ask(chat.view)).messages
        else:
            view = tuple(row.message for row in port.situated.visible)
        return replace(outcome, dry_run=True, view=view)

    def _recovered(
        self,
        chat: AnySession,
        error: BaseException,
        system: Any,
        tools: GivenTools,
    ) -> Steps[Outcome]:
        if not isinstance(error, BaseException):
            raise InvalidOption("What is recovered from is the provider's error.", name="error")
        # Recognised before anything is read: any other error must reach the caller as it was.
        refusal = too_long(error)
        if refusal is None:
            raise error
        port = self._port(chat, system, tools)
        before = yield from recoveries(port)
        limit = port.window.context
        # Counted in the log, not here: a crash or another process must not begin anew.
        if before.done >= RECOVERIES:
            raise RecoveryExhausted(
                f"It was cut {before.done} times, to {before.tokens:,} tokens, and refused again.",
                attempts=before.done,
                needed=before.tokens,
                limit=limit,
            ) from error
        cap = refusal.cap(before.tokens)
        run = Run(port, Aim.RECOVER, "recover", self._summarise, cap, notes=[before.note])
        outcome = yield from run.run()
        # A veto and a conflict are answers, and the caller may try again. Nothing else is left to
        # cut.
        if not outcome.changed and outcome.status not in (Status.VETOED, Status.CONFLICT):
            raise RecoveryExhausted(
                f"None of the {before.tokens:,} tokens may be left out. {outcome.reason}".strip(),
                attempts=before.done + 1,
                needed=before.tokens,
                limit=limit,
            ) from error
        return outcome

    def _restored(
        self,
        chat: AnySession,
        system: Any,
        tools: GivenTools,
        *,
        dry_run: bool,
    ) -> Steps[Restored]:
        return restored(*self._parts(chat, system, tools), dry_run=dry_run)

    def _drifted(self, chat: AnySession) -> Steps[dict[str, Drift]]:
        calls = yield from ask(any_session(chat).calls)
        return drift_of(calls, self.settings.counter.name)


class ContextManager(ManagerRuns):
    """Keeps the context of sessions within what a model holds."""

    _awaits = False

    def will_manage(self, chat: Session, *, system: Any = None, tools: GivenTools = None) -> bool:
        """Whether `manage` would look for something to do; costs the counting of new messages."""
        return drive(self._run(chat, Aim.MANAGE, system, tools, "auto").is_due())

    def manage(self, chat: Session, *, system: Any = None, tools: GivenTools = None) -> Outcome:
        """Before each call of the model: clear, condense or truncate what must be, or do nothing.

        The system prompt and the tools are recorded when they change. Raises BudgetExceeded when
        what may not be left out is more than the model holds.
        """
        return self._driven(chat, Aim.MANAGE, system, tools, trigger="auto")

    def condense(self, chat: Session, *, system: Any = None, tools: GivenTools = None) -> Outcome:
        """Condense now, however full the context is."""
        return self._driven(chat, Aim.CONDENSE, system, tools)

    def truncate(self, chat: Session, *, system: Any = None, tools: GivenTools = None) -> Outcome:
        """Hide the oldest messages now, however full the context is."""
        return self._driven(chat, Aim.TRUNCATE, system, tools)

    def prune(self, chat: Session, *, system: Any = None, tools: GivenTools = None) -> Outcome:
        """Clear old tool outputs now, however full the context is."""
        return self._driven(chat, Aim.CLEAR, system, tools)

    def preview(
        self,
        chat: Session,
        aim: str = "manage",
        *,
        system: Any = None,
        tools: GivenTools = None,
    ) -> Outcome:
        """What the same call would do now, and the view it would leave; nothing is written.

        The aim is `manage`, `condense`, `truncate` or `prune`. The summariser is asked, because the
        view depends on its answer; no hook is called.
        """
        return drive(self._previewed(chat, aim, system, tools))

    def recover(
        self,
        chat: Session,
        error: BaseException,
        *,
        system: Any = None,
        tools: GivenTools = None,
    ) -> Outcome:
        """After a provider refused the request as too long: cut it to three quarters or less.

        Another error is raised again. After three cuts without a reply of the model, by whichever
        manager or process, RecoveryExhausted is raised.
        """
        return drive(self._recovered(chat, error, system, tools))

    def restore(
        self,
        chat: Session,
        *,
        system: Any = None,
        tools: GivenTools = None,
        dry_run: bool = False,
    ) -> Restored:
        """Uncover summaries, markers and clearings, newest first, into half of the window.

        For a model with a larger window. Each is a commit of its own; the first that does not fit
        ends it. A dry run writes nothing. No hook is called.
        """
        return drive(self._restored(chat, system, tools, dry_run=dry_run))

    def drift(self, chat: Session) -> dict[str, Drift]:
        """How far this counter's estimates were from what the providers reported, by model."""
        return drive(self._drifted(chat))

    def _driven(
        self, chat: Session, aim: Aim, system: Any, tools: Any, trigger: str = "manual"
    ) -> Outcome:
        return drive(self._run(chat, aim, system, tools, trigger).run())


class AsyncContextManager(ManagerRuns):
    """The same for AsyncSession. A summariser that blocks runs in a thread."""

    _awaits = True

    def _summarise(self, request: SummaryRequest) -> Any:
        return summarised(self.settings.summariser, self._named(request))

    async def will_manage(
        self, chat: AsyncSession, *, system: Any = None, tools: GivenTools = None
    ) -> bool:
        """See ContextManager.will_manage."""
        return await drive_async(self._run(chat, Aim.MANAGE, system, tools, "auto").is_due())

    async def manage(
        self, chat: AsyncSession, *, system: Any = None, tools: GivenTools = None
    ) -> Outcome:
        """See ContextManager.manage."""
        return await self._driven(chat, Aim.MANAGE, system, tools, trigger="auto")

    async def condense(
        self, chat: AsyncSession, *, system: Any = None, tools: GivenTools = None
    ) -> Outcome:
        """See ContextManager.condense."""
        return await self._driven(chat, Aim.CONDENSE, system, tools)

    async def truncate(
        self, chat: AsyncSession, *, system: Any = None, tools: GivenTools = None
    ) -> Outcome:
        """See ContextManager.truncate."""
        return await self._driven(chat, Aim.TRUNCATE, system, tools)

    async def prune(
        self, chat: AsyncSession, *, system: Any = None, tools: GivenTools = None
    ) -> Outcome:
        """See ContextManager.prune."""
        return await self._driven(chat, Aim.CLEAR, system, tools)

    async def preview(
        self,
        chat: AsyncSession,
        aim: str = "manage",
        *,
        system: Any = None,
        tools: GivenTools = None,
    ) -> Outcome:
        """See ContextManager.preview."""
        return await drive_async(self._previewed(chat, aim, system, tools))

    async def recover(
        self,
        chat: AsyncSession,
        error: BaseException,
        *,
        system: Any = None,
        tools: GivenTools = None,
    ) -> Outcome:
        """See ContextManager.recover."""
        return await drive_async(self._recovered(chat, error, system, tools))

    async def restore(
        self,
        chat: AsyncSession,
        *,
        system: Any = None,
        tools: GivenTools = None,
        dry_run: bool = False,
    ) -> Restored:
        """See ContextManager.restore."""
        return await drive_async(self._restored(chat, system, tools, dry_run=dry_run))

    async def drift(self, chat: AsyncSession) -> dict[str, Drift]:
        """See ContextManager.drift."""
        return await drive_async(self._drifted(chat))

    async def _driven(
        self, chat: AsyncSession, aim: Aim, system: Any, tools: Any, trigger: str = "manual"
    ) -> Outcome:
        return await drive_async(self._run(chat, aim, system, tools, trigger).run())
