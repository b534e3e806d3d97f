"""A check, and the trial that it runs with: a place where it can open the store."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
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
    """The store under test. Checks use it one after the other."""

    def __init__(self, factory: Factory, name: str | None, place: str) -> None:
        self._factory = factory
        self._name = name
        self._place = place
        self._opened = ExitStack()
        self._numbers = count(1)

    def new_session(self) -> str:
        """An id that no check has used."""
        return f"session-{next(self._numbers)}"

    def open(self, session: str | None = None) -> SessionStore:
        """A new driver for a session. It is closed at the end of the check."""
        return self._opened.enter_context(self.opened(session or self.new_session()))

    @contextmanager
    def opened(self, session: str) -> Iterator[SessionStore]:
        """A new driver for a session, which is closed in the thread that opened it."""
        store = self._factory(self._place)
        try:
            store.open(session)
        except BaseException:
            with suppress(Exception):  # it may have nothing to close
                store.close()
            raise
        with closing(store):
            yield store

    @cached_property
    def lacks(self) -> Mapping[Capability, str]:
        """The operations that the store lacks, as it says itself."""
        with self.opened(self.new_session()) as store:
            return store.lacks

    def writer(self, job: str, session: str) -> Writer:
        """A process that has opened the session, for a job."""
        if self._name is None:
            raise NotRun("another process cannot import the factory")
        return Writer(job, self._name, self._place, session)

    def running(self) -> AbstractContextManager[object]:
        """Close the drivers that a check opened, even if one of them cannot be closed."""
        return self._opened


@dataclass(frozen=True, slots=True)
class Check:
    """A requirement of a store.

    `run` returns if the store meets it, and raises Lost or StoreRefused otherwise. Without one of
    the capabilities in `needs`, the check is not run.
    """

    name: str
    promise: str
    asks: str
    run: Callable[[Trial], None]
    needs: tuple[Capability, ...] = ()

    def __str__(self) -> str:
        return self.name


class Promise:
    """A promise that every store should keep, and its checks in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.checks: list[Check] = []

    def check(self, *needs: Capability) -> Callable[[RunT], RunT]:
        """Make a function a check. Its name is the check's name, its docstring the requirement."""

        def add(run: RunT) -> RunT:
            asks = " ".join((run.__doc__ or "").split())
            name = run.__name__.replace("_", " ")
            self.checks.append(Check(name, self.name, asks, run, needs))
            return run

        return add


def fill(store: SessionStore, messages: list[Message]) -> list[Version]:
    """Append messages, and return the version after each."""
    return [store.append(Append(message)).version for message in messages]
