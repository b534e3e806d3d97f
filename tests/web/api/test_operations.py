"""Every operation of the API over a real server, on SQLite and PostgreSQL."""
