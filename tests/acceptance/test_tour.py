"""The tour of the library: it runs by itself, in a pipe, and tells the whole story."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from roocontext import Store

ROOT = Path(__file__).parents[2]
TOUR = ROOT / "examples" / "tour.py"
CHAPTERS = [
    *("Append", "Clear", "Condense", "Truncate", "Rewind", "Undo", "As-of", "Fork"),
    *("Audit", "Verify"),
]


def tour(cwd: Path, *arguments: str) -> str:
    shown = subprocess.run(
        [sys.executable, "-W", "error", str(TOUR), *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    return shown.stdout


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tour(tmp_path_factory.mktemp("tour"))


def chapter(story: str, title: str) -> str:
    return re.split(r"^(?=\S)", story, flags=re.MULTILINE)[1 + CHAPTERS.index(title)]


def seen(part: str) -> list[int]:
    return [int(line.split()[0]) for line in part.splitlines() if re.match(r" +\d+  \w", line)]


def test_tour_prints_every_chapter_in_order(story):
    titles = re.findall(r"^(\S.*)$", story, re.MULTILINE)
    assert [title.replace(" ", "-") for title in titles] == CHAPTERS


def test_tour_leaves_no_files(tmp_path):
    tour(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rewind_shows_what_was_hidden_and_the_undo_takes_it_back(story):
    assert seen(chapter(story, "Truncate")) == [2, 17, 12, 18, 15]
    assert seen(chapter(story, "Rewind")) == list(range(2, 12))
    assert seen(chapter(story, "Undo")) == [2, 17, 12, 18, 15]
    assert seen(chapter(story, "As-of")) == seen(chapter(story, "Clear")) == list(range(2, 16))


def test_audit_lists_every_entry(story):
    assert seen(chapter(story, "Audit")) == list(range(1, 21))
    assert "ok: True" in chapter(story, "Verify")


def test_given_database_keeps_the_sessions(tmp_path):
    path = tmp_path / "kept.db"
    tour(tmp_path, str(path))
    tour(tmp_path, str(path))
    with Store.open(path) as store:
        kept = store.sessions()
        assert len(kept) == 4
        assert all(store.session(info.session_id).verify().ok for info in kept)
