"""The pages in a real browser: with and without JavaScript, safe, accessible, and live."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.expected_conditions import staleness_of
from selenium.webdriver.support.ui import WebDriverWait

AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
PAGES = [
    *("/", "/s/long", "/s/long?tab=all&at=9", "/s/long?as_of=60&edits=open", "/s/parser?tab=live"),
    *("/s/parser?tab=all", "/s/long/diff?from=200&to=211", "/s/parser/timeline"),
    *("/s/parser/usage", "/s/parser/export", "/s/parser/e/5/whole", "/s/parser/e/6/request"),
    *("/s/evil?tab=all", "/search?q=question", "/s/parser/change", "/s/parser/e/5/change"),
    *("/s/parser/rewind?to=5", "/s/parser/undo?force=1"),
    *("/s/long/compact?aim=condense&limit=9000", "/s/parser/redact?seq=5"),
    *("/s/parser/purge", "/s/evil/e/2/change"),
]
FAILING = ["/s/nothing", "/s/long/e/9999", "/s/long?tab=odd", "/nothing"]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def texts(browser: Any, selector: str) -> list[str]:
    return [one.text for one in browser.find_elements(By.CSS_SELECTOR, selector)]


@contextmanager
def next_page(browser: Any) -> Iterator[None]:
    """Wait until the page is another one: a form that is sent by a key is still on its way."""
    left = browser.find_element(By.TAG_NAME, "html")
    yield
    # While one document replaces the other, Chromium may answer with an error of its inspector.
    wait = WebDriverWait(browser, 20, ignored_exceptions=[WebDriverException])
    wait.until(staleness_of(left), "the page was not left")


def follow_link(browser: Any, words: str) -> None:
    with next_page(browser):
        browser.find_element(By.PARTIAL_LINK_TEXT, words).click()


# Without JavaScript


def test_everything_is_read_without_script(plain):
    plain.visit("/")
    follow_link(plain, "A long session")
    assert len(texts(plain, "article")) == 50
    follow_link(plain, "Earlier")
    assert "Question 0" in texts(plain, "article")[0]
    follow_link(plain, "Everything")
    plain.find_element(By.CSS_SELECTOR, "details.fold > summary").click()
    assert plain.find_element(By.CSS_SELECTOR, "details.fold article").is_displayed()


def test_search_finds_hidden_messages_and_leads_to_them_without_script(plain):
    plain.visit("/")
    box = plain.find_element(By.NAME, "q")
    with next_page(plain):
        box.send_keys('"part_20"', Keys.ENTER)
    assert texts(plain, "mark")
    with next_page(plain):
        plain.find_element(By.CSS_SELECTOR, ".sessions .name").click()
    target = plain.find_element(By.CSS_SELECTOR, "article:target")
    assert target.is_displayed()
    assert "part_20" in target.text


def test_time_travel_and_comparison_work_without_script(plain):
    plain.visit("/s/long")
    box = plain.find_element(By.NAME, "as_of")
    box.clear()
    with next_page(plain):
        box.send_keys("6", Keys.ENTER)
    assert len(texts(plain, "article")) == 4  # and two notes
    follow_link(plain, "What changed since")
    assert "left the view" in plain.find_element(By.TAG_NAME, "main").text


def test_session_is_changed_without_script(plain, site_store):
    chat = site_store.create(title="changed")
    for number in range(6):
        chat.append("user", f"line {number}")
    plain.visit(f"/s/{chat.id}?tab=all")
    with next_page(plain):
        plain.find_element(By.CSS_SELECTOR, "#e3 .act").click()
    follow_link(plain, "Rewind to right after this entry")
    assert "4 messages would leave the view" in plain.find_element(By.TAG_NAME, "main").text
    with next_page(plain):
        plain.find_element(By.CSS_SELECTOR, "button.act").click()
    assert "Done: rewind 8" in plain.find_element(By.CSS_SELECTOR, ".done").text
    assert texts(plain, "article .seq") == ["2", "3"]
    follow_link(plain, "Undo")
    with next_page(plain):
        plain.find_element(By.CSS_SELECTOR, "button.act").click()
    assert len(texts(plain, "article")) == 6


def test_new_entries_appear_without_script(start, site_store):
    chat = site_store.create(title="followed")
    chat.append("user", "first")
    with start(script=False, waits=False) as browser:
        wait = WebDriverWait(browser, 20)
        wait.until(lambda _: texts(browser, "h1") == ["Sessions"])
        browser.get(f"{browser.origin}/s/{chat.id}/follow")
        wait.until(lambda _: "first" in " ".join(texts(browser, "article")))
        chat.append("user", "second")
        wait.until(lambda _: "second" in " ".join(texts(browser, "article")))


# Safety


@pytest.mark.parametrize("path", PAGES)
def test_page_is_quiet_and_asks_only_its_own_server(browser, path):
    browser.visit(path)
    asked = [row["request"]["url"] for row in browser.sent()]
    own = [url for url in asked if not url.startswith("data:") and "/rows?" not in url]
    assert all(url.startswith(f"{browser.origin}/") for url in own), own
    assert len(own) <= 3
    assert browser.get_log("browser") == []


def test_nothing_in_a_session_acts(browser):
    for path in ("/", "/s/evil", "/s/evil?tab=all", "/search?q=acted", "/s/evil/e/2/whole"):
        browser.visit(path)
        for fold in browser.find_elements(By.CSS_SELECTOR, "details:not([open]) > summary"):
            if fold.is_displayed():
                fold.click()
        assert browser.execute_script("return [window.acted, document.scripts.length]") == [None, 1]
        own = "return [...document.querySelectorAll('main :not(svg) > a')].map(a => a.protocol)"
        assert set(browser.execute_script(own)) <= {"http:", "https:", "mailto:"}
        assert "evil.test" not in str([row["request"]["url"] for row in browser.sent()])


def test_rebound_name_is_refused_by_every_page(start, site):
    with start("host-resolver-rules=MAP evil.test 127.0.0.1") as browser:
        files = ("/static/page.css", "/static/page.js")
        for path in (*PAGES, *files, "/s/long/rows", "/s/long/follow"):
            browser.get_log("performance")
            address = f"http://evil.test:{site.port}{path}"
            browser.get(address)
            assert browser.statuses()[address] == 421
            assert "Question" not in browser.page_source


# Accessibility


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", [*PAGES, *FAILING])
def test_axe_finds_nothing(browser, path, scheme):
    browser.media(scheme)
    browser.visit(path)
    browser.execute_script(AXE.read_text())
    found = browser.execute_async_script(
        "const done = arguments[1];"
        "axe.run(document, {runOnly: arguments[0]}).then(found => done(found.violations.map("
        "v => [v.id, v.nodes.slice(0, 3).map(n => n.html.slice(0, 150) + n.failureSummary)])))",
        RULES,
    )
    assert not found, found


@pytest.mark.parametrize("width", [320, 640])
@pytest.mark.parametrize("path", [*PAGES, *FAILING])
def test_narrow_window_does_not_scroll_sideways(browser, path, width):
    browser.width(width)
    try:
        browser.visit(path)
        # The browser may lay the page out for the new width a moment after it has loaded it.
        wide = "return document.documentElement.scrollWidth"
        WebDriverWait(browser, 5).until(lambda _: browser.execute_script(wide) <= width)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


# Places


def test_deep_link_shows_its_entry_at_the_top(browser):
    browser.visit("/s/long/e/60")
    top = "return document.querySelector(':target').getBoundingClientRect().top"
    assert 0 <= browser.execute_script(top) <= 40
    assert browser.find_element(By.ID, "e60").is_displayed()


def test_keys_move_through_a_page(browser):
    browser.visit("/s/long")
    focus = "return document.activeElement.id || document.activeElement.name"

    def press(key: str) -> str:
        ActionChains(browser).send_keys(key).perform()
        return browser.execute_script(focus)

    first = press("j")
    assert first != press("j")
    assert press("k") == first
    assert "user" in browser.find_element(By.ID, press("J")).get_attribute("class")
    assert press("/") == "q"
    press(Keys.ESCAPE)
    press("?")
    assert browser.find_element(By.TAG_NAME, "dialog").is_displayed()
    press(Keys.ESCAPE)
    ActionChains(browser).send_keys("3").perform()
    WebDriverWait(browser, 10).until(lambda _: "tab=all" in browser.current_url)


def test_new_entries_appear_and_the_reader_stays(browser, site_store):
    chat = site_store.create(title="growing")
    for number in range(30):
        chat.append("user", f"line {number}\n\n" * 3)
    browser.visit(f"/s/{chat.id}")
    browser.execute_script("scrollTo(0, 300)")
    for number in range(5):
        chat.append("user", f"news {number}")
    WebDriverWait(browser, 20).until(lambda _: "news 4" in texts(browser, "article")[-1])
    words = [text.split("\n")[-1] for text in texts(browser, "article")[-5:]]
    assert words == [f"news {number}" for number in range(5)]
    change = browser.find_elements(By.CSS_SELECTOR, "article .act")[-1]
    assert change.get_attribute("aria-label") == f"Change at entry {chat.info().last_seq}"
    assert browser.execute_script("return scrollY") == 300
    assert browser.find_element(By.CSS_SELECTOR, "[role=status]").text == "5 new"
    assert browser.get_log("browser") == []
