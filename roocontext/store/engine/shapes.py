"""Rows are what their columns say, although SQLite stores any value in any column.

Every row of a query is compared with the types of the table's columns before anything else sees it.
So the code that reads rows need not check them again.
"""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import BigInteger, Boolean, Column, Integer, LargeBinary, Select, Text
from sqlalchemy.sql import ClauseElement

from roocontext.errors import HistoryCorrupt

_TYPES: dict[type[Any], Any] = {
    BigInteger: int,
    Integer: int,
    Boolean: bool | int,  # SQLite has no other
    Text: str,
    LargeBinary: bytes,
}


class _Shape(NamedTuple):
    columns: tuple[tuple[str, Any], ...]
    rows: Any


def checked_rows(statement: ClauseElement, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows of a query, if they are what the columns of its tables may hold."""
    shape = _shape(statement) if rows else None
    if shape is not None:
        try:
            # Converted and thrown away: the fastest way to look at each value of many rows.
            msgspec.convert((rows,), shape.rows, builtin_types=(bytes,))
        except msgspec.ValidationError:
            raise _damage(shape, rows) from None
    return rows


def whole_number(number: Any) -> int:
    """A number that the engine computed from stored integers, which PostgreSQL sums to decimals.

    Where SQLite has anything else among them, a sum is a float, and the greatest is any value.
    """
    if not isinstance(number, int | Decimal):
        raise HistoryCorrupt("A sum or a maximum of stored integers is not an integer.")
    return int(number)


@cache
def _shape(statement: ClauseElement) -> _Shape | None:
    if not isinstance(statement, Select):
        return None
    selected = [(_name(column), _type(column)) for column in statement.selected_columns]
    fields = [(f"c{number}", type_) for number, (_, type_) in enumerate(selected)]
    row = msgspec.defstruct("Row", fields, array_like=True, gc=False)
    # A struct around the list too, because msgspec looks at such a type once only.
    rows = msgspec.defstruct("Rows", [("rows", list[row])], array_like=True, gc=False)  # type: ignore[valid-type]  # made just now
    # msgspec looks at both when they are first used. Two threads that do so at once crash the
    # process: so they are used here, where only this thread has them.
    with suppress(msgspec.ValidationError):
        msgspec.convert(None, rows)
    return _Shape(tuple(selected), rows)


def _name(column: Any) -> str:
    return f"{column.table.name}.{column.name}" if isinstance(column, Column) else ""


def _type(column: Any) -> Any:
    if not isinstance(column, Column):
        return Any  # computed by the engine, of whatever type it computes with
    type_ = _TYPES[type(column.type)]
    return type_ | None if column.nullable else type_


def _damage(shape: _Shape, rows: Sequence[tuple[Any, ...]]) -> HistoryCorrupt:
    """The error for the first value that is not what its column says; it does not quote it."""
    names = [name for name, _ in shape.columns]
    seq = names.index("entries.seq") if "entries.seq" in names else None
    for row in rows:
        for (name, type_), value in zip(shape.columns, row, strict=True):
            if type_ is not Any and not isinstance(value, type_):
                at = None if seq is None else row[seq]
                at = at if isinstance(at, int) else None
                where = "" if at is None else f" in entry {at}"
                what = "NULL" if value is None else f"a value of the type {type(value).__name__}"
                return HistoryCorrupt(f"{name} holds {what}{where}.", seq=at)
    return HistoryCorrupt("A stored row has values of wrong types.")
