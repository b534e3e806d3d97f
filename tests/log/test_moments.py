"""Times in documents: in UTC with the offset, and read again as what they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roocontext.log.moments import from_iso, iso_utc
from roocontext.log.times import Times, minute_of
from roocontext.reports.document import as_json
from roocontext.reports.sessions import PurgedRow


@given(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-100_000, 100_000))
def test_time_is_read_as_it_was_written(time):
    assert from_iso(iso_utc(time)) == time


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0, "1970-01-01T00:00:00.000+00:00"),
        (-1, "1969-12-31T23:59:59.999+00:00"),
        (1_768_000_000_123, "2026-01-09T23:06:40.123+00:00"),
        (1 << 62, f"{1 << 62} ms"),
    ],
)
def test_times_are_in_utc_with_the_offset(time, text):
    assert iso_utc(time) == text
    row = PurgedRow(session_id="s", entries=1, messages=1, bytes=1, last_hash="", purged_at=time)
    assert as_json(row)["purged_at"] == text
    assert PurgedRow.model_validate(as_json(row)) == row


def test_minute_begins_before_its_times():
    assert [minute_of(time) for time in (-60_001, -60_000, -1, 0, 59_999)] == [-2, -1, -1, 0, 0]


def test_missing_time_is_earlier_than_any():
    times = Times().after("message", None, -5, -9).after("message", None, -7, -9)
    assert times == Times(-9, 0, -5, -5)
