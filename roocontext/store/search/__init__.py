"""Search in the database: which messages may match, which do, and the index that saves reading."""
