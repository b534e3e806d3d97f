"""The frameworks' own stores, by the suite for others: what each keeps and loses, on a page.

`python tests/adapters/test_comparison.py` runs the suite and writes `comparison.json` and the page
anew; the tests compare both.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from roocontext.testing import CHECKS, examine, writers
from support import postgres_server

OUTCOMES = Path(__file__).with_name("comparison.json")
PAGE = Path(__file__).parents[2] / "docs" / "adapters" / "comparison.md"


class Compared(NamedTuple):
    """A store, the driver for it, and where it is opened."""

    framework: str
    store: str
    driver: str
    engine: str = "file"
    rounds: int = writers.ROUNDS
    """How many rounds of a race to run until both win: more where the moment for it is short."""

    @property
    def name(self) -> str:
        return f"{self.framework}: {self.store}"

    @property
    def package(self) -> str:
        return self.framework.partition(" ")[0]


OURS = Compared("roocontext", "`Store`", "support.reference_store:Reference")
STORES = [
    OURS,
    Compared("openai-agents", "`SQLiteSession`", "openai_agents:OnSQLite"),
    Compared(
        "openai-agents",
        "`SQLAlchemySession` (PostgreSQL)",
        "openai_agents:OnSQLAlchemy",
        "postgres",
    ),
    Compared("openai-agents", "roocontext's `RooContextSession`", "adapters:OpenAIAgents"),
    Compared("langgraph", "`SqliteSaver`", "langgraph:OnSQLite"),
    Compared("langgraph", "`PostgresSaver`", "langgraph:OnPostgres", "postgres"),
    Compared("google-adk", "`InMemorySessionService`", "google_adk:InMemory"),
    Compared("google-adk", "`SqliteSessionService`", "google_adk:OnSQLite", rounds=300),
    Compared(
        "google-adk", "`DatabaseSessionService` (PostgreSQL)", "google_adk:OnDatabase", "postgres"
    ),
    Compared("pydantic-ai-slim", "`InMemoryConversationStore`", "pydantic_ai:InMemory"),
    Compared("claude-agent-sdk", "`InMemorySessionStore`", "claude_agent_sdk:InMemory"),
]


@pytest.mark.parametrize("store", STORES, ids=lambda it: it.name.replace("`", ""))
def test_each_store_keeps_and_loses_as_the_page_says(store, request, tmp_path):
    server = request.getfixturevalue("postgres") if store.engine == "postgres" else None
    with place_of(store, server, tmp_path) as place:
        assert outcome(store, place) == json.loads(OUTCOMES.read_text())[store.name]


def test_page_shows_the_measured_results():
    assert PAGE.read_text() == renewed()


def outcome(store: Compared, place: str) -> dict[str, list[str]]:
    """The outcome of each check, without those that are simply kept."""
    with patch.object(writers, "ROUNDS", store.rounds):
        module = "" if "." in store.driver else "adapters.drivers."
        report = examine(f"{module}{store.driver}", place)
    return {it.check.name: [it.verdict, it.detail] for it in report.results if it.verdict != "kept"}


@contextmanager
def place_of(
    store: Compared, server: postgres_server.Postgres | None, folder: Path
) -> Iterator[str]:
    if server is None:
        yield str(folder / "store.db")
        return
    url = server.empty()
    # LangGraph takes libpq's form of the URL, the others SQLAlchemy's with the driver's name.
    scheme = "postgresql" if store.package == "langgraph" else "postgresql+psycopg"
    yield re.sub(r"^postgresql(\+\w+)?", scheme, url)
    server.drop(url)


SIGNS = {"kept": "✓", "refused": "refused", "lost": "**lost**", "failed": "**lost**"}


def sign(verdict: str, detail: str) -> str:
    if verdict == "missing" and "memory" in detail:
        return "in memory"
    if verdict == "not run" or "bundled program" in detail:
        return "n/a"
    return SIGNS.get(verdict, "no call")


def matrix(found: dict[str, dict[str, list[str]]]) -> str:
    head = ["check", *(store.name.replace(": ", "<br>") for store in STORES)]
    rows = [head, ["---"] * len(head)]
    for check in CHECKS:
        outcomes = (found[store.name].get(check.name, ["kept", ""]) for store in STORES)
        rows.append([check.name, *(sign(*outcome) for outcome in outcomes)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def details(found: dict[str, dict[str, list[str]]]) -> str:
    """What each check found, beyond what the matrix shows, and in which stores."""
    stores: dict[tuple[str, str], list[str]] = {}
    for check in CHECKS:
        for store in STORES:
            verdict, detail = found[store.name].get(check.name, ["kept", ""])
            if detail and sign(verdict, detail) not in {"n/a", "in memory"}:
                stores.setdefault((check.name, detail), []).append(store.store)
    rows = ["| check | found | stores |", "|---|---|---|"]
    for (name, detail), those in stores.items():
        rows.append(f"| {name} | {detail.replace('|', chr(92) + '|')} | {', '.join(those)} |")
    packages = dict.fromkeys(store.package for store in STORES)
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return "\n".join([f"Run with {versions}.", "", *rows]) + "\n"


def renewed() -> str:
    """The page with the tables as they should be."""
    found = json.loads(OUTCOMES.read_text())
    text = PAGE.read_text()
    for name, table in (("matrix", matrix(found)), ("details", details(found))):
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        text = between.sub(lambda it, table=table: f"{it[1]}\n{table}\n{it[2]}", text)
    return text


if __name__ == "__main__":
    with postgres_server.running() as server, tempfile.TemporaryDirectory() as folder:
        everything = {}
        for number, store in enumerate(STORES):
            own = Path(folder) / str(number)
            own.mkdir()
            with place_of(store, server if store.engine == "postgres" else None, own) as place:
                everything[store.name] = outcome(store, place)
    OUTCOMES.write_text(json.dumps(everything, indent=1) + "\n")
    PAGE.write_text(renewed())
