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
        self.names: Sequence[str] = getattr(compiled, "positiontup", None) or ()
        self._pick = itemgetter(*self.names) if self.names else tuple
        self._is_one = len(self.names) == 1

    def bind(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        """The parameters as the driver takes them."""
        given = {**self._constants, **params} if self._constants else params
        return (self._pick(given),) if self._is_one else self._pick(given)


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
