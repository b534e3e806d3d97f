"""All that a store holds, read by the plain driver, to be compared byte for byte."""

from typing import Any

import psycopg
import sqlalchemy

from roocontext.store.engine.schema import sessions

COLUMNS = (
    "session_id, seq, kind, format, role, ts, recorded_at, message_id, client_id, model, usage,"
    " compaction_id, note, target, asked_at, answers_seq, answers_block, size, messages_total,"
    " bytes_total, latest_happened, salt, content_digest, hash, tools, details, extra, content"
)
# The minute is the engine's own, whatever clock a store is given.
OF_SESSIONS = ", ".join(name for name in sessions.columns.keys() if name != "changed_minute")  # noqa: SIM118 - no dict
TABLES = {
    "entries": f"SELECT {COLUMNS} FROM entries ORDER BY session_id, seq",
    "spans": "SELECT * FROM spans ORDER BY session_id, lo",
    "clearings": "SELECT * FROM clearings ORDER BY session_id, seq, block",
    "sessions": f"SELECT {OF_SESSIONS} FROM sessions ORDER BY session_id",
}


def dump(url: str) -> dict[str, list[tuple[Any, ...]]]:
    if "://" in url:
        plain = sqlalchemy.make_url(url).set(drivername="postgresql")
        with psycopg.connect(plain.render_as_string(hide_password=False)) as connection:
            return {name: connection.execute(sql).fetchall() for name, sql in TABLES.items()}
    engine = sqlalchemy.create_engine(f"sqlite:///{url}")
    with engine.connect() as connection:
        rows = {
            name: [tuple(row) for row in connection.exec_driver_sql(sql)]
            for name, sql in TABLES.items()
        }
    engine.dispose()
    return rows
