-- The terms of each indexed message, separated by spaces: NULL if there are too many to index.
-- The id stays what it is when the file is vacuumed, which other row numbers do not.
CREATE TABLE search_rows (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    happened_at INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    terms TEXT,
    UNIQUE (session_id, seq)
)

CREATE INDEX search_rows_unindexed ON search_rows (happened_at) WHERE terms IS NULL

-- Which messages have a term, and nothing else. Its tokens end at spaces: terms have no ASCII
-- punctuation, and are in lower case.
CREATE VIRTUAL TABLE search_terms USING fts5 (
    terms,
    content = 'search_rows',
    content_rowid = 'id',
    tokenize = 'ascii',
    detail = 'none',
    columnsize = 0
)

CREATE TRIGGER search_rows_add AFTER INSERT ON search_rows
WHEN new.terms IS NOT NULL
BEGIN
    INSERT INTO search_terms (rowid, terms) VALUES (new.id, new.terms);
END

CREATE TRIGGER search_rows_drop AFTER DELETE ON search_rows
WHEN old.terms IS NOT NULL
BEGIN
    INSERT INTO search_terms (search_terms, rowid, terms) VALUES ('delete', old.id, old.terms);
END
