"""What both managers have: the settings, and the runs that they drive."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from roocontext.context.drift import drift_of
from roocontext.context.hooks import Hooks
from roocontext.context.outcome import Outcome
from roocontext.context.prompt_too_long import too_long
from roocontext.context.recovery import RECOVERIES, recoveries
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
from roocontext.context.steps import Steps, ask
from roocontext.errors import InvalidOption, RecoveryExhausted
from roocontext.log.budget import UNLIMITED, Budget
from roocontext.log.counting import Counter
from roocontext.log.events import Status
from roocontext.log.summary import SummaryRequest
from roocontext.policies.decision import Policy
from roocontext.policies.situation import Aim
from roocontext.store.clock_and_ids import Clock, system_clock
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
