"""`python -m bench.frameworks`: each adapter's lines, where the frameworks are installed.

Every module of this package has a function `lines(site, sizes)`. With names, only these modules are
measured: `python -m bench.frameworks langgraph --quick`.
"""

import sys
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from bench import frameworks
from bench.__main__ import main
from bench.report import Line
from bench.runner import Say
from bench.sites import PostgresSite, SqliteSite
from bench.sizes import Sizes

NAMES = [module.name for module in iter_modules(frameworks.__path__) if module.name != "__main__"]


def measure(names: list[str]) -> None:
    """Print the lines of these modules."""

    def lines(sqlite: SqliteSite, postgres: PostgresSite, sizes: Sizes, say: Say) -> Iterator[Line]:
        for name in names:
            module = import_module(f"bench.frameworks.{name}")
            for site in (sqlite, postgres):
                say(f"{site.title}: {name}")
                yield from module.lines(site, sizes)

    main(lines, prog="python -m bench.frameworks")


if __name__ == "__main__":
    chosen = [name for name in NAMES if name in sys.argv[1:]]
    sys.argv[1:] = [word for word in sys.argv[1:] if word not in chosen]
    measure(chosen or NAMES)
