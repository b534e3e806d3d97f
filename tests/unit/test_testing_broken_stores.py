"""The suite can fail: each check finds the store that breaks its promise, and no other."""

import pytest

from roocontext.testing import CHECKS, Verdict, examine
from support import broken_stores as broken
from support.empty_files import empty_file

BROKEN = [
    (broken.RewritesOnRewind, {"rewinding keeps everything"}),
    (broken.ForgetsWhatIsCondensed, {"condensing keeps everything"}),
    (broken.DeletesForGood, {"deleting keeps everything"}),
    (
        broken.RewindsTooFar,
        {"rewinds exactly", "continues behind a rewind", "rewinds are taken back"},
    ),
    (broken.ContinuesWhereItWas, {"continues behind a rewind"}),
    (broken.CannotGoForward, {"rewinds are taken back"}),
    (broken.KeepsTheSummary, {"rewinds past a summary"}),
    (broken.ForksTheNewest, {"a fork is a copy"}),
    (broken.RoundsNumbers, {"numbers"}),
    (broken.StripsTexts, {"texts"}),
    (broken.DropsNul, {"NUL"}),
    (broken.ReplacesSurrogates, {"lone surrogates"}),
    (broken.RefusesSurrogatesByHalf, {"lone surrogates"}),
    (broken.DropsNulls, {"structures"}),
    (broken.SortsKeys, {"order of keys"}),
    (broken.CutsOff, {"large values"}),
    (broken.SkipsUnknownBlocks, {"unknown blocks"}),
    (broken.Deduplicates, {"duplicates"}),
    (
        broken.LetsBothWin,
        {"stale writers are refused", "one winner in threads", "one winner in processes"},
    ),
    (broken.AcknowledgesEarly, {"another connection reads it", "killed writers lose nothing"}),
    (broken.SplitsPairs, {"condensing splits no pair"}),
    (
        broken.SendsWhatIsStored,
        {"rewinding splits no pair", "a call that never ended", "blank texts"},
    ),
    (broken.RepeatsRetries, {"retries store once", "keys are not reused"}),
    (broken.RefusesRetries, {"retries store once"}),
    (broken.IgnoresReusedKeys, {"keys are not reused"}),
]


@pytest.mark.parametrize(("store", "lost"), BROKEN, ids=lambda it: getattr(it, "__name__", ""))
def test_each_broken_store_is_found(store, lost, tmp_path):
    asked = [check for check in CHECKS if check.name in lost or _is_near(check, lost)]
    report = examine(store, empty_file(tmp_path / "store.db"), checks=asked)
    found = {result.check.name: result for result in report.lost}
    assert lost <= set(found)
    assert all(result.verdict is Verdict.LOST and result.detail for result in found.values())


def _is_near(check, lost):
    """Whether a check is of the same promise, and cheap."""
    promises = {it.promise for it in CHECKS if it.name in lost}
    return check.promise in promises and "processes" not in check.name


def test_each_check_has_a_store_that_breaks_it():
    assert {name for _, lost in BROKEN for name in lost} == {check.name for check in CHECKS}
