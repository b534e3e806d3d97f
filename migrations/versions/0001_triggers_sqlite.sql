-- The database itself keeps the log append-only. A blank line ends a statement.
--
-- An entry changes once: when it is redacted, it loses its salt and gets a skeleton as content. The
-- note that proves the redaction has to be there first.
CREATE TRIGGER entries_update BEFORE UPDATE ON entries WHEN NOT (
    NEW.session_id IS OLD.session_id
    AND NEW.seq IS OLD.seq
    AND NEW.kind IS OLD.kind
    AND NEW.format IS OLD.format
    AND NEW.role IS OLD.role
    AND NEW.ts IS OLD.ts
    AND NEW.recorded_at IS OLD.recorded_at
    AND NEW.message_id IS OLD.message_id
    AND NEW.client_id IS OLD.client_id
    AND NEW.model IS OLD.model
    AND NEW.usage IS OLD.usage
    AND NEW.compaction_id IS OLD.compaction_id
    AND NEW.note IS OLD.note
    AND NEW.target IS OLD.target
    AND NEW.asked_at IS OLD.asked_at
    AND NEW.answers_seq IS OLD.answers_seq
    AND NEW.answers_block IS OLD.answers_block
    AND NEW.size IS OLD.size
    AND NEW.messages_total IS OLD.messages_total
    AND NEW.bytes_total IS OLD.bytes_total
    AND NEW.latest_happened IS OLD.latest_happened
    AND NEW.content_digest IS OLD.content_digest
    AND NEW.hash IS OLD.hash
    AND NEW.tools IS OLD.tools
    AND NEW.details IS OLD.details
    AND OLD.salt IS NOT NULL AND NEW.salt IS NULL AND NEW.extra IS NULL
    AND EXISTS (
        SELECT 1 FROM entries AS n
        WHERE n.session_id = OLD.session_id AND n.note = 'redaction' AND n.target = OLD.seq
    )
)
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

-- Entries go with their session, once it has the receipt of its purge or names its archive.
CREATE TRIGGER entries_delete BEFORE DELETE ON entries WHEN NOT EXISTS (
    SELECT 1 FROM sessions AS s WHERE s.session_id = OLD.session_id
        AND (s.purged_at IS NOT NULL OR s.archived_at IS NOT NULL)
)
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

-- INSERT OR REPLACE deletes without the delete trigger where recursive_triggers is off. It also
-- replaces the row with an equal rowid, whatever its key.
CREATE TRIGGER entries_insert BEFORE INSERT ON entries WHEN
    EXISTS (
        SELECT 1 FROM entries AS e WHERE e.session_id = NEW.session_id AND e.seq = NEW.seq
    )
    OR (NEW.client_id IS NOT NULL AND EXISTS (
        SELECT 1 FROM entries AS e
        WHERE e.session_id = NEW.session_id AND e.client_id = NEW.client_id
    ))
    OR EXISTS (SELECT 1 FROM entries AS e WHERE e.rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

CREATE TRIGGER sessions_delete BEFORE DELETE ON sessions
BEGIN SELECT RAISE(ABORT, 'a session is purged, never deleted'); END;

CREATE TRIGGER sessions_insert BEFORE INSERT ON sessions WHEN EXISTS (
    SELECT 1 FROM sessions AS s WHERE s.session_id = NEW.session_id OR s.rowid = NEW.rowid
)
BEGIN SELECT RAISE(ABORT, 'a session is purged, never deleted'); END;

CREATE TRIGGER sessions_parent BEFORE UPDATE OF parent, owner ON sessions
WHEN NEW.parent IS NOT OLD.parent OR NEW.owner IS NOT OLD.owner
BEGIN SELECT RAISE(ABORT, 'the parent and the owner of a session never change'); END;
