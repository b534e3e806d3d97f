-- For people who read with plain SQL. A blank line ends a statement.
--
-- Every message ever written, with the tags that say why it is or is not visible. A position is in
-- units of 2^32 (4294967296), so that rows can be inserted between two others.
CREATE VIEW messages AS
SELECT e.session_id, e.seq, e.kind, e.role, e.format, e.ts, e.recorded_at,
    coalesce(e.ts, e.recorded_at) AS happened_at,
    e.message_id, e.client_id, e.model, e.usage,
    CASE WHEN e.kind = 'summary' THEN e.compaction_id END AS condense_id,
    condensed.compaction_id AS condense_parent,
    CASE WHEN e.kind = 'marker' THEN e.compaction_id END AS truncation_id,
    truncated.compaction_id AS truncation_parent,
    e.kind = 'summary' AS is_summary,
    e.kind = 'marker' AS is_marker,
    s.rewound_by,
    s.uncovered_by,
    s.position + (e.seq - s.lo) * 4294967296 AS position,
    e.asked_at, e.answers_seq, e.answers_block, e.size, e.extra, e.content
FROM spans AS s
JOIN sessions AS log ON log.session_id = s.session_id
JOIN entries AS e
    ON e.session_id = s.session_id AND e.seq BETWEEN s.lo AND s.hi
    AND e.seq <= log.last_seq
LEFT JOIN entries AS condensed
    ON condensed.session_id = s.session_id AND condensed.seq = s.condense_parent
LEFT JOIN entries AS truncated
    ON truncated.session_id = s.session_id AND truncated.seq = s.truncation_parent
WHERE e.kind IN ('message', 'summary', 'marker', 'companion');

-- What the model sees now: the rows and the order of the library's own view, contents as stored.
-- JOINED_BLOCKS becomes the engine's way to join the numbers of the cleared blocks with commas.
CREATE VIEW effective_history AS
SELECT e.session_id, s.position + (e.seq - s.lo) * 4294967296 AS position,
    e.seq, e.kind, e.role, e.format, e.ts, e.recorded_at,
    coalesce(e.ts, e.recorded_at) AS happened_at, e.message_id,
    CASE WHEN e.kind = 'summary' THEN e.compaction_id END AS condense_id,
    CASE WHEN e.kind = 'marker' THEN e.compaction_id END AS truncation_id,
    e.content,
    (SELECT JOINED_BLOCKS FROM (
        SELECT c.block FROM clearings AS c
        WHERE c.session_id = e.session_id AND c.seq = e.seq ORDER BY c.block
    ) AS c) AS cleared_blocks
FROM spans AS s
JOIN sessions AS log ON log.session_id = s.session_id
JOIN entries AS e
    ON e.session_id = s.session_id AND e.seq BETWEEN s.lo AND s.hi
    AND e.seq <= log.last_seq
WHERE s.condense_parent IS NULL AND s.truncation_parent IS NULL
    AND s.rewound_by IS NULL AND s.uncovered_by IS NULL
    AND e.kind IN ('message', 'summary', 'marker', 'companion')
ORDER BY e.session_id, position, e.seq;
