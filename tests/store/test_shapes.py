"""Rows are compared with what their columns may hold, by many threads at once."""

import subprocess
import sys

FIRST_USE = """
import sys, threading
from sqlalchemy import select
from roocontext.store.engine import shapes
from roocontext.store.engine.schema import entries

EXAMPLES = {int: 1, bytes: b"", str: "x"}
sys.setswitchinterval(1e-6)
for number in range(200):
    query = select(*list(entries.columns)[: 1 + number % 20])
    row = tuple(EXAMPLES[column.type.python_type] for column in query.selected_columns)
    together = threading.Barrier(4)

    def check():
        together.wait()
        shapes.checked_rows(query, [row])

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_row_shape_of_a_query_is_made_once_by_several_threads():
    """It crashed the process: msgspec looks at a type when it is first used."""
    assert subprocess.run([sys.executable, "-c", FIRST_USE], check=False).returncode == 0
