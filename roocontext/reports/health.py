"""The findings of `doctor`: it judges the facts that `store.engine.health` collects.

`ok` is as it should be, `note` is worth knowing, `warn` is a risk, `bad` needs action now.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from roocontext.errors import (
    ForeignDatabase,
    HistoryCorrupt,
    RooContextError,
    StoreNotFound,
    StoreUnavailable,
)
from roocontext.reports.document import Document, Text
from roocontext.reports.naming import quantity, size
from roocontext.store.engine import health as facts

if TYPE_CHECKING:
    from roocontext.store.engine.cluster import ClusterFacts, NodeFacts
    from roocontext.store.engine.health import FileFacts, Health, Hindrances

WAL_RESET_FIXED = (3, 51, 3)
"""Before this version, two connections that write or checkpoint at once may damage the file."""

_NO_STORE = "no store yet: `roocontext db upgrade` creates one"
_PRIVATE = 0o077
_LARGE_LOG = 64_000_000
_NAMED = 3
"""How many shards without guards are named."""


class Finding(Document):
    """The result of one check. `status` is ok, note, warn or bad."""

    check: str
    status: str
    says: Text


class Diagnosis(Document):
    """The findings of `doctor`. It is `ok` unless a finding is bad."""

    database: Text
    ok: bool
    findings: list[Finding]


def examined(url: str | Path) -> list[Finding]:
    """Examine a database. StoreNotFound if it does not exist."""
    try:
        return judged(facts.examine_database(url))
    except StoreNotFound:
        raise  # a subclass of StoreUnavailable
    except (ForeignDatabase, HistoryCorrupt, StoreUnavailable) as error:
        return hindered(error, facts.hindrances(url))


def diagnosis(name: str, findings: list[Finding]) -> Diagnosis:
    """The diagnosis of a database. `name` is its path or URL without a password."""
    ok = all(finding.status != "bad" for finding in findings)
    return Diagnosis(database=name, ok=ok, findings=findings)


def judged(health: "Health") -> list[Finding]:
    """A finding for each fact."""
    engine = _sqlite(health) if health.dialect == "sqlite" else _postgres(health)
    return [*engine, *_schema(health)]


def hindered(error: RooContextError, known: "Hindrances") -> list[Finding]:
    """The findings about a database that could not be examined."""
    helps = error.advice if "advice" in error.facts else ""
    findings = [_finding("database", "bad", f"{error.fact} {helps}".rstrip())]
    if known.problems:
        findings.append(_finding("integrity", "bad", "; ".join(known.problems)))
    if known.unreadable:
        tables = ", ".join(known.unreadable)
        findings.append(_finding("role", "bad", f"{known.role} cannot read {tables}"))
    if known.silent:
        nodes = ", ".join(known.silent)
        findings.append(_finding("nodes", "bad", f"the coordinator cannot reach {nodes}"))
    return findings


def _sqlite(health: "Health") -> Iterator[Finding]:
    version = f"SQLite {health.version}"
    fixed = ".".join(map(str, WAL_RESET_FIXED))
    yield _judged(
        "engine",
        version,
        ok=tuple(map(int, health.version.split("."))) >= WAL_RESET_FIXED,
        note=f"{version}: before {fixed}, two processes that write at once may damage the file",
    )
    if health.file is not None:
        yield from _file(health.file)
    mode = health.settings["journal_mode"]
    yield _judged(
        "journal",
        "write-ahead log: readers and a writer do not wait for each other",
        ok=mode == "wal",
        warn=f"journal_mode is {mode}: readers wait for writers",
    )
    yield _judged(
        "durability",
        "synchronous = FULL: commits survive a power cut",
        ok=health.settings["synchronous"] in ("2", "3"),
        warn="synchronous is below FULL: a power cut may lose the last commits",
    )
    problems = "; ".join(health.problems)
    yield _judged("integrity", "quick_check found no damage", ok=not problems, bad=problems)


def _file(file: "FileFacts") -> Iterator[Finding]:
    mode = f"{file.mode:04o}"
    yield _judged(
        "rights",
        f"{mode}: only its owner can read it",
        ok=not file.mode & _PRIVATE,
        warn=f"{mode}: other users can read the file; chmod 600 prevents it",
    )
    held = f"{size(file.log_size)} in the -wal file"
    if file.log_size > _LARGE_LOG:
        yield _finding("log", "warn", f"{held}: a reader keeps it from shrinking")
        return
    yield _judged(
        "log",
        "the write-ahead log is empty",
        ok=not file.log_size,
        note=f"{held}: never move the database without it",
    )


def _postgres(health: "Health") -> Iterator[Finding]:
    settings = health.settings
    yield _finding("engine", "ok", f"PostgreSQL {health.version}")
    for check, name, status, danger in (
        ("durability", "synchronous_commit", "warn", "a crash may lose commits"),
        ("fsync", "fsync", "bad", "a crash of the machine may destroy the database"),
        ("full_page_writes", "full_page_writes", "bad", "a crash of the machine may tear pages"),
        ("autovacuum", "autovacuum", "warn", "the table of sessions keeps growing"),
    ):
        says = f"{name} = {settings[name]}"
        yield _judged(check, says, ok=settings[name] != "off", **{status: f"{says}: {danger}"})
    if settings["in_recovery"] == "true":
        yield _finding("role", "note", "a standby: it can be read but not written")
    if health.rights:
        rights = " and ".join(name for name, has in health.rights.items() if has)
        yield _judged(
            "role",
            "this role can neither change nor delete entries",
            ok=not rights,
            note=f"this role may {rights} entries, which agents do not need",
        )
    if health.cluster is not None:
        yield from _cluster(health.cluster)


def _cluster(cluster: "ClusterFacts") -> Iterator[Finding]:
    takers = [node for node in cluster.nodes if node.takes_shards]
    holders = [node for node in cluster.nodes if node.takes_shards or node.shards]
    lost = ", ".join(node.name for node in cluster.nodes if not (node.answers and node.is_active))
    yield _judged(
        "nodes",
        f"all of {quantity(len(cluster.nodes), 'node')} answer, {len(takers)} take shards",
        ok=not lost,
        bad=f"switched off, or out of reach of the coordinator: {lost}",
    )
    held = "; ".join(
        f"{node.name} has {quantity(node.shards, 'shard')}, {size(node.bytes)}" for node in holders
    )
    counts = [node.shards for node in takers] or [0]
    is_even = max(counts) - min(counts) <= 1 and len(takers) == len(holders)
    helps = "`SELECT citus_rebalance_start()` moves shards"
    yield _judged("balance", held, ok=is_even, warn=f"{held}: {helps}")
    tables = ", ".join(cluster.undistributed)
    yield _judged(
        "tables",
        "every table of the store is distributed",
        ok=not tables,
        bad=f"not distributed: {tables}. Run `roocontext db distribute`",
    )
    bare = [*cluster.unguarded, *cluster.unchecked, *cluster.unsecured]
    few = ", ".join([*bare[:_NAMED], *(["..."] if bare[_NAMED:] else [])])
    yield _judged(
        "shards",
        "every shard has the triggers, checks and policies of its table",
        ok=not bare,
        warn=f"{len(bare)} lack triggers, checks or policies of their table: {few}",
    )
    yield _of_nodes(
        "plans",
        (node for node in cluster.nodes if node.plan_cache_mode == "force_generic_plan"),
        "the servers plan for the parameters of a statement",
        bad="plan_cache_mode is force_generic_plan, with which Citus refuses statements",
    )
    reached = [node for node in cluster.nodes if node.answers]
    yield _of_nodes(
        "commits",
        (node for node in reached if not node.prepared_transactions),
        "changes on several nodes can be committed together",
        bad="max_prepared_transactions is 0, so changes on several nodes fail",
    )
    yield _of_nodes(
        "moves",
        (node for node in reached if "citus" not in node.output_plugins),
        "shards can be moved and split while they are used",
        note="output_plugin_libraries does not name citus, so no shard can be split while used",
    )


def _of_nodes(check: str, wrong: Iterable["NodeFacts"], good: str, **danger: str) -> Finding:
    """A finding about all nodes, or about those where something is wrong."""
    names = ", ".join(node.name for node in wrong)
    ((status, says),) = danger.items()
    return _judged(check, good, ok=not names, **{status: f"{says}: {names}"})


def _schema(health: "Health") -> Iterator[Finding]:
    current, wanted, oldest = health.schema
    if current is None:
        yield _finding("schema", "bad", health.foreign or _NO_STORE)
        return
    if health.schema.is_too_new:
        yield _finding("schema", "bad", f"the schema {current} needs roocontext {oldest} or newer")
        return
    if not health.schema.is_usable:
        helps = "run `roocontext db upgrade`"
        says = f"the schema is {current}, but this release needs {wanted}: {helps}"
        yield _finding("schema", "bad", says)
        return
    sessions = quantity(health.sessions, "session")
    if current != wanted:
        says = f"{current}, of a newer release than this one, which works with it; {sessions}"
        yield _finding("schema", "note", says)
    else:
        differences = quantity(health.differences, "difference")
        yield _judged(
            "schema",
            f"{current}, {sessions}",
            ok=not health.differences,
            bad=f"{current}, with {differences} from what it should be",
        )
    astray = quantity(health.astray, "session")
    yield _judged(
        "entries",
        "every session has as many entries as it counts; `verify` checks each entry",
        ok=not health.astray,
        bad=f"{astray} with missing or extra entries: `verify` names them",
    )
    yield _judged(
        "triggers",
        "the database refuses changes to the log",
        ok=not health.unguarded,
        warn=f"missing: {', '.join(health.unguarded)}. Only `verify` detects a changed log",
    )


def _judged(check: str, good: str, *, ok: bool, **danger: str) -> Finding:
    """A good finding, or a dangerous one: the keyword is its status."""
    ((status, says),) = danger.items()
    return _finding(check, "ok", good) if ok else _finding(check, status, says)


def _finding(check: str, status: str, says: str) -> Finding:
    return Finding(check=check, status=status, says=says)
