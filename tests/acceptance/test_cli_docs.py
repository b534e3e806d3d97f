"""The pages of the command line: made from the commands, which work, with real pictures."""

import re
import runpy
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "cli"


def test_reference_has_every_command_and_document():
    tool = runpy.run_path(str(ROOT / "tools" / "cli_reference.py"))
    page = tool["page"]()
    headings = re.findall(r"^### `?([a-z]+(?: [a-z]+)?)", page, re.MULTILINE)
    assert {name.split()[0] for name in headings} >= {"show", "import", "verify", "db"}
    anchors = {name.lower() for name in re.findall(r"^#+ `?(\w+)", page, re.MULTILINE)}
    links = re.findall(r"\]\(#([\w-]+)\)", page)
    assert links
    assert {link.split("-")[0] for link in links} <= anchors


def test_commands_of_the_tour_work(tmp_path, command_line):
    run = command_line(folder=tmp_path)
    blocks = re.findall(
        r"^```shell\n(.*?)^```$", (PAGES / "tour.md").read_text(), re.MULTILINE | re.DOTALL
    )
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 8
    for line in lines:
        done = run(*shlex.split(line)[1:])
        assert (done.code, done.err) == (0, ""), line


def test_every_picture_of_the_tour_is_there_and_shown():
    shown = set(re.findall(r"\]\((\w+\.svg)\)", (PAGES / "tour.md").read_text()))
    assert shown == {picture.name for picture in PAGES.glob("*.svg")}


REPEATABLE = sorted(path for path in PAGES.glob("*.svg") if path.stem != "demo")
"""In the demo, tokens are counted of what the tests of its project print, which is Python's."""


@pytest.mark.parametrize("picture", REPEATABLE, ids=lambda path: path.stem)
def test_picture_is_what_its_commands_print(picture):
    tool = runpy.run_path(str(ROOT / "tools" / "screenshots.py"))
    drawn = dict(tool["pictures"]([picture.stem]))
    assert picture.read_text() == drawn[picture.stem]


@pytest.mark.parametrize("picture", sorted(PAGES.parent.rglob("*.svg")), ids=lambda path: path.stem)
def test_picture_has_a_title_and_fetches_nothing(picture):
    text = picture.read_text()
    assert ET.fromstring(text).find("{http://www.w3.org/2000/svg}title") is not None
    assert not re.search(r"url\(.?http|@import|<image|href=.http", text)
