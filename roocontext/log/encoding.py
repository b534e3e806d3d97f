"""Content to text and back, without loss: what cannot come back equal is refused.

The text is ASCII-escaped JSON by the standard library, so that NUL, lone surrogates, key order, big
integers and `1` / `1.0` / `true` are the same on every engine. It is read back once before it is
accepted, which is the whole proof that it is lossless.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from roocontext.errors import HistoryCorrupt, InvalidIdentifier, InvalidMessage

MAX_DEPTH = 500
"""The most levels of lists and objects: Python's own JSON fails at about 1,000."""

_HOLDERS = (dict, list)

MAX_ID_BYTES = 1_000
MAX_MODEL = 200
MIN_INTEGER, MAX_INTEGER = -(1 << 63), (1 << 63) - 1

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":"), check_circular=False).encode
_decode = msgspec.json.Decoder().decode


_PATH = 80
"""How many characters of a path inside a value are shown."""


def encode(value: Any, path: str = "content") -> str:
    """The text of a value, or InvalidMessage with the path of the part that cannot be stored."""
    why = "would not come back equal"
    try:
        # The standard library's encoder, because msgspec's writes UTF-8, which has no lone
        # surrogates, and limits integers to 64 bits.
        text = _encode(value)
        # The comparison finds what JSON changes: tuples, keys that are numbers, subclasses.
        if _shallow(value) and _loaded(text) == value:
            return text
    except (TypeError, ValueError, OverflowError):
        pass
    except RecursionError:
        why = "needs more of Python's call stack than is left here"
    where, why = _fault(value, path) or (path, why)
    raise InvalidMessage(f"{where}: {why}.", path=where)


def encode_plain(value: Any, path: str = "content") -> tuple[Any, str]:
    """A value without the models of an SDK, and its text."""
    try:
        # Most values have no models: these are only copied if the first attempt fails.
        return value, encode(value, path)
    except InvalidMessage:
        bare = plain(value, path)
        return bare, encode(bare, path)


def decode(text: str) -> Any:
    """The value of a text made by `encode`."""
    try:
        return _loaded(text)
    except RecursionError:
        raise HistoryCorrupt("What is stored is nested too deeply to be read.") from None
    except (ValueError, TypeError):  # TypeError: the column holds no text
        raise HistoryCorrupt("What is stored is not JSON.") from None


def decode_all(texts: Sequence[str]) -> list[Any]:
    """The values of many texts."""
    try:
        # msgspec decodes several times as fast as the standard library, and refuses lone
        # surrogates.
        return list(map(_decode, texts))
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError):
        return [decode(text) for text in texts]


def plain(value: Any, path: str = "content") -> Any:
    """Copy a value, with the models of an SDK, at any depth, as the plain data that they hold."""
    root = [value]
    # A stack of its own: Python's would end at half of the depth that is allowed.
    todo: list[tuple[Any, Any, int]] = [(root, 0, 1)]
    while todo:
        holder, key, depth = todo.pop()
        if depth > MAX_DEPTH + 1:
            where, why = _fault(root[0], path, lambda _: None) or (path, "is nested too deeply")
            raise InvalidMessage(f"{where}: {why}.", path=where)
        item = holder[key]
        if isinstance(item, list):
            holder[key] = copy = list(item)
            todo += [(copy, index, depth + 1) for index in range(len(copy))]
        elif isinstance(item, dict):
            holder[key] = fields = dict(item)
            todo += [(fields, name, depth + 1) for name in fields]
        elif (dump := getattr(item, "model_dump", None)) is not None:
            holder[key] = _dumped(item, dump)
    return root[0]


def _dumped(model: Any, dump: Callable[..., Any]) -> Any:
    try:
        # An alias is the name on the wire; in Python, google-genai has other names for the same.
        # A kept message of a compaction is not of the types that OpenAI's SDK declares for it.
        return dump(mode="json", exclude_unset=True, by_alias=True, warnings=False)
    except (ValueError, RecursionError):
        name = type(model).__name__
        raise InvalidMessage(f"A {name} cannot be dumped as JSON by its own model_dump.") from None


def _loaded(text: str) -> Any:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError):  # lone surrogates, or damage
        return json.loads(text)


def whole(text: str, *, lone: str = "replace") -> str:
    """Join adjacent surrogates to characters; a lone one is replaced, or passed on.

    A text without surrogates is returned as the same object.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", lone)
    return text


def check_id(name: str, value: object) -> None:
    """Refuse a value that may not be an id or a title."""
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


def check_model(value: object) -> None:
    """Refuse a value that may not be a model's name."""
    check_id("model", value)
    check_model_size(str(value))


def check_model_size(model: str) -> None:
    """Refuse a name that is too long: names are shortened word by word, and real ones are short."""
    if not isinstance(model, str):
        raise InvalidIdentifier(
            f"model must be a string, not {type(model).__name__}.", name="model"
        )
    if len(model) > MAX_MODEL:
        raise InvalidIdentifier(
            f"model has {len(model):,} characters: at most {MAX_MODEL} are allowed.",
            advice=f"Use at most {MAX_MODEL} characters of UTF-8 without NUL.",
            name="model",
            size=len(model),
        )


def check_integer(name: str, value: object) -> None:
    """Refuse a value that is not an integer of 64 bits."""
    if type(value) is not int or not MIN_INTEGER <= value <= MAX_INTEGER:
        kind = type(value).__name__
        raise InvalidMessage(f"{name} must be an integer of 64 bits, not this {kind}.", path=name)


def _shallow(value: Any) -> bool:
    """True if the nesting is within the limit."""
    level, depth = [value] if isinstance(value, _HOLDERS) else [], 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            return not any(level)
        # Only lists and objects are looked into: a long text costs nothing here.
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, _HOLDERS)
        ]
    return True


def _odd(value: Any) -> str | None:
    if isinstance(value, dict):
        odd = ((i, type(key).__name__) for i, key in enumerate(value) if type(key) is not str)
        return next((f"key {i} is of the type {kind}, not a string" for i, kind in odd), None)
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if value is None or isinstance(value, list) or type(value) in (str, int, float, bool):
        return None
    return f"is a {type(value).__name__}, not JSON"


def _fault(
    value: Any, path: str, odd: Callable[[Any], str | None] = _odd
) -> tuple[str, str] | None:
    """The path of a part that is too deep or `odd`, and why. Only used to explain a refusal."""
    todo = [(value, path, 1)]
    while todo:
        item, where, depth = todo.pop()
        if depth > MAX_DEPTH + 1:
            return _shortened(where), f"is nested deeper than {MAX_DEPTH} levels"
        if why := odd(item):
            return _shortened(where), why
        # Only the beginning of a path is shown, and those of a deep value would fill the memory.
        inside = [(child, f"{where}{step}"[:200], depth + 1) for step, child in _steps(item)]
        todo += reversed(inside)
    return None


def _shortened(path: str) -> str:
    """A path, or its first steps if it is long."""
    at = max(path.rfind(sign, 0, _PATH) for sign in ".[")
    return path if len(path) <= _PATH else f"{path[:at]}..."


def _steps(value: Any) -> list[tuple[str, Any]]:
    """The values in an object or a list, each with its step of a path."""
    if isinstance(value, dict):
        return [(f".<{index}>", child) for index, child in enumerate(value.values())]
    return [(f"[{index}]", it) for index, it in enumerate(value)] if isinstance(value, list) else []
