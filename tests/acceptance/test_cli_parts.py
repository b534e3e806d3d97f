"""The parts of the command line that decide something by themselves, and the demo as a whole.

`python tests/acceptance/test_cli_parts.py` writes the doctor's golden screens anew.
"""

import io
import os
import shlex
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import showcase
from commands import CommandLine
from roocontext import Plan, Store
from roocontext.cli import branches, doctor, receipts, times, wording
from roocontext.cli.failing import Code
from roocontext.cli.showing import Screen
from roocontext.errors import InvalidOption
from roocontext.log.entries import Control, Kind
from roocontext.log.spans import live_ranges
from roocontext.store.health import FileFacts, Health
from roocontext.store.migrate import Standing

CommandLines = Callable[..., CommandLine]
GOLDEN = Path(__file__).with_name("golden_cli")

# Words

SHAPED = "\u0600-\u0605 \u06dd \u0890 \u0891 \u08e2 \U000110bd \U000110cd"
"""Signs around numbers: of the category of the invisible ones, but to be seen."""


def shaped() -> set[str]:
    words = [part.split("-") for part in SHAPED.split()]
    return {chr(code) for ends in words for code in range(ord(ends[0]), ord(ends[-1]) + 1)}


def test_every_character_that_acts_or_hides_becomes_its_escape() -> None:
    acting = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    spared = {"\n", "\t", "\u200c", "\u200d"} | shaped()
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        escaped = wording.plain(character) != character
        if unicodedata.category(character) in acting and character not in spared:
            assert escaped, hex(code)
        elif escaped and character != "\t":
            # Some that have no shape or are not given yet are escaped with their neighbours.
            unseen = "Cn" in unicodedata.category(character) or 0xE0000 <= code <= 0xE0FFF
            assert unseen or 0x13430 <= code <= 0x1345F or code >= 0xFFF0, hex(code)


@given(st.text(), st.integers(0, 40))
def test_a_shortened_line_fits(text: str, width: int) -> None:
    from rich.cells import cell_len  # noqa: PLC0415

    line = wording.one_line(text)
    short = wording.shortened(line, width)
    assert cell_len(short) <= width
    assert "\n" not in short
    if cell_len(line) <= width:
        assert short == line


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (1_770, "1.77 kB"),
        (99_960, "100 kB"),
        (999_600, "1 MB"),
        (2 * 10**12, "2000 GB"),
    ],
)
def test_sizes_are_said_shortly(count: int, said: str) -> None:
    assert wording.size(count) == said


def test_any_integer_is_a_time() -> None:
    assert wording.moment(0) == "1970-01-01 00:00:00"
    assert wording.moment(2**62) == f"{2**62} ms"


# Times

NOW = 1_767_268_800_000  # 2026-01-01 12:00 UTC


def on(hour: int, minute: int = 0, day: int = 1) -> datetime:
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0", 0),
        ("17", 17),
        ("now", on(12)),
        ("90m ago", on(10, 30)),
        ("1 hour ago", on(11)),
        ("2h ago", on(10)),
        ("2026-01-02", on(0, day=2)),
        ("2026-01-01 09:30", on(9, 30)),
        ("2026-01-01T09:30:00Z", on(9, 30)),
        ("2026-01-01T09:30+02:00", on(7, 30)),
    ],
)
def test_points_of_a_session_are_read(text: str, meant: Any) -> None:
    assert times.seq_or_time("--to", text, NOW) == meant
    assert times.target("--to", text, NOW) == meant


def test_what_is_no_point_may_be_a_messages_id() -> None:
    assert times.target("--to", "m8", NOW) == "m8"
    with pytest.raises(InvalidOption):
        times.seq_or_time("--to", "m8", NOW)
    with pytest.raises(InvalidOption):
        times.target("--to", "-8", NOW)


# The tree


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=60))
def test_the_stretches_are_the_fold(log: list[int | None]) -> None:
    """A log of messages, and of rewinds to an earlier entry."""
    rewinds = {seq: to % seq for seq, to in enumerate(log, 1) if to is not None}
    controls = [Control(seq, Kind.REWIND, to=to) for seq, to in rewinds.items()]
    shape = branches.Shape()
    shape.last, shape._to = len(log), rewinds
    stretches = shape.stretches()

    covered = [seq for one in stretches for seq in range(one["lo"], one["hi"] + 1)]
    assert covered == [seq for seq in range(1, len(log) + 1) if seq not in rewinds]
    live = {s for lo, hi in live_ranges(controls, len(log)) for s in range(lo, hi + 1)} - {*rewinds}
    assert {s for s in covered if stretch_of(stretches, s)["live"]} == live
    for seq in range(len(log) + 1):
        path: set[int] = set()
        at = shape._tip(seq)
        while at:
            one = stretch_of(stretches, at)
            path |= set(range(one["lo"], at + 1))
            at = one["after"]
        then = {s for lo, hi in live_ranges(controls, seq) for s in range(lo, hi + 1)}
        assert path == then - {*rewinds}


def stretch_of(stretches: list[Any], seq: int) -> Any:
    return next(one for one in stretches if one["lo"] <= seq <= one["hi"])


def test_a_thousand_rewinds_ever_deeper_are_drawn() -> None:
    shape = branches.Shape()
    shape.last = 3_000
    shape._to = {1_000 + 2 * n: 1_000 - n for n in range(1, 1_000)}
    file = io.StringIO()
    answer: Any = {
        "session_id": "deep",
        "title": None,
        "entries": shape.last,
        "messages": 0,
        "visible_messages": 0,
        "stretches": shape.stretches(),
        "hidings": [],
        "rewinds": shape.rewinds(),
    }
    branches.draw(Screen(file), answer)
    assert file.getvalue().count("not live") == len(answer["stretches"]) - sum(
        one["live"] for one in answer["stretches"]
    )


def test_what_an_agent_records_with_a_plan_may_be_anything(
    tmp_path: Path, command_line: CommandLines
) -> None:
    path = str(tmp_path / "store.db")
    odd = {"before": "b", "after": [1], "counter": {}, "policy": 7, "left": "l", "summary": "s"}
    with Store.open(path) as store:
        chat = store.create("odd")
        for number in range(4):
            chat.append("user", f"Message {number}")
        for record in (odd, {**odd, "summary": {"calls": "x", "cost": "free"}}):
            seq = chat.view().messages[0].seq
            plan = Plan.condense(chat.view(), [seq], "A summary", record=record, compat=True)
            chat.commit(replace(plan, counts=None))
    run = command_line(path)
    for words in ("audit odd", "tree odd", "usage odd", "usage odd --json", "show odd"):
        done = run(*words.split())
        assert (done.code, done.err) == (0, ""), words


# The doctor

FILE = FileFacts("/srv/agent.db", 0o600, True, 98_304, 0, "ext4", 0)
SQLITE = Health(
    "sqlite",
    "3.51.3",
    {"journal_mode": "wal", "synchronous": "2", "mmap_size": "0"},
    Standing("0001", "0001"),
    differences=0,
    triggers=5,
    sessions=2,
    problems=(),
    file=FILE,
)
POSTGRES = Health(
    "postgresql",
    "16.2",
    {
        "synchronous_commit": "on",
        "fsync": "on",
        "full_page_writes": "on",
        "autovacuum": "on",
        "server_encoding": "UTF8",
        "in_recovery": "false",
    },
    Standing("0001", "0001"),
    differences=0,
    triggers=2,
    sessions=2,
    problems=(),
    rights={"UPDATE": False, "DELETE": False},
)


def statuses(health: Health) -> dict[str, str]:
    return {
        finding["check"]: finding["status"]
        for finding in doctor.judged(health)
        if finding["status"] != "ok"
    }


def test_a_healthy_database_has_nothing_to_tell() -> None:
    assert statuses(SQLITE) == statuses(POSTGRES) == {}


@pytest.mark.parametrize(
    ("ill", "found"),
    [
        (replace(SQLITE, version="3.51.2"), {"engine": "note"}),
        (replace(SQLITE, version="3.9.0", file=replace(FILE, holders=1)), {"engine": "warn"}),
        (replace(SQLITE, file=replace(FILE, mode=0o644)), {"rights": "warn"}),
        (replace(SQLITE, file=replace(FILE, is_own=False)), {"rights": "note"}),
        (replace(SQLITE, file=replace(FILE, filesystem="nfs4")), {"disk": "bad"}),
        (replace(SQLITE, file=replace(FILE, filesystem=None)), {"disk": "note"}),
        (replace(SQLITE, file=replace(FILE, log_size=4_096)), {"log": "note"}),
        (replace(SQLITE, file=replace(FILE, log_size=65_000_000)), {"log": "warn"}),
        (replace(SQLITE, settings={**SQLITE.settings, "mmap_size": "1024"}), {"mmap": "warn"}),
        (
            replace(SQLITE, settings={**SQLITE.settings, "journal_mode": "delete"}),
            {"journal": "warn"},
        ),
        (
            replace(SQLITE, settings={**SQLITE.settings, "synchronous": "1"}),
            {"durability": "warn"},
        ),
        (replace(SQLITE, problems=("row 3 missing from index",)), {"integrity": "bad"}),
        (replace(SQLITE, schema=Standing("0000", "0001")), {"schema": "bad"}),
        (replace(SQLITE, differences=1), {"schema": "bad"}),
        (replace(SQLITE, triggers=0), {"triggers": "warn"}),
        (
            replace(POSTGRES, settings={**POSTGRES.settings, "synchronous_commit": "off"}),
            {"durability": "warn"},
        ),
        (replace(POSTGRES, settings={**POSTGRES.settings, "fsync": "off"}), {"fsync": "bad"}),
        (
            replace(POSTGRES, settings={**POSTGRES.settings, "autovacuum": "off"}),
            {"autovacuum": "warn"},
        ),
        (
            replace(POSTGRES, settings={**POSTGRES.settings, "server_encoding": "LATIN1"}),
            {"encoding": "bad"},
        ),
        (
            replace(POSTGRES, settings={**POSTGRES.settings, "in_recovery": "true"}),
            {"role": "note"},
        ),
        (replace(POSTGRES, rights={"UPDATE": True, "DELETE": True}), {"role": "note"}),
    ],
)
def test_a_danger_is_named(ill: Health, found: dict[str, str]) -> None:
    assert statuses(ill) == found


def diagnosed() -> str:
    """Both databases, healthy and without a schema."""
    file = io.StringIO()
    screen = Screen(file)
    for name, health in (("/srv/agent.db", SQLITE), ("postgresql://db/agents", POSTGRES)):
        for one in (health, replace(health, schema=Standing(None, "0001"))):
            findings = doctor.judged(one)
            receipts.diagnosis(screen, {"database": name, "ok": True, "findings": findings})
    return file.getvalue()


@pytest.mark.parametrize("columns", [80, 120])
def test_the_doctors_screen_is_as_it_was(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert diagnosed() == (GOLDEN / f"doctor-{columns}.txt").read_text()


def test_the_doctor_looks_at_a_real_database(database: str, command_line: CommandLines) -> None:
    showcase.build(database)
    run = command_line(database)
    done = run("doctor", "--json")
    findings = {one["check"]: one for one in done.document["findings"]}
    bad = [one for one in findings.values() if one["status"] == "bad"]
    if database.startswith("postgres"):  # the tests' server does not wait for its disk
        assert {one["check"] for one in bad} <= {"fsync", "full_page_writes"}
        assert findings["engine"]["says"].startswith("PostgreSQL ")
    else:
        assert {one["check"] for one in bad} <= {"disk"}
        assert "3." in findings["engine"]["says"]
        assert findings["rights"]["status"] == "ok"
        Path(database).chmod(0o644)
        again = {one["check"]: one for one in run("doctor", "--json").document["findings"]}
        assert again["rights"]["status"] == "warn"
    assert done.code == (Code.NO if bad else 0)
    assert done.document["ok"] is not bool(bad)
    assert findings["schema"]["says"] == "0001, 6 sessions"
    shown = run("doctor").out.splitlines()
    assert len([line for line in shown if line[:4] in {"ok  ", "note", "warn", "bad "}]) == len(
        findings
    )


def test_the_doctor_sees_who_else_has_the_file_open(
    tmp_path: Path, command_line: CommandLines
) -> None:
    path = str(tmp_path / "store.db")
    with Store.open(path) as store:
        store.create("open")
        found = command_line(path)("doctor", "--json").document["findings"]
        assert "1 other process" in found[0]["says"] or found[0]["status"] == "ok"
        waiting = next(one for one in found if one["check"] == "log")
        assert waiting["status"] == "note"


# The demo


def test_the_demo_does_all_that_it_tells(tmp_path: Path, command_line: CommandLines) -> None:
    run = command_line(folder=tmp_path)
    done = run("demo", "here and there")
    assert (done.code, done.err) == (0, "")
    chapters = [line for line in done.out.splitlines() if line and not line.startswith(" ")]
    for begin in (
        "A coding agent",
        "The manager acts: cleared",
        "The manager acts: condensed",
        "Truncate",
        "Rewind past the condensation",
        "Undo",
        "How full its window is now",
        "The audit",
        "Verify",
        "Look around",
    ):
        assert sum(line.startswith(begin) for line in chapters) == 1, begin
    commands = [line.strip() for line in done.out.splitlines() if line.startswith("  roocontext ")]
    assert len(commands) == 3
    for command in commands:
        assert run(*shlex.split(command)[1:]).code == 0
    project = tmp_path / "here and there" / "project"
    assert "range(len(words))" in (project / "parser.py").read_text()
    assert (project / "GUIDE.md").exists()


def test_the_demo_in_numbers(tmp_path: Path, command_line: CommandLines) -> None:
    done = command_line(folder=tmp_path)("demo", "a" * 60, "--json")
    answer = done.document
    happened = ["cleared", "condensed", "truncated", "rewound", "undone"]
    assert [*dict.fromkeys(answer["did"])] == happened
    assert answer["ok"]
    assert answer["context"]["tokens"] < answer["context"]["limit"]
    with Store.open(tmp_path / answer["database"]) as store:
        chat = store.session(answer["session_id"])
        assert chat.verify().ok
        before = next(one.seq for one in chat.audit() if one.kind is Kind.SUMMARY) - 1
        rewind = next(one for one in chat.audit() if one.kind is Kind.REWIND)
        assert rewind.entry.details["to"] == before
        assert chat.view(as_of=rewind.seq).messages == chat.view(as_of=before).messages
        assert chat.view(as_of=rewind.seq - 1).messages == chat.view().messages
        said = str([message.content for message in chat.view(as_of=before).messages])
        assert "exit code 0" in said


def test_the_demo_says_where_it_cannot_work(tmp_path: Path, command_line: CommandLines) -> None:
    (tmp_path / "taken").write_text("")
    done = command_line(folder=tmp_path)("demo", "taken")
    assert (done.code, done.out) == (Code.NOT_FOUND, "")
    assert done.err.startswith("roocontext: The folder cannot be made")


if __name__ == "__main__":
    for columns in (80, 120):
        os.environ["COLUMNS"] = str(columns)
        (GOLDEN / f"doctor-{columns}.txt").write_text(diagnosed())
