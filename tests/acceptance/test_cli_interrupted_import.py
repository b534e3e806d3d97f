"""Ctrl-C in the middle of an import into PostgreSQL, and the same command again."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg

from roocontext import Store
from roocontext.cli.exit_codes import Code
from support.transcripts import Transcript

LINES = 700
STOP = 600
"""The entry at which the import waits, in its third batch."""

WAITS = f"""
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    PERFORM pg_advisory_xact_lock(1);
    RETURN NEW;
END $$;
CREATE TRIGGER waits BEFORE INSERT ON entries FOR EACH ROW WHEN (NEW.seq = {STOP})
    EXECUTE FUNCTION wait();
SELECT pg_advisory_lock(1);
"""
IS_WAITED_FOR = """
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted
"""


def test_interrupted_import_is_continued(postgres_url, command_line, tmp_path):
    transcript = Transcript(tmp_path / "s-1.jsonl")
    for number in range(LINES):
        transcript.user(f"message {number}")
    script = str(Path(sys.executable).with_name("roocontext"))
    command = [script, "import", str(transcript.path), "--db", postgres_url]
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(WAITS)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            while not admin.execute(IS_WAITED_FOR).fetchone()[0]:
                time.sleep(0.01)
            run.send_signal(signal.SIGINT)
            assert run.communicate() == (b"", b"roocontext: Interrupted.\n")
        assert run.returncode == Code.INTERRUPTED
    with Store.open(postgres_url) as store:
        (info,) = store.sessions()
        chat = store.session(info.session_id)
        committed = chat.info().last_seq
        assert 0 < committed < STOP
        # What was under way ended with its connection.
        again = command_line(postgres_url)("import", str(transcript.path), "--json")
        (session,) = again.document["sessions"]
        assert (session["status"], session["messages"]) == ("continued", LINES + 1 - committed)
        shown = [message.content for message in chat.view().messages]
        assert shown == [f"message {number}" for number in range(LINES)]
        assert chat.verify().ok
