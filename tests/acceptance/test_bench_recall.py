"""The measure for the table of the recall guide: the same figures each time, in any process."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = "import json; from bench.recall import measured; print(json.dumps(measured('default', 150)))"


def test_recall_answers_what_the_summary_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    row = json.loads(done.stdout)
    assert row["hidden facts"] > 10
    for kind in ("file names", "numbers", "error texts"):
        assert row[kind] < 1
        assert row[f"{kind} with recall"] == 1
