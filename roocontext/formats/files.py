"""The files of other programs and the records in them, damaged ones too.

Only regular files are read: a pipe or a device would wait for a writer. Programs and editors on
Windows write UTF-8 with a byte order mark, and UTF-16: both are read as UTF-8. Such a file is held
in memory as a whole.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from datetime import datetime
from errno import EINVAL
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import msgspec

from roocontext.formats.events import Problem
from roocontext.log.readings.blocks import as_dict

NO_FILE: Final = "it is not a regular file"
UNREADABLE: Final = "it cannot be read"
EMPTY_FILE: Final = "the file is empty"
SQLITE: Final = b"SQLite format 3\0"
"""The first bytes of a database."""
_MARKS: Final = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_OPENINGS: Final = b"{[ \t\r\n"
"""The first characters of JSON. Without a mark, the NUL next to one says which UTF-16 it is."""


def opened(path: Path, buffering: int = -1) -> BinaryIO:
    """A file as UTF-8; OSError if it is not a regular one."""
    file = open(path, "rb", buffering, opener=_open_regular)  # noqa: SIM115 - the caller closes it
    try:
        mark, encoding = _encoding(file.read(3))
        file.seek(mark)
        if encoding is None:
            return file
        data = file.read()
    except BaseException:
        file.close()
        raise
    file.close()
    if encoding != "utf-8":
        whole = data[: len(data) & ~1]  # a program may be writing the last character
        data = whole.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
    return BytesIO(data)


def read_bytes(path: Path) -> bytes:
    """All of a file as UTF-8."""
    with opened(path) as file:
        return file.read()


def _open_regular(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise OSError(EINVAL, NO_FILE, path)
    return handle


def _encoding(begin: bytes) -> tuple[int, str | None]:
    """The length of the byte order mark, and the encoding unless it is plain UTF-8."""
    for mark, encoding in _MARKS.items():
        if begin.startswith(mark):
            return len(mark), encoding
    if len(begin) > 1 and begin[0] in _OPENINGS and not begin[1]:
        return 0, "utf-16-le"
    return 0, "utf-16-be" if len(begin) > 1 and not begin[0] and begin[1] in _OPENINGS else None


_decode = msgspec.json.Decoder().decode
_JSON = json.JSONDecoder()
_LETTERS = re.compile(r"[^A-Za-z]+")


class SourceLine(NamedTuple):
    """A record, the number of its line, and the bytes of the file that hold it."""

    number: int
    record: Any
    start: int
    end: int


def read_lines(path: Path, problems: list[Problem] | None) -> Iterator[SourceLine]:
    """The records of a file in order. Lines that are not JSON are reported.

    Without `problems`, nothing is reported.
    """
    start = 0
    with opened(path) as file:
        for number, text in enumerate(file, 1):
            try:
                record = loads(text)
            except ValueError as error:
                end = 0
                for record, begin, end in _objects(text):
                    yield SourceLine(number, record, start + begin, start + end)
                if text[end:].strip():
                    is_cut = not text.endswith(b"\n")
                    what = "the line is cut off" if is_cut else str(error)
                    report(problems, Problem(path, number, what, is_cut))
            else:
                report_repeated(text, path, number, problems)
                yield SourceLine(number, record, start, start + len(text))
            start += len(text)


def _objects(text: bytes) -> Iterator[tuple[dict[str, Any], int, int]]:
    """The objects at the beginning of a line, and where each begins and ends.

    A program that was stopped between a record and its newline leaves two records on one line.
    """
    place = 0
    try:
        while rest := text[place:].lstrip():
            begin = len(text) - len(rest)
            words = rest.decode("utf-8", "surrogatepass")
            record, size = _JSON.raw_decode(words)
            if not isinstance(record, dict):
                return
            place = begin + len(words[:size].encode("utf-8", "surrogatepass"))
            yield record, begin, place
    except (ValueError, RecursionError):
        return


def report(problems: list[Problem] | None, problem: Problem) -> None:
    """Report a problem once, although a file may be read twice; without a list, do not."""
    if problems is not None and problem not in problems:
        problems.append(problem)


def report_repeated(
    text: bytes, path: Path, line: int | None, problems: list[Problem] | None
) -> None:
    """Report that an object has a name twice: the last value counts, as in most programs."""
    if problems is None:
        return
    try:
        _UNIQUE.decode(text.decode("utf-8", "surrogatepass"))
    except KeyError:
        what = "an object has the same name twice: the last value was taken"
        report(problems, Problem(path, line, what))
    except (ValueError, RecursionError):
        pass  # it is not JSON, or the store refuses it later


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise KeyError


_UNIQUE = json.JSONDecoder(object_pairs_hook=_refuse_repeated)


def read_records(path: Path, problems: list[Problem] | None) -> Iterator[tuple[Any, int | None]]:
    """The records of a file with their lines, or the one value of a JSON document."""
    if path.suffix != ".json":
        for line in read_lines(path, problems):
            yield line.record, line.number
        return
    text = read_bytes(path)
    try:
        value = loads(text)
    except ValueError as error:
        if not _begins_with_a_record(text):
            report(problems, Problem(path, None, str(error), cuts=True))
            return
        for line in read_lines(path, problems):
            yield line.record, line.number
    else:
        report_repeated(text, path, None, problems)
        yield value, None


def contents_of(folder: Path, problems: list[Problem]) -> list[Path]:
    """The contents of a folder, if it exists. Not by a pattern, which skips closed folders."""
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        report(problems, Problem(folder, None, error.strerror or UNREADABLE, cuts=True))
    return []


def read_document(path: Path, problems: list[Problem], *, cuts: bool = False) -> Any:
    """The value of a JSON document; None if there is no file, or an unreadable one: it is reported.

    With `cuts`, the session must not be taken for shorter than it was.
    """
    try:
        text = read_bytes(path)
        value = loads(text)
    except FileNotFoundError:
        return None
    except OSError as error:
        report(problems, Problem(path, None, error.strerror or UNREADABLE, cuts))
        return None
    except ValueError as error:
        report(problems, Problem(path, None, str(error) if text.strip() else EMPTY_FILE, cuts))
        return None
    report_repeated(text, path, None, problems)
    return value


def read_object(path: Path, problems: list[Problem], *, cuts: bool = False) -> dict[str, Any]:
    """The object that a JSON document holds; an empty one if it holds none."""
    return as_dict(read_document(path, problems, cuts=cuts))


def _begins_with_a_record(text: bytes) -> bool:
    """True if a file that is named like a document holds lines."""
    try:
        return isinstance(loads(text.split(b"\n", 1)[0]), dict)
    except ValueError:
        return False


def read_at(file: BinaryIO, start: int, end: int) -> Any:
    """The record at this place of a file."""
    file.seek(start)
    return loads(file.read(end - start))


def loads(text: bytes) -> Any:
    """A JSON value; ValueError if the text is not JSON."""
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


def non_empty(value: Any) -> str | None:
    """A string that is not empty."""
    return value if isinstance(value, str) and value else None


def list_at(record: Mapping[str, Any], field: str) -> list[Any]:
    """A field that is a list; an empty one if it is none."""
    value = record.get(field)
    return value if isinstance(value, list) else []


def name(value: Any) -> str | None:
    """An id that can distinguish records: all that read REDACTED are the same."""
    return value if isinstance(value, str) and value and not is_removed(value) else None


def is_removed(value: Any) -> bool:
    """True if an id was replaced before the record was published."""
    return isinstance(value, str) and "REDACTED" in value and _LETTERS.sub("", value) == "REDACTED"


def iso_ms(value: Any) -> int | None:
    """An ISO-8601 time in milliseconds since the epoch; None if the value is not a time."""
    try:
        return int(datetime.fromisoformat(value).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


def whole_ms(value: Any) -> int | None:
    """Milliseconds since the epoch; None if the value is not such a number."""
    return value if type(value) is int and abs(value) < 1 << 62 else None
