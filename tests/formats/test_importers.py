"""Importers of other packages: one that cannot be loaded does not stop the others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.codex_rollouts import item, line, write

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a package whose importers are a missing module, and one that fails."""
    (tmp_path / "failing_importer.py").write_text("raise RuntimeError('hunter2')\n")
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[roocontext.importers]\nacme = no_such_module:IMPORTER\nbad = failing_importer:IMPORTER\n"
    )
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


def test_broken_importer_is_named_and_left_out(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "rollout-2026-03-01T10-00-00-aa.jsonl"
    write(file, line("session_meta", id="aa", cwd="/work"), item("user", "hello"))

    def command(*words: str) -> "subprocess.CompletedProcess[str]":
        whole = [sys.executable, "-m", "roocontext", "--db", str(tmp_path / "a.db"), *words]
        return subprocess.run(whole, capture_output=True, text=True, check=False, env=environment)

    run = command("import", str(file))
    assert run.returncode == 0, run.stderr
    assert "codex:aa" in run.stdout
    assert "'acme' of the importers cannot be loaded from 'no_such_module:IMPORTER'" in run.stderr
    assert "(1 more warning)" in run.stderr
    assert "hunter2" not in run.stderr
    refused = command("import", "--from", "acme")
    assert "'acme' is not a known tool." in refused.stderr
