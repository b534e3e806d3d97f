"""The suite can fail: each check finds the store that breaks its promise, and no other."""

from threading import get_ident

import pytest

from roocontext.testing import CHECKS, Verdict, examine
from support import broken_stores as broken
from support.empty_files import empty_file

pytestmark = pytest.mark.usefixtures("forked_writers")

BROKEN = [
    (broken.RewritesOnRewind, {"rewinding keeps everything"}),
    (broken.ForgetsWhatIsCondensed, {"condensing keeps everything"}),
    (broken.DeletesForGood, {"deleting keeps everything"}),
    (
        broken.RewindsTooFar,
        {"rewinds exactly", "continues after a rewind", "rewinds are taken back"},
    ),
    (broken.ContinuesWhereItWas, {"continues after a rewind"}),
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
    """True if a check is of the same promise, and cheap."""
    promises = {it.promise for it in CHECKS if it.name in lost}
    return check.promise in promises and "processes" not in check.name


def test_each_check_has_a_store_that_breaks_it():
    assert {name for _, lost in BROKEN for name in lost} == {check.name for check in CHECKS}


def test_retry_that_is_refused_is_not_lost(tmp_path):
    (check,) = (check for check in CHECKS if check.name == "retries store once")
    place = empty_file(tmp_path / "store.db")
    (result,) = examine(broken.RefusesRetries, place, checks=[check]).results
    assert (result.verdict, result.detail) == ("refused", "the retry got an error (ValueError)")


def test_error_of_the_store_is_kept_in_the_result(tmp_path):
    class Fails(broken.Reference):
        def view(self):
            raise ZeroDivisionError

    report = examine(Fails, empty_file(tmp_path / "store.db"), checks=CHECKS[:4])
    (failed,) = (result for result in report.lost if result.error)
    assert failed.verdict is Verdict.FAILED
    assert str(failed) == "rewinds exactly: failed (ZeroDivisionError)"
    assert str(report).endswith("failed    ZeroDivisionError")


def test_driver_is_closed_once_and_in_the_thread_that_opened_it(tmp_path):
    """A driver over a connection of `sqlite3`, for example, can do nothing else."""
    calls = []

    class Bound(broken.Reference):
        def open(self, session):
            self.thread = get_ident()
            calls.append("open")
            return super().open(session)

        def close(self):
            assert self.thread == get_ident()
            calls.append("close")
            super().close()

    asked = [
        check for check in CHECKS if check.name in ("rewinds exactly", "one winner in threads")
    ]
    results = examine(Bound, empty_file(tmp_path / "store.db"), checks=asked).results
    assert [str(result) for result in results] == [f"{check.name}: kept" for check in asked]
    assert calls.count("open") == calls.count("close") > 0


def test_driver_that_cannot_be_closed_fails_its_own_check_only(tmp_path):
    refused = []

    class Sticks(broken.Reference):
        def close(self):
            super().close()
            if len(refused) < 2:
                refused.append(self)
                raise ZeroDivisionError

    asked = [check for check in CHECKS if check.name in ("duplicates", "stale writers are refused")]
    results = examine(Sticks, empty_file(tmp_path / "store.db"), checks=asked[::-1]).results
    assert [result.verdict for result in results] == [Verdict.FAILED, Verdict.KEPT]


def test_store_that_another_process_cannot_import_is_not_killed(tmp_path):
    class Local(broken.Reference):
        pass

    asked = [check for check in CHECKS if check.name == "killed writers lose nothing"]
    (result,) = examine(Local, empty_file(tmp_path / "store.db"), checks=asked).results
    assert result.verdict is Verdict.NOT_RUN


@pytest.mark.parametrize(
    ("store", "cannot"),
    [(broken.OpensHereOnly, "open the store"), (broken.AppendsHereOnly, "append")],
)
def test_store_that_another_process_cannot_use_is_found(tmp_path, capfd, store, cannot):
    asked = [check for check in CHECKS if check.name == "killed writers lose nothing"]
    (result,) = examine(store, str(tmp_path / "store.db"), checks=asked).results
    assert result.detail == f"another process could not {cannot}: its error is on stderr"
