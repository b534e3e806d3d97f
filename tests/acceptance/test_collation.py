"""A database that sorts text as a language does, where the system has the sources of one."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from roocontext import ContextManager, Store
from roocontext.log.counting import BYTES
from support import postgres_server
from support.dialogue import fill, keep_estimate

SOURCES = Path("/usr/share/i18n/locales/en_US")
LANGUAGE = "en_US.UTF-8"
DATABASE = "TEMPLATE template0 ENCODING 'UTF8' LOCALE '{}'"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A database with a language's collation; where none can be compiled, with the plain one."""
    localedef = shutil.which("localedef")
    locale = LANGUAGE if localedef and SOURCES.exists() else "C.UTF-8"
    with TemporaryDirectory(prefix="roocontext-locale-") as folder:
        if locale == LANGUAGE:
            made = [str(localedef), "-i", "en_US", "-f", "UTF-8", f"{folder}/{LANGUAGE}"]
            subprocess.run(made, check=True)
            Path(folder).chmod(0o755)  # the server may be another user
        with pytest.MonkeyPatch.context() as patch:
            if locale == LANGUAGE:
                patch.setenv("LOCPATH", folder)
            with postgres_server.own() as server:
                yield server.empty(DATABASE.format(locale))


def test_collation_of_a_language_ignores_punctuation(url):
    """Why it matters: `request:bytes` does not stand between `request:` and `request;` then."""
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT datcollate = 'en_US.UTF-8', 'request:bytes' < 'request;'"
            " FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    is_language, as_code_points = row
    assert is_language is not as_code_points


def test_estimates_and_drift_are_found_again(url):
    with Store.open(url) as store:
        chat = store.create("s")
        fill(chat, 1)
        usage = {"input_tokens": 900, "output_tokens": 7}
        seq = chat.append("assistant", "hi", usage=usage, model="m").seq
        assert keep_estimate(chat, seq, BYTES, 41)
        assert chat.internals.calls()[0].estimates == {"bytes": 41}
        context = ContextManager(limit=100_000, counter=BYTES)
        drift = context.drift(chat)["m"]
        assert (drift.calls, drift.estimated, drift.reported) == (1, 41, 900)


def test_ids_sort_by_code_point(url):
    with Store.open(url) as store:
        names = ["a-b", "aB", "a_b", "ab", "Ab", "a b"]
        for name in names:
            store.create(name)
        found = [info.session_id for info in store.find("a")]
        assert found == sorted(name for name in names if name.startswith("a"))
