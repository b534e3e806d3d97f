"""The checks as the methods of a test class, for pytest; pytest itself is not needed here."""

from collections.abc import Callable
from typing import ClassVar

from roocontext.testing.examine import CHECKS, judge, trial_of
from roocontext.testing.trial import Check, Factory


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
