"""A pytest plugin that writes the outcome of each test to the file of `--outcomes`, as JSON."""

import json
from pathlib import Path

import pytest

_ORDER = ("passed", "skipped", "failed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", type=Path)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Outcomes(config.getoption("--outcomes")))


class _Outcomes:
    """The worst outcome of the phases of each test, and whether a store of ours was open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, str] = {}
        self._ours: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self._outcomes.get(report.nodeid, "passed")
        self._outcomes[report.nodeid] = max(before, report.outcome, key=_ORDER.index)
        if ("ours", True) in report.user_properties:
            self._ours.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        found = {"outcomes": self._outcomes, "ours": sorted(self._ours)}
        self._path.write_text(json.dumps(found, indent=1))
