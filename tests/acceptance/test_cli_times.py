"""Times on screens and on the command line are local, and say in which zone they are."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from roocontext import Store
from roocontext.cli import points
from roocontext.errors import InvalidOption
from roocontext.reports.times import local_time, zone, zoned_time
from support.cli_process import CommandLine, CommandLines
from support.steady_sources import SetClock

NOON = 1_767_268_800_000  # 2026-01-01 12:00 UTC
SUMMER = NOON + 181 * 86_400_000
ZONE = {"TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}
CET = timezone(timedelta(hours=1))
CEST = timezone(timedelta(hours=2))


@pytest.fixture
def cet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", ZONE["TZ"])
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("cet")
def test_time_is_shown_in_the_zone_of_its_season():
    assert zoned_time(0) == "1970-01-01 01:00:00 CET"
    assert zoned_time(NOON) == "2026-01-01 13:00:00 CET"
    assert zoned_time(SUMMER) == "2026-07-01 14:00:00 CEST"
    assert (local_time(2**62), zone(2**62)) == (f"{2**62} ms", "UTC")


@pytest.mark.usefixtures("cet")
@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("today", datetime(2026, 1, 1, tzinfo=CET)),
        ("yesterday 9:30", datetime(2025, 12, 31, 9, 30, tzinfo=CET)),
        ("13:00", datetime(2026, 1, 1, 12, tzinfo=UTC)),
        ("13:00 UTC", datetime(2026, 1, 1, 13, tzinfo=UTC)),
        ("2026-07-01 14:00", datetime(2026, 7, 1, 14, tzinfo=CEST)),
        ("2026-07-01T14:00Z", datetime(2026, 7, 1, 14, tzinfo=UTC)),
        ("2h ago", datetime(2026, 1, 1, 10, tzinfo=UTC)),
    ],
)
def test_typed_time_is_local_unless_it_has_a_zone(text, meant):
    assert points.target("--as-of", text, NOON) == meant
    assert points.parse_moment("--since", text, NOON) == meant


def test_length_of_time_is_a_time_before_now():
    now = datetime.fromtimestamp(NOON / 1_000, UTC)
    assert points.parse_moment("--since", "30d", NOON) == now - timedelta(days=30)
    assert points.parse_moment("--since", "1h 30m", NOON) == now - timedelta(minutes=90)
    for text in ("17", "30", "d", "soon", ""):
        with pytest.raises(InvalidOption, match="30d"):
            points.parse_moment("--since", text, NOON)


@pytest.fixture
def run(tmp_path: Path, command_line: CommandLines) -> CommandLine:
    """Commands in a zone, on a session of two messages."""
    path = str(tmp_path / "store.db")
    with Store.open(path, clock=SetClock(NOON, step=60_000)) as store:
        chat = store.create("one")
        chat.append("user", "first")
        chat.append("user", "second")
    made = command_line(path)
    made.env |= ZONE
    return made


def test_screens_name_the_zone(run):
    assert "2026-01-01 CET" in run("audit", "one").out
    assert "13:01:00" in run("audit", "one").out
    assert "2026-01-01 13:02:00 CET" in run("show", "one").out
    for words in (("--utc", "show", "one"), ("show", "one", "--utc")):
        assert "2026-01-01 12:02:00 UTC" in run(*words).out


def test_times_of_screens_can_be_typed(run):
    assert run("show", "one", "--as-of", "2026-01-01 13:01", "--json").document["seq"] == 1
    given = ("show", "one", "--as-of", "2026-01-01 12:01", "--json")
    assert run(*given).document["seq"] == 0
    assert run(*given, "--utc").document["seq"] == 1
