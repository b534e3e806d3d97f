"""Runs the checks over a store and reports the results, or makes tests of them for pytest."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from roocontext.testing import contents, crashes, keeping, retries, rewinding, sending, writers
from roocontext.testing.processes import load, name_of
from roocontext.testing.protocol import Lost, NotRun, StoreRefused, Verdict
from roocontext.testing.trial import Check, Factory, Trial

CHECKS: tuple[Check, ...] = tuple(
    check
    for module in (keeping, rewinding, contents, writers, crashes, sending, retries)
    for check in module.PROMISE.checks
)
"""Every check, by promise."""


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict of a check, and the reason. `error` is an exception of the store."""

    check: Check
    verdict: Verdict
    detail: str = ""
    error: Exception | None = None

    @property
    def is_loss(self) -> bool:
        """True if something is lost, or cannot be done at all."""
        return self.verdict in (Verdict.LOST, Verdict.MISSING, Verdict.FAILED)

    def __str__(self) -> str:
        return f"{self.check.name}: {self.verdict}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all checks."""

    results: tuple[Result, ...]

    @property
    def lost(self) -> tuple[Result, ...]:
        """The results in which something is lost, or cannot be done at all."""
        return tuple(result for result in self.results if result.is_loss)

    def __str__(self) -> str:
        lines, promise = [], ""
        for result in self.results:
            if result.check.promise != promise:
                promise = result.check.promise
                lines.append(promise)
            detail = f"  {result.detail}" if result.detail else ""
            lines.append(f"  {result.check.name:<28} {result.verdict:<8}{detail}".rstrip())
        return "\n".join(lines)


def examine(
    factory: Factory | str, place: str | None = None, *, checks: Sequence[Check] = CHECKS
) -> Report:
    """Run checks over a store.

    The `factory` makes a driver for a place. It is a callable, or the name of one, such as
    `my_package.my_driver:open_store`. The checks with processes run only if another process can
    import it. The `place` is the path or the URL of an empty database, by default a path in a
    folder that is deleted afterwards.
    """
    with trial_of(factory, place) as trial:
        return Report(tuple(judge(check, trial) for check in checks))


@contextmanager
def trial_of(factory: Factory | str, place: str | None = None) -> Iterator[Trial]:
    """The trial that checks run with."""
    make: Factory = load(factory) if isinstance(factory, str) else factory
    name = factory if isinstance(factory, str) else name_of(factory)
    with ExitStack() as stack:
        if place is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="store-"))
            place = str(Path(folder) / "store.db")
        yield Trial(make, name, place)


def judge(check: Check, trial: Trial) -> Result:
    """Run one check."""
    try:
        for needed in check.needs:
            if needed in trial.lacks:
                return Result(check, Verdict.MISSING, trial.lacks[needed])
        with trial.running():
            check.run(trial)
    except Lost as lost:
        return Result(check, Verdict.LOST, str(lost))
    except StoreRefused as refused:
        return Result(check, Verdict.REFUSED, str(refused))
    except NotRun as reason:
        return Result(check, Verdict.NOT_RUN, str(reason))
    except Exception as error:  # noqa: BLE001 - kept in the result, and the other checks are run
        return Result(check, Verdict.FAILED, type(error).__name__, error)
    return Result(check, Verdict.KEPT)


class StoreContract:
    """Derive a test class from this one, and name the factory of your driver.

    Each check is a test of its own on an empty database. `lost` lists the names of checks whose
    loss you accept: such a test fails if the check passes, so that the list stays true.
    """

    factory: ClassVar[Factory | str]
    lost: ClassVar[frozenset[str]] = frozenset()

    def place(self) -> str | None:
        """The path or the URL of an empty database; None for a path in a new folder."""
        return None


def _test(check: Check) -> Callable[[StoreContract], None]:
    def test(self: StoreContract) -> None:
        with trial_of(type(self).factory, self.place()) as trial:
            result = judge(check, trial)
        expected = check.name in self.lost
        if result.error and not expected:
            raise result.error
        assert result.is_loss == expected, f"{result}; expected to be lost: {expected}"

    test.__doc__ = check.asks
    return test


for _check in CHECKS:
    setattr(StoreContract, "test_" + _check.name.replace(" ", "_").lower(), _test(_check))
