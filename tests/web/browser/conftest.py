"""A headless Chromium, and the site that it visits: a server over sessions of every kind."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from roocontext import Plan, Store
from support import showcase
from support.dialogue import call, result
from support.web_server import TOKEN, WebClient, serving

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = """headless no-sandbox disable-gpu disable-quic no-first-run disable-sync
disable-background-networking disable-component-update disable-dev-shm-usage"""

HOSTILE = [
    "</script><script>window.acted = 1</script>",
    "<img src=x onerror='window.acted = 1'>",
    "</pre></article><iframe srcdoc='<script>parent.acted = 1</script>'></iframe>",
    '" onmouseover="window.acted = 1" autofocus onfocus="window.acted = 1',
    "[x](javascript:window.acted=1) ![y](http://evil.test/pixel.png) <svg onload=acted=1>",
    "![z](data:image/svg+xml,<svg/onload=acted=1>)",
]


def chromium() -> str:
    """The browser that is named, or the one that is found."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if not found:
        pytest.exit("make test-web needs Chromium: install it, or name it in CHROMIUM.", 2)
    return found


def chromedriver(browser: str) -> str:
    """The driver, which Debian installs as a package of its own, next to the browser."""
    beside = Path(browser).with_name("chromedriver")
    found = str(beside) if beside.exists() else shutil.which("chromedriver")
    if not found:
        pytest.exit("make test-web needs chromedriver next to Chromium or in PATH.", 2)
    return found


class Browser(webdriver.Chrome):
    """A browser that knows the site."""

    origin = ""

    def visit(self, path: str) -> None:
        """Open a page of the site, and forget what was requested before."""
        self.get_log("performance")
        self.get_log("browser")
        self.get(f"{self.origin}{path}")

    def sent(self) -> list[dict[str, Any]]:
        logged = [json.loads(row["message"])["message"] for row in self.get_log("performance")]
        return [row["params"] for row in logged if row["method"] == "Network.requestWillBeSent"]

    def statuses(self) -> dict[str, int]:
        """The status of each address that was asked for."""
        logged = [json.loads(row["message"])["message"] for row in self.get_log("performance")]
        answers = [
            r["params"]["response"] for r in logged if r["method"] == "Network.responseReceived"
        ]
        return {answer["url"]: answer["status"] for answer in answers}

    def media(self, scheme: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def width(self, pixels: int) -> None:
        size = {"width": pixels, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@contextmanager
def started(
    folder: Path, *flags: str, script: bool = True, waits: bool = True
) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = chromium()
    for flag in (*_FLAGS.split(), f"user-data-dir={folder}", "window-size=1280,900", *flags):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    if not waits:
        options.page_load_strategy = "none"  # for a page that never ends
    if not script:
        off = {"profile.managed_default_content_settings.javascript": 2}
        options.add_experimental_option("prefs", off)
    browser = Browser(options, Service(chromedriver(options.binary_location)))
    try:
        yield browser
    finally:
        browser.quit()


def fill_store(store: Store) -> None:
    chat = store.create("long", title="A long session", metadata={"tool": "an agent"})
    for number in range(70):
        chat.append("user", f"Question **{number}**: what does `part_{number}` do?")
        looks = {"type": "text", "text": "I look.\n\n```python\nx = 1\n```"}
        chat.append("assistant", [looks, call(f"t{number}")])
        chat.append("user", [result(f"t{number}", f"output {number}\n" * 4)])
    chat.commit(Plan.condense(chat.view(), range(10, 160), "A summary of *what was said*."))
    chat.rewind(to=chat.append("user", "left").seq - 1)
    evil = store.create("evil", title=HOSTILE[0])
    for words in HOSTILE:
        tool = {"type": "tool_use", "id": words, "name": words, "input": {words: words}}
        evil.append("user", words)
        evil.append("assistant", [{"type": "text", "text": words}, tool], model=words[:100])
        evil.append("user", [result(words, words)])
        evil.note("odd", {words: words})
    store.create("child", parent="long", title="A sub-agent")


@pytest.fixture(scope="session")
def site_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path = tmp_path_factory.mktemp("site") / "agent.db"
    showcase.build(str(path))
    with Store.open(path) as store:
        fill_store(store)
        yield store


@pytest.fixture(scope="session")
def site(site_store: Store) -> Iterator[WebClient]:
    """The site, and a client that is no browser."""
    with serving(site_store, allow_write=True, admin=True) as client:
        yield client


@pytest.fixture(scope="session")
def start(site: WebClient, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    @contextmanager
    def let_in(*flags: str, **options: bool) -> Iterator[Browser]:
        with started(tmp_path_factory.mktemp("profile"), *flags, **options) as browser:
            browser.origin = f"http://{site.host}"
            browser.get(f"{browser.origin}/?token={TOKEN}")
            yield browser

    return let_in


@pytest.fixture(scope="session")
def browser(start: Callable[..., Any]) -> Iterator[Browser]:
    with start() as one:
        yield one


@pytest.fixture(scope="session")
def plain(start: Callable[..., Any]) -> Iterator[Browser]:
    with start(script=False) as one:
        yield one
