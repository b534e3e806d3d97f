"""Statements compiled for a dialect, once per process: opening a store compiles nothing anew."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql import ClauseElement


class Compiled:
    """A statement's text for one dialect, and how to give it its parameters."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self._constants = {k: v for k, v in compiled.params.items() if v is not None}
        order: Sequence[str] | None = getattr(compiled, "positiontup", None)
        self.names: Sequence[str] = order or tuple(compiled.params)
        self._is_named = order is None
        self._pick = itemgetter(*order) if order else tuple
        self._is_one = order is not None and len(order) == 1

    def bind(self, params: Mapping[str, Any]) -> Any:
        """The parameters as the driver takes them."""
        given = {**self._constants, **params} if self._constants else params
        if self._is_named:
            return given
        return (self._pick(given),) if self._is_one else self._pick(given)

    def bind_row(self, row: tuple[Any, ...]) -> Any:
        """The same, given the values in the order of the statement's parameters."""
        return dict(zip(self.names, row, strict=True)) if self._is_named else row


# Statements live at module level, so their number is fixed and nothing here needs to be evicted.
_known: defaultdict[str, dict[ClauseElement, Compiled]] = defaultdict(dict)


def compiler(dialect: Dialect) -> Callable[[ClauseElement], Compiled]:
    """Compiles statements for a dialect, each when it is first run in this process."""
    known = _known[dialect.name]

    def compiled(statement: ClauseElement) -> Compiled:
        found = known.get(statement)
        if found is None:
            found = known[statement] = Compiled(statement, dialect)
        return found

    return compiled
