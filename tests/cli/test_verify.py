"""`roocontext verify` goes through all sessions while others purge and archive them."""

import json

import pytest

from roocontext import ArchiveFolder, reports
from roocontext.cli.app import run
from roocontext.cli.exit_codes import Code


@pytest.mark.only("file", "postgres")
def test_session_that_was_purged_or_archived_meanwhile_is_left_out(
    lab, tmp_path, monkeypatch, capsys
):
    for name in ("purged", "kept", "archived"):
        lab.store.create(name).append("user", "hello")
    list_all = reports.naming.list_all

    def listed(store):
        infos = list_all(store)
        lab.store.purge("purged")
        lab.store.archive(put=ArchiveFolder(tmp_path), session="archived")
        return infos

    monkeypatch.setattr(reports.naming, "list_all", listed)
    assert run(["verify", "--json", "--db", lab.url]) == Code.DONE
    printed = json.loads(capsys.readouterr().out)
    assert [row["session_id"] for row in printed["sessions"]] == ["kept"]
    for name in ("purged", "archived"):
        assert run(["verify", name, "--db", lab.url]) in (Code.NOT_FOUND, Code.REFUSED)
