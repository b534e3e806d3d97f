"""Exact counts for OpenAI's vocabularies: the tiktoken engine with the ranks in this package.

tiktoken panics, with an exception that `except Exception` does not catch, when its pattern has to
backtrack over half a million whitespace characters without a line break. Such a run is a piece of
its own, except its last character, which belongs to the text after it. So the run is cut out and
encoded by an engine whose pattern takes everything as one piece. The sum does not change.

The ranks of OpenAI's two vocabularies, read from this package: no network, no cache folder.

A vocabulary is a list of tokens in the order of their ranks: 0, 1, 2 and so on without a gap. So a
file holds the number of tokens (four bytes, big-endian), the length of each (one byte) and their
bytes, compressed with xz. `tools/pack_ranks.py` makes it. A test rebuilds OpenAI's text file from
it byte for byte, and its published SHA-256 proves that the ranks are the same.
"""

import lzma
import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from itertools import accumulate, pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from roocontext.tokens.usage import split_message

if TYPE_CHECKING:
    from tiktoken import Encoding


def read_ranks(name: str) -> dict[bytes, int]:
    """Read the vocabulary's tokens with their ranks."""
    packed = files(__package__).joinpath(f"{name}.xz").read_bytes()
    return {token: rank for rank, token in enumerate(unpack(lzma.decompress(packed)))}


def unpack(plain: bytes) -> list[bytes]:
    """Read the tokens in the order of their ranks."""
    first = 4 + int.from_bytes(plain[:4], "big")
    ends = accumulate(plain[4:first], initial=first)
    return [plain[start:end] for start, end in pairwise(ends)]


_BLANKS: Final = "\t\v\f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""The patterns' whitespace except \\r and \\n; Python's \\s matches more."""

LONGEST_RUN: Final = 50_000
"""Longer runs of blanks are cut out; tiktoken has handled runs eight times as long."""

LONG: Final = 20_000
"""The counts of longer texts are cached."""

_REMEMBERED: Final = 1_000

PER_MESSAGE: Final = 3
"""The tokens that OpenAI's chat format adds to each message besides the role."""

IMAGE_TOKENS: Final = 1_600
"""About the cost of the largest image after the providers have scaled it down."""

_LETTERS = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CAPITALS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

O200K_PATTERN: Final = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}*{_LETTERS}+{_SUFFIX}"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{_CAPITALS}+{_LETTERS}*{_SUFFIX}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K_PATTERN: Final = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


class Vocabulary:
    """Counts the tokens of a text; loaded on first use, once per process."""

    def __init__(self, name: str, pattern: str, *, longest_run: int = LONGEST_RUN) -> None:
        self.name = name
        self.pattern = pattern
        self._longest_run = longest_run
        # With the lookbehind only the first character of a run is tried: no quadratic time.
        self._run = re.compile(f"(?<![{_BLANKS}])[{_BLANKS}]{{{longest_run},}}+")
        self._lock = Lock()
        self._engines: tuple[Encoding, Encoding] | None = None
        self._known: dict[bytes, int] = {}

    def count(self, text: str) -> int:
        """The number of tokens of a text; names of special tokens count as ordinary text."""
        words, blanks = self._engines or self._load()
        if len(text) < min(LONG, self._longest_run):
            return len(words.encode_ordinary(text))
        # By digest: the texts themselves would fill the memory.
        name = sha256(text.encode("utf-8", "surrogatepass")).digest()
        count = self._known.get(name)
        if count is None:
            count = self._long(words, blanks, text)
            # All at once: texts of this length are few, and are only counted again.
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[name] = count
        return count

    def _long(self, words: "Encoding", blanks: "Encoding", text: str) -> int:
        total = start = 0
        for run in self._run.finditer(text):
            end = _piece_end(text, run.end())
            if end:
                total += len(words.encode_ordinary(text[start : run.start()]))
                total += len(blanks.encode_ordinary(text[run.start() : end]))
                start = end
        return total + len(words.encode_ordinary(text[start:]))

    def _load(self) -> "tuple[Encoding, Encoding]":
        # Threads that count at the same time would each load the vocabulary.
        with self._lock:
            if self._engines is None:
                # Not from tiktoken's registry, which would download, nor under its names in it,
                # where a second entry makes every lookup fail.
                from tiktoken import Encoding  # noqa: PLC0415 - a third of a second, once

                ranks = read_ranks(self.name)
                part = set("".join(_BLANKS).encode())
                blank = {token: rank for token, rank in ranks.items() if part.issuperset(token)}
                self._engines = (
                    Encoding(
                        self.name, pat_str=self.pattern, mergeable_ranks=ranks, special_tokens={}
                    ),
                    Encoding(self.name, pat_str="(?s).+", mergeable_ranks=blank, special_tokens={}),
                )
        return self._engines


O200K = Vocabulary("o200k_base", O200K_PATTERN)
CL100K = Vocabulary("cl100k_base", CL100K_PATTERN)


def _piece_end(text: str, end: int) -> int:
    """The end of the piece that a run of blanks forms; 0 if it is not a piece of its own.

    At the end of a text, cl100k_base puts the line breaks before the run into the same piece. No
    token spans a line break and the blanks after it, so cutting there does not change the count.
    """
    if end == len(text):
        return end
    return 0 if text[end] in "\r\n" else end - 1


@dataclass(frozen=True, slots=True)
class Tiktoken:
    """Counts messages with a vocabulary: role, texts and the overhead of the chat format."""

    name: str
    vocabulary: Vocabulary
    percent: int = 100

    @property
    def exact(self) -> bool:
        """True if the texts are counted as the model reads them."""
        return self.percent == 100

    def tokens(self, text: str) -> int:
        """The tokens of a text without a message around it."""
        return -(-self.vocabulary.count(text) * self.percent // 100)

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """The tokens of one message; every image counts as a large one."""
        texts, images = split_message(role, content, format)
        total = PER_MESSAGE + sum(map(self.vocabulary.count, (role, *texts)))
        return -(-total * self.percent // 100) + IMAGE_TOKENS * len(images)
