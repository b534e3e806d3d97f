"""The parts of `make torture` are those that docs/guarantees.md lists."""

from torture.__main__ import BEGIN, END, PAGE, TESTS
from torture.parts import PARTS


def test_each_part_has_a_name_of_its_own_and_tests_that_exist():
    assert len({part.name for part in PARTS}) == len(PARTS)
    missing = [path for part in PARTS for path in part.tests if not (TESTS / path).exists()]
    assert missing == []


def test_page_of_guarantees_lists_each_part():
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    for part in PARTS:
        assert f"| {part.promise} | `python -m torture {part.name}` |" in table
