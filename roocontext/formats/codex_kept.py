"""What Codex CLI keeps of the user's messages when a compaction has left nothing but a summary.

The rollout then holds the summary alone. The program finds the user's messages in what came before
and sends them again, as text and within a limit, which each release counts in its own way:

- 0.30 to 0.39: all of them and the summary in one message, without a limit.
- 0.40 to 0.53: the same, but the middle of what the user has written is left out if it is too long.
- 0.55 to 0.58: each in a message of its own, from the newest backwards. Of the one that crosses the
  limit, the middle is left out. Those before it are dropped.
- 0.59 and later: the same, with another way to cut.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_FIRST, _LIMITED, _COUNTED, _APART, _ROUNDED = (0, 30), (0, 40), (0, 48), (0, 54), (0, 59)
"""The releases that send one message, limit it, count its tokens, send several, count by fours."""
_TOKENS = 20_000
_TOKEN = 4
"""How many bytes the program takes for a token."""
_PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking "
    "process. You also have access to the state of the tools that were used by that language "
    "model. Use this to build on the work that has already been done and avoid duplicating work. "
    "Here is the summary produced by the other language model, use the information in this "
    "summary to assist with your own analysis:"
)
_IMAGE_TAG = re.compile(r"<image( name=[^>]*)?>|</image>")


def is_bridged(version: tuple[int, ...]) -> bool:
    """Whether this release puts everything into one message."""
    return _FIRST <= version < _APART


def is_summary(text: str, version: tuple[int, ...]) -> bool:
    """Whether the release knows this text for the summary of an earlier compaction."""
    return not _FIRST <= version < _ROUNDED and text.startswith(f"{_PREFIX}\n")


def text_of_content(content: Any, version: tuple[int, ...]) -> str | None:
    """The text of a user's message; None if the release skips a message without text."""
    parts = content if isinstance(content, list) else []
    parts = [part for part in parts if isinstance(part, dict)]
    is_image = [part.get("type") == "input_image" for part in parts]
    texts = [
        text
        for number, part in enumerate(parts)
        if isinstance(text := part.get("text"), str)
        # The program itself wraps an image into tags.
        and not (any(is_image[max(number - 1, 0) : number + 2]) and _IMAGE_TAG.fullmatch(text))
    ]
    if _FIRST <= version < _COUNTED:
        return "\n".join(filter(None, texts)) or None
    return "".join(texts)


def kept_messages(newest_first: Iterable[str], version: tuple[int, ...]) -> Iterator[str]:
    """What is left of the user's messages, from the newest backwards."""
    unit = 1 if _FIRST <= version < _ROUNDED else _TOKEN
    left = _TOKENS * _TOKEN // unit
    for text in newest_first:
        if not left:
            return
        data = _encoded(text)
        size = -(-len(data) // unit)
        if size > left:
            yield _decoded(
                _cut_at_lines(data, left, _tokens)
                if unit == 1
                else _cut_at_characters(data, left * unit)
            )
            return
        yield text
        left -= size


def bridge(texts: list[str], summary: str, version: tuple[int, ...]) -> str:
    """The one message: what the user has written, and the summary."""
    written = "\n\n".join(texts) or "(none)"
    data = _encoded(written)
    if version >= _LIMITED and len(data) > _TOKENS * _TOKEN:
        count = _fours if version < _COUNTED else _tokens
        written = _decoded(_cut_at_lines(data, _TOKENS * _TOKEN, count))
    return (
        "You were originally given instructions from a user over one or more turns. "
        "Here were the user messages:\n\n"
        f"{written}\n\n"
        f"{_PREFIX}\n\n{summary}"
    )


def _cut_at_lines(data: bytes, limit: int, count: Callable[[bytes], int]) -> bytes:
    """Leave out the middle, from a line's end to a line's start where there are any."""
    whole = removed = count(data)
    for _ in range(5):  # the marker's length depends on the number in it
        marker = _marker(removed)
        room = limit - len(marker)
        if room <= 0:
            return _marker(whole)
        start = _line_end(data, room // 2)
        end = max(start, _line_start(data, len(data) - (room - room // 2)))
        guess, removed = removed, count(data[start:end])
        if removed == guess:
            break
    return data[:start] + marker + b"\n" + data[end:]


def _cut_at_characters(data: bytes, limit: int) -> bytes:
    """Leave out the middle, wherever it begins and ends."""
    start = _boundary(data, limit // 2, -1)
    end = _boundary(data, len(data) - (limit - limit // 2), 1)
    return data[:start] + _marker(-(-(len(data) - limit) // _TOKEN)) + data[end:]


def _line_end(data: bytes, at: int) -> int:
    found = data.rfind(b"\n", 0, at) if _is_boundary(data, at) else -1
    return found + 1 if found >= 0 else _boundary(data, at, -1)


def _line_start(data: bytes, at: int) -> int:
    found = data.find(b"\n", at) if _is_boundary(data, at) else -1
    return found + 1 if found >= 0 else _boundary(data, at, 1)


def _boundary(data: bytes, at: int, step: int) -> int:
    """The nearest place between two characters in this direction."""
    while not _is_boundary(data, at):
        at += step
    return at


def _is_boundary(data: bytes, at: int) -> bool:
    return at in (0, len(data)) or data[at] & 0xC0 != 0x80


def _marker(tokens: int) -> bytes:
    return f"…{tokens} tokens truncated…".encode()


def _tokens(data: bytes) -> int:
    from roocontext.tokens.bpe import O200K  # noqa: PLC0415 - few rollouts need it

    return O200K.count(_decoded(data))


def _fours(data: bytes) -> int:
    return -(-len(data) // _TOKEN)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
