"""A schema says which releases can work with it: older ones refuse it and leave it alone."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from migration.conftest import Raw
from roocontext import Store
from roocontext.errors import SchemaMismatch
from roocontext.store.engine.schema import RELEASE, REVISION

TOO_NEW = ("0.1.1", "0.2", "0.10.0", "1.0.0rc1", "unknown")
OLD_ENOUGH = ("0.1.0", "0.1", "0.0.9", "0")


def test_schema_of_newer_releases_is_refused_and_left_alone(raw):
    with Store.open(raw.url) as store:
        store.create("kept").append("user", "hello")
    before = raw.run("SELECT * FROM entries")
    for version, oldest in product((REVISION, "0002", "ffff"), TOO_NEW):
        _set_version(raw, version, oldest)
        stored = Path(raw.url).read_bytes() if raw.engine == "file" else b""
        for options in ({}, {"upgrade": False}, {"read_only": True}):
            with pytest.raises(SchemaMismatch, match=f"{oldest} or newer.* {RELEASE}") as refused:
                Store.open(raw.url, **options)
            error = refused.value
            assert (error.current, error.wanted) == (version, REVISION)
            assert (error.release, error.oldest_release) == (RELEASE, oldest)
            assert raw.engine != "file" or Path(raw.url).read_bytes() == stored
        assert _version(raw) == (version, oldest)
    assert raw.run("SELECT * FROM entries") == before
    _set_version(raw, REVISION, RELEASE)
    with Store.open(raw.url) as store:
        assert store.session("kept").verify().ok


def test_schema_that_names_this_release_or_an_older_one_is_used(raw):
    Store.open(raw.url).close()
    for oldest in OLD_ENOUGH:
        _set_version(raw, "0007", oldest)
        with Store.open(raw.url) as store:
            assert store.create().append("user", "hello").seq == 1
        assert _version(raw) == ("0007", oldest)


def _version(raw: Raw) -> tuple[Any, ...]:
    (row,) = raw.run("SELECT version_num, oldest_release FROM roocontext_version")
    return row


def _set_version(raw: Raw, version: str, oldest: str) -> None:
    raw.run(f"UPDATE roocontext_version SET version_num = '{version}', oldest_release = '{oldest}'")
