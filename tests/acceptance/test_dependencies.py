"""The oldest allowed versions: what `make test-oldest` installs is what pyproject.toml allows."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("anthropic", "gemini", "mcp", "openai", "postgres", "web")


def test_oldest_version_of_each_dependency_is_tested():
    pinned = {
        canonicalize_name(found[1]): Version(found[2])
        for found in re.finditer(
            r"^([\w.-]+)==(\S+)$", (ROOT / "constraints-oldest.txt").read_text(), re.MULTILINE
        )
    }
    extras = (PROJECT["optional-dependencies"][extra] for extra in EXTRAS)
    allowed = map(
        Requirement, [*PROJECT["dependencies"], *(one for extra in extras for one in extra)]
    )
    for requirement in allowed:
        (oldest,) = (one.version for one in requirement.specifier if one.operator == ">=")
        assert pinned[canonicalize_name(requirement.name)] == Version(oldest), requirement
