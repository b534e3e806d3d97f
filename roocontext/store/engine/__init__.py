"""A database: its schema, connections, transactions and files."""
