"""Numbers and sizes as people read them."""

from collections.abc import Sequence

_UNITS = ("B", "kB", "MB", "GB")


def quantity(count: int, noun: str, plural: str = "") -> str:
    """A number and what it counts: `1 message`, `2,000 messages`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def size(count: int) -> str:
    """A number of bytes: `1.77 kB`."""
    amount, unit = float(count), 0
    # From 999.5 on, a number would be rounded to 1,000 of its unit.
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    digits = f"{amount:.3g}" if unit and amount < 99.95 else f"{amount:.0f}"
    return f"{digits} {_UNITS[unit]}"


def ranges(pairs: Sequence[Sequence[int]], most: int | None = None) -> str:
    """Ranges of seq, all of them or the first ones: `2-4, 7 and 12 more`."""
    shown = [str(lo) if lo == hi else f"{lo}-{hi}" for lo, hi in pairs[:most]]
    left = len(pairs) - len(shown)
    return ", ".join(shown) + (f" and {left:,} more" if left else "")
