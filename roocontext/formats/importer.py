"""The type of an importer: how the sessions of one tool are found, recognised and read.

Importers are plugins of the entry-point group `roocontext.importers`, those of this package too.
Each is a module with an `Importer`, whose `sources` yield the events of a session (`events`). For a
program that keeps its sessions in tables, `database` does: in a file, or on a server.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from roocontext.errors import UnknownPlugin
from roocontext.formats.databases import SourceDatabase, Tables
from roocontext.formats.events import Place, Source
from roocontext.registry import Registry

_log = logging.getLogger(__name__)


def _never(_: Any) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Importer:
    """An importer: it finds, recognises and reads the sessions of one tool. Paths are absolute.

    The checks of a path, in this order: `is_folder` claims a folder as one source, and `is_file` a
    file whatever it holds. In a folder, only files are considered that end in `.jsonl` or that
    `is_candidate` accepts. If no importer claims a file that is a database, `is_database` checks
    its tables; for a database on a server this is the only check. For another file, `looks_like`
    checks its first records, or `looks_like_document` the value of a JSON document. For a line that
    is cut off, `marks` decide: texts that a record of the tool has.

    `places` are the tool's folders; they may begin with `~` or a variable, and have patterns.
    `also` are other tools whose sessions are read too. `lists` are the fields of records in files
    in which the tool lists prompts or sessions: they hold no session.
    """

    tool: str
    sources: Callable[[Path], Iterator[Source]] | None = None
    database: Callable[[SourceDatabase, Tables], Iterator[Source]] | None = None
    places: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    is_folder: Callable[[Path], bool] = _never
    is_file: Callable[[Path], bool] = _never
    is_candidate: Callable[[Path], bool] = _never
    is_database: Callable[[Tables], bool] = _never
    looks_like: Callable[[Any], bool] = _never
    looks_like_document: Callable[[Any], bool] = _never
    marks: tuple[bytes, ...] = ()
    lists: tuple[frozenset[str], ...] = ()

    def read(self, place: Place) -> Iterator[Source]:
        """The sessions of a place: of a file or folder, or of a database by its tables."""
        if self.sources is not None and isinstance(place, Path):
            return self.sources(place)
        database = SourceDatabase(place)
        return self.database(database, database.tables()) if self.database else iter(())


IMPORTERS: Final = Registry[Importer]("roocontext.importers")


def importers() -> list[Importer]:
    """Load all importers, in the order of their names. One that cannot be loaded is left out."""
    loaded = []
    for name in IMPORTERS.known():
        try:
            loaded.append(IMPORTERS[name])
        except UnknownPlugin as broken:
            _warn(str(broken))
    return loaded


@cache
def _warn(line: str) -> None:
    """Once for each importer: they are asked about every file."""
    _log.warning("%s", line)
