"""The documentation, executed: what a page shows runs, prints what it says, and cannot drift.

The Python blocks of a page run in order in one namespace and an empty folder. What a block prints
must be in a `text` block marked `<!-- output -->` right after it. A block marked
`<!-- postgres -->` finds a database in DATABASE_URL. In one marked `<!-- models -->` the clients of
the SDKs find a model at a socket. Tables made from the code are between markers; `python
tests/acceptance/test_docs.py` writes them again. The pages of the API and of the commands are made
when the site is built, and are checked here.
"""

import inspect
import io
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import make_url

import roocontext
from roocontext import Store, errors
from roocontext.log.forms import Rule, forms
from roocontext.log.readings import readers
from roocontext.log.replies import reply_readers
from roocontext.policies.builtin import policies
from roocontext.store.engine.schema import ALIKE, metadata, with_indexes
from roocontext.summarisers import summarisers
from roocontext.tokens import counters

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

sys.path.append(str(ROOT / "tools"))
import api_pages as api  # noqa: E402 - the tool that makes pages of the site

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]

BLOCK = re.compile(r"^(?:<!-- (\w+) -->\n)?```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


@cache
def generated() -> dict[str, str]:
    """The pages of the API, which are made when the site is built."""
    return api.pages()


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, with its mark and the line it begins at."""

    mark: str | None
    language: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(found[1], found[2], found[3], text.count("\n", 0, found.start(3)) + 1)
        for found in BLOCK.finditer(text)
    ]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def has(page: Path, mark: str) -> bool:
    return any(block.mark == mark for block in blocks(page))


def run(page: Path) -> None:
    """Run a page's Python blocks, and hold what they print against what the page says."""
    namespace: dict[str, Any] = {"__name__": "page"}
    try:
        _run_in(namespace, page)
    finally:  # a page leaves them to the end of the process
        for value in namespace.values():
            if isinstance(value, Store | sqlite3.Connection):
                value.close()


def _run_in(namespace: dict[str, Any], page: Path) -> None:
    printed: str | None = None
    for block in blocks(page):
        place = f"{name_of(page)}:{block.line}"
        if block.mark == "output":
            assert printed, f"{place}: no block before it prints"
            assert block.text == printed, f"{place}: printed is\n{printed}"
            printed = None
            continue
        assert not printed, f"{place}: the output of the block before is not shown:\n{printed}"
        if block.language == "python":
            code = "\n" * (block.line - 1) + block.text
            with redirect_stdout(io.StringIO()) as output:
                exec(compile(code, str(page), "exec"), namespace)
            printed = output.getvalue()
    assert not printed, f"{name_of(page)}: the last output is not shown:\n{printed}"


@pytest.fixture
def registries() -> Iterator[None]:
    """Undo the registrations of a page: other tests list the built-in names."""
    of_forms = (forms, readers, reply_readers)
    kept = [(it, dict(it)) for it in (counters, policies, summarisers, *of_forms)]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)


WITH_PYTHON = [page for page in PAGES if any(b.language == "python" for b in blocks(page))]
FRAMEWORKS = [page for page in WITH_PYTHON if page.parent == DOCS / "adapters"]
"""The pages that tests/adapters executes, with the frameworks installed."""
EXECUTED = [page for page in WITH_PYTHON if page not in FRAMEWORKS]


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", [p for p in EXECUTED if not has(p, "postgres")], ids=name_of)
def test_code_of_a_page_runs(page, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    if has(page, "models"):
        request.getfixturevalue("models")
    run(page)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", [p for p in EXECUTED if has(p, "postgres")], ids=name_of)
def test_code_of_a_page_runs_on_postgres(page, tmp_path, monkeypatch, postgres_url):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", postgres_url)
    run(page)


def test_readme_and_guides_are_executed():
    executed = {name_of(page) for page in EXECUTED}
    guides = {name_of(page) for page in (DOCS / "guide").glob("*.md")}
    guides |= {f"docs/operations/{page}.md" for page in ("index", "postgres", "erasing")}
    core = ("index", "quickstart", "concepts", "guarantees", "reference/schema", "reference/input")
    assert executed >= {"README.md", *guides, *(f"docs/{page}.md" for page in core)}


def test_readme_is_short_and_begins_with_twelve_lines_of_code():
    first = next(block for block in blocks(ROOT / "README.md") if block.language == "python")
    assert len(first.text.splitlines()) <= 12
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_blocks_are_of_known_kinds(page):
    for block in blocks(page):
        place = f"{name_of(page)}:{block.line}"
        assert block.language in {"diff", "python", "text", "shell", "sql"}, place
        if block.mark == "postgres":
            assert block.language in {"python", "sql"}, place
        elif block.mark == "models":
            assert block.language == "python", place
        elif block.mark:
            assert (block.mark, block.language) == ("output", "text"), place
        if block.language == "shell":
            assert all(
                line.startswith(("make ", "pip install ", "python examples/", "roocontext "))
                for line in block.text.splitlines()
            ), place


def test_every_target_that_a_page_names_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make ([a-z-]+)`", page.read_text()))
        named |= {
            line.split()[1]
            for block in blocks(page)
            if block.language == "shell"
            for line in block.text.splitlines()
            if line.startswith("make ")
        }
        assert named <= targets, name_of(page)
        for example in re.findall(r"^python (\S+)", page.read_text(), re.MULTILINE):
            assert (ROOT / example).exists(), name_of(page)


def test_links_of_pages_outside_the_site_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / name).read_text()):
            assert target.startswith("https://") or (ROOT / target).exists(), f"{name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_tables_made_from_the_code_are_current(page):
    assert page.read_text() == renewed(page)


def test_every_table_is_on_a_page():
    found = [table[2] for page in PAGES for table in TABLE.finditer(page.read_text())]
    assert sorted(found) == sorted(TABLES)


def test_every_error_is_in_the_table():
    shown = set(re.findall(r"^\| `(\w+)`", error_table(), re.MULTILINE))
    kinds = _subclasses(errors.RooContextError)
    # Those of the web server are in the reference of the HTTP API.
    ours = (kind for kind in kinds if re.match(r"roocontext\.(?!web\.)", kind.__module__))
    found = {kind.__name__ for kind in ours if not kind.__name__.startswith("_")}
    assert shown == found


def test_every_public_class_has_a_page_with_its_methods():
    for kind in api.classes():
        (page,) = [
            text for path, text in generated().items() if text.startswith(f"# {kind.__name__}\n")
        ]
        for name in api.methods(kind):
            assert f"{{ #{name} }}" in page or f".md#{name})" in page, (kind, name)
    named = {kind.__name__ for kind in api.classes()} | {kind.__name__ for kind in _errors()}
    assert set(roocontext.__all__) <= named


def test_every_public_class_and_method_has_a_docstring():
    for kind in api.classes():
        assert inspect.getdoc(kind), kind
        for name in api.methods(kind):
            assert inspect.getdoc(getattr(kind, name)), (kind, name)


def test_every_public_name_of_a_module_has_a_section_with_a_docstring():
    for module in api.MODULES:
        page = generated()[f"{api.FOLDER}/module-{module.rpartition('.')[2]}.md"]
        for name in api.module_names(module):
            assert f"{{ #{name} }}" in page, name
            member = getattr(import_module(module), name)
            assert inspect.getdoc(member) or not callable(member), name


def test_every_exported_name_can_be_imported():
    assert len(roocontext.__all__) == len(set(roocontext.__all__))
    assert all(getattr(roocontext, name) for name in roocontext.__all__)


@pytest.mark.parametrize("table", sorted(ALIKE))
def test_every_column_of_a_table_is_documented(table):
    assert documented_columns(table) == [column.name for column in metadata.tables[table].columns]


@pytest.mark.parametrize("view", ["messages", "effective_history"])
def test_every_column_of_a_view_is_documented(view, tmp_path):
    path = tmp_path / "store.db"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({view})")]
    assert documented_columns(view) == columns


def test_every_index_of_the_schema_is_documented():
    page = (DOCS / "reference" / "schema.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)` \(", page.split("## Indexes")[1], re.MULTILINE))
    tables = with_indexes().tables.values()
    assert documented == {str(index.name) for table in tables for index in table.indexes}


@pytest.mark.parametrize("page", ["architecture", "contributing"])
def test_every_file_that_a_page_names_exists(page):
    named = set(re.findall(r"`([\w./]+\.(?:py|sql))`", (DOCS / f"{page}.md").read_text()))
    folders = ("roocontext", "migrations", "tests", "tools")
    existing = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    missing = {it for it in named if not any(path.match(it) for path in existing)}
    assert missing - {"migrations/versions/NNNN_name.py"} == set()


def test_every_folder_is_in_the_drawing_of_the_architecture():
    drawing = (DOCS / "architecture.md").read_text().split("```")[1]
    folders = {path.parent.name for path in (ROOT / "roocontext").rglob("*.*")}
    folders -= {"roocontext", "__pycache__"}
    assert [name for name in sorted(folders) if f"{name}/" not in drawing] == []


def test_every_helper_of_the_tests_is_in_their_index():
    folder = ROOT / "tests" / "support"
    helpers = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    rows = [line.split("|")[2] for line in (folder / "README.md").read_text().splitlines()[6:]]
    assert helpers - set(re.findall(r"`(\w+)`", "".join(rows))) == set()


def test_grants_of_the_guide_suffice_for_an_agent(postgres_url):
    (grants,) = [
        block.text
        for block in blocks(DOCS / "operations" / "postgres.md")
        if block.language == "sql" and block.mark == "postgres"
    ]
    url = make_url(postgres_url)
    plain = url.set(drivername="postgresql").render_as_string(hide_password=False)
    Store.open(url).close()
    role = f"agent_{uuid4().hex}"
    with closing(psycopg.connect(plain, autocommit=True)) as owner:
        owner.execute(f"CREATE ROLE {role}")
        try:
            owner.execute(re.sub(r"\bagent\b", role, grants))
            _work_as(url.update_query_dict({"options": f"-c role={role}"}, append=False))
        finally:
            owner.execute(f"DROP OWNED BY {role}")
            owner.execute(f"DROP ROLE {role}")


def _work_as(url: Any) -> None:
    with Store.open(url) as store:
        chat = store.create(title="granted")
        chat.append("user", "a question that is long enough to be condensed")
        chat.append_many([{"role": "assistant", "content": "an answer"}])
        chat.commit(roocontext.Plan.condense(chat.view(), [2], "short"))
        chat.rewind(to=2)
        chat.undo()
        chat.fork()
        assert chat.verify().ok
        with pytest.raises(errors.StoreReadOnly):
            chat.redact(2)
        with pytest.raises(errors.StoreReadOnly):
            store.purge(chat.id)


def documented_columns(table: str) -> list[str]:
    """The first cells of the table below the heading of a database table."""
    page = (DOCS / "reference" / "schema.md").read_text()
    section = re.search(rf"^### `{table}`\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert section, f"{table} has no section"
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", section[1], re.MULTILINE)
    return [column for cell in cells for column in re.findall(r"\w+", cell)]


def error_table() -> str:
    rows = ["| error | category | what it means | what to do |", "|---|---|---|---|"]
    for kind in _errors():
        bases = ", ".join(base.__name__ for base in kind.__bases__)
        name = f"`{kind.__name__}` ({bases})"
        fields = vars(kind).get("__annotations__", {}).keys() - {"advice", "category"}
        facts = [f"`{fact}`" for fact in vars(kind).get("__annotations__", {}) if fact in fields]
        told = f" Facts: {', '.join(facts)}." if facts else ""
        meaning = f"{inspect.getdoc(kind)}{told}"
        rows.append(f"| {name} | `{kind.category}` | {meaning} | {kind.advice or '-'} |")
    return "\n".join(rows) + "\n"


def repair_table() -> str:
    rows = ["| repair | what was done |", "|---|---|"]
    for line in inspect.getsource(Rule).splitlines():
        if found := re.fullmatch(r' +[A-Z]+ = "(\w+)"  # (.*)', line):
            rows.append(f"| `{found[1]}` | {found[2][0].upper()}{found[2][1:]}. |")
    assert len(rows) == 2 + len(Rule)
    return "\n".join(rows) + "\n"


TABLES = {"errors": error_table, "repairs": repair_table}


def renewed(page: Path) -> str:
    """The page with the tables as they should be."""
    return TABLE.sub(lambda it: f"{it[1]}\n{TABLES[it[2]]()}\n{it[3]}", page.read_text())


def _errors() -> Iterator[type[errors.RooContextError]]:
    for found in vars(errors).values():
        if isinstance(found, type) and issubclass(found, errors.RooContextError):
            yield found


def _subclasses(kind: type) -> set[type]:
    return {kind}.union(*(_subclasses(child) for child in kind.__subclasses__()))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renewed(page))
