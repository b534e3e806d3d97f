"""Sessions in and out: importers, exporters, and the format of our own that loses nothing."""

from roocontext.formats.exports import Export, LeftOut, export
from roocontext.formats.imports import SkippedSource, import_paths
from roocontext.formats.writing import SessionImport

__all__ = ["Export", "LeftOut", "SessionImport", "SkippedSource", "export", "import_paths"]
