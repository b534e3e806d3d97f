"""A transcript of 50,000 lines and 100 MB, imported by a process of its own: what it needs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from roocontext import Store
from support.empty_files import empty_file

pytestmark = pytest.mark.torture

LINES = 50_000
MOST = 75
"""How many MB the process may grow: the batch that is written, and places in file and log."""

IMPORT = """
import resource, sys
from pathlib import Path
from roocontext import Store
from roocontext.formats.imports import import_paths

def most():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

path, database = sys.argv[1:]
with Store.open(database, durability="normal") as store:
    small = Path(path).with_name("small.jsonl")
    assert len(list(import_paths(store, [small]))) == 1
    before = most()
    (done,) = import_paths(store, [Path(path)])
    print(done.messages, most() - before)
"""


def write(path: Path, lines: int, *, is_asked: bool) -> None:
    """A session in which a tool is called again and again, after one prompt or many."""
    with path.open("w") as file:
        for number in range(lines):
            answers = number % 4 in (1, 3)
            text = f"{number} " + 1_000 * "x"
            call = {"type": "tool_use", "id": f"t{number}", "name": "run", "input": {"c": text}}
            result = {"type": "tool_result", "tool_use_id": f"t{number - 1}", "content": text}
            content = [{"type": "text", "text": text}, call, result, {"type": "text", "text": text}]
            place = number % 4 if is_asked or number == 0 else 2 - number % 2
            message = {"role": "assistant" if answers else "user", "content": [content[place]]}
            record = {
                "type": message["role"],
                "uuid": f"{number:08}-0000-7000-8000-000000000000",
                "parentUuid": f"{number - 1:08}-0000-7000-8000-000000000000" if number else None,
                "sessionId": path.stem,
                "version": "2.1.81",
                "message": {"id": f"m{number}", **message} if answers else message,
                "toolUseResult": 800 * "y",
            }
            file.write(json.dumps(record) + "\n")


@pytest.mark.parametrize("is_asked", [True, False])
def test_memory_grows_little_with_a_transcript(tmp_path, is_asked):
    path, database = tmp_path / "large.jsonl", empty_file(tmp_path / "store.db")
    write(path.with_name("small.jsonl"), 1_000, is_asked=is_asked)
    write(path, LINES, is_asked=is_asked)
    assert path.stat().st_size > 100_000_000
    command = [sys.executable, "-c", IMPORT, str(path), database]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    messages, grown = map(int, done.stdout.split())
    assert messages == LINES
    assert grown < MOST
    with Store.open(database) as store:
        chat = store.session("claude-code:large")
        assert chat.stats().messages == LINES
        assert chat.verify().ok
