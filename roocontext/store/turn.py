"""SessionTurn: a session that one runner works on. What it writes carries the token of its turn."""

import os
import socket
import time
from time import monotonic
from typing import Final, Self

from roocontext.errors import (
    RooContextError,
    StoreClosed,
    StoreReadOnly,
    StoreUnavailable,
    TurnLost,
    TurnTaken,
)
from roocontext.log.encoding import check_id
from roocontext.store.engine.check_arguments import check_seconds
from roocontext.store.engine.transaction import SessionLog
from roocontext.store.internals import OpenedStore
from roocontext.store.loop import runner
from roocontext.store.session import Session

_SHORTEST_S: Final = 0.1
_LOOK_S: Final = 0.5
"""How long a runner that waits for a turn lets pass before it looks again."""


class SessionTurn(Session):
    """The session, for the runner that has its turn. Use it in a `with`.

    Reading is free. Every write is refused with TurnLost once another runner has taken over.
    """

    def __init__(
        self,
        opened: OpenedStore,
        session_id: str,
        parent: str | None,
        *,
        lease: float,
        wait: float,
        holder: str | None,
    ) -> None:
        super().__init__(opened, session_id, parent)
        check_seconds("lease", lease, least=_SHORTEST_S)
        check_seconds("wait", wait)
        self.holder = f"{socket.gethostname()}:{os.getpid()}" if holder is None else holder
        check_id("holder", self.holder)
        self._lease_s = lease
        self._wait_s = wait
        self._give_up: float | None = None
        self._own: GivenTurn | None = None
        self._process = 0
        self._held_until = 0.0
        self._database = self._database.checked(self._check)

    def __repr__(self) -> str:
        return f"SessionTurn({self.id!r}, holder={self.holder!r})"

    def __enter__(self) -> Self:
        try:
            while seconds := self.seconds_to_wait():
                time.sleep(seconds)
        except BaseException:
            self.give_back()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.give_back()
        finally:  # an interrupt may cut the first one short (0023)
            self.give_back()

    @property
    def is_held(self) -> bool:
        """True if nobody can have taken over yet, as far as this process knows without asking.

        It is False when the lease has passed without a renewal. A write says for certain.
        """
        return self._own is not None and monotonic() < self._held_until

    # For the `with` of both interfaces, and for the renewer.

    def seconds_to_wait(self) -> float:
        """Take the turn, and return 0; else after how many seconds to try again, or TurnTaken."""
        own, asked = GivenTurn(self), monotonic()
        self._process = os.getpid()
        self._own = own  # first: whatever happens then, it is given back
        if self._give_up is None:
            self._give_up = asked + self._wait_s
        try:
            own.take(self.holder, self._lease_s)
        except TurnTaken:
            self._own = None
            left = self._give_up - monotonic()
            if left <= 0:
                raise
            return min(left, _LOOK_S)
        self._held_until = asked + self._lease_s
        self._opened.renewer.add(self, self._lease_s / 3)
        return 0

    def give_back(self) -> None:
        """End the turn, unless another runner has it already."""
        self._opened.renewer.remove(self)
        self._give_up = None
        # A child that was forked in the block leaves it too, but the turn is its parent's.
        if self._own is not None and self._process == os.getpid():
            try:
                self._own.end()
            except StoreReadOnly:
                raise
            except (StoreClosed, StoreUnavailable):  # then it ends with its lease
                pass
        self._own = None

    def renew(self) -> float | None:
        """See Renewable."""
        own, asked, third = self._own, monotonic(), self._lease_s / 3
        if own is None:
            return None
        try:
            own.renew(self._lease_s)
        except TurnLost:
            self._held_until = 0
            return None
        except RooContextError:  # the next attempt may be in time
            return min(third, 1)
        self._held_until = asked + self._lease_s
        return third

    def _check(self, log: SessionLog) -> None:
        if self._own is None:
            raise TurnLost(
                f"The turn of session {self.id!r} has not begun, or has ended.", session_id=self.id
            )
        self._own.check(log)


class GivenTurn(Session):
    """The session, for a runner in another process that sends the token of its turn.

    Without a token it is given a new one. Only the runner itself renews the lease.
    """

    def __init__(self, chat: Session, token: str | None = None) -> None:
        super().__init__(chat._opened, chat.id)  # noqa: SLF001 - it is a session itself
        self._token = self._opened.ids.new_id() if token is None else token
        self._free = self._database
        self._database = self._free.checked(self.check)

    def take(self, holder: str, lease: float) -> runner.Held:
        """Take the turn with this token for so many seconds; TurnTaken if another runner has it."""
        check_id("holder", holder)
        held = self._free.write(
            runner.take_turn,
            token=self._token,
            holder=holder,
            lease=round(lease * 1_000),
            now=self._opened.clock(),
        )
        if held.token != self._token:
            raise runner.turn_taken(self.id, held)
        return held

    def renew(self, lease: float) -> runner.Held:
        """Start the lease again; TurnLost if another runner has the turn."""
        milliseconds = round(lease * 1_000)
        return self._free.write(
            runner.renew_turn, self._token, lease=milliseconds, now=self._opened.clock()
        )

    def end(self) -> None:
        """Give the turn back, unless another runner has it already."""
        self._free.write(runner.end_turn, self._token)

    def check(self, log: SessionLog) -> None:
        """Lock the session for a write; TurnLost if another runner has the turn."""
        runner.check_turn(log, self._token)
