"""The command line. `main` is what the console script and `python -m roocontext` run."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roocontext.store.sources import Clock, Ids


def main(
    arguments: Sequence[str] | None = None,
    *,
    clock: "Clock | None" = None,
    ids: "Ids | None" = None,
) -> None:
    """Run one command and end the process with its exit code."""
    from roocontext.cli.running import run  # noqa: PLC0415 - `import roocontext.cli` stays cheap

    sys.exit(run(sys.argv[1:] if arguments is None else arguments, clock=clock, ids=ids))
