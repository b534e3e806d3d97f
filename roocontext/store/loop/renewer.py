"""Renews the leases of a process: one thread for all turns of a store, while there are any."""

import os
import threading
from time import monotonic
from typing import Protocol

from roocontext.store.engine.threads import started


class Renewable(Protocol):
    """A lease that has to be renewed."""

    def renew(self) -> float | None:
        """Renew it, and return after how many seconds to do so again; None if it has ended."""
        ...


class Renewer:
    """The leases to renew, and when. A forked child renews only its own."""

    def __init__(self) -> None:
        self._begin_life()

    def _begin_life(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._due: dict[Renewable, float] = {}
        self._thread: threading.Thread | None = None

    def add(self, lease: Renewable, seconds: float) -> None:
        """Renew a lease after so many seconds, and from then on."""
        if self._process != os.getpid():
            self._begin_life()
        with self._changed:
            if self._thread is None:
                self._thread = started(self._run, name="turns")
            self._due[lease] = monotonic() + seconds
            self._changed.notify()

    def remove(self, lease: Renewable) -> None:
        """Renew it no more."""
        if self._process == os.getpid():
            with self._changed:
                self._due.pop(lease, None)
                self._changed.notify()

    def close(self) -> None:
        """Renew nothing any more, and wait for a renewal that is being made."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._due.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while (lease := self._next()) is not None:
            seconds = lease.renew()
            with self._changed:
                if lease in self._due:  # it may have been removed meanwhile
                    if seconds is None:
                        del self._due[lease]
                    else:
                        self._due[lease] = monotonic() + seconds

    def _next(self) -> Renewable | None:
        """Wait for the next lease that is due; None if there are no more leases."""
        with self._changed:
            while self._due:
                lease, due = min(self._due.items(), key=lambda item: item[1])
                if (seconds := due - monotonic()) <= 0:
                    return lease
                self._changed.wait(seconds)
            self._thread = None
            return None
