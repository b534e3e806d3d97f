"""The benchmarks run, and print every budget that the store alone decides, each with its ratio.

How fast anything is, is no test: only that it is measured, against what, and shown.
"""

import json
import math
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import postgres_server

ROOT = Path(__file__).parents[2]
BUDGETS = [
    *("append.full", "append.turn", "append.owner", "append.observer", "append.full.length"),
    *("append_many", "changes", "answer.calls", "rewind", "rewind.length", "rewind.controls"),
    *("rewind.controls.many", "rewind.datetime", "rewind.datetime.stamped", "rewind.ts", "undo"),
    *("undo.length", "undo.controls", "undo.controls.many", "condense", "condense.half"),
    *("condense.half.tools", "condense.waiting", "condense.hidden", "condense.length"),
    *("condense.controls", "condense.controls.many", "covering", "covering.kept", "view.few"),
    *("view.decoded", "view.messages", "view.messages.many", "view.as_of", "view.as_of.datetime"),
    *("manage.growth", "manage.visible", "manage.cut", "stats.growth", "stats.visible"),
    *("stats.cut", "info.growth", "info.visible", "storage", "storage.large", "verify", "audit"),
    *("show", "fork", "list", "list.newest", "search.index", "search.rare", "search.middling"),
    *("search.common", "search.session", "search.sessions", "search.append"),
]
EXPECTED = [
    *("import", "spans_of.growth", "spans_of.large", "spans_of.small", "web.append", "web.page"),
    *("web.readers", "postgres.search.secured.rare", "postgres.search.secured.common"),
    *("sqlite.append.normal", "sqlite.append.normal.insert", "sqlite.append.normal.length"),
    *("sqlite.open", "sqlite.threads", "sqlite.threads.wait", "sqlite.transcript"),
    *("sqlite.transcript.memory",),
    *(f"{engine}.{budget}" for engine in ("postgres", "sqlite") for budget in BUDGETS),
]
AIMED = {
    "sqlite.append.full",
    "sqlite.append.normal.insert",
    "postgres.append.full",
    "sqlite.threads",
}
WITHOUT_BUDGET = {
    *("postgres.list", "sqlite.list", "sqlite.append.normal.insert", "web.append", "web.readers"),
    *(
        f"{engine}.append.{with_}"
        for engine in ("postgres", "sqlite")
        for with_ in ("turn", "owner", "observer")
    ),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One run: its lines for people, and its document for programs."""
    written = tmp_path_factory.mktemp("bench") / "lines.json"
    command = [sys.executable, "-W", "error", "-m", "bench", "--tiny", "--json", str(written)]
    # A server of its own: another worker may run them at the same time, with the same names.
    with postgres_server.own() as server:
        # Without `llm` and without a browser.
        env = {**os.environ, postgres_server.GIVEN: server.empty(), "PATH": "", "CHROMIUM": ""}
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
    return {"text": done.stdout, "json": written.read_text()}


@pytest.fixture(scope="module")
def lines(runs: dict[str, str]) -> dict[str, dict]:
    return {line["key"]: line for line in json.loads(runs["json"])["lines"]}


def test_report_has_every_line(lines):
    assert sorted(lines) == sorted(EXPECTED)


def test_each_line_has_a_ratio_of_its_measure_to_its_floor(lines):
    for key, line in lines.items():
        assert math.isfinite(line["ratio"]), key
        for side in ("measured", "floor"):
            assert line[side]["p10"] <= line[side]["p50"], key
            # A difference of two imports may come out below nothing on a busy machine.
            assert key == "import" or line[side]["p10"] > 0, key
            assert line[side]["samples"] >= 1, key
        shown = line["measured"]["p50"] / line["floor"]["p50"]
        assert line["ratio"] == pytest.approx(shown, abs=0.001), key


def test_each_line_says_if_its_budget_is_met(lines):
    for key, line in lines.items():
        if key in WITHOUT_BUDGET:
            assert line["budget"] is None
        else:
            assert line["met"] is (line["ratio"] <= line["budget"]), key
    assert {key for key, line in lines.items() if line["aim"] is not None} == AIMED


def test_list_is_one_query_that_reads_no_entry(lines):
    assert lines["sqlite.list"]["note"] == "1 query, of sessions"
    assert lines["sqlite.list"]["met"]


def test_line_that_needs_a_browser_says_that_it_was_not_run(runs):
    not_run = json.loads(runs["json"])["not_run"]
    assert [line["key"] for line in not_run] == ["web.paint", "web.paint.slow"]
    for line in not_run:
        assert f"{line['what']}: NOT RUN, no Chromium was found" in runs["text"]


def test_commands_are_started_beside_another_program(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from bench.sizes import TINY  # noqa: PLC0415 - found only now
    from bench.starting import starting  # noqa: PLC0415 - likewise

    peer = tmp_path / "llm"
    peer.write_text("#!/bin/sh\nexit 0\n")
    peer.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    (line,) = starting(TINY, commands=["--version"])
    assert (line.key, line.what, line.budget) == ("start.version", "roocontext --version", 1.5)
    assert 0 < line.floor.p50 < line.measured.p50
    monkeypatch.setenv("PATH", "")
    assert list(starting(TINY)) == []


def test_report_for_people_has_the_same_lines(runs, lines):
    rows = [row for row in runs["text"].splitlines() if re.match(r" *-?\d+\.\d\d ", row)]
    assert len(rows) == len(lines)
    for line in lines.values():
        told = f"{line['what']} / {line['against']}: "
        verdicts = [row.split()[2] for row in rows if told in row]
        assert len(verdicts) == 1, told
        assert verdicts[0] in {"yes", "NO"}
    assert "lines are within their budget" in runs["text"].splitlines()[-1]
    assert "after VACUUM" in runs["text"]


def test_environment_is_told_without_the_host(runs):
    told = json.loads(runs["json"])["environment"]
    assert {"python", "sqlite", "postgresql", "cores", "load"} <= told.keys()
    for shown in runs.values():
        assert platform.node() not in shown
        assert str(Path.home()) not in shown


CODE = "import json; from bench.recall import measured; print(json.dumps(measured('default', 150)))"


def test_recall_answers_what_the_summary_lost():
    done = subprocess.run(
        [sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    row = json.loads(done.stdout)
    assert row["hidden facts"] > 10
    for kind in ("file names", "numbers", "error texts"):
        assert row[kind] < 1
        assert row[f"{kind} with recall"] == 1
