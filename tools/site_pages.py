"""A hook of MkDocs: adds the pages that are made from the code, and the list of decisions.

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


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - MkDocs's own
    """List the decisions on the page that introduces them."""
    if page.file.src_uri != "decisions/index.md":
        return markdown
    rows = ["| | |", "|---|---|"]
    for path in sorted(Path(config.docs_dir, "decisions").glob("0*.md")):
        number, title = path.read_text().splitlines()[0].removeprefix("# ").split(maxsplit=1)
        rows.append(f"| [{number}]({path.name}) | {title} |")
    return "\n".join([markdown, *rows, ""])
