"""The jobs of the nursery's children. Each reports what was acknowledged at once."""

import os
import random
import signal
from itertools import count
from typing import Any

from roocontext import ArchiveFolder, ContextManager, NewMessage, Plan, Session, Store
from roocontext.errors import (
    InvalidPlan,
    MessageNotFound,
    NothingToUndo,
    UndoRefused,
    VersionConflict,
)

SUMMARY = "what was said before"


def append_each(child: Any, url: str, session: str, times: int, name: str) -> None:
    """Append to one session, as often as is asked."""
    with Store.open(url) as store:
        chat = store.session(session)
        child.start()
        for number in range(times):
            receipt = chat.append("user", f"{name}:{number}", client_id=f"{name}:{number}")
            child.tell(seq=receipt.seq, hash=receipt.hash, text=f"{name}:{number}")


def race(child: Any, url: str, session: str, rounds: int) -> None:
    """Append on the same version as the other one, round by round."""
    with Store.open(url) as store:
        chat = store.session(session)
        child.start()
        for head in range(rounds):
            child.meet()
            try:
                receipt = chat.append("user", f"round {head}", expected_seq=head)
            except VersionConflict as conflict:
                child.tell(round=head, won=False, seq=conflict.actual, asked=conflict.expected)
            else:
                child.tell(round=head, won=True, seq=receipt.seq)


def open_and_append(child: Any, url: str, session: str) -> None:
    """Open a store that may not exist yet, and use it."""
    child.start()
    with Store.open(url) as store:
        receipt = store.create(session).append("user", "first")
        child.tell(seq=receipt.seq, session=session)


def archive_each(child: Any, url: str, folder: str) -> None:
    """Archive every session that is not archived yet, one by one."""
    with Store.open(url) as store:
        child.start()
        for info in store.sessions():
            if info.archived_at is None:
                done = store.archive(session=info.session_id, put=ArchiveFolder(folder))
                child.tell(session=info.session_id, left=len(done.left))


def condense_again_and_again(child: Any, url: str, session: str, times: int, seed: int) -> None:
    """Plan on what is seen, and commit while others write."""
    chance = random.Random(seed)
    with Store.open(url) as store:
        chat = store.session(session)
        child.start()
        for _ in range(times):
            view = chat.view()
            seen = [message.seq for message in view.messages]
            if len(seen) < 6:
                continue
            first = chance.randrange(len(seen) - 4)
            planned = seen[first : first + chance.randint(3, 30)]
            try:
                done = chat.commit(Plan.condense(view, planned, SUMMARY))
            except VersionConflict:
                child.tell(conflict=True)
            except InvalidPlan as refusal:  # a summary longer than what it stands for
                child.tell(refused=str(refusal))
            else:
                child.tell(seq=done.seq, rows=done.rows, planned=planned, hidden=done.hidden)


def rewind_again_and_again(child: Any, url: str, session: str, times: int, seed: int) -> None:
    """Rewind a little, and take some of it back, while others write."""
    chance = random.Random(seed)
    with Store.open(url) as store:
        chat = store.session(session)
        child.start()
        for _ in range(times):
            if chance.random() < 0.4:
                try:
                    chat.undo(force=chance.random() < 0.5)
                except (NothingToUndo, UndoRefused):
                    continue
            else:
                chat.rewind(max(0, chat.head_seq() - chance.randint(1, 12)))


def ask_and_die(child: Any, url: str, session: str, limit: int) -> None:
    """Manage a session, and be killed while the model is asked for a summary."""
    child.start()

    def die(_request: Any) -> Any:
        child.tell(op="asked")
        os.kill(os.getpid(), signal.SIGKILL)

    with Store.open(url) as store:
        ContextManager("gpt-4o", limit=limit, summariser=die).manage(store.session(session))


def open_new(child: Any, url: str, name: str) -> None:
    """Make a store out of nothing, and append to it until the end comes."""
    child.start()
    with Store.open(url) as store:
        child.tell(op="opened")
        chat = store.create(name, title="new")
        child.tell(op="created", session=name)
        for number in count():
            receipt = chat.append("user", f"{name}:{number}")
            child.tell(op="append", session=name, seq=receipt.seq, hash=receipt.hash)


def wreck(child: Any, url: str, seed: int, steps: int | None = None) -> None:
    """Do whatever a session can have done to it, until the end comes or so many steps are done."""
    with Store.open(url) as store:
        wrecker = _Wrecker(child, store, seed)
        child.start()
        for _ in count() if steps is None else range(steps):
            wrecker.step()


class _Wrecker:
    """Random operations. A client id says which batch a message belongs to, and of how many."""

    def __init__(self, child: Any, store: Store, seed: int) -> None:
        self._child = child
        self._store = store
        self._seed = seed
        self._chance = random.Random(seed)
        self._numbers = count()
        self._sessions = [info.session_id for info in store.sessions()]
        self._steps = [
            *[self._append] * 6,
            *[self._append_batch] * 3,
            self._append_large,
            *[self._condense] * 3,
            *[self._rewind] * 2,
            self._undo,
            self._fork,
            self._redact,
        ]
        self._dealt: list[Any] = []

    def step(self) -> None:
        chat = self._store.session(self._chance.choice(self._sessions))
        # Dealt like cards: however few steps there are, none is left out for long.
        if not self._dealt:
            self._dealt = self._chance.sample(self._steps, len(self._steps))
        self._dealt.pop()(chat, next(self._numbers))

    def _append(self, chat: Session, number: int, size: int = 60) -> None:
        receipt = chat.append(*self._said(number, 0, 1, size)[:2], client_id=self._id(number, 0, 1))
        self._acknowledge("append", chat, receipt.seq, receipt.hash)

    def _append_large(self, chat: Session, number: int) -> None:
        self._append(chat, number, self._chance.choice([20_000, 60_000, 300_000]))

    def _append_batch(self, chat: Session, number: int) -> None:
        size = self._chance.randint(2, 12)
        batch = [
            NewMessage(*self._said(number, i, size, 60)[:2], client_id=self._id(number, i, size))
            for i in range(size)
        ]
        for receipt in chat.append_many(batch):
            self._acknowledge("batch", chat, receipt.seq, receipt.hash)

    def _condense(self, chat: Session, _number: int) -> None:
        view = chat.view()
        seen = [message.seq for message in view.messages]
        if len(seen) < 8:
            return
        companion = NewMessage("assistant", "noted")
        plan = Plan.condense(view, seen[2:-2], SUMMARY, companions=[companion])
        done = chat.commit(plan)
        assert done.hash is not None
        self._acknowledge("condense", chat, done.head_seq, done.hash)

    def _rewind(self, chat: Session, _number: int) -> None:
        done = chat.rewind(max(0, chat.info().last_seq - self._chance.randint(0, 20)))
        if done.changed:
            self._acknowledge("rewind", chat, done.seq, done.hash)

    def _undo(self, chat: Session, _number: int) -> None:
        try:
            done = chat.undo(force=True)
        except NothingToUndo:
            return
        self._acknowledge("undo", chat, done.seq, done.hash)

    def _fork(self, chat: Session, number: int) -> None:
        if len(self._sessions) < 5:
            last = chat.info().last_seq
            fork = chat.fork(
                self._chance.randint(0, min(last, 40)), session_id=f"f{self._seed}-{number}"
            )
            self._sessions.append(fork.id)
            head = fork.head()
            self._acknowledge("fork", fork, head.seq, head.hash)

    def _redact(self, chat: Session, _number: int) -> None:
        seq = self._chance.randint(1, max(1, chat.info().last_seq))
        try:
            done = chat.redact(seq)
        except MessageNotFound:
            return
        for session, at in done.copies:
            self._child.tell(op="redact", session=session, redacted=at)

    def _said(self, number: int, index: int, size: int, length: int) -> tuple[str, str]:
        return "user", f"{self._id(number, index, size)} {'x' * length}"

    def _id(self, number: int, index: int, size: int) -> str:
        return f"{self._seed}-{number}/{index}/{size}"

    def _acknowledge(self, op: str, chat: Session, seq: int | None, hash_: str | None) -> None:
        self._child.tell(op=op, session=chat.id, seq=seq, hash=hash_)
