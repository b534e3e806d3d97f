-- The append of one message, as one statement of the caller: it takes the session's next seq,
-- chains the hash and inserts the entry. A blank line ends a statement.
--
-- It is part of the schema. A release that needs another one adds it under another name,
-- roocontext_append_v2, and this one stays for one minor release.
--
-- `durability`, `lock_patience` and `for_owner` hold for this transaction alone; policies of row-level
-- security read the last one. If the head is not the one that is expected, if the message refers to
-- a later entry, or if there is no such session or it has another owner, nothing is written and
-- nothing is returned: then only another query can say why. A client id that is taken is an error
-- of its index. The times are those of `log.times`, and the hash is that of `log.chain`.
CREATE FUNCTION roocontext_append_v1(
    durability text, lock_patience text, for_owner text,
    session text, expected_head bigint, refers_to bigint, prompt text, digest bytea,
    format text, role text, ts bigint, recorded_at bigint, message_id text, client_id text,
    model text, usage text, asked_at bigint, answers_seq bigint, answers_block bigint,
    size bigint, salt bytea, content_digest bytea, tools text, extra text, content text,
    OUT new_seq bigint, OUT new_hash bytea, OUT waited double precision
) LANGUAGE plpgsql AS $$
DECLARE
    moved record;
    happened bigint := coalesce(ts, recorded_at);
    asked timestamptz := clock_timestamp();
BEGIN
    PERFORM set_config('lock_timeout', lock_patience, true);
    IF durability = 'normal' THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    ELSIF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    IF for_owner IS NOT NULL THEN
        PERFORM set_config('roocontext.owner', for_owner, true);
    END IF;
    UPDATE sessions SET
        last_seq = last_seq + 1,
        head_seq = last_seq + 1,
        last_hash = sha256(last_hash || digest),
        messages = messages + 1,
        bytes = bytes + size,
        latest_recorded = greatest(latest_recorded, recorded_at),
        recorded_back = recorded_back + CASE WHEN recorded_at < latest_recorded THEN 1 ELSE 0 END,
        latest_happened = greatest(latest_happened, happened),
        happened_at = greatest(happened_at, happened),
        updated_at = recorded_at,
        updated_minute = floor(recorded_at / 60000.0),
        listed_at = least(greatest(happened_at, happened), recorded_at),
        listed_minute = floor(least(greatest(happened_at, happened), recorded_at) / 60000.0),
        changed_minute = greatest(changed_minute, floor(date_part('epoch', now()) / 60)),
        unindexed = true,
        first_prompt = coalesce(first_prompt, prompt)
    WHERE session_id = session AND purged_at IS NULL AND archived_at IS NULL
        AND (for_owner IS NULL OR owner = for_owner)
        AND (expected_head IS NULL OR head_seq = expected_head) AND last_seq >= refers_to
    RETURNING last_seq, last_hash, messages, bytes, latest_happened INTO moved;
    waited := date_part('epoch', clock_timestamp() - asked);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    INSERT INTO entries (
        session_id, seq, kind, format, role, ts, recorded_at, message_id, client_id, model, usage,
        asked_at, answers_seq, answers_block, size, messages_total, bytes_total, latest_happened,
        salt, content_digest, hash, tools, extra, content
    ) VALUES (
        session, moved.last_seq, 'message', format, role, ts, recorded_at, message_id, client_id,
        model, usage, asked_at, answers_seq, answers_block, size, moved.messages, moved.bytes,
        moved.latest_happened, salt, content_digest, moved.last_hash, tools, extra, content
    );
    -- The change feed relies on it: see LONGEST_S in `store/engine/postgres.py`.
    IF clock_timestamp() > now() + interval '120 s' THEN
        RAISE division_by_zero;
    END IF;
    new_seq := moved.last_seq;
    new_hash := moved.last_hash;
END $$;
