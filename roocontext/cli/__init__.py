"""The command line. `main` is what the console script and `python -m roocontext` run."""

import gc
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from roocontext.cli.interrupts import end_on_interrupt

if TYPE_CHECKING:
    from roocontext.store.engine.clock_and_ids import Clock, Ids

_OBJECTS = 50_000
"""After how many new objects garbage is looked for: loading modules makes many, and no garbage."""


def main(
    arguments: Sequence[str] | None = None,
    *,
    clock: "Clock | None" = None,
    ids: "Ids | None" = None,
) -> None:
    """Run one command and end the process with its exit code."""
    end_on_interrupt()
    gc.set_threshold(_OBJECTS)
    from roocontext.cli.app import run  # noqa: PLC0415 - loading takes long enough for a Ctrl-C

    code = run(sys.argv[1:] if arguments is None else arguments, clock=clock, ids=ids)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit code is decided
    gc.freeze()  # else the interpreter looks for garbage among all objects again before it ends
    sys.exit(code)
