"""The command line. `main` is what the console script and `python -m roocontext` run."""

import gc
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roocontext.store.engine.clock_and_ids import Clock, Ids

_INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, which may come before the module with the exit codes is loaded."""

_OBJECTS = 50_000
"""How many new objects start a garbage collection: loading modules makes many, and no garbage."""


def main(
    arguments: Sequence[str] | None = None,
    *,
    clock: "Clock | None" = None,
    ids: "Ids | None" = None,
) -> None:
    """Run one command and end the process with its exit code."""
    gc.set_threshold(_OBJECTS)
    try:
        from roocontext.cli.app import run  # noqa: PLC0415 - loading takes long enough for a Ctrl-C

        code = run(sys.argv[1:] if arguments is None else arguments, clock=clock, ids=ids)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the exit code is decided
    if code == _INTERRUPTED:
        with suppress(OSError):  # stderr may be closed
            line = b"roocontext: Interrupted.\n"
            os.write(2, b"\n" + line if os.isatty(2) else line)  # a terminal shows ^C before it
        # Discard buffered output: nobody wants it any more, and its reader may be gone too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    gc.freeze()  # otherwise the interpreter would collect garbage once more before it ends
    sys.exit(code)
