"""The doctor's findings.

`python tests/acceptance/test_cli_doctor.py` writes its golden screens anew.
"""

import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roocontext import Store
from roocontext.cli.exit_codes import Code
from roocontext.cli.screens import results
from roocontext.cli.screens.screen import Screen
from roocontext.errors import StoreUnavailable
from roocontext.reports.document import as_json
from roocontext.reports.health import Diagnosis, hindered, judged
from roocontext.store.engine.cluster import ClusterFacts, NodeFacts
from roocontext.store.engine.health import FileFacts, Health, Hindrances
from roocontext.store.engine.migrate import SchemaVersion
from roocontext.store.engine.roles import grants
from support import showcase
from support.cli_process import refused

GOLDEN = Path(__file__).with_name("golden_cli")


FILE = FileFacts(mode=0o600, log_size=0)
HEALTHY: Any = {"schema": SchemaVersion("0001", "0001"), "differences": 0, "sessions": 2}
HEALTHY |= {"unguarded": (), "problems": ()}
WAL = {"journal_mode": "wal", "synchronous": "2"}
SQLITE = Health("sqlite", "3.51.3", WAL, file=FILE, **HEALTHY)
POSTGRES = Health(
    "postgresql",
    "16.2",
    dict.fromkeys(("synchronous_commit", "fsync", "full_page_writes", "autovacuum"), "on")
    | {"in_recovery": "false"},
    rights={"UPDATE": False, "DELETE": False},
    **HEALTHY,
)


NODES = (
    NodeFacts("c:5432", True, False, True, "auto", 300, "citus"),
    NodeFacts("one:5432", True, True, True, "auto", 300, "pgoutput, citus", 16, 2_000_000),
    NodeFacts("two:5432", True, True, True, "auto", 300, "pgoutput, citus", 16, 1_000_000),
)
CLUSTER = replace(POSTGRES, cluster=ClusterFacts(NODES))


def with_setting(health: Health, **settings: str) -> Health:
    return replace(health, settings={**health.settings, **settings})


def with_cluster(**facts: object) -> Health:
    return replace(POSTGRES, cluster=ClusterFacts(NODES, **facts))


def with_node(**changes: object) -> Health:
    return replace(POSTGRES, cluster=ClusterFacts((*NODES[:2], replace(NODES[2], **changes))))


def statuses(health: Health) -> dict[str, str]:
    return {finding.check: finding.status for finding in judged(health) if finding.status != "ok"}


def test_healthy_database_has_no_findings():
    assert statuses(SQLITE) == statuses(POSTGRES) == statuses(CLUSTER) == {}


@pytest.mark.parametrize(
    ("ill", "found"),
    [
        (replace(SQLITE, version="3.51.2"), {"engine": "note"}),
        (replace(SQLITE, file=replace(FILE, mode=0o644)), {"rights": "warn"}),
        (replace(SQLITE, file=replace(FILE, log_size=4_096)), {"log": "note"}),
        (replace(SQLITE, file=replace(FILE, log_size=65_000_000)), {"log": "warn"}),
        (with_setting(SQLITE, journal_mode="delete"), {"journal": "warn"}),
        (with_setting(SQLITE, synchronous="1"), {"durability": "warn"}),
        (replace(SQLITE, problems=("row 3 missing from index",)), {"integrity": "bad"}),
        (replace(SQLITE, schema=SchemaVersion("0000", "0001")), {"schema": "bad"}),
        (replace(SQLITE, schema=SchemaVersion("0002", "0001", "0.1.0")), {"schema": "note"}),
        (replace(SQLITE, schema=SchemaVersion("0002", "0001", "9.0.0")), {"schema": "bad"}),
        (replace(SQLITE, differences=1), {"schema": "bad"}),
        (replace(SQLITE, unguarded=("entries_update",)), {"triggers": "warn"}),
        (with_setting(POSTGRES, synchronous_commit="off"), {"durability": "warn"}),
        (with_setting(POSTGRES, fsync="off"), {"fsync": "bad"}),
        (with_setting(POSTGRES, autovacuum="off"), {"autovacuum": "warn"}),
        (replace(POSTGRES, astray=1), {"entries": "bad"}),
        (with_setting(POSTGRES, in_recovery="true"), {"role": "note"}),
        (replace(POSTGRES, rights={"UPDATE": True, "DELETE": True}), {"role": "note"}),
        (with_node(answers=False), {"nodes": "bad"}),
        (with_node(is_active=False), {"nodes": "bad"}),
        (with_node(shards=14), {"balance": "warn"}),
        (with_node(takes_shards=False), {"balance": "warn"}),
        (with_node(shards=0, takes_shards=False), {}),
        (with_node(plan_cache_mode="force_generic_plan"), {"plans": "bad"}),
        (with_node(prepared_transactions=0), {"commits": "bad"}),
        (with_node(output_plugins="pgoutput"), {"moves": "note"}),
        (with_cluster(undistributed=("facts",)), {"tables": "bad"}),
        (with_cluster(unguarded=("entries_1",)), {"shards": "warn"}),
    ],
)
def test_danger_is_named(ill, found):
    assert statuses(ill) == found


def test_lost_node_is_named():
    error = StoreUnavailable("The connection to the server broke (08006 ConnectionFailure).")
    found = hindered(error, Hindrances(silent=("two:5432",)))
    assert found[-1].says == "the coordinator cannot reach two:5432"
    assert {finding.status for finding in found} == {"bad"}


def diagnosed() -> str:
    file = io.StringIO()
    screen = Screen(file)
    databases = (
        ("/srv/agent.db", SQLITE),
        ("postgresql://db/agents", POSTGRES),
        ("postgresql://cluster/agents", CLUSTER),
    )
    for name, health in databases:
        for one in (health, replace(health, schema=SchemaVersion(None, "0001"))):
            findings = judged(one)
            results.draw_diagnosis(screen, Diagnosis(database=name, ok=True, findings=findings))
    return file.getvalue()


def test_doctor_screen_matches_the_golden_one(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert diagnosed() == (GOLDEN / "doctor-80.txt").read_text()


def documented() -> str:
    """The documents that `--json` prints of the same databases."""
    healths = (SQLITE, POSTGRES, replace(SQLITE, schema=SchemaVersion(None, "0001")))
    return json.dumps(as_json([judged(health) for health in healths]), indent=2) + "\n"


def test_doctor_document_matches_the_golden_one():
    assert documented() == (GOLDEN / "doctor-json.txt").read_text()


@pytest.mark.every_leg
def test_doctor_examines_a_real_database(database, command_line):
    showcase.build(database)
    run = command_line(database)
    done = run("doctor", "--json")
    findings = {one["check"]: one for one in done.document["findings"]}
    bad = [one for one in findings.values() if one["status"] == "bad"]
    if database.startswith("postgres"):  # the tests' server does not wait for its disk
        assert {one["check"] for one in bad} <= {"fsync", "full_page_writes"}
        assert findings["engine"]["says"].startswith("PostgreSQL ")
    else:
        assert not bad
        assert "3." in findings["engine"]["says"]
        assert findings["rights"]["status"] == "ok"
        Path(database).chmod(0o644)
        again = {one["check"]: one for one in run("doctor", "--json").document["findings"]}
        assert again["rights"]["status"] == "warn"
    assert done.code == (Code.NO if bad else 0)
    assert done.document["ok"] is not bool(bad)
    assert findings["schema"]["says"] == "0001, 6 sessions"
    shown = run("doctor").out.splitlines()
    marked = [line for line in shown if line[:4] in {"ok  ", "note", "warn", "bad "}]
    assert len(marked) == len(findings)


def test_doctor_measures_the_write_ahead_log(tmp_path, command_line):
    path = str(tmp_path / "store.db")
    with Store.open(path) as store:
        store.create("open")
        found = command_line(path)("doctor", "--json").document["findings"]
        waiting = next(one for one in found if one["check"] == "log")
        assert waiting["status"] == "note"


def test_grants_are_printed_without_a_database(tmp_path, command_line):
    run = command_line(str(tmp_path / "none.db"))
    done = run("db", "grants", "--role", "agent", "--no-erase")
    assert done.code == 0
    assert done.out.splitlines() == grants("agent", erase=False)
    assert run("db", "grants", "--role", "agent", "--json").document == {
        "role": "agent",
        "statements": grants("agent"),
    }


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_statements_that_secure_a_database_are_printed_and_run(run):
    planned = run("db", "secure", "--administrator", "postgres", "--dry-run")
    assert "ALTER TABLE entries FORCE ROW LEVEL SECURITY;" in planned.out.splitlines()
    done = run("db", "secure", "--administrator", "postgres", "--json").document
    assert [f"{step};" for step in done["steps"]] == planned.out.splitlines()
    assert run("db", "secure").out.startswith("Secured the database.")


def test_file_is_not_secured(tmp_path, command_line):
    file = str(tmp_path / "store.db")
    Store.open(file).close()
    done = command_line(file)("db", "secure")
    refused(done, Code.USAGE, "An SQLite file has no row-level security.")


def test_store_on_one_server_is_not_distributed(tmp_path, command_line):
    file = str(tmp_path / "store.db")
    run = command_line(file)
    assert run("db", "distribute").code == Code.NOT_FOUND
    Store.open(file).close()
    done = run("db", "distribute")
    refused(done, Code.REFUSED, "An SQLite database cannot be distributed. Nothing was changed.")
    assert run("db", "upgrade", "--distribute").code == Code.REFUSED


if __name__ == "__main__":
    os.environ["COLUMNS"] = "80"
    (GOLDEN / "doctor-80.txt").write_text(diagnosed())
    (GOLDEN / "doctor-json.txt").write_text(documented())
