"""What one message costs in tokens, bytes and images."""

from typing import Any

from roocontext.log.budget import Size
from roocontext.log.counting import BYTES, Counter
from roocontext.tokens.reading import IMAGES


def size_of(counter: Counter, role: str, content: Any, format: str = "anthropic") -> Size:  # noqa: A002 - the log's word
    """What one message costs in each of the three."""
    return Size(
        counter.count(role, content, format),
        BYTES.count(role, content, format),
        IMAGES.count(role, content, format),
    )
