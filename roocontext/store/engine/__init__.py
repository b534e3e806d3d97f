"""One database, SQLite or PostgreSQL: connections, transactions, locks, processes, migrations."""
