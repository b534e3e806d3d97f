"""What a request may cost: tokens, and beside them bytes and images, which providers limit too."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from roocontext.log.counting import BYTES, Counter
from roocontext.tokens.reading import IMAGES


class Size(NamedTuple):
    """What something costs in each of the three."""

    tokens: int = 0
    bytes: int = 0
    images: int = 0

    def plus(self, other: "Size") -> "Size":
        """Both together."""
        return Size(
            self.tokens + other.tokens, self.bytes + other.bytes, self.images + other.images
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that may be sent; None is no limit."""

    tokens: int | None = None
    bytes: int | None = None
    images: int | None = None

    def exceeded_by(self, size: Size) -> dict[str, int]:
        """By how much, for each limit that is exceeded; empty when all are kept, equal included."""
        limits = {"tokens": self.tokens, "bytes": self.bytes, "images": self.images}
        over = {
            name: getattr(size, name) - limit for name, limit in limits.items() if limit is not None
        }
        return {name: excess for name, excess in over.items() if excess > 0}


def size_of(counter: Counter, role: str, content: Any, format: str = "anthropic") -> Size:  # noqa: A002 - the log's word
    """What one message costs in each of the three."""
    return Size(
        counter.count(role, content, format),
        BYTES.count(role, content, format),
        IMAGES.count(role, content, format),
    )
