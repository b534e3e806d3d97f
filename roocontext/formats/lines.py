"""Records of a JSONL file that another program may be writing, whatever state it is in."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from roocontext.formats.events import Problem

_decode = msgspec.json.Decoder().decode
_JSON = json.JSONDecoder()


class Line(NamedTuple):
    """A record, the number of its line, and the bytes of the file that hold it."""

    number: int
    record: Any
    start: int
    end: int


def read_lines(
    path: Path,
    problems: list[Problem],
    decode: Callable[[bytes], Any] = _decode,
    *,
    start: int = 0,
    first: int = 1,
) -> Iterator[Line]:
    """The records of a file in order. What is not JSON is reported with its line's number.

    `decode` may read a part of a record only. Where it fails, the whole record is read. A part of
    the file begins at `start`, in the line with the number `first`.
    """
    with path.open("rb") as file:
        file.seek(start)
        for number, text in enumerate(file, first):
            end = start + len(text)
            try:
                record = decode(text)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                if text.strip():
                    yield from _records(path, number, text, start, problems)
            else:
                yield Line(number, record, start, end)
            start = end


def read_records(path: Path, problems: list[Problem]) -> Iterator[tuple[Any, int | None]]:
    """The records of a file with their lines, or the one value of a JSON document."""
    if path.suffix != ".json":
        for line in read_lines(path, problems):
            yield line.record, line.number
        return
    text = path.read_bytes()
    try:
        yield loads(text), None
    except ValueError as error:
        if not _begins_with_a_record(text):
            problems.append(Problem(path, None, str(error), cuts=True))
            return
        for line in read_lines(path, problems):
            yield line.record, line.number


def _begins_with_a_record(text: bytes) -> bool:
    """Whether these are lines, in a file that is named like a document."""
    try:
        return isinstance(loads(text.split(b"\n", 1)[0]), dict)
    except ValueError:
        return False


def read_at(file: BinaryIO, start: int, end: int) -> Any:
    """The record at this place of a file."""
    file.seek(start)
    return loads(file.read(end - start))


def loads(text: bytes) -> Any:
    """A JSON value; ValueError if it is none."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # the standard library also reads lone surrogates, and numbers of any size
    try:
        return json.loads(text.decode("utf-8", "surrogatepass"), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _records(
    path: Path, number: int, text: bytes, start: int, problems: list[Problem]
) -> Iterator[Line]:
    try:
        record = loads(text)
    except ValueError as error:
        why = str(error)
    else:
        yield Line(number, record, start, start + len(text))
        return
    # A program that was stopped between a record and its newline leaves two records on one line.
    try:
        rest = text.decode("utf-8", "surrogatepass")
        place = 0
        while rest[place:].strip():
            place += len(rest[place:]) - len(rest[place:].lstrip())
            record, end = _JSON.raw_decode(rest, place)
            begin = start + len(rest[:place].encode("utf-8", "surrogatepass"))
            size = len(rest[place:end].encode("utf-8", "surrogatepass"))
            if not isinstance(record, dict):
                break
            yield Line(number, record, begin, begin + size)
            place = end
        else:
            return
    except (ValueError, RecursionError):
        pass
    is_cut = not text.endswith(b"\n")
    problems.append(Problem(path, number, "the line is cut off" if is_cut else why, is_cut))
