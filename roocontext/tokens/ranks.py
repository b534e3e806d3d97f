"""The ranks of OpenAI's two vocabularies, read from this package: no network, no cache folder.

A vocabulary is a list of tokens in the order of their ranks: 0, 1, 2 and so on without a gap. So a
file holds the number of tokens (four bytes, big-endian), the length of each (one byte) and their
bytes, compressed with xz. `tools/pack_ranks.py` makes it. A test rebuilds OpenAI's text file from
it byte for byte, and its published SHA-256 proves that the ranks are the same.
"""

import lzma
from importlib.resources import files
from itertools import accumulate, pairwise


def read_ranks(name: str) -> dict[bytes, int]:
    """Read the vocabulary's tokens with their ranks."""
    packed = files(__package__).joinpath(f"{name}.xz").read_bytes()
    return {token: rank for rank, token in enumerate(unpack(lzma.decompress(packed)))}


def unpack(plain: bytes) -> list[bytes]:
    """Read the tokens in the order of their ranks."""
    first = 4 + int.from_bytes(plain[:4], "big")
    ends = accumulate(plain[4:first], initial=first)
    return [plain[start:end] for start, end in pairwise(ends)]
