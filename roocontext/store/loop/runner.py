"""The turn of a session: which runner works on it, until when. A row next to the log.

It is taken under the session's row lock, and a write that carries its token checks it under the
same lock: so no write of a runner is committed after another one has taken over.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import BigInteger, bindparam, delete, insert, select, update

from roocontext.errors import StoreUnavailable, TurnLost, TurnTaken
from roocontext.log.moments import utc
from roocontext.store.engine.schema import EngineTime, of_session, turns
from roocontext.store.engine.transaction import SessionLog, SqlRow
from roocontext.store.reading.head import LOCKED_HEAD, read_with_head


class Held(NamedTuple):
    """A turn that is taken: its token, who holds it, for how long it is taken, and until when."""

    token: str
    holder: str
    lease: int
    expires_at: int

    @property
    def until(self) -> str:
        """The end of the lease as people read it."""
        return utc(self.expires_at)


_NOW = select(EngineTime())
_TURN = select(*(turns.c[name] for name in Held._fields)).where(of_session(turns))
_FIRST = insert(turns)
_own = of_session(turns), turns.c.token == bindparam("held")
_NEXT = (
    update(turns)
    .where(*_own, turns.c.expires_at == bindparam("seen"))
    .values({name: bindparam(f"new_{name}") for name in Held._fields})
)
_LEASE = bindparam("new_lease", type_=BigInteger)
# It waits for nobody: one thread renews all turns of a process.
_free = select(turns.c.session_id).where(*_own).with_for_update(skip_locked=True).scalar_subquery()
_RENEW = (
    update(turns)
    .where(of_session(turns), turns.c.session_id == _free)
    .values(lease=_LEASE, expires_at=EngineTime() + _LEASE)
)
_END = delete(turns).where(*_own)


def turn_taken(session_id: str, other: Held) -> TurnTaken:
    """The error for a turn that another runner has."""
    return TurnTaken(
        f"{other.holder} has the turn of session {session_id!r} until {other.until}.",
        session_id=session_id,
        holder=other.holder,
        expires_at=other.expires_at,
    )


def take_turn(log: SessionLog, *, token: str, holder: str, lease: int, now: int) -> Held:
    """Take the turn, and return it; if another runner has it, return that one's."""
    # The clock is asked after the lock: waiting for it is no part of the lease.
    _, ([(time,)], rows) = read_with_head(log, [(_NOW, {"now": now}), (_TURN, {})], LOCKED_HEAD)
    new = Held(token, holder, lease, time + lease)
    if not rows:
        log.tx.insert(_FIRST, (log.session_id, *new))
        return new
    held = Held(*rows[0])
    longest = held._replace(expires_at=time + held.lease)
    if held.expires_at <= time:
        # A renewal takes no lock of the session, and may have come in between.
        return new if _replaced(log, held, new) else longest
    if held.expires_at > longest.expires_at:
        # The clock was set back since. Its holder may be dead, and the lease must end some time.
        _replaced(log, held, longest)
        return longest
    return held


def _replaced(log: SessionLog, old: Held, new: Held) -> bool:
    values = {f"new_{name}": value for name, value in new._asdict().items()}
    place = {"held": old.token, "seen": old.expires_at}
    return bool(log.run(_NEXT, **place, **values))


def renew_turn(log: SessionLog, token: str, *, lease: int, now: int) -> Held:
    """Let the lease begin anew; TurnLost if another runner has taken over, or it was ended."""
    renewed = log.run(_RENEW, held=token, new_lease=lease, now=now)
    held = _own_turn(log.session_id, token, log.rows(_TURN))
    if not renewed:
        raise StoreUnavailable(f"Another transaction changes the turn of {log.session_id!r}.")
    return held


def end_turn(log: SessionLog, token: str) -> None:
    """Give the turn back, unless another runner has it."""
    log.run(_END, held=token)


def check_turn(log: SessionLog, token: str) -> None:
    """Lock the session for a write of a runner; TurnLost if it has the turn no longer."""
    _, (rows,) = read_with_head(log, [(_TURN, {})], LOCKED_HEAD)
    _own_turn(log.session_id, token, rows)


def _own_turn(session_id: str, token: str, rows: Sequence[SqlRow]) -> Held:
    """The turn of these rows, if it is the runner's own."""
    held = Held(*rows[0]) if rows else None
    if held is None or held.token != token:
        by = f"{held.holder} has taken it, until {held.until}" if held else "it has ended"
        raise TurnLost(
            f"This runner has lost the turn of session {session_id!r}: {by}.",
            session_id=session_id,
            holder=held and held.holder,
        )
    return held
