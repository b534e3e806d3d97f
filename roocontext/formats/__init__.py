"""Sessions in and out: importers, exporters, and the format of our own that loses nothing."""

from roocontext.formats.exports import Export, LeftOut, export
from roocontext.formats.imports import SkippedSource, Taken, import_paths

__all__ = ["Export", "LeftOut", "SkippedSource", "Taken", "export", "import_paths"]
