-- The terms of each indexed message: NULL if there are too many to index.
CREATE TABLE search_rows (
    session_id TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    happened_at BIGINT NOT NULL,
    recorded_at BIGINT NOT NULL,
    terms TSVECTOR,
    PRIMARY KEY (session_id, seq)
)

CREATE INDEX search_rows_unindexed ON search_rows (happened_at) WHERE terms IS NULL

CREATE INDEX search_rows_terms ON search_rows USING gin (terms)
