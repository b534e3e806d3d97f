"""The usage that a provider reports for a call, and the parts of a message that are counted.

Our own counters read every format in the same way: the texts that the model reads, and the images.
An unknown block is counted as its JSON, which is more than the model sees: too high an estimate
condenses the context early, too low an estimate makes the provider refuse the request.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from roocontext.log.compactions import iterations_of
from roocontext.log.counting import BYTES, Counter, Size
from roocontext.log.encoding import MAX_INTEGER, plain
from roocontext.log.readings import Block, Holds, Piece, pieces, reader, walk
from roocontext.log.values import Value
from roocontext.tokens.javascript import stringify


class Usage(NamedTuple):
    """The tokens of one call: `input` was sent, and `output` received.

    `cached` of the input was read from a cache, and `written` was written to one, `written_1h` of
    that for an hour. `thinking` is a part of the output; None if the provider does not report it.
    """

    input: int
    output: int
    cached: int
    written: int = 0
    written_1h: int = 0
    thinking: int | None = None


def usage_tokens(usage: Any) -> Usage | None:
    """Read a usage of Anthropic, OpenAI, Gemini or Bedrock; None if it is none of these.

    It is the cost of the call, with that of the provider's own compactions.
    """
    return _read(usage, last=False)


def last_request(usage: Any) -> Usage | None:
    """Read the usage of the last request that the model answered in a call: its whole context."""
    return _read(usage, last=True)


def _read(usage: Any, *, last: bool) -> Usage | None:
    fields = plain(usage)
    if not isinstance(fields, Mapping):
        return None
    # By the fields that only one API has: recorded usage does not name its provider.
    if "prompt_tokens" in fields:
        return _openai(fields, "prompt_tokens", "completion_tokens")
    if "input_tokens_details" in fields:
        return _openai(fields, "input_tokens", "output_tokens")
    if "input_tokens" in fields:
        requests = iterations_of(fields) or [fields]
        if last:  # those that only compacted do not count, if there is another
            answered = [request for request in requests if request.get("type") != "compaction"]
            requests = (answered or requests)[-1:]
        return _anthropic(requests)
    if "inputTokens" in fields:
        return _converse(fields)
    gemini = {_snake(str(key)): value for key, value in fields.items()}
    return _gemini(gemini) if "prompt_token_count" in gemini else None


@dataclass(frozen=True, slots=True)
class Drift(Value):
    """The difference between the estimates of some calls and the provider's reports."""

    calls: int
    estimated: int
    reported: int

    @property
    def ratio(self) -> float | None:
        """The factor from estimate to report; None if there is nothing to compare."""
        return self.reported / self.estimated if self.estimated else None

    def exceeds(self, ratio: float) -> bool:
        """True if estimate and report differ by more than this factor, in either direction."""
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


def _anthropic(requests: Sequence[Mapping[str, Any]]) -> Usage:
    """Anthropic's `input_tokens` leaves out the tokens read from and written to a cache."""
    total = Usage(0, 0, 0)
    for fields in requests:
        cached = _tokens(fields, "cache_read_input_tokens")
        written = _tokens(fields, "cache_creation_input_tokens")
        hourly = _inner(fields, "cache_creation", "ephemeral_1h_input_tokens") or 0
        thinking = _inner(fields, "output_tokens_details", "thinking_tokens")
        total = Usage(
            total.input + _tokens(fields, "input_tokens") + written + cached,
            total.output + _tokens(fields, "output_tokens"),
            total.cached + cached,
            total.written + written,
            total.written_1h + min(hourly, written),
            total.thinking if thinking is None else (total.thinking or 0) + thinking,
        )
    return total


def _openai(fields: Mapping[str, Any], sent: str, received: str) -> Usage:
    cached = _inner(fields, f"{sent}_details", "cached_tokens")
    if cached is None:  # DeepSeek and Moonshot report it elsewhere
        cached = _tokens(fields, "prompt_cache_hit_tokens") or _tokens(fields, "cached_tokens")
    written = _inner(fields, f"{sent}_details", "cache_write_tokens") or 0
    thinking = _inner(fields, f"{received}_details", "reasoning_tokens")
    sums = _tokens(fields, sent), _tokens(fields, received)
    return Usage(*sums, cached, written, thinking=thinking)


def _converse(fields: Mapping[str, Any]) -> Usage:
    """Bedrock's `inputTokens` leaves out the tokens read from and written to a cache."""
    cached = _tokens(fields, "cacheReadInputTokens")
    written = _tokens(fields, "cacheWriteInputTokens")
    sent = _tokens(fields, "inputTokens") + cached + written
    return Usage(sent, _tokens(fields, "outputTokens"), cached, written)


def _gemini(fields: Mapping[str, Any]) -> Usage:
    # Gemini's `totalTokenCount` counts both.
    sent = _tokens(fields, "prompt_token_count") + _tokens(fields, "tool_use_prompt_token_count")
    thoughts = _tokens(fields, "thoughts_token_count")
    received = _tokens(fields, "candidates_token_count") + thoughts
    thinking = thoughts if "thoughts_token_count" in fields else None
    return Usage(sent, received, _tokens(fields, "cached_content_token_count"), thinking=thinking)


def _inner(fields: Mapping[str, Any], part: str, key: str) -> int | None:
    """A number inside a part of the usage; None if the provider sent none."""
    details = fields.get(part)
    return _tokens(details, key) if isinstance(details, Mapping) and key in details else None


def _tokens(fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key)
    return value if type(value) is int and 0 < value <= MAX_INTEGER else 0


def _snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


class ReadMessage(NamedTuple):
    """The texts of a message in order, and its images as Anthropic's blocks."""

    texts: tuple[str, ...]
    images: tuple[Block, ...]


def split_message(role: str, content: Any, format: str) -> ReadMessage:  # noqa: A002 - the log's word
    """Read one message of any format."""
    message = pieces(reader(format).blocks(role, content)[1])
    texts = tuple(text for text in _texts(message) if text)
    return ReadMessage(texts, tuple(_images(message)))


def _texts(message: Iterable[Piece]) -> Iterator[str]:
    for kind, block, text, _ in walk(message):
        if kind is Holds.OUTPUT or (kind is Holds.MEDIA and block["type"] == "image"):
            continue
        if kind is Holds.MEDIA and (data := _inline_document(block)):
            # A page of a PDF has about 50 KB and 2,000 tokens.
            yield data[: len(data) // _OF_A_DOCUMENT]
        elif text is not None:
            yield text
            if kind is Holds.CALL:
                yield stringify(block.get("input"))
        elif isinstance(block, dict):  # a bare value inside an output is never sent
            yield stringify(block)


_OF_A_DOCUMENT = 16
"""The part of a document's base64 that has about as many tokens as its pages."""


def _inline_document(block: Block) -> str:
    source = block.get("source") if block["type"] == "document" else None
    data = source.get("data") if isinstance(source, dict) else None
    is_base64 = isinstance(source, dict) and source.get("type") == "base64"
    return data if is_base64 and isinstance(data, str) else ""


def _images(message: Iterable[Piece]) -> Iterator[Block]:
    for piece in walk(message):
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
    counts_tokens = False

    def count(self, role: str, content: Any, format: str) -> int:  # noqa: A002 - the log's word
        """The number of images in the message, including those in tool outputs."""
        return len(split_message(role, content, format).images)


IMAGES = Images()


def size_of(counter: Counter, role: str, content: Any, format: str = "anthropic") -> Size:  # noqa: A002 - the log's word
    """The cost of one message in tokens, bytes and images."""
    return Size(
        counter.count(role, content, format),
        BYTES.count(role, content, format),
        IMAGES.count(role, content, format),
    )
