-- The indexed messages of one owner that match. A blank line ends a statement.
--
-- Under row-level security the server compares a row with a policy before it lets `@@` see it, so
-- that a query of the table could not use the index of terms. This function reads the table with the
-- rights of the role that created it, by the index, and returns what belongs to the owner that the
-- transaction has set. It is for the roles that may use the store: see `roocontext db grants`.
CREATE FUNCTION roocontext_matches_v1(words tsquery)
RETURNS TABLE (session_id text, seq bigint, happened_at bigint, recorded_at bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = OUR_SCHEMA, pg_temp AS $$
    SELECT found.session_id, found.seq, found.happened_at, found.recorded_at
    FROM search_rows AS found
    WHERE found.terms @@ words AND EXISTS (
        SELECT 1 FROM sessions AS own
        WHERE own.session_id = found.session_id
            AND own.owner = current_setting('roocontext.owner', true)
    )
$$;

REVOKE ALL ON FUNCTION roocontext_matches_v1(tsquery) FROM PUBLIC;
