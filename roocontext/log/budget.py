"""What a request may cost: tokens, and beside them bytes and images, which providers limit too."""

from dataclasses import dataclass
from typing import NamedTuple


class Size(NamedTuple):
    """What something costs in tokens, bytes and images."""

    tokens: int = 0
    bytes: int = 0
    images: int = 0

    def plus(self, other: "Size") -> "Size":
        """Both together."""
        return Size(
            self.tokens + other.tokens, self.bytes + other.bytes, self.images + other.images
        )

    def minus(self, other: "Size") -> "Size":
        """What is left without the other."""
        return Size(
            self.tokens - other.tokens, self.bytes - other.bytes, self.images - other.images
        )


FREE = Size()


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


UNLIMITED = Budget()
