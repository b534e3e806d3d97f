"""Importers of other packages: one that cannot be loaded does not stop the others."""

import os
import sys
from pathlib import Path

import pytest

from support.cli_process import ran
from support.codex_rollouts import item, line, write

ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """With a package whose importers are a missing module, and one that fails."""
    (tmp_path / "failing_importer.py").write_text("raise RuntimeError('hunter2')\n")
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[roocontext.importers]\nacme = no_such_module:IMPORTER\nbad = failing_importer:IMPORTER\n"
    )
    return f"{tmp_path}{os.pathsep}{ROOT}"


def test_broken_importer_is_named_and_left_out(path, tmp_path):
    file = tmp_path / "rollout-2026-03-01T10-00-00-aa.jsonl"
    write(file, line("session_meta", id="aa", cwd="/work"), item("user", "hello"))

    command = [sys.executable, "-m", "roocontext", "--db", str(tmp_path / "a.db"), "import"]
    run = ran(*command, str(file), folder=tmp_path, PYTHONPATH=path)
    assert run.code == 0, run.err
    assert "codex:aa" in run.out
    assert "'acme' of the importers cannot be loaded from 'no_such_module:IMPORTER'" in run.err
    assert "(1 more warning)" in run.err
    assert "hunter2" not in run.err
    refused = ran(*command, "--from", "acme", folder=tmp_path, PYTHONPATH=path)
    assert "'acme' is not a known tool." in refused.err
