-- The database itself keeps the log append-only. A blank line ends a statement.
--
-- An entry changes once: when it is redacted, it loses its salt and gets a skeleton as content. The
-- note that proves the redaction has to be there first. Entries go with their session, once it has
-- the receipt of its purge or names its archive. Tables are named through the schema of the
-- trigger's own table, because a temporary table may have the same name.
CREATE FUNCTION roocontext_entries_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE allowed boolean := false;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.session_id IS NOT DISTINCT FROM OLD.session_id
            AND NEW.seq IS NOT DISTINCT FROM OLD.seq
            AND NEW.kind IS NOT DISTINCT FROM OLD.kind
            AND NEW.format IS NOT DISTINCT FROM OLD.format
            AND NEW.role IS NOT DISTINCT FROM OLD.role
            AND NEW.ts IS NOT DISTINCT FROM OLD.ts
            AND NEW.recorded_at IS NOT DISTINCT FROM OLD.recorded_at
            AND NEW.message_id IS NOT DISTINCT FROM OLD.message_id
            AND NEW.client_id IS NOT DISTINCT FROM OLD.client_id
            AND NEW.model IS NOT DISTINCT FROM OLD.model
            AND NEW.usage IS NOT DISTINCT FROM OLD.usage
            AND NEW.compaction_id IS NOT DISTINCT FROM OLD.compaction_id
            AND NEW.note IS NOT DISTINCT FROM OLD.note
            AND NEW.target IS NOT DISTINCT FROM OLD.target
            AND NEW.asked_at IS NOT DISTINCT FROM OLD.asked_at
            AND NEW.answers_seq IS NOT DISTINCT FROM OLD.answers_seq
            AND NEW.answers_block IS NOT DISTINCT FROM OLD.answers_block
            AND NEW.size IS NOT DISTINCT FROM OLD.size
            AND NEW.messages_total IS NOT DISTINCT FROM OLD.messages_total
            AND NEW.bytes_total IS NOT DISTINCT FROM OLD.bytes_total
            AND NEW.latest_happened IS NOT DISTINCT FROM OLD.latest_happened
            AND NEW.content_digest IS NOT DISTINCT FROM OLD.content_digest
            AND NEW.hash IS NOT DISTINCT FROM OLD.hash
            AND NEW.tools IS NOT DISTINCT FROM OLD.tools
            AND NEW.details IS NOT DISTINCT FROM OLD.details
            AND OLD.salt IS NOT NULL AND NEW.salt IS NULL AND NEW.extra IS NULL
        THEN
            EXECUTE pg_catalog.format('SELECT EXISTS (SELECT 1 FROM %I.entries
                WHERE session_id = $1 AND note = ''redaction'' AND target = $2)',
                TG_TABLE_SCHEMA) INTO allowed USING OLD.session_id, OLD.seq;
        END IF;
        IF allowed THEN RETURN NEW; END IF;
    ELSIF TG_OP = 'DELETE' THEN
        EXECUTE pg_catalog.format('SELECT EXISTS (SELECT 1 FROM %I.sessions
            WHERE session_id = $1 AND (purged_at IS NOT NULL OR archived_at IS NOT NULL))',
            TG_TABLE_SCHEMA) INTO allowed USING OLD.session_id;
        IF allowed THEN RETURN OLD; END IF;
    END IF;
    RAISE EXCEPTION 'the log is append-only'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE FUNCTION roocontext_sessions_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a session is purged, never deleted'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER entries_guard BEFORE UPDATE OR DELETE ON entries
    FOR EACH ROW EXECUTE FUNCTION roocontext_entries_guard();

CREATE TRIGGER entries_truncate BEFORE TRUNCATE ON entries
    FOR EACH STATEMENT EXECUTE FUNCTION roocontext_entries_guard();

CREATE TRIGGER sessions_guard BEFORE DELETE ON sessions
    FOR EACH ROW EXECUTE FUNCTION roocontext_sessions_guard();

CREATE TRIGGER sessions_truncate BEFORE TRUNCATE ON sessions
    FOR EACH STATEMENT EXECUTE FUNCTION roocontext_sessions_guard();

CREATE FUNCTION roocontext_parent_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the parent and the owner of a session never change'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER sessions_parent BEFORE UPDATE OF parent, owner ON sessions
    FOR EACH ROW WHEN (
        NEW.parent IS DISTINCT FROM OLD.parent OR NEW.owner IS DISTINCT FROM OLD.owner
    )
    EXECUTE FUNCTION roocontext_parent_guard();
