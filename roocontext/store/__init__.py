"""The log in a database. SQL lives here and only here; the store never decides."""
