"""`roocontext archive` beside another run and a runner."""

import pytest

from roocontext import ArchiveFolder, Store
from roocontext.cli.app import run
from roocontext.cli.exit_codes import Code
from support.dialogue import restored


@pytest.mark.only("file", "postgres")
def test_file_that_another_run_wrote_too_is_not_removed(lab, tmp_path, monkeypatch):
    """A runner takes the turn of `b` while its file is written, and gives it back."""
    for name in ("a", "b"):
        lab.store.create(name).append("user", "hello")
        lab.clock.now += 60_000
    folder, write, files = ArchiveFolder(tmp_path), ArchiveFolder.__call__, []
    with Store.open(lab.url) as other:
        turn = other.session("b").turn()

        def beside_others(self, name, content):
            file = write(self, name, content)
            files.append(file)
            if len(files) == 1:
                turn.__enter__()
            elif len(files) == 2:
                turn.__exit__(None, None, None)
                other.archive(session="b", put=folder)
            return file

        monkeypatch.setattr(ArchiveFolder, "__call__", beside_others)
        words = ["archive", "--older-than", "2100-01-01", "--to", str(tmp_path)]
        assert run([*words, "--db", lab.url]) == Code.NO
        assert files[0] == files[2]
        assert restored(other, files[2]).id == "b"
