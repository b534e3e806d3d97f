"""Sessions in and out: importers, exporters, and the format of our own that loses nothing."""
