"""Content to text and back, without loss: what cannot come back equal is refused.

The text is ASCII-escaped JSON by the standard library, so that NUL, lone surrogates, key order, big
integers and `1` / `1.0` / `true` are the same on every engine. It is read back once before it is
accepted, which is the whole proof that it is lossless.
"""

import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from roocontext.errors import HistoryCorrupt, InvalidIdentifier, InvalidMessage

MAX_DEPTH = 100
"""How deep content may be nested: far above what models produce, far below what parsers survive."""

MAX_ID_BYTES = 1_000
MIN_INTEGER, MAX_INTEGER = -(1 << 63), (1 << 63) - 1

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), check_circular=False).encode
_decode = msgspec.json.Decoder().decode


def encode(value: Any, path: str = "content") -> str:
    """The text of a value, or InvalidMessage naming the place that cannot be stored."""
    try:
        text = _encode(value)
        lossless = _shallow(text, value) and decode(text) == value
    except (TypeError, ValueError, RecursionError, OverflowError):
        lossless = False
    if lossless:
        return text
    where, why = next(_faults(value, path, 1), (path, "would not come back equal"))
    raise InvalidMessage(f"{where}: {why}.", path=where)


def encode_plain(value: Any, path: str = "content") -> tuple[Any, str]:
    """A value without the models of an SDK, and its text."""
    try:
        return value, encode(value, path)
    except InvalidMessage:
        bare = plain(value)
        return bare, encode(bare, path)


def decode(text: str) -> Any:
    """The value of a text made by `encode`."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, TypeError):  # lone surrogates, or damage
        try:
            return json.loads(text)
        except (ValueError, RecursionError, TypeError):
            raise HistoryCorrupt("What is stored is not JSON.") from None


def decode_all(texts: Sequence[str]) -> list[Any]:
    """The values of many texts; one at a time only where one of them needs it."""
    try:
        return list(map(_decode, texts))
    except (msgspec.DecodeError, UnicodeError, TypeError):
        return [decode(text) for text in texts]


def plain(value: Any) -> Any:
    """A value with the models of an SDK, at any depth, as the plain data that they hold."""
    try:
        return _plain(value)
    except RecursionError:
        raise InvalidMessage(f"It is nested deeper than {MAX_DEPTH} levels.") from None


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    dump = getattr(value, "model_dump", None)
    return value if dump is None else dump(mode="json", exclude_unset=True)


def check_id(name: str, value: object) -> None:
    """Refuse what may not be an id or a title."""
    if not isinstance(value, str):
        raise InvalidIdentifier(f"{name} must be a string, not {type(value).__name__}.", name=name)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidIdentifier(f"{name} holds a lone surrogate.", name=name) from None
    if not 1 <= size <= MAX_ID_BYTES:
        raise InvalidIdentifier(f"{name} has {size:,} bytes.", name=name, size=size)
    if "\0" in value:
        raise InvalidIdentifier(f"{name} holds NUL.", name=name)


def check_integer(name: str, value: object) -> None:
    """Refuse what does not fit a 64-bit integer."""
    if type(value) is not int or not MIN_INTEGER <= value <= MAX_INTEGER:
        kind = type(value).__name__
        raise InvalidMessage(f"{name} must be an integer of 64 bits, not this {kind}.", path=name)


def _shallow(text: str, value: Any) -> bool:
    """Whether the nesting is in bounds; nearly always the brackets alone can tell."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return True
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH + 1:
            return False
        level = [child for item in level for child in _children(item)]
    return True


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.values()]
    return value if isinstance(value, list) else []


def _faults(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Where a value is not JSON. Only walked to explain a refusal."""
    if depth > MAX_DEPTH + 1:
        yield path[:200], f"is nested deeper than {MAX_DEPTH} levels"
    elif isinstance(value, dict):
        for index, (key, item) in enumerate(value.items()):
            if type(key) is not str:
                yield path, f"key {index} is a {type(key).__name__}, not a string"
            yield from _faults(item, f"{path}.<{index}>", depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, "is not a finite number"
    elif value is not None and type(value) not in (str, int, float, bool):
        yield path, f"is a {type(value).__name__}, not JSON"
