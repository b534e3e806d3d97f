"""Texts, names and times, as the command line reads and writes them."""

import io
import sys
import unicodedata
from datetime import UTC, datetime
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roocontext.cli import points
from roocontext.cli.screens import content, safe_text
from roocontext.cli.screens.next_commands import next_command
from roocontext.cli.screens.screen import Screen
from roocontext.errors import InvalidOption
from roocontext.reports import naming
from support import showcase
from support.examples import everyday

# Words

SHAPED = "\u0600-\u0605 \u06dd \u0890 \u0891 \u08e2 \U000110bd \U000110cd"
"""Signs around numbers: of the category of the invisible ones, but to be seen."""


def shaped() -> set[str]:
    ranges = [part.split("-") for part in SHAPED.split()]
    return {chr(code) for ends in ranges for code in range(ord(ends[0]), ord(ends[-1]) + 1)}


IGNORABLE = (
    "ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 202a-202e 2060-206f 3164 fe00-fe0f feff"
    " ffa0 fff0-fff8 1bca0-1bca3 1d173-1d17a e0000-e0fff"
)
BLANK = "2800 16fe4 1d159"
"""What Unicode says may be drawn as nothing, and what is drawn as nothing all the same."""


def unseen() -> set[str]:
    ranges = [part.split("-") for part in f"{IGNORABLE} {BLANK}".split()]
    codes = [[int(end, 16) for end in ends] for ends in ranges]
    return {chr(code) for ends in codes for code in range(ends[0], ends[-1] + 1)}


# Most of Unicode is not given, and for private use. In between all is alike.
GIVEN = (
    range(0x40000),
    range(0xE0000, 0xE2000),
    range(0xEFF00, 0xF0100),
    range(0x10FF00, 0x110000),
)
CODES = everyday(
    [*chain(*GIVEN), *range(0x40000, sys.maxunicode + 1, 101)], range(sys.maxunicode + 1)
)


def test_control_and_invisible_characters_are_escaped():
    acting = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    spared = {"\n", "\t"} | shaped()
    hidden = unseen()
    for code in CODES:
        character = chr(code)
        escaped = safe_text.safe(character) != character
        acts = unicodedata.category(character) in acting and character not in spared
        if acts or character in hidden:
            assert escaped, hex(code)
        elif escaped and character != "\t":
            # Some that are not given yet are escaped with their neighbours.
            unknown = "Cn" in unicodedata.category(character)
            assert unknown or 0x13430 <= code <= 0x1345F or code >= 0xFFF0, hex(code)


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",
        "क्\u200dष",
        "👩\u200d🚀 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3",
        "ᠠ\u180b",
        "Vie\u0323\u0302t e\u0301",
        "ཧྐྵྨླྺ",
        "「…」！？—“”",
    ],
)
def test_characters_that_shape_letters_stay(text):
    assert safe_text.safe(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pass\u200dword", "pass\\u200dword"),
        ("a \u200d\u200c", "a \\u200d\\u200c"),
        ("語\u200d\u200d", "語\u200d\\u200d"),
        ("x\ufe0f", "x\\ufe0f"),
        ("❤\ufe0f\ufe0e", "❤\ufe0f\\ufe0e"),
        ("z" + "\u0301" * 8, "z" + "\u0301" * 6 + "\\u0301" * 2),
        ("ส" + "\u0e47" * 7, "ส" + "\u0e47" * 6 + "\\u0e47"),
    ],
)
def test_characters_that_shape_nothing_are_escaped(text, shown):
    assert safe_text.safe(text) == shown


@given(
    st.lists(
        st.sampled_from("\u200d\ufe0f\u0301\u0e47\u0301\u0e47")
        | st.sampled_from("aส語")
        | st.sampled_from(sorted(unseen())),
        max_size=60,
    )
)
@example(["語", *"\u200d\ufe0f" * 5])
@example(["z", *"\u0301\u200d" * 9])
def test_runs_of_invisible_characters_are_escaped(characters):
    height = silent = 0
    hidden = unseen()
    for one in safe_text.safe("".join(characters)):
        height = height + 1 if unicodedata.category(one) in ("Mn", "Me", "Cf") else 0
        silent = silent + 1 if one in hidden else 0
        # A joiner may follow a selector: emoji are made so.
        assert height <= 6
        assert silent <= 2


@pytest.mark.parametrize("length", [36, 100])
def test_id_for_a_command_is_not_shortened(length):
    assert Screen(io.StringIO()).name("i" * length) == "i" * length


def test_long_names_do_not_flood_the_screen(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    file = io.StringIO()
    screen = Screen(file)
    screen.headline("i" * 1_000, "t" * 1_000)
    screen.headline("a\nb", None)
    assert file.getvalue() == f"{'i' * 99}…  {'t' * 159}…\na\\nb\n"


@given(st.text(), st.integers(0, 40))
def test_shortened_line_fits(text, width):
    from rich.cells import cell_len  # noqa: PLC0415

    line = safe_text.one_line(text)
    short = safe_text.cut_line(line, width)
    assert cell_len(short) <= width
    assert "\n" not in short
    if cell_len(line) <= width:
        assert short == line


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1_000, "1 kB"),
        (1_770, "1.77 kB"),
        (99_960, "100 kB"),
        (999_600, "1 MB"),
        (2 * 10**12, "2000 GB"),
    ],
)
def test_sizes_are_short(count, said):
    assert naming.size(count) == said


# What stands in a message


def test_letters_in_arguments_are_letters():
    call = showcase.call("t", "write", text="Größe 名 \ud800", count=2, path="ö.py")
    said = content.one_line_of("assistant", [call], "anthropic")
    assert said == '→ write text="Größe 名 \\ud800", count=2, path=ö.py'
    nested = showcase.call("t", "write", lines=["Größe"])
    assert "Größe" in content.one_line_of("assistant", [nested], "anthropic")


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, "→ web_search"),
        (
            {"type": "document", "source": {"media_type": "application/pdf", "data": "JVBERi0="}},
            "[application/pdf, 8 characters]",
        ),
        (
            {"type": "document", "source": {"type": "url", "url": "https://a.example/b.pdf"}},
            "[document https://a.example/b.pdf]",
        ),
        ({"type": "image", "source": None}, "[image]"),
        (
            {"type": "redacted_thinking", "data": "x"},
            '[redacted_thinking] {"type": "redacted_thinking", "data": "x"}',
        ),
        (showcase.result("t", [{"type": "image", "source": {}}]), "← [image]"),
        (showcase.result("t", [showcase.result("u", "inner")]), "← (5 B) inner"),
        (showcase.result("t", [{"type": "sensor"}]), "← [sensor]"),
        (showcase.result("t", []), "← (empty)"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_every_kind_of_block_has_a_line(block, shown):
    assert content.one_line_of("user", [block], "anthropic") == shown


# Times

NOW = 1_767_268_800_000  # 2026-01-01 12:00 UTC


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", "2026-01-01 12:00"),
        ("90m ago", "2026-01-01 10:30"),
        ("90 minutes ago", "2026-01-01 10:30"),
        ("1 hour ago", "2026-01-01 11:00"),
        ("1h30m ago", "2026-01-01 10:30"),
        ("1 day 2h ago", "2025-12-31 10:00"),
        ("today", "2026-01-01"),
        ("Yesterday", "2025-12-31"),
        ("yesterday 9:30", "2025-12-31 09:30"),
        ("9:30", "2026-01-01 09:30"),
        ("09:30 UTC", "2026-01-01 09:30"),
        ("2026-01-02", "2026-01-02"),
        ("2026-01-31 9:30", "2026-01-31 09:30"),
        ("2026-01-31 09:30:00 UTC", "2026-01-31 09:30"),
        ("2026-01-31T09:30z", "2026-01-31 09:30"),
        ("2026-01-01T09:30+02:00", "2026-01-01 07:30"),
    ],
)
def test_times_of_every_spelling_are_read(text, meant):
    assert points.target("--to", text, NOW) == datetime.fromisoformat(meant).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("2 months ago", "3 sheep ago", "2hago", "ago", "2h", "h ago", "today yesterday"),
        *("25:00", "09:60", "2026-02-30", "tomorrow", "last week", "", "\x1b[31m", "m8"),
    ],
)
def test_text_that_is_no_time_may_be_a_message_id(text):
    assert points.target("--to", text, NOW) == text


def test_number_names_an_entry():
    assert [points.target("--to", text, NOW) for text in ("0", "9", "17")] == [0, 9, 17]
    with pytest.raises(InvalidOption):
        points.target("--to", "-8", NOW)


@pytest.mark.parametrize("name", ["last", "new", "=x", "-x", "a b", "last~1", "a\x1b", "é", ""])
def test_untypable_name_is_in_no_command(name):
    assert next_command(name, "show {}") == ""
    assert next_command("x-1", "show {} 5") == "roocontext show x-1 5"
