"""Keeps the context of sessions within what a model holds: for Session, and for AsyncSession.

Both managers drive the same runs. A manager holds no session, no lock and no state of a session, so
one serves any number of sessions, and another process continues where this one ended.

What both managers have: the settings, and the runs that they drive.
"""

import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

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
    """What both managers do, as runs: each has the name and the documentation of their methods."""

    def __init__(self, settings: Settings, *, awaits: bool) -> None:
        self.settings = settings
        self._awaits = awaits
        self._is_limit_known = True

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

    def will_manage(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[bool]:
        """Whether `manage` would look for something to do; costs the counting of new messages."""
        return self._run(chat, Aim.MANAGE, system, tools, "auto").is_due()

    def manage(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[Outcome]:
        """Before each call of the model: clear, condense or truncate what must be, or do nothing.

        The system prompt and the tools are recorded when they change. Raises BudgetExceeded when
        what may not be left out is more than the model holds.
        """
        return self._run(chat, Aim.MANAGE, system, tools, "auto").run()

    def condense(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[Outcome]:
        """Condense now, however full the context is."""
        return self._run(chat, Aim.CONDENSE, system, tools).run()

    def truncate(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[Outcome]:
        """Hide the oldest messages now, however full the context is."""
        return self._run(chat, Aim.TRUNCATE, system, tools).run()

    def prune(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[Outcome]:
        """Clear old tool outputs now, however full the context is."""
        return self._run(chat, Aim.CLEAR, system, tools).run()

    def preview(
        self,
        chat: AnySession,
        aim: str = "manage",
        *,
        system: Any = None,
        tools: GivenTools = None,
    ) -> Steps[Outcome]:
        """What the same call would do now, and the view it would leave; nothing is written.

        The aim is `manage`, `condense`, `truncate` or `prune`. The summariser is asked, because the
        view depends on its answer; no hook is called.
        """
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

    def recover(
        self,
        chat: AnySession,
        error: BaseException,
        *,
        system: Any = None,
        tools: GivenTools = None,
    ) -> Steps[Outcome]:
        """After a provider refused the request as too long: cut it to three quarters or less.

        Another error is raised again. After three cuts without a reply of the model, by whichever
        manager or process, RecoveryExhausted is raised.
        """
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

    def restore(
        self,
        chat: AnySession,
        *,
        system: Any = None,
        tools: GivenTools = None,
        dry_run: bool = False,
    ) -> Steps[Restored]:
        """Uncover summaries, markers and clearings, newest first, into half of the window.

        For a model with a larger window. Each is a commit of its own; the first that does not fit
        ends it. A dry run writes nothing. No hook is called.
        """
        return restored(*self._parts(chat, system, tools), dry_run=dry_run)

    def drift(self, chat: AnySession) -> Steps[dict[str, Drift]]:
        """How far this counter's estimates were from what the providers reported, by model."""
        calls = yield from ask(any_session(chat).calls)
        return drift_of(calls, self.settings.counter.name)

    def _summarise(self, request: SummaryRequest) -> Any:
        """Ask the summariser; with the manager's own model, if the request names none."""
        named = replace(request, model=request.model or self.settings.model or None)
        if self._awaits:
            return summarised(self.settings.summariser, named)
        return self.settings.summariser.summarise(named)


class _Manager:
    """What both managers are made of."""

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
        settings = Settings(
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
        if not self._awaits:
            refuse_async(settings)
        self._runs = ManagerRuns(settings, awaits=self._awaits)

    @property
    def settings(self) -> Settings:
        """What it works with."""
        return self._runs.settings

    @property
    def hooks(self) -> Hooks:
        """Where hooks are registered: `context.hooks.on(AfterCompact, function)`."""
        return self.settings.hooks


Params = ParamSpec("Params")
Result = TypeVar("Result")


def _at_once(
    run: Callable[Concatenate[ManagerRuns, AnySession, Params], Steps[Result]],
) -> Callable[Concatenate["ContextManager", Session, Params], Result]:
    """A run as a method, with its own parameters, result and docstring."""

    @wraps(run)
    def call(
        manager: "ContextManager", chat: Session, /, *args: Params.args, **options: Params.kwargs
    ) -> Result:
        return drive(run(manager._runs, chat, *args, **options))  # noqa: SLF001 - our own

    return call


def _awaited(
    run: Callable[Concatenate[ManagerRuns, AnySession, Params], Steps[Result]],
) -> Callable[
    Concatenate["AsyncContextManager", AsyncSession, Params], Coroutine[Any, Any, Result]
]:
    """The same as a coroutine function."""

    @wraps(run)
    async def call(
        manager: "AsyncContextManager",
        chat: AsyncSession,
        /,
        *args: Params.args,
        **options: Params.kwargs,
    ) -> Result:
        return await drive_async(run(manager._runs, chat, *args, **options))  # noqa: SLF001 - our own

    return call


class ContextManager(_Manager):
    """Keeps the context of sessions within what a model holds."""

    _awaits = False

    will_manage = _at_once(ManagerRuns.will_manage)
    manage = _at_once(ManagerRuns.manage)
    condense = _at_once(ManagerRuns.condense)
    truncate = _at_once(ManagerRuns.truncate)
    prune = _at_once(ManagerRuns.prune)
    preview = _at_once(ManagerRuns.preview)
    recover = _at_once(ManagerRuns.recover)
    restore = _at_once(ManagerRuns.restore)
    drift = _at_once(ManagerRuns.drift)


class AsyncContextManager(_Manager):
    """The same for AsyncSession. A summariser that blocks runs in a thread."""

    _awaits = True

    will_manage = _awaited(ManagerRuns.will_manage)
    manage = _awaited(ManagerRuns.manage)
    condense = _awaited(ManagerRuns.condense)
    truncate = _awaited(ManagerRuns.truncate)
    prune = _awaited(ManagerRuns.prune)
    preview = _awaited(ManagerRuns.preview)
    recover = _awaited(ManagerRuns.recover)
    restore = _awaited(ManagerRuns.restore)
    drift = _awaited(ManagerRuns.drift)
