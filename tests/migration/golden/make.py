"""Makes the stored database of the newest schema, once: that of a released one stays as it is.

    python tests/migration/golden/make.py

Beside the database it writes what every session showed at every moment of its past. Later
versions have to migrate the first and to show the second.
"""

import gzip
import json
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[2]
sys.path.insert(0, str(TESTS))

from migration.golden_histories import make_all  # noqa: E402 - from the folder of this script
from roocontext import Store  # noqa: E402
from roocontext.store.engine.schema import REVISION  # noqa: E402
from support.steady_sources import CountedIds, SetClock  # noqa: E402

GOLDEN = Path(__file__).parent
TAGS = ("condense_parent", "truncation_parent", "rewound_by", "uncovered_by")


def build(path: Path) -> None:
    """The database, with ids, salts and times that anybody can make again."""
    with Store.open(path, clock=SetClock(), ids=CountedIds()) as store:
        make_all(store)


def recorded(store: Store) -> dict[str, Any]:
    """Facts of each session that never change."""
    return {info.session_id: _session(store, info.session_id) for info in store.sessions()}


def _session(store: Store, name: str) -> dict[str, Any]:
    chat = store.session(name)
    head = chat.head()
    return {
        "head": {"session_id": name, "seq": head.seq, "hash": head.hash},
        "views": [_shown(chat.view(as_of=seq)) for seq in range(head.seq + 1)],
        "now": _shown(chat.view()),
        "audit": [
            [e.seq, e.kind, *(getattr(e, tag) for tag in TAGS), e.redacted] for e in chat.audit()
        ],
    }


def _shown(view: Any) -> list[list[Any]]:
    return [[m.seq, m.kind, m.role, m.content, list(m.cleared)] for m in view.messages]


def main() -> None:
    """Write the database and the record."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.db"
        build(path)
        with Store.open(path) as store:
            record = json.dumps(recorded(store), indent=None, separators=(",", ":"))
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("VACUUM")
        packed = gzip.compress(path.read_bytes(), mtime=0)
    (GOLDEN / f"{REVISION}.sqlite.gz").write_bytes(packed)
    (GOLDEN / f"{REVISION}.json.gz").write_bytes(gzip.compress(record.encode(), mtime=0))


if __name__ == "__main__":
    main()
