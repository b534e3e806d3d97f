"""The command line. `main` is what the console script and `python -m roocontext` run."""

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from roocontext.cli.interrupts import leave

if TYPE_CHECKING:
    from roocontext.store.sources import Clock, Ids


def main(
    arguments: Sequence[str] | None = None,
    *,
    clock: "Clock | None" = None,
    ids: "Ids | None" = None,
) -> None:
    """Run one command and end the process with its exit code."""
    sys.unraisablehook = _heard
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        # An exception would come out of whatever is being loaded.
        signal.signal(signal.SIGINT, leave)
    from roocontext.cli.running import run  # noqa: PLC0415 - `import roocontext.cli` stays cheap

    signal.signal(signal.SIGINT, before)
    code = run(sys.argv[1:] if arguments is None else arguments, clock=clock, ids=ids)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is decided how the command ended
    sys.exit(code)


def _heard(lost: "sys.UnraisableHookArgs") -> None:
    """An interrupt that came where no exception may come is sent once more."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        from threading import Timer  # noqa: PLC0415 - hardly ever

        Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)
