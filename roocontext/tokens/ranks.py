"""The ranks of OpenAI's two vocabularies, read from this package: no network, no cache folder.

A vocabulary is a list of tokens in the order of their ranks: 0, 1, 2 and so on without a gap. So a
file holds the number of tokens (four bytes, big-endian), the length of each (one byte) and their
bytes, compressed with xz. OpenAI's text file can be rebuilt from it byte for byte, and its
published SHA-256 proves that the ranks are the same.
"""

import lzma
from base64 import b64encode
from importlib.resources import files
from itertools import accumulate, pairwise

SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""The digests of the text files that OpenAI publishes."""


def read_ranks(name: str) -> dict[bytes, int]:
    """Read the vocabulary's tokens with their ranks."""
    packed = files(__package__).joinpath(f"{name}.xz").read_bytes()
    return {token: rank for rank, token in enumerate(unpack(lzma.decompress(packed)))}


def pack(tokens: list[bytes]) -> bytes:
    """Write tokens in the order of their ranks; the result is then compressed."""
    lengths = bytes(map(len, tokens))
    return len(tokens).to_bytes(4, "big") + lengths + b"".join(tokens)


def unpack(plain: bytes) -> list[bytes]:
    """Read what `pack` wrote."""
    first = 4 + int.from_bytes(plain[:4], "big")
    ends = accumulate(plain[4:first], initial=first)
    return [plain[start:end] for start, end in pairwise(ends)]


def rebuilt_text(ranks: dict[bytes, int]) -> bytes:
    """Rebuild OpenAI's text file: a line for each token with its base64 and its rank."""
    return b"".join(b"%b %d\n" % (b64encode(token), rank) for token, rank in ranks.items())
