"""A check, what it may come to, and what it is given: a place to open the store at."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TypeAlias, TypeVar

from roocontext.testing.processes import Writer
from roocontext.testing.protocol import Append, Capability, Message, NotRun, SessionStore, Version

Factory: TypeAlias = Callable[[str], SessionStore]
"""Makes a driver for the store at a place."""
RunT = TypeVar("RunT", bound="Callable[[Trial], None]")


class Trial:
    """The store under test, for one check after the other."""

    def __init__(self, factory: Factory, name: str | None, place: str) -> None:
        self._factory = factory
        self._name = name
        self._place = place
        self._opened: list[SessionStore] = []
        self._numbers = count(1)

    def new_session(self) -> str:
        """An id that no check has used."""
        return f"session-{next(self._numbers)}"

    def open(self, session: str | None = None) -> SessionStore:
        """A driver of its own for a session; it is closed at the end of the check."""
        store = self._factory(self._place)
        self._opened.append(store)
        store.open(self.new_session() if session is None else session)
        return store

    @cached_property
    def lacks(self) -> Mapping[Capability, str]:
        """What the store says that it cannot do."""
        store = self._factory(self._place)
        try:
            return store.lacks
        finally:
            store.close()

    def writer(self, job: str, session: str) -> Writer:
        """A process of its own that opened the session, for a job."""
        if self._name is None:
            raise NotRun("another process cannot import the factory")
        return Writer(job, self._name, self._place, session)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Close at the end what a check opened."""
        try:
            yield
        finally:
            while self._opened:
                self._opened.pop().close()


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a store must do.

    `run` returns if the store does it, and raises Lost or StoreRefused otherwise. `needs` are the
    capabilities without which the check has nothing to ask.
    """

    name: str
    promise: str
    asks: str
    run: Callable[[Trial], None]
    needs: tuple[Capability, ...] = ()

    def __str__(self) -> str:
        return self.name


class Promise:
    """What every store must keep, and the checks of it, in the order in which they are added."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checks: list[Check] = []

    def check(self, *needs: Capability) -> Callable[[RunT], RunT]:
        """Make a function a check: its name is the check's, and its docstring says what it asks."""

        def add(run: RunT) -> RunT:
            asks = " ".join((run.__doc__ or "").split())
            name = run.__name__.replace("_", " ")
            self.checks.append(Check(name, self.name, asks, run, needs))
            return run

        return add


def fill(store: SessionStore, messages: list[Message]) -> list[Version]:
    """Append messages; the versions after each."""
    return [store.append(Append(message)).version for message in messages]
