"""A bit of a file flips: a typed error, an answer that `verify` stands by, or no harm.

SQLite itself notices damage to the structure of a file. Damage to what a row holds is noticed by
`verify`, which has to find every change of the log.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from roocontext import RooContextError, Store
from support.damage import READING, SECRET, WRITING, build
from support.examples import TORTURE, examples

FLIPS = 12 if TORTURE else 3
"""How many bits one test flips, each in a new copy of the file."""
PATH = "store.db"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Any]]:
    """A file with a session that has everything, and its log."""
    path = tmp_path_factory.mktemp("sound") / PATH
    with Store.open(path) as store:
        chat = build(store)
        store.index()
        log = list(chat.internals.stored())
    return path.read_bytes(), log


@pytest.mark.parametrize("seed", range(examples(1)))
def test_flipped_bit_is_found_or_does_no_harm(sound, tmp_path, seed):
    content, log = sound
    chance = random.Random(seed)
    for number in range(FLIPS):
        damaged = bytearray(content)
        place = chance.randrange(len(content))
        damaged[place] ^= 1 << chance.randrange(8)
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (folder / PATH).write_bytes(damaged)
        assert _faults(folder / PATH, log) == [], f"byte {place}"


def _faults(path: Path, log: list[Any]) -> list[str]:
    """What goes wrong when everything is asked of this file, reads first."""
    faults: list[str] = []
    try:
        with Store.open(path) as store:
            listed = store.sessions()
            if not listed:  # the bit was in what a list is made of
                return faults
            chat = store.session(listed[0].session_id)
            if chat.verify().ok and list(chat.internals.stored()) != log:
                faults.append("verify finds nothing")
            for name, operation in {**READING, **WRITING}.items():
                try:
                    operation(store, chat)
                except RooContextError as error:
                    if SECRET in f"{error} {error.facts}":
                        faults.append(f"{name} quotes content")
                except Exception as error:  # noqa: BLE001 - which is what is looked for
                    faults.append(f"{name} raises {error!r}")
    except RooContextError as error:
        if SECRET in str(error):
            faults.append("opening quotes content")
    return faults
