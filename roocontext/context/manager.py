"""Keeps the context of sessions within what a model holds: for Session, and for AsyncSession.

Both managers drive the same runs. A manager holds no session, no lock and no state of a session, so
one serves any number of sessions, and another process continues where this one ended.
"""

from typing import Any

from roocontext.context.manager_runs import ManagerRuns
from roocontext.context.outcome import Outcome
from roocontext.context.restore import Restored
from roocontext.context.settings import GivenTools
from roocontext.context.steps import drive, drive_async
from roocontext.log.summary import SummaryRequest
from roocontext.policies.situation import Aim
from roocontext.store.aio import AsyncSession
from roocontext.store.session import Session
from roocontext.summarisers import summarised
from roocontext.tokens import Drift


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
