"""Exact counts for OpenAI's vocabularies: tiktoken's engine on the ranks that we ship.

tiktoken panics, with an exception that `except Exception` does not catch, when its pattern has to
step back over half a million whitespace characters that no line break ends. Such a run is a piece
of its own (but for its last character, which belongs to what follows), so it is cut out and given
to an engine whose pattern takes everything as one piece: the sum stays what it would have been.

A long text is counted in stretches, between which an interrupt is heard. Between two pieces a text
may be parted where it is known that the pattern parts it. Within a long run of one kind of
characters, which is one piece, a stretch repeats the last tokens of the one before. Where the first
of these comes out again, they may be joined there: a token goes on to its neighbours only by what
merges with it, and two tokens that stand beside each other once do not merge.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from roocontext.tokens.ranks import read_ranks
from roocontext.tokens.reading import read

if TYPE_CHECKING:
    from tiktoken import Encoding

_BLANKS: Final = "\t\v\f \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""The patterns' whitespace but for the two line breaks they know; Python's \\s has more."""

LONGEST_RUN: Final = 50_000
"""Longer runs of blanks are cut out; tiktoken was seen to bear eight times as many."""

LONG: Final = 20_000
"""Longer texts are counted in stretches, and their counts are remembered."""

_STRETCH: Final = 65_536
_WINDOW: Final = 4_096
"""A run is looked for, and parted, in windows of this size: it is where tiktoken is fastest."""

_TAIL: Final = 8
"""How many tokens a stretch repeats. All of them together are shorter than a window."""

_REMEMBERED: Final = 1_000

_RUN: Final = re.compile(r"[a-z]+|[A-Z]+|[!-.:-@\[-`{-~]+| +|\t+")
"""What neither pattern parts but near its ends. A slash may belong to the line breaks before it."""

_PARTED: Final = re.compile(
    r"\S(?=[ \t])|[A-Za-z0-9](?=[\r\n])|[0-9](?=[A-Za-z])|[A-Za-z](?=[0-9])"
    "|[\u3041-\u3096\u4e00-\u9fff](?=[\u3000-\u3002\uff01\uff0c\uff1f])"
)
"""What both patterns part behind its character, whatever follows."""

PER_MESSAGE: Final = 3
"""What OpenAI's chat format adds to each message beside the role."""

IMAGE: Final = 1_600
"""About what the largest image costs after the providers scaled it down."""

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
    """Counts the tokens of a text; loaded when first used, once in a process."""

    def __init__(self, name: str, pattern: str, *, longest_run: int = LONGEST_RUN) -> None:
        self.name = name
        self.pattern = pattern
        self._longest_run = longest_run
        # The lookbehind lets a run be tried at its first character only: no quadratic time.
        self._run = re.compile(f"(?<![{_BLANKS}])[{_BLANKS}]{{{longest_run},}}+")
        self._lock = Lock()
        self._engines: tuple[Encoding, Encoding] | None = None
        self._known: dict[bytes, int] = {}

    def count(self, text: str) -> int:
        """How many tokens the text has; names of special tokens are text like any other."""
        words, blanks = self._engines or self._load()
        if len(text) < min(LONG, self._longest_run):
            return len(words.encode_ordinary(text))
        name = sha256(text.encode("utf-8", "surrogatepass")).digest()
        count = self._known.get(name)
        if count is None:
            count = self._long(words, blanks, text)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[name] = count
        return count

    def _long(self, words: "Encoding", blanks: "Encoding", text: str) -> int:
        total = start = 0
        for run in self._run.finditer(text):
            end = _piece_end(text, run.end())
            if end:
                total += _in_stretches(words, text[start : run.start()])
                total += _in_stretches(blanks, text[run.start() : end])
                start = end
        return total + _in_stretches(words, text[start:])

    def _load(self) -> "tuple[Encoding, Encoding]":
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
    """Where the piece ends that a run of blanks is; 0 when it is no piece of its own.

    At the end of a text cl100k_base takes the line breaks before the run into the same piece, but
    no token goes from its last line break on into blanks, so that cutting there changes no count.
    """
    if end == len(text):
        return end
    return 0 if text[end] in "\r\n" else end - 1


def _in_stretches(engine: "Encoding", text: str) -> int:
    """How many tokens the text has, counted bit by bit."""
    last: tuple[str, list[int]] = ("", [])
    # Where a stretch may begin, how many tokens are before it, and which token it must begin with.
    begins: list[tuple[int, int, int | None]] = [(0, 0, None)]
    count = 0
    for end, within in _ends(text):
        while True:
            start, before, first = begins[-1]
            stretch = text[start:end]
            if stretch != last[0]:  # the same again and again is the commonest of long runs
                last = (stretch, engine.encode_ordinary(stretch))
            tokens = last[1]
            if first is None or tokens[0] == first:
                break
            begins.pop()
        count = before + len(tokens)
        if within:
            repeated = sum(map(len, map(engine.decode_single_token_bytes, tokens[-_TAIL:])))
            begins.append((end - repeated, count - _TAIL, tokens[-_TAIL]))
        else:
            begins = [(end, count, None)]
    return count


def _ends(text: str) -> Iterator[tuple[int, bool]]:
    """Where stretches of the text end, and whether that is within a piece."""
    last = 0
    for start in range(0, len(text) - _WINDOW, _WINDOW):
        end = start + _WINDOW
        if _RUN.fullmatch(text, start, end):
            yield end, True
            last = end
        elif end - last >= _STRETCH and (parted := _PARTED.search(text, start, end)):
            yield parted.end(), False
            last = parted.end()
    yield len(text), False


@dataclass(frozen=True, slots=True)
class Tiktoken:
    """Counts messages by a vocabulary: the role, the texts, and what the chat format adds."""

    name: str
    vocabulary: Vocabulary
    percent: int = 100

    @property
    def exact(self) -> bool:
        """Whether the texts are counted as the model reads them."""
        return self.percent == 100

    def tokens(self, text: str) -> int:
        """What a text costs, without a message around it."""
        return -(-self.vocabulary.count(text) * self.percent // 100)

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """What one message costs; an image is taken for a large one."""
        texts, images = read(role, content, format)
        total = PER_MESSAGE + sum(map(self.vocabulary.count, (role, *texts)))
        return -(-total * self.percent // 100) + IMAGE * len(images)
