"""An importer is an object that is found by its name: nothing else has to know it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roocontext import NewMessage
from roocontext.errors import InvalidOption
from roocontext.formats import import_paths
from roocontext.formats.events import Added, Event, Source
from roocontext.formats.find import places, tools
from roocontext.formats.importer import IMPORTERS, Importer


def sources(path: Path) -> Iterator[Source]:
    def events() -> Iterator[Event]:
        for number, text in enumerate(path.read_text().splitlines(), 1):
            yield Added(f"{number}", NewMessage("user", text), number)

    yield Source(f"notebook:{path.stem}", path, {"tool": "notebook"}, events)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Importer:
    """An importer of a tool whose files have one message on each line."""
    importer = Importer(
        tool="notebook",
        sources=sources,
        places=("~/notes",),
        is_file=lambda path: path.suffix == ".notes",
        is_candidate=lambda path: path.suffix == ".notes",
    )
    monkeypatch.setitem(IMPORTERS, importer.tool, importer)
    return importer


def test_known_tools_are_listed():
    assert tools() == ("claude-code", "cline", "codex", "gemini-cli", "opencode", "roo-code")
    with pytest.raises(InvalidOption, match="The tools are claude-code, cline, codex"):
        places("nonsense")


@pytest.mark.usefixtures("notebook")
def test_new_importer_needs_no_other_change(store, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.notes").write_text("one\ntwo\n")
    assert places("notebook") == [tmp_path / "notes"]
    (done,) = import_paths(store, places("notebook"), tool="notebook")
    assert (done.session_id, done.messages, done.created) == ("notebook:a", 2, True)
    (again,) = import_paths(store, [tmp_path])
    assert (again.messages, again.notes) == (0, 0)
