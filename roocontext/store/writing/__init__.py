"""Everything that writes entries, and the caches that are written with them."""
