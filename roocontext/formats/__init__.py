"""Sessions in and out: importers, exporters, and the format of our own that loses nothing."""

from roocontext.formats.exports import Export, LeftOut, export
from roocontext.formats.imports import SessionImport, SkippedSource, import_paths

__all__ = ["Export", "LeftOut", "SessionImport", "SkippedSource", "export", "import_paths"]
