"""Judges the facts that `store.health` finds: what endangers a database.

`ok` is as it should be, `note` is worth knowing, `warn` is a risk, `bad` needs action now.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

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
    from roocontext.store.engine.health import FileFacts, Health, Hindrances

FindingStatus: TypeAlias = Literal["ok", "note", "warn", "bad"]

WAL_RESET_FIXED = (3, 51, 3)
"""Before this version, two connections that write or checkpoint at once may damage the file."""

_NO_STORE = "no store yet: `roocontext db upgrade` creates one"
_PRIVATE = 0o077
_LARGE_LOG = 64_000_000


class Finding(Document):
    """One thing that was examined. `status` is ok, note, warn or bad."""

    check: str
    status: str
    says: Text


class Diagnosis(Document):
    """Everything that `doctor` examined; `ok` unless something is bad."""

    database: Text
    ok: bool
    findings: list[Finding]


def examined(url: str | Path) -> list[Finding]:
    """Examine a database. StoreNotFound if there is none."""
    try:
        return judged(facts.examine_database(url))
    except StoreNotFound:
        raise  # there is nothing to examine
    except (ForeignDatabase, HistoryCorrupt, StoreUnavailable) as error:
        return hindered(error, facts.hindrances(url))


def diagnosis(name: str, findings: list[Finding]) -> Diagnosis:
    """The diagnosis of a database; `name` is how it may be shown, without its password."""
    ok = all(finding.status != "bad" for finding in findings)
    return Diagnosis(database=name, ok=ok, findings=findings)


def judged(health: "Health") -> list[Finding]:
    """A finding for each fact."""
    engine = _sqlite(health) if health.dialect == "sqlite" else _postgres(health)
    return [*engine, *_schema(health)]


def hindered(error: RooContextError, found: "Hindrances") -> list[Finding]:
    """What is known of a database that could not be examined."""
    helps = error.advice if "advice" in error.facts else ""
    findings = [_finding("database", "bad", f"{error.fact} {helps}".rstrip())]
    if found.problems:
        findings.append(_finding("integrity", "bad", "; ".join(found.problems)))
    if found.unreadable:
        tables = ", ".join(found.unreadable)
        findings.append(_finding("role", "bad", f"{found.role} cannot read {tables}"))
    return findings


def _sqlite(health: "Health") -> Iterator[Finding]:
    yield _version(health)
    if health.file is not None:
        yield from _file(health.file)
    settings = health.settings
    if settings["journal_mode"] == "wal":
        yield _finding(
            "journal", "ok", "write-ahead log: readers and a writer do not wait for each other"
        )
    else:
        mode = settings["journal_mode"]
        yield _finding("journal", "warn", f"journal_mode is {mode}: readers wait for writers")
    full = settings["synchronous"] in ("2", "3")
    yield _finding(
        "durability",
        "ok" if full else "warn",
        "synchronous = FULL: commits survive a power cut"
        if full
        else "synchronous is below FULL: a power cut may lose the last commits",
    )
    if health.problems:
        yield _finding("integrity", "bad", "; ".join(health.problems))
    else:
        yield _finding("integrity", "ok", "quick_check found no damage")


def _version(health: "Health") -> Finding:
    version = f"SQLite {health.version}"
    if tuple(map(int, health.version.split("."))) >= WAL_RESET_FIXED:
        return _finding("engine", "ok", version)
    fixed = ".".join(map(str, WAL_RESET_FIXED))
    danger = f"{version}: before {fixed}, two processes that write at once may damage the file"
    return _finding("engine", "note", danger)


def _file(file: "FileFacts") -> Iterator[Finding]:
    mode = f"{file.mode:04o}"
    if file.mode & _PRIVATE:
        yield _finding(
            "rights", "warn", f"{mode}: other users can read the file; chmod 600 prevents it"
        )
    else:
        yield _finding("rights", "ok", f"{mode}: only its owner can read it")
    if file.log_size == 0:
        yield _finding("log", "ok", "the write-ahead log is empty")
    elif file.log_size > _LARGE_LOG:
        says = f"{size(file.log_size)} in the -wal file: a reader keeps it from shrinking"
        yield _finding("log", "warn", says)
    else:
        says = f"{size(file.log_size)} in the -wal file: never move the database without it"
        yield _finding("log", "note", says)


def _postgres(health: "Health") -> Iterator[Finding]:
    settings = health.settings
    yield _finding("engine", "ok", f"PostgreSQL {health.version}")
    commit = settings["synchronous_commit"]
    if commit == "off":
        yield _finding("durability", "warn", "synchronous_commit = off: a crash may lose commits")
    else:
        yield _finding("durability", "ok", f"synchronous_commit = {commit}")
    for name, danger in (
        ("fsync", "a crash of the machine may destroy the database"),
        ("full_page_writes", "a crash of the machine may tear pages"),
        ("autovacuum", "the table of sessions keeps growing"),
    ):
        on = settings[name] == "on"
        worst: FindingStatus = "warn" if name == "autovacuum" else "bad"
        says = f"{name} = on" if on else f"{name} = {settings[name]}: {danger}"
        yield _finding(name, "ok" if on else worst, says)
    if settings["in_recovery"] == "true":
        yield _finding("role", "note", "a standby: it can be read but not written")
    if any(health.rights.values()):
        rights = " and ".join(name for name, has in health.rights.items() if has)
        yield _finding("role", "note", f"this role may {rights} entries, which agents do not need")
    elif health.rights:
        yield _finding("role", "ok", "this role can neither change nor delete entries")


def _schema(health: "Health") -> Iterator[Finding]:
    current, wanted = health.schema
    if current is None:
        yield _finding("schema", "bad", health.foreign or _NO_STORE)
        return
    if current != wanted:
        helps = "use a newer release" if current > wanted else "run `roocontext db upgrade`"
        says = f"the schema is {current}, but this release needs {wanted}: {helps}"
        yield _finding("schema", "bad", says)
        return
    if health.differences:
        says = (
            f"{current}, with {quantity(health.differences, 'difference')} from what it should be"
        )
        yield _finding("schema", "bad", says)
    else:
        yield _finding("schema", "ok", f"{current}, {quantity(health.sessions, 'session')}")
    if health.astray:
        says = f"{quantity(health.astray, 'session')} with missing or extra entries: `verify`"
        yield _finding("entries", "bad", f"{says} names them")
    else:
        says = "every session has as many entries as it counts; `verify` checks each entry"
        yield _finding("entries", "ok", says)
    if not health.unguarded:
        yield _finding("triggers", "ok", "the database refuses changes to the log")
    else:
        says = f"missing: {', '.join(health.unguarded)}. Only `verify` detects a changed log"
        yield _finding("triggers", "warn", says)


def _finding(check: str, status: FindingStatus, says: str) -> Finding:
    return Finding(check=check, status=status, says=says)
