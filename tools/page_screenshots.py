"""Writes the pictures of docs/cli/page.md from a running server: python tools/page_screenshots.py.

It needs Chromium, named by CHROMIUM or found. The sessions are those of the tests.
"""  # noqa: INP001 - a script, not a package

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from roocontext import Store  # noqa: E402
from support import showcase  # noqa: E402 - the tests' sessions
from support.web_server import serving  # noqa: E402

FOLDER = ROOT / "docs" / "images"
PICTURES = {
    "page-view": ("/s/parser", "1180,930", ()),
    "page-everything": (
        "/s/parser?tab=all",
        "1180,1060",
        ("--blink-settings=preferredColorScheme=0",),
    ),
}
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --hide-scrollbars
--disable-background-networking --disable-component-update --disable-sync"""


def main() -> None:
    """Write all of them."""
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not browser:
        sys.exit("This needs Chromium: install it, or name it in CHROMIUM.")
    os.environ["TZ"] = "UTC"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        showcase.build(str(path))
        with Store.open(path) as store, serving(store, token=None) as web:
            for name, (address, size, flags) in PICTURES.items():
                subprocess.run(  # noqa: S603 - the browser that was named
                    [
                        *(browser, *FLAGS.split(), *flags, f"--user-data-dir={folder}/{name}"),
                        *(f"--window-size={size}", f"--screenshot={FOLDER / name}.png"),
                        f"http://{web.host}{address}",
                    ],
                    check=True,
                    capture_output=True,
                )


if __name__ == "__main__":
    main()
