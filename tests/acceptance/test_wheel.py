"""The wheel alone is enough: installed where no checkout is near, it opens, migrates and works.

It is built from a copy of what the build reads, so that nothing is written into the checkout, and
installed into an environment that has the dependencies but not the package.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "roocontext", "migrations")

USE = """
import json, sys
import roocontext, roocontext.migrations
from roocontext import Plan, Store

url = sys.argv[1]
with Store.open(url) as store:
    chat = store.create("installed", title="from a wheel")
    for number in range(6):
        chat.append("user" if number % 2 == 0 else "assistant", f"{number} " * 50)
    view = chat.view()
    chat.commit(Plan.condense(view, [m.seq for m in view.messages[1:4]], "in short"))
    chat.rewind(4)
    chat.undo()
with Store.open(url, upgrade=False) as store:
    chat = store.session("installed")
    assert chat.verify().ok
    shown = [m.seq for m in chat.view().messages]
files = [m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "roocontext"]
print(json.dumps({"shown": shown, "files": files, "path": sys.path}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        origin = CHECKOUT / name
        if origin.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(origin, source / name, ignore=ignored)
        else:
            shutil.copy(origin, source / name)
    _run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."],
        source,
    )
    (built,) = (source / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel and its dependencies."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    site = next(home.glob("lib/python*/site-packages"))
    dependencies = _without_the_package(tmp_path_factory.mktemp("dependencies"))
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return home / "bin" / "python"


def _without_the_package(folder: Path) -> Path:
    """The packages installed here, except this one and links to its checkout."""
    for key in ("purelib", "platlib"):
        for entry in Path(sysconfig.get_paths()[key]).iterdir():
            link = folder / entry.name
            ours = "roocontext" in entry.name or entry.suffix in (".pth", ".egg-link")
            if not ours and not link.is_symlink():
                link.symlink_to(entry)
    return folder


@pytest.mark.parametrize("engine", ["file", "postgres"])
def test_wheel_works_without_a_checkout(engine, python, request, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    server = request.getfixturevalue("postgres") if engine == "postgres" else None
    url = server.empty() if server else "agent.db"

    answer = _run([str(python), "-c", USE, url], elsewhere)

    assert '"shown": [2, 8, 6, 7]' in answer
    assert str(CHECKOUT) not in answer
    assert str(python.parents[1]) in answer
    if server:
        server.drop(url)
    else:
        assert (elsewhere / "agent.db").stat().st_size


def test_every_migration_is_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("roocontext/")}
    migrations = {
        f"roocontext/migrations/{path.relative_to(CHECKOUT / 'migrations').as_posix()}"
        for path in (CHECKOUT / "migrations").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    package = {
        path.relative_to(CHECKOUT).as_posix()
        for path in (CHECKOUT / "roocontext").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == migrations | package


def test_wheel_holds_only_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {"roocontext"} == {top for top in tops if not top.endswith(".dist-info")}


def _run(command: list[str], folder: Path) -> str:
    """Run a command elsewhere, with nothing of ours in its environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=kept, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
