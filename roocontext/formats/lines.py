"""Records of a JSONL file that another program may be writing, whatever state it is in."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from roocontext.formats.events import Problem
from roocontext.formats.source_files import opened, read_bytes

_decode = msgspec.json.Decoder().decode
_JSON = json.JSONDecoder()


class SourceLine(NamedTuple):
    """A record, the number of its line, and the bytes of the file that hold it."""

    number: int
    record: Any
    start: int
    end: int


class _RepeatedError(Exception):
    """An object has a name twice."""


def read_lines(
    path: Path,
    problems: list[Problem] | None,
    decode: Callable[[bytes], Any] = _decode,
    *,
    start: int = 0,
    first: int = 1,
) -> Iterator[SourceLine]:
    """The records of a file in order. What is not JSON is reported with its line's number.

    Without `problems`, nothing is reported. `decode` may read a part of a record only. Where it
    fails, the whole record is read. A part of the file begins at `start`, in the line with the
    number `first`.
    """
    with opened(path) as file:
        file.seek(start)
        for number, text in enumerate(file, first):
            end = start + len(text)
            try:
                record = decode(text)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                if text.strip():
                    yield from _records(path, number, text, start, problems)
            else:
                report_repeated(text, path, number, problems)
                yield SourceLine(number, record, start, end)
            start = end


def report_repeated(
    text: bytes, path: Path, line: int | None, problems: list[Problem] | None
) -> None:
    """Report that an object has a name twice: the last value counts, as in most programs."""
    if problems is None:
        return
    try:
        _UNIQUE.decode(text.decode("utf-8", "surrogatepass"))
    except _RepeatedError:
        problem = Problem(path, line, "an object has the same name twice: the last value was taken")
        problems += [] if problem in problems else [problem]  # a file may be read twice
    except (ValueError, RecursionError):
        pass  # it is not JSON, or the store says what is wrong with it


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _RepeatedError


_UNIQUE = json.JSONDecoder(object_pairs_hook=_once)


def read_records(path: Path, problems: list[Problem] | None) -> Iterator[tuple[Any, int | None]]:
    """The records of a file with their lines, or the one value of a JSON document."""
    if path.suffix != ".json":
        for line in read_lines(path, problems):
            yield line.record, line.number
        return
    text = read_bytes(path)
    try:
        found = loads(text)
    except ValueError as error:
        if not _begins_with_a_record(text):
            if problems is not None:
                problems.append(Problem(path, None, str(error), cuts=True))
            return
        for line in read_lines(path, problems):
            yield line.record, line.number
    else:
        report_repeated(text, path, None, problems)
        yield found, None


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
    except ValueError as error:
        if not str(error).startswith("Exceeds the limit"):
            raise
        raise ValueError("a number in it has too many digits") from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _records(
    path: Path, number: int, text: bytes, start: int, problems: list[Problem] | None
) -> Iterator[SourceLine]:
    try:
        record = loads(text)
    except ValueError as error:
        why = str(error)
    else:
        report_repeated(text, path, number, problems)
        yield SourceLine(number, record, start, start + len(text))
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
            yield SourceLine(number, record, begin, begin + size)
            place = end
        else:
            return
    except (ValueError, RecursionError):
        pass
    is_cut = not text.endswith(b"\n")
    if problems is not None:
        problems.append(Problem(path, number, "the line is cut off" if is_cut else why, is_cut))
