"""Lines, and how they are shown: a table for people, JSON for programs."""

import importlib.metadata
import os
import platform
import sqlite3
import sys
from dataclasses import dataclass
from typing import Any

from bench.timing import Samples


@dataclass(frozen=True, slots=True)
class Line:
    """One budget: what was measured, beside what it is held against.

    A line without a budget on its ratio is held to a fact, `holds`, which its note tells.
    """

    key: str
    what: str
    against: str
    measured: Samples
    floor: Samples
    budget: float | None
    aim: float | None = None
    unit: str = "s"
    note: str = ""
    holds: bool = True

    @property
    def ratio(self) -> float:
        """Measured over floor, at the medians. Rounded: what is printed is what is judged."""
        return round(self.measured.p50 / self.floor.p50, 3)

    @property
    def met(self) -> bool:
        """Whether the budget is kept."""
        return self.holds and (self.budget is None or self.ratio <= self.budget)

    @property
    def aimed(self) -> bool | None:
        """Whether the aim is reached, where there is one."""
        return None if self.aim is None else self.met and self.ratio <= self.aim

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "key": self.key,
            "what": self.what,
            "against": self.against,
            "ratio": self.ratio,
            "budget": self.budget,
            "aim": self.aim,
            "met": self.met,
            "aimed": self.aimed,
            "unit": self.unit,
            "measured": _quantiles(self.measured),
            "floor": _quantiles(self.floor),
            "note": self.note,
        }

    def to_text(self) -> str:
        """One row of the table."""
        budget = "-" if self.budget is None else f"{self.budget:.4g}"
        aim = "" if self.aim is None else f"{self.aim:.4g} {'yes' if self.aimed else 'no'}"
        what = f"{self.what} / {self.against}"
        shown = f"{_pair(self.measured, self.unit)} / {_pair(self.floor, self.unit)}"
        note = f"; {self.note}" if self.note else ""
        verdict = "yes" if self.met else "NO"
        return f"{self.ratio:8.2f} {budget:>6} {verdict:>4} {aim:>8}  {what}: {shown}{note}"


@dataclass(frozen=True, slots=True)
class NotRun:
    """A line that was not measured, and why."""

    key: str
    what: str
    why: str

    def to_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {"key": self.key, "what": self.what, "why": self.why}

    def to_text(self) -> str:
        """One row of the table."""
        return f"{'-':>8} {'-':>6} {'-':>4} {'':>8}  {self.what}: NOT RUN, {self.why}"


HEADING = (
    f"{'ratio':>8} {'budget':>6} {'met':>4} {'aim':>8}  measured / floor: p50 (p10) / p50 (p10)"
)


def environment(postgres: str) -> dict[str, str]:
    """What the figures depend on. Never the name of a machine."""
    packages = ("sqlalchemy", "psycopg", "msgspec")
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "postgresql": postgres,
        **{name: importlib.metadata.version(name) for name in packages},
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(cores),
        "load": load(),
    }


def load() -> str:
    """How busy the machine is: processes that ran or wanted to, over 1, 5 and 15 minutes."""
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def _quantiles(samples: Samples) -> dict[str, float]:
    return {"p10": samples.p10, "p50": samples.p50, "samples": len(samples.values)}


def _pair(samples: Samples, unit: str) -> str:
    p50 = _shown(samples.p50, unit)
    return p50 if len(samples.values) == 1 else f"{p50} ({_shown(samples.p10, unit)})"


def _shown(value: float, unit: str) -> str:
    if unit == "B":
        return f"{value:,.0f} B" if value < 1e4 else f"{value / 1e6:.2f} MB"
    for size, name in ((1.0, "s"), (1e-3, "ms")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value * 1e6:.3g} us"
