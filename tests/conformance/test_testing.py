"""The suite for others, over our own store: nothing is lost, on SQLite and on PostgreSQL."""

import pytest

from roocontext import InvalidOption
from roocontext.testing import CHECKS, StoreContract, Verdict, examine
from support.empty_files import empty_file


@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_reference_store_keeps_every_promise(engine, tmp_path, request):
    """On the file with processes of Python itself, as a user has them."""
    if engine == "postgres":
        request.getfixturevalue("forked_writers")
        place = request.getfixturevalue("postgres_url")
    else:
        place = empty_file(tmp_path / "store.db")
    report = examine("support.reference_store:Reference", place)
    refused = [str(it) for it in report.results if it.verdict is not Verdict.KEPT]
    assert refused == ["condensing splits no pair: refused (InvalidPlan)"]
    assert len(report.results) == len(CHECKS)


class TestTheClass(StoreContract):
    """As a user derives it; the checks with processes are the suite's above."""

    factory = "support.reference_store:Reference"

    test_one_winner_in_processes = None
    test_killed_writers_lose_nothing = None


def test_name_without_a_factory_is_refused():
    with pytest.raises(InvalidOption, match=r"package\.module:factory"):
        examine("my_driver")
