"""Each error has a category, from which exit codes and protocols decide."""

import inspect

import pytest

from roocontext import errors
from roocontext.cli.exit_codes import Code, code_of

ERRORS = [
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, errors.RooContextError)
]


@pytest.mark.parametrize(
    ("kind", "category", "code"),
    [
        (errors.SessionPurged, errors.Category.NOT_FOUND, Code.NOT_FOUND),
        (errors.StoreNotFound, errors.Category.NOT_FOUND, Code.NOT_FOUND),
        (errors.UnknownPlugin, errors.Category.USAGE, Code.USAGE),
        (errors.DuplicateMessage, errors.Category.CONFLICT, Code.REFUSED),
        (errors.InvalidPlan, errors.Category.REFUSED, Code.REFUSED),
        (errors.StoreFull, errors.Category.DATABASE, Code.DATABASE),
        (errors.HistoryCorrupt, errors.Category.DATABASE, Code.DATABASE),
    ],
)
def test_category_of_an_error_decides_its_exit_code(kind, category, code):
    assert kind().category is category
    assert code_of(kind()) == code


def test_every_error_has_a_category_and_an_exit_code():
    codes = {Code.NO, Code.NOT_FOUND, Code.USAGE, Code.REFUSED, Code.DATABASE}
    for kind in ERRORS:
        assert kind().category in errors.Category, kind
        assert code_of(kind()) in codes, kind


def test_unknown_outcome_is_a_category_of_its_own():
    assert errors.StoreUnavailable(outcome_unknown=False).category is errors.Category.DATABASE
    assert errors.StoreUnavailable(outcome_unknown=True).category is errors.Category.UNCERTAIN
