"""The usage that a provider reports for a call, and the drift of our estimates from it.

The parts of a message that are counted: the texts that the model reads, and the images.

All our own counters read every format in this way. An unknown block is counted as its JSON, which
is more than the model sees. Too high an estimate condenses the context early, while too low a one
makes the provider refuse the request.

What one message costs in tokens, bytes and images.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from roocontext.log.counting import BYTES, Counter, Size
from roocontext.log.encoding import MAX_INTEGER, plain
from roocontext.log.readings import Block, Holds, Piece, pieces, reader, walk
from roocontext.log.values import Value
from roocontext.tokens.javascript import stringify


class Usage(NamedTuple):
    """The tokens of one call: sent, received, and how many of those sent came from a cache.

    `written` of those sent were written to a cache, `written_1h` of these for an hour. `thinking`
    is a part of the output; None if the provider does not report it.
    """

    input: int
    output: int
    cached: int
    written: int = 0
    written_1h: int = 0
    thinking: int | None = None


def usage_tokens(usage: Any) -> Usage | None:
    """Read a usage of Anthropic, OpenAI or Gemini; None if it is none of these.

    It is what the call cost, the provider's own compactions included.
    """
    return _read(usage, last=False)


def last_request(usage: Any) -> Usage | None:
    """The usage of the last request that the model answered in a call: what its context held."""
    return _read(usage, last=True)


def _read(usage: Any, *, last: bool) -> Usage | None:
    given = plain(usage)
    if not isinstance(given, Mapping):
        return None
    # By the fields that each API alone has: recorded usage does not say whose it is.
    if "prompt_tokens" in given:
        return _openai(given, "prompt_tokens", "completion_tokens")
    if "input_tokens_details" in given:
        return _openai(given, "input_tokens", "output_tokens")
    if "input_tokens" in given:
        requests = _iterations(given)
        return _anthropic(_answered(requests)[-1:] if last else requests)
    gemini = {_snake(key): value for key, value in given.items()}
    return _gemini(gemini) if "prompt_token_count" in gemini else None


@dataclass(frozen=True, slots=True)
class Drift(Value):
    """How far the estimates of some calls are from the usage that the provider reported."""

    calls: int
    estimated: int
    reported: int

    @property
    def ratio(self) -> float | None:
        """The factor from estimate to report; None if there is nothing to compare."""
        return self.reported / self.estimated if self.estimated else None

    def exceeds(self, ratio: float) -> bool:
        """Whether estimate and report differ by more than this factor, in either direction."""
        larger, smaller = sorted((self.estimated, self.reported), reverse=True)
        return larger > smaller * ratio


def drift(calls: Iterable[tuple[str, int, int]]) -> dict[str, Drift]:
    """The drift of each model, from (model, estimated, reported) of its calls."""
    read: dict[str, Drift] = {}
    for model, estimated, reported in calls:
        so_far = read.get(model, Drift(0, 0, 0))
        read[model] = Drift(
            so_far.calls + 1, so_far.estimated + estimated, so_far.reported + reported
        )
    return read


def _iterations(given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The requests that a call of Anthropic's consisted of, or the call itself."""
    listed = given.get("iterations")
    found = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return found or [given]


def _answered(requests: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The requests without those that only compacted, if there is another."""
    return [one for one in requests if one.get("type") != "compaction"] or requests


def _anthropic(requests: Sequence[Mapping[str, Any]]) -> Usage:
    """Anthropic's `input_tokens` leaves out the tokens read from and written to a cache."""
    total = Usage(0, 0, 0)
    for given in requests:
        cached = _tokens(given, "cache_read_input_tokens")
        written = _tokens(given, "cache_creation_input_tokens")
        hourly = _inner(given, "cache_creation", "ephemeral_1h_input_tokens") or 0
        total = Usage(
            total.input + _tokens(given, "input_tokens") + written + cached,
            total.output + _tokens(given, "output_tokens"),
            total.cached + cached,
            total.written + written,
            total.written_1h + min(hourly, written),
        )
    return total


def _openai(given: Mapping[str, Any], sent: str, received: str) -> Usage:
    cached = _inner(given, f"{sent}_details", "cached_tokens") or 0
    thinking = _inner(given, f"{received}_details", "reasoning_tokens")
    return Usage(_tokens(given, sent), _tokens(given, received), cached, thinking=thinking)


def _gemini(given: Mapping[str, Any]) -> Usage:
    # Gemini's `totalTokenCount` counts both.
    sent = _tokens(given, "prompt_token_count") + _tokens(given, "tool_use_prompt_token_count")
    thoughts = _tokens(given, "thoughts_token_count")
    received = _tokens(given, "candidates_token_count") + thoughts
    thinking = thoughts if "thoughts_token_count" in given else None
    return Usage(sent, received, _tokens(given, "cached_content_token_count"), thinking=thinking)


def _inner(given: Mapping[str, Any], part: str, key: str) -> int | None:
    """A number inside a part of the usage; None if the provider sent none."""
    details = given.get(part)
    return _tokens(details, key) if isinstance(details, Mapping) and key in details else None


def _tokens(given: Mapping[str, Any], key: str) -> int:
    value = given.get(key)
    return value if type(value) is int and 0 < value <= MAX_INTEGER else 0


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


class ReadMessage(NamedTuple):
    """The texts of a message in order, and its images as Anthropic's blocks."""

    texts: tuple[str, ...]
    images: tuple[Block, ...]


def split_message(role: str, content: Any, format: str) -> ReadMessage:  # noqa: A002 - the log's word
    """Read one message of any format."""
    found = pieces(reader(format).blocks(role, content)[1])
    texts = tuple(text for text in _texts(found) if text)
    return ReadMessage(texts, tuple(_images(found)))


def _texts(found: Iterable[Piece]) -> Iterator[str]:
    for kind, block, text, _ in walk(found):
        if kind is Holds.OUTPUT or (kind is Holds.MEDIA and block["type"] == "image"):
            continue
        if text is not None:
            yield text
            if kind is Holds.CALL:
                yield stringify(block.get("input"))
        elif isinstance(block, dict):  # a bare value inside an output is never sent
            yield stringify(block)


def _images(found: Iterable[Piece]) -> Iterator[Block]:
    for piece in walk(found):
        if piece.kind is Holds.MEDIA and piece.block["type"] == "image":
            yield piece.block


@dataclass(frozen=True, slots=True)
class TextCounter:
    """A counter from a rule for texts; the texts of a message are joined with spaces."""

    name: str
    tokens: Callable[[str], int]
    exact: bool = False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """The tokens of one message by the rule; images count as 0."""
        return self.tokens(" ".join(split_message(role, content, format).texts))


class Images:
    """Counts images, which providers limit by their number."""

    name = "images"
    exact = True

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """How many images the message shows, including those in tool outputs."""
        return len(split_message(role, content, format).images)


IMAGES = Images()


def size_of(counter: Counter, role: str, content: Any, format: str = "anthropic") -> Size:  # noqa: A002 - the log's word
    """What one message costs in each of the three."""
    return Size(
        counter.count(role, content, format),
        BYTES.count(role, content, format),
        IMAGES.count(role, content, format),
    )
