"""The suite for others, over our own store: nothing is lost, on SQLite and on PostgreSQL."""

import pytest

from roocontext import InvalidOption
from roocontext.testing import CHECKS, StoreContract, Verdict, examine
from support.empty_files import empty_file


@pytest.mark.usefixtures("forked_writers")
def test_reference_store_keeps_every_promise(postgres_url):
    report = examine("support.reference_store:Reference", postgres_url)
    refused = [str(it) for it in report.results if it.verdict is not Verdict.KEPT]
    assert refused == ["condensing splits no pair: refused (InvalidPlan)"]
    assert len(report.results) == len(CHECKS)


class TestTheClass(StoreContract):
    """As a user derives it: on files, with processes of Python itself."""

    factory = "support.reference_store:Reference"

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self._folder = tmp_path

    def place(self):
        return empty_file(self._folder / "store.db")


def test_name_without_a_factory_is_refused():
    with pytest.raises(InvalidOption, match=r"package\.module:factory"):
        examine("my_driver")
