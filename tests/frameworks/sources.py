"""The frameworks' source packages: fetched once, checked by their digests, unpacked.

Nothing of them enters the repository. Only these versions are ever run, and only if the same
versions are installed.
"""

import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
FOLDER: Final = HERE.parents[1] / ".frameworks"
"""Ignored by git: the packages, and what the last run printed."""
_LIST: Final = HERE / "sources.txt"
_LINE: Final = re.compile(r"^(?P<name>[\w-]+)==(?P<version>\S+)", re.MULTILINE)


class WrongVersion(Exception):
    """A package is installed in another version than its tests have."""


def pinned() -> dict[str, str]:
    """The version of each package."""
    return {found["name"]: found["version"] for found in _LINE.finditer(_LIST.read_text())}


def unpacked() -> dict[str, Path]:
    """The folder of each package's source."""
    wanted_versions = pinned()
    for name, wanted in wanted_versions.items():
        if version(name) != wanted:
            raise WrongVersion(
                f"{name} {version(name)} is installed, and {_LIST.name} has {wanted}."
                " Change sources.txt and constraints-adapters.txt together."
            )
    stamp = FOLDER / "sources.txt"
    if not stamp.exists() or stamp.read_text() != _LIST.read_text():
        shutil.rmtree(FOLDER, ignore_errors=True)
        _fetch()
        stamp.write_text(_LIST.read_text())
    return {
        name: FOLDER / f"{name.replace('-', '_')}-{wanted}"
        for name, wanted in wanted_versions.items()
    }


def _fetch() -> None:
    # pip asks each package for its metadata, with the backend that is installed here.
    options = ["--no-binary", ":all:", "--no-deps", "--no-build-isolation", "--require-hashes"]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *options, "--dest", FOLDER, "--requirement", _LIST], check=True)
    for archive in FOLDER.glob("*.tar.gz"):
        with tarfile.open(archive) as source:
            source.extractall(FOLDER, filter="data")
