"""Files that hold an empty store: copies of one that was migrated once."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from roocontext import Store


def empty_file(path: Path) -> str:
    """Make a file that holds an empty store; its path."""
    path.touch(mode=0o600)
    path.write_bytes(_migrated())
    return str(path)


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        Store.open(path).close()
        return path.read_bytes()
