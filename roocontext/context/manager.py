"""Keeps the context of sessions within a model's limits: for Session, and for AsyncSession.

Both managers drive the same runs. A manager holds no session, no lock and no state of a session, so
one serves any number of sessions, and another process continues where this one ended.
"""

import logging
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import wraps
from typing import Any, ClassVar, Concatenate, Final, ParamSpec, TypeVar

from roocontext.context.drift import drift_of
from roocontext.context.hooks import Hooks
from roocontext.context.outcome import Outcome
from roocontext.context.restore import Restored, restored
from roocontext.context.run import Run
from roocontext.context.session_port import (
    RECOVERIES,
    AnySession,
    DryRun,
    LiveSession,
    WindowOf,
    any_session,
)
from roocontext.context.settings import (
    AIMS,
    GivenTools,
    Settings,
    SizedFrame,
    counter_of,
    frame_of,
    model_name,
    policy_of,
    positive,
    summariser_of,
    tool_names,
)
from roocontext.context.steps import Steps, ask, drive, drive_async
from roocontext.errors import BudgetExceeded, InvalidOption, RecoveryExhausted
from roocontext.log.counting import UNLIMITED, Budget, Counter
from roocontext.log.events import Status
from roocontext.log.summary import SummaryRequest
from roocontext.policies.situation import Aim, Policy
from roocontext.store.aio import AsyncSession
from roocontext.store.engine.clock_and_ids import Clock, system_clock
from roocontext.store.session import Session
from roocontext.summarisers import Extractive, summarised
from roocontext.tokens import Drift, Limit
from roocontext.tokens.limits import DEFAULT, variable_of
from roocontext.tokens.refusals import too_long

_log: Final = logging.getLogger(__name__)


class ManagerRuns:
    """The runs of both managers. Each run gives their method its name and documentation."""

    def __init__(self, settings: Settings, *, awaits: bool) -> None:
        self.settings = settings
        self._awaits = awaits
        self._is_limit_known = True

    def _window(self, remembered: Mapping[str, Any] | None) -> Limit:
        """The limits of the model. An assumed limit is logged once."""
        window = self.settings.window(remembered)
        if self.settings.model and window.source == DEFAULT and self._is_limit_known:
            self._is_limit_known = False
            _log.warning(
                "The context of the model %r is not known: %d tokens are assumed. Pass limit= to"
                " the manager, or set %s or MODEL_MAX_CONTEXT_TOKENS.",
                *(self.settings.model, window.context, variable_of(self.settings.model)),
            )
        return window

    def _port(self, chat: AnySession, system: Any, tools: GivenTools) -> LiveSession:
        if not self._awaits:  # hooks may have been registered since the manager was created
            self.settings.hooks.refuse_async()
        return LiveSession(*self._parts(chat, system, tools))

    def _parts(
        self, chat: AnySession, system: Any, tools: GivenTools
    ) -> tuple[AnySession, Settings, SizedFrame, WindowOf]:
        frame = frame_of(self.settings.measure, system, tools)
        return any_session(chat), self.settings, frame, self._window

    def _run(
        self,
        chat: AnySession,
        aim: Aim,
        system: Any,
        tools: GivenTools,
        trigger: str = "manual",
    ) -> Run:
        return Run(self._port(chat, system, tools), aim, trigger, self._summarise, self._extract)

    def will_manage(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[bool]:
        """Return True if `manage` would look for something to do. Only new messages are counted."""
        return self._run(chat, Aim.MANAGE, system, tools, "auto").is_due()

    def manage(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[Outcome]:
        """Clear, condense or truncate if that is necessary. Call it before each call of the model.

        Compactions by a provider that the model cannot read are uncovered first, newest first. For
        other sealed compactions, a note records an extract of the hidden messages. The system
        prompt and the tools are recorded when they change. Raises BudgetExceeded if the parts that
        must stay exceed the model's window.
        """
        return self._run(chat, Aim.MANAGE, system, tools, "auto").run()

    def condense(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[Outcome]:
        """Condense now, even if the context is not full."""
        return self._run(chat, Aim.CONDENSE, system, tools).run()

    def truncate(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[Outcome]:
        """Hide the oldest messages now, even if the context is not full."""
        return self._run(chat, Aim.TRUNCATE, system, tools).run()

    def prune(
        self, chat: AnySession, *, system: Any = None, tools: GivenTools = None
    ) -> Steps[Outcome]:
        """Clear old tool outputs now, even if the context is not full."""
        return self._run(chat, Aim.CLEAR, system, tools).run()

    def preview(
        self,
        chat: AnySession,
        aim: str = "manage",
        *,
        system: Any = None,
        tools: GivenTools = None,
    ) -> Steps[Outcome]:
        """Show what the same call would do now, and the resulting view. Nothing is written.

        The aim is `manage`, `condense`, `truncate` or `prune`. The summariser is asked, because the
        view depends on its answer; no hook is called.
        """
        if not isinstance(aim, str) or aim not in AIMS:
            raise InvalidOption(f"aim must be one of {', '.join(AIMS)}.", name="aim")
        wanted = AIMS[aim]
        trigger = "auto" if wanted is Aim.MANAGE else "manual"
        port = DryRun(*self._parts(chat, system, tools))
        outcome = yield from Run(port, wanted, trigger, self._summarise, self._extract).run()
        return replace(outcome, dry_run=True, view=(yield from port.view()))

    def recover(
        self,
        chat: AnySession,
        error: BaseException,
        *,
        system: Any = None,
        tools: GivenTools = None,
    ) -> Steps[Outcome]:
        """Cut a request that the provider refused as too long to three quarters or less.

        A limit that the provider names is remembered in the session, and used from then on. Any
        other error is raised again. After three cuts without a reply of the model, by any manager
        or process, RecoveryExhausted is raised.
        """
        if not isinstance(error, BaseException):
            raise InvalidOption("error must be the provider's exception.", name="error")
        # Recognised before anything is read: any other error must reach the caller as it was.
        refusal = too_long(error)
        if refusal is None:
            raise error
        port = self._port(chat, system, tools)
        before = yield from port.recoveries()
        port.remember(refusal.limit)
        limit = port.window.context
        # Counted in the log, not here: a crash or another process must not begin anew.
        if before.done >= RECOVERIES:
            yield from port.keep_limits()
            raise RecoveryExhausted(
                f"The request was cut {before.done} times, to {before.tokens:,} tokens, and the"
                " provider still refuses it.",
                attempts=before.done,
                needed=before.tokens,
                limit=limit,
            ) from error
        cap = refusal.cap(before.tokens)
        notes = [before.note, *filter(None, [port.new_limits])]
        run = Run(
            *(port, Aim.RECOVER, "recover", self._summarise, self._extract), cap=cap, notes=notes
        )
        try:
            outcome = yield from run.run()
        except BudgetExceeded:  # by the limit that the provider has just named, too
            yield from port.keep_limits()
            raise
        if outcome.changed:
            return outcome
        yield from port.keep_limits()
        if outcome.status in (Status.VETOED, Status.CONFLICT):  # the caller may try again
            return outcome
        raise RecoveryExhausted(
            f"All {before.tokens:,} tokens of the request must stay. {outcome.reason}".strip(),
            attempts=before.done + 1,
            needed=before.tokens,
            limit=limit,
        ) from error

    def restore(
        self,
        chat: AnySession,
        *,
        system: Any = None,
        tools: GivenTools = None,
        dry_run: bool = False,
    ) -> Steps[Restored]:
        """Uncover summaries, markers and clearings, newest first, until half of the window is full.

        Use it after a change to a model with a larger window. Each uncovering is a commit of its
        own; the first that does not fit ends the run. A dry run writes nothing. No hook is called.
        """
        return restored(*self._parts(chat, system, tools), dry_run=dry_run)

    def drift(self, chat: AnySession) -> Steps[dict[str, Drift]]:
        """How far this counter's estimates were from the providers' reports, by model."""
        calls = yield from ask(any_session(chat).internals.calls)
        return drift_of(calls, self.settings.counter.name)

    def _summarise(self, request: SummaryRequest) -> Any:
        """Ask the summariser, by default for a summary by the manager's own model."""
        own = getattr(self.settings.policy, "models", {})
        model = own.get(request.model, request.model)
        named = replace(request, model=model or self.settings.model or None)
        if self._awaits:
            return summarised(self.settings.summariser, named)
        return self.settings.summariser.summarise(named)

    def _extract(self, request: SummaryRequest) -> Any:
        """Ask the summariser that needs no model."""
        extractive = Extractive()
        return summarised(extractive, request) if self._awaits else extractive.summarise(request)


class _Manager:
    """The base of both managers."""

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
        """By default, limit, counter and summariser follow from the model.

        `limit` is the model's context, in tokens; if it is not a positive number, a warning is
        logged and the next source is used. `output` is the model's longest answer; `limits` are the
        bytes and images of a request. `client` is a client of the SDK of Anthropic, OpenAI or
        Google, or a function that asks a model: it writes the summaries. Without it and without a
        `summariser` they are extracted, offline. Set `recall` if the model has the tools of
        `roocontext.recall`: then a summary names the entries that it hides, and the tools that find
        them.
        """
        chosen = policy_of(policy, environ)
        settings = Settings(
            model=model_name(model),
            policy=chosen,
            counter=counter_of(counter, model, chosen),
            summariser=summariser_of(summariser, client),
            limit=limit,
            output=positive("output", output),
            limits=limits,
            protected_tools=tool_names(protected_tools),
            hooks=Hooks(allow_async=self._awaits) if hooks is None else hooks,
            drift_ratio=drift_ratio,
            recall=recall,
            clock=clock,
            environ=environ,
        )
        if not self._awaits:
            settings.refuse_async()
        self._runs = ManagerRuns(settings, awaits=self._awaits)

    @property
    def settings(self) -> Settings:
        """The settings of the manager."""
        return self._runs.settings

    @property
    def hooks(self) -> Hooks:
        """The registered hooks. To add one: `context.hooks.on(AfterCompact, function)`."""
        return self.settings.hooks


Params = ParamSpec("Params")
Result = TypeVar("Result")


def _observed(
    chat: AnySession, run: Callable[..., Any]
) -> AbstractContextManager[Callable[[Any], None]]:
    return any_session(chat).internals.observed(run.__name__)


def _at_once(
    run: Callable[Concatenate[ManagerRuns, AnySession, Params], Steps[Result]],
) -> Callable[Concatenate["ContextManager", Session, Params], Result]:
    """Make a run a method, with its own parameters, result and docstring."""

    @wraps(run)
    def call(
        manager: "ContextManager", chat: Session, /, *args: Params.args, **options: Params.kwargs
    ) -> Result:
        with _observed(chat, run) as note:
            result = drive(run(manager._runs, chat, *args, **options))  # noqa: SLF001 - in this module
            note(result)
        return result

    return call


def _awaited(
    run: Callable[Concatenate[ManagerRuns, AnySession, Params], Steps[Result]],
) -> Callable[
    Concatenate["AsyncContextManager", AsyncSession, Params], Coroutine[Any, Any, Result]
]:
    """Make a run a coroutine method."""

    @wraps(run)
    async def call(
        manager: "AsyncContextManager",
        chat: AsyncSession,
        /,
        *args: Params.args,
        **options: Params.kwargs,
    ) -> Result:
        with _observed(chat, run) as note:
            result = await drive_async(run(manager._runs, chat, *args, **options))  # noqa: SLF001 - in this module
            note(result)
        return result

    return call


class ContextManager(_Manager):
    """Keeps the context of sessions within a model's limits."""

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
