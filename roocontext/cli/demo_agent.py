"""The agent of the demo: what it is asked, what it says and does, and the workshop it does it in.

What it does is done: files are written, read and changed, commands are run, and what comes back is
what the tools put out.
"""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SYSTEM = "You are a careful programmer. Look before you change anything, and run the tests."

_PARSER = '''"""Turns words into nodes."""


class Node:
    """A word, and where it stands."""

    def __init__(self, word, place):
        self.word = word
        self.place = place

    def __eq__(self, other):
        return (self.word, self.place) == (other.word, other.place)

    def __repr__(self):
        return f"Node({self.word!r}, {self.place})"


def split(text):
    """The words of a text, without the marks around them."""
    return [word.strip(".,;:!?()") for word in text.split()]


def parse(text):
    """A node for each word of a text."""
    words = split(text)
    nodes = []
    for place in range(len(words) - 1):
        nodes.append(Node(words[place], place))
    return nodes


def count(text):
    """How often each word stands in a text."""
    counts = {}
    for node in parse(text):
        counts[node.word] = counts.get(node.word, 0) + 1
    return counts
'''

_TESTS = """import unittest

from parser import Node, count, parse, split


class Parser(unittest.TestCase):
    def test_an_empty_text_has_no_nodes(self):
        self.assertEqual(parse(""), [])

    def test_one_word_is_one_node(self):
        self.assertEqual(parse("tree"), [Node("tree", 0)])

    def test_every_word_is_a_node(self):
        self.assertEqual(parse("a b c"), [Node("a", 0), Node("b", 1), Node("c", 2)])

    def test_marks_are_no_part_of_a_word(self):
        self.assertEqual(split("(a, b!)"), ["a", "b"])

    def test_words_are_counted(self):
        self.assertEqual(count("tree by tree"), {"tree": 2, "by": 1})


unittest.main(verbosity=2)
"""

_FILES = {"parser.py": _PARSER, "test_parser.py": _TESTS}

_EXAMPLES = (
    "import parser; print(parser.split('Mend it, please!'))",
    "import parser; print(parser.parse('a tree'))",
    "import parser; print(parser.count('tree by tree'))",
)

_GUIDE = (
    """# The parser

It turns a text into nodes. A node is a word and the place where it stands, counted from 0. The
work is done in two steps, so that each of them can be tried by itself.

## Words

`split(text)` gives the words. Words are what stands between blanks; blanks are spaces, tabs and
line ends, and any number of them counts as one. The marks . , ; : ! ? and round brackets are taken
from both ends of a word, and left where they stand inside one: `e.g.` becomes `e.g`, and
`don't` stays as it is. The case of letters is kept.

    >>> split("Mend it, please!")
    ['Mend', 'it', 'please']

A text without words gives an empty list. A word that is nothing but marks becomes an empty word; it
is still a word, and has a place.
""",
    """
## Nodes

`parse(text)` gives a node for each word, in the order of the text. Two nodes are equal if both
the word and the place are, so that the same word at another place is another node. Nodes show
themselves as what makes them, which is what the tests compare.

    >>> parse("a tree")
    [Node('a', 0), Node('tree', 1)]

Up to 0.9 the last word of every text was lost, because the loop ended at `len(words) - 1`. A text
of one word had no nodes at all. Whoever kept lists of nodes that older versions made should make
them anew: the missing word cannot be seen in them.
""",
    """
## Counting

`count(text)` says how often each word stands in a text. It goes by `parse`, so what is a word there
is a word here. Words that differ in case are counted apart; lower the text first if that is not
what you want. The words come in the order in which each is met first.

    >>> count("tree by tree")
    {'tree': 2, 'by': 1}

## What to look out for

- Quotation marks are not taken from words. Give the text without them, or strip them yourself.
- Hyphens do not part words: `off-by-one` is one.
- A text of many megabytes is held in memory three times: as text, as words and as nodes.
""",
)


@dataclass(frozen=True)
class Step:
    """One call of a tool, and what the agent says with it."""

    says: str
    tool: str
    given: Mapping[str, str] = field(default_factory=dict)

    def message(self, call_id: str) -> list[dict[str, Any]]:
        """What the agent's model answers."""
        call = {"type": "tool_use", "id": call_id, "name": self.tool, "input": dict(self.given)}
        return [{"type": "text", "text": self.says}, call]

    def shown(self) -> str:
        """The call in short."""
        return " ".join((self.tool, *list(self.given.values())[:1])).strip()


@dataclass(frozen=True)
class Task:
    """What the user asks, what the agent does about it, and what it answers."""

    name: str
    asked: str
    steps: tuple[Step, ...]
    answer: str


def _tests(says: str) -> Step:
    return Step(says, "run", {"command": "python test_parser.py"})


FIRST = Task(
    "bug",
    "parse() drops the last word of a text. Why? Please mend it.",
    (
        Step("I look what there is.", "list_files"),
        Step("I read the parser.", "read_file", {"path": "parser.py"}),
        _tests("I run the tests before I touch anything."),
        Step("I read what they expect.", "read_file", {"path": "test_parser.py"}),
        Step(
            "The loop ends one word too early. I mend it.",
            "edit_file",
            {"path": "parser.py", "old": "range(len(words) - 1)", "new": "range(len(words))"},
        ),
        _tests("And again."),
    ),
    "Mended: the loop in parse() ended one word too early, at len(words) - 1. All 5 tests pass.",
)

SECOND = Task(
    "guide",
    "Good. Now write a GUIDE.md: what the parser does, how to use it, and what to look out for."
    " Keep every example short, and run each one before you write it down.",
    (
        Step("I search for what there is to explain.", "search", {"text": "def "}),
        Step("I run the first example.", "run", {"command": "python -c", "code": _EXAMPLES[0]}),
        Step("I write the first part.", "write_file", {"path": "GUIDE.md", "text": _GUIDE[0]}),
        Step("I run the second one.", "run", {"command": "python -c", "code": _EXAMPLES[1]}),
        Step("I write the second part.", "add_to_file", {"path": "GUIDE.md", "text": _GUIDE[1]}),
        Step("I run the third one.", "run", {"command": "python -c", "code": _EXAMPLES[2]}),
        Step("I write the last part.", "add_to_file", {"path": "GUIDE.md", "text": _GUIDE[2]}),
        Step("I read it once as a whole.", "read_file", {"path": "GUIDE.md"}),
        _tests("And the tests once more."),
    ),
    "Done: GUIDE.md explains split(), parse() and count(), and every example in it was run. The"
    " tests pass as before.",
)

TASKS = (FIRST, SECOND)


class Workshop:
    """A folder with a small project in it, and the tools that work there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in _FILES.items():
            (folder / name).write_text(text)

    def do(self, step: Step) -> str:
        """Do what a step says; what comes back."""
        output: str = getattr(self, step.tool)(**step.given)
        return output

    def list_files(self) -> str:
        """The files and their sizes."""
        files = sorted(path for path in self._folder.iterdir() if path.is_file())
        return "\n".join(f"{path.stat().st_size:>6} {path.name}" for path in files)

    def read_file(self, path: str) -> str:
        """A file with numbered lines."""
        lines = (self._folder / path).read_text().splitlines()
        return "\n".join(f"{number:>4}  {line}" for number, line in enumerate(lines, 1))

    def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that stands in the file once."""
        text = (self._folder / path).read_text()
        found = text.count(old)
        if found != 1:
            return f"Nothing was changed: the text stands there {found} times."
        (self._folder / path).write_text(text.replace(old, new))
        return f"{path}: 1 place was changed."

    def write_file(self, path: str, text: str) -> str:
        """Write a new file."""
        (self._folder / path).write_text(text)
        return f"{path}: {len(text.splitlines())} lines were written."

    def add_to_file(self, path: str, text: str) -> str:
        """Write at the end of a file."""
        with (self._folder / path).open("a") as file:
            file.write(text)
        return f"{path}: {len(text.splitlines())} lines were added."

    def search(self, text: str) -> str:
        """The lines that hold a text."""
        found = [
            f"{path.name}:{number}: {line.strip()}"
            for path in sorted(self._folder.glob("*.py"))
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if text in line
        ]
        return "\n".join(found) or "Nothing was found."

    def run(self, command: str, code: str = "") -> str:
        """Run a command of Python's; its output and how it ended."""
        words = [sys.executable if word == "python" else word for word in command.split()]
        words += [code] if code else []
        done = subprocess.run(  # noqa: S603 - commands of the script above, in a folder of its own
            words, cwd=self._folder, capture_output=True, text=True, timeout=60, check=False
        )
        told = f"{done.stdout}{done.stderr}exit code {done.returncode}"
        # Where the folder is must not decide how much the context holds.
        return told.replace(f"{self._folder.resolve()}/", "")
