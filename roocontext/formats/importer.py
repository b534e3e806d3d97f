"""What an importer is: how the sessions of one tool are found, recognised and read.

Importers are plugins of the entry-point group `roocontext.importers`, those of this package too.
Each is a module with an `Importer`, whose `sources` tell what happened in a session (`events`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roocontext.formats.events import Source
from roocontext.registry import Registry


def _never(_: Any) -> bool:
    return False


@dataclass(frozen=True, kw_only=True)
class Importer:
    """How the sessions of one tool are found, recognised and read.

    A path is asked about in this order: `is_folder` says that a folder is a source as a whole,
    `is_file` that a file is one, whatever it holds. Of the files in a folder only those are
    looked into that end in `.jsonl` or that `is_candidate`. Of a file that
    nobody claims, `looks_like` is asked about its first records, and `looks_like_document` about
    the value of a JSON document. A record may be too long to be read for that: then `marks`, names
    of its first fields, decide.

    `places` are where the tool keeps its sessions. They may begin with `~` or a variable, and have
    patterns. `also` are other tools whose sessions are read too. `lists` are the fields of records
    in files that hold no session, only what the tool lists for itself.
    """

    tool: str
    sources: Callable[[Path], Iterator[Source]]
    places: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    is_folder: Callable[[Path], bool] = _never
    is_file: Callable[[Path], bool] = _never
    is_candidate: Callable[[Path], bool] = _never
    looks_like: Callable[[Any], bool] = _never
    looks_like_document: Callable[[Any], bool] = _never
    marks: tuple[bytes, ...] = ()
    lists: tuple[frozenset[str], ...] = ()


IMPORTERS: Final = Registry[Importer]("roocontext.importers")


def importers() -> list[Importer]:
    """Load all importers, in the order of their names."""
    return [IMPORTERS[name] for name in IMPORTERS.known()]
