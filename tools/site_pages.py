"""A hook of MkDocs: adds the pages that are made from the code to the site.

These are the references of the API (`tools/api_pages.py`), of the command line
(`tools/cli_reference.py`) and of the HTTP API (`tools/http_reference.py`). They are not kept in the
repository, so they cannot be out of date.
"""  # noqa: INP001 - MkDocs loads it by its path

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))

import api_pages
import cli_reference
import http_reference


def generated() -> dict[str, str]:
    """The text of each generated page by its path below docs/."""
    references = {
        "cli/reference.md": cli_reference.page(),
        "reference/http.md": http_reference.page(),
    }
    return {**references, **api_pages.pages()}


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages before the site is built."""
    for path, text in generated().items():
        files.append(File.generated(config, path, content=text))
    return files
