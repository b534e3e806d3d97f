"""Statements compiled for a dialect, once per process: opening a store compiles nothing anew."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache, partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

from sqlalchemy import Boolean, Executable, Select, Text, bindparam, select
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.sql.util import surface_selectables
from sqlalchemy.types import NullType, TypeEngine

from roocontext.store.engine.schema import facts, sessions

_NUMBER = re.compile(r"\$(\d+)")

AStatement = TypeVar("AStatement", bound=Executable)

_OWNER = "of_owner"


class ScopeShape(NamedTuple):
    """The parts of a scope that change the statements."""

    has_owner: bool
    facts: int


class StoreScope:
    """The sessions that a store shows: all, or those of an owner, or with these indexed strings."""

    def __repr__(self) -> str:
        return f"StoreScope({', '.join(self.params)})"

    def __init__(self, owner: str | None = None, where: Sequence[tuple[str, str]] = ()) -> None:
        self.owner = owner
        self.shape = ScopeShape(owner is not None, len(where))
        self.params: dict[str, str] = {} if owner is None else {_OWNER: owner}
        for number, (key, value) in enumerate(where):
            self.params |= {f"of_key_{number}": key, f"of_value_{number}": value}


ALL: Final = StoreScope()


def crossing(statement: AStatement) -> AStatement:
    """Mark a statement that concerns several sessions: a distributed engine asks all nodes.

    Every other statement compares `session_id` with a parameter for each of its tables.
    """
    return statement.execution_options(crosses_sessions=True)


def is_crossing(statement: Executable) -> bool:
    """Return True if a statement concerns several sessions."""
    return bool(statement.get_execution_options().get("crosses_sessions"))


def for_all(statement: AStatement) -> AStatement:
    """Mark a statement that sees all sessions, whatever the scope of the store."""
    return statement.execution_options(sees_all=True)


class _Condition(ColumnElement[bool]):
    """A condition on a column and a parameter, which each engine has in words of its own."""

    inherit_cache = False
    type = Boolean()

    def __init__(self, column: ColumnElement[str], name: str, type_: TypeEngine[Any]) -> None:
        self.column = column
        self.value: BindParameter[Any] = bindparam(name, type_=type_)

    def texts(self, compiler: Any, options: Mapping[str, Any]) -> tuple[str, str]:
        """The column and the parameter as the engine has them."""
        column = compiler.process(self.column, **options)
        return column, compiler.process(self.value, **options)


class OneOf(_Condition):
    """The condition that a column has one of many values: `Transaction.many_values` makes them."""

    def __init__(self, column: ColumnElement[str], name: str) -> None:
        super().__init__(column, name, NullType())

    def self_group(self, against: object = None) -> Self:  # noqa: ARG002 - of SQLAlchemy
        """This, without the `= 1` that keeps SQLite from looking the values up in an index."""
        return self


class NotByKey(_Condition):
    """The condition that a column has a value, for which no index of the column is used.

    On a server the value has another collation, which compares alike: a distributed engine still
    sees that one node has the rows.
    """

    def __init__(self, column: ColumnElement[str], name: str) -> None:
        super().__init__(column, name, Text())


@compiles(OneOf, "sqlite")
def _one_of_json(element: OneOf, compiler: Any, **options: Any) -> str:
    column, values = element.texts(compiler, options)
    return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 - of SQLAlchemy


@compiles(OneOf)
def _one_of_array(element: OneOf, compiler: Any, **options: Any) -> str:
    column, values = element.texts(compiler, options)
    return f"{column} = ANY({values})"


@compiles(NotByKey, "sqlite")
def _not_by_key_in_a_file(element: NotByKey, compiler: Any, **options: Any) -> str:
    column, value = element.texts(compiler, options)
    return f"{column} || '' = {value}"


@compiles(NotByKey)
def _not_by_key_on_a_server(element: NotByKey, compiler: Any, **options: Any) -> str:
    column, value = element.texts(compiler, options)
    return f'{column} = {value} COLLATE "POSIX"'


class Compiled:
    """A statement's text for one dialect, and how to give it its parameters."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        self.text = str(compiled)
        self.names: Sequence[str] = getattr(compiled, "positiontup", None) or ()
        self._pick = _picker(self.names)
        self._of_rows: dict[int, str] = {}

    def bind(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        """The parameters as the driver takes them; others may be given with them."""
        return self._pick(params)

    def of_rows(self, count: int) -> str:
        """An INSERT of one row with $1, $2, ... as one of so many rows."""
        if count not in self._of_rows:
            head, row = self.text.split(" VALUES ")
            width = len(self.names)
            rows = (
                _NUMBER.sub(lambda match, at=at: f"${int(match[1]) + at}", row)  # type: ignore[misc]  # mypy does not infer the lambda
                for at in range(0, count * width, width)
            )
            self._of_rows[count] = f"{head} VALUES {', '.join(rows)}"
        return self._of_rows[count]


def _picker(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    match names:
        case []:
            return lambda _: ()
        case [name]:
            return lambda params: (params[name],)
    return itemgetter(*names)


# Statements live at module level, so their number is fixed and nothing here needs to be evicted.
_known: defaultdict[tuple[str, ScopeShape], dict[ClauseElement, Compiled]] = defaultdict(dict)


def with_constants(dialect: Dialect) -> Dialect:
    """Let a dialect write the constants of a statement into it, instead of sending them each time.

    PostgreSQL then knows them when it plans. It does not keep a plan for a LIMIT that it does not
    know: it would plan the statement anew each time it is run.
    """
    base: Any = dialect.statement_compiler

    def visit_bindparam(self: Any, parameter: BindParameter[Any], **options: Any) -> Any:
        if parameter.value is not None:
            options["literal_binds"] = True
        return base.visit_bindparam(self, parameter, **options)

    dialect.statement_compiler = type(base.__name__, (base,), {"visit_bindparam": visit_bindparam})
    return dialect


_tables_of: Callable[[Any], Iterable[Any]] = surface_selectables


def _narrowed(dialect: Dialect, shape: ScopeShape) -> Dialect:
    """A dialect in which every query of `sessions`, however deep, finds those of a scope.

    It is the only place that restricts a store. A change of a session is preceded by a query of its
    row, under its lock.
    """
    base: Any = dialect.statement_compiler

    def visit_select(self: Any, statement: Select[Any], *args: Any, **options: Any) -> Any:
        if not statement.get_execution_options().get("sees_all"):
            for source in statement.get_final_froms():
                for table in _tables_of(source):
                    if getattr(table, "element", table) is sessions:
                        statement = statement.where(*_in_scope(table.c, shape))
        return base.visit_select(self, statement, *args, **options)

    other = copy(dialect)
    other.statement_compiler = type(base.__name__, (base,), {"visit_select": visit_select})
    return other


def _in_scope(session: Any, shape: ScopeShape) -> Iterator[ColumnElement[bool]]:
    if shape.has_owner:
        yield session.owner == bindparam(_OWNER)
    for number in range(shape.facts):
        fact = facts.alias(f"of_fact_{number}")
        matching = select(fact.c.key).where(
            fact.c.session_id == session.session_id,
            fact.c.key == bindparam(f"of_key_{number}"),
            fact.c.value == bindparam(f"of_value_{number}"),
        )
        yield for_all(matching).exists()


def compiled_statements(
    dialect_name: str, shape: ScopeShape = ALL.shape
) -> dict[ClauseElement, Compiled]:
    """The statements that this process has run on an engine, for stores with such a scope."""
    return dict(_known[dialect_name, shape])


Compilers: TypeAlias = Callable[[ScopeShape], Callable[[ClauseElement], Compiled]]


def compilers(dialect: Dialect) -> Compilers:
    """Compiles statements for a dialect and a shape, each when it is first run in this process."""
    return cache(partial(_compiler, dialect))


def _compiler(dialect: Dialect, shape: ScopeShape) -> Callable[[ClauseElement], Compiled]:
    known = _known[dialect.name, shape]
    if any(shape):
        dialect = _narrowed(dialect, shape)

    def compiled(statement: ClauseElement) -> Compiled:
        compilation = known.get(statement)
        if compilation is None:
            compilation = known[statement] = Compiled(statement, dialect)
        return compilation

    return compiled
