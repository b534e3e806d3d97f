"""PostgreSQL: connecting to a server, directly or through a pooler, and how statements run on it.

What needs no answer is sent with what does, or with the COMMIT, so that an operation waits for the
server as seldom as possible. We leave no settings on a connection that change results or
durability, because a pooler would pass them on to others: what a transaction needs is sent with
its BEGIN. Loaded when it is asked for, since psycopg is an extra.
"""

import json
import selectors
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any, NoReturn

import psycopg
import psycopg.postgres
import psycopg.sql
from psycopg.adapt import AdaptersMap
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.types.array import register_all_arrays
from psycopg.types.json import set_json_loads
from sqlalchemy import URL
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.sql import ClauseElement, Insert

from roocontext.errors import InvalidOption, StoreUnavailable
from roocontext.store.engine import forks
from roocontext.store.engine.driver_errors import driver_errors, translated, unconnected
from roocontext.store.engine.engines import Engine, EngineOptions, Polling, WriteSettings
from roocontext.store.engine.observing import note_lock_wait
from roocontext.store.engine.schema import ADMINISTRATOR, OWNER_POLICY
from roocontext.store.engine.shapes import checked_rows
from roocontext.store.engine.statements import Compilers, StoreScope, compilers, with_constants
from roocontext.store.engine.transaction import (
    Command,
    Query,
    SqlRow,
    Taken,
    Transaction,
    TransactionMode,
    first_row,
    raise_taken,
)

_SIZES = (256, 64, 16, 4, 1)
"""How many rows an INSERT has: few sizes, so that each of these statements stays prepared."""

# The tests look at every statement's plan for any parameters. Where that seems dearer to the server
# than one for these parameters, it would plan the statement anew each time. A statement that seems
# dear to it, such as a view of hundreds of spans, it would compile each time, which takes 13 ms and
# more. A server that is too old for a setting does not know it. Behind a pooler another process of
# the server answers than the one that the connection was made to: nothing is set there. Citus must
# plan for the parameters.
_FIRST = (
    "SELECT pg_backend_pid() = $1, current_setting('citus.shard_count', true) IS NOT NULL,"
    " current_setting('synchronous_commit'),"
    " row_security_active(to_regclass('sessions')) AND EXISTS (SELECT 1 FROM pg_policy"
    " WHERE polrelid = to_regclass('sessions') AND polname = $3) AND NOT EXISTS (SELECT 1"
    " FROM pg_policy, unnest(polroles) AS role WHERE polrelid = to_regclass('sessions')"
    " AND polname = $2 AND pg_has_role(role, 'USAGE')),"
    " (SELECT count(set_config(name, value, false)) FROM (VALUES"
    " ('plan_cache_mode', 'auto', 'force_generic_plan'), ('jit', 'on', 'off')"
    ") AS setting (name, given, value)"
    " WHERE current_setting(name, true) = given AND pg_backend_pid() = $1"
    " AND (name = 'jit' OR current_setting('citus.shard_count', true) IS NULL))"
)


LONGEST_S = 120
"""The longest transaction that is committed, by the server's clock. The change feed reads again
what was written since then. The schema's function for an append has the same check."""
_IN_TIME: Command = (
    f"SELECT 1 / CASE WHEN clock_timestamp() > now() + interval '{LONGEST_S} s' THEN 0 ELSE 1 END",
    (),
)
# One minute more for a commit that takes its time, and for clocks of nodes that differ.
_POLLING = Polling(every_s=1, lag_minutes=LONGEST_S // 60 + 1)


def engine_of_server(url: URL, options: EngineOptions) -> Engine:
    """The engine of a server."""
    # With the server's own $1, psycopg has no parameters to find and to rewrite in a statement.
    made: Callable[..., Dialect] = url.set(drivername="postgresql+psycopg").get_dialect()
    dialect = with_constants(made(paramstyle="numeric_dollar"))
    _, arguments = dialect.create_connect_args(url)
    try:
        psycopg.conninfo.make_conninfo("", **arguments)
    except psycopg.ProgrammingError as wrong:
        raise unconnected(wrong) from None
    patience_s = 10 if options.lock_timeout is None else options.lock_timeout
    settings = WriteSettings(options.durability, _milliseconds(patience_s))
    also = _also(options)
    compiling = compilers(dialect)
    return Engine(
        dialect=dialect,
        connect=partial(_connect, arguments, options.prepare),
        transaction=lambda connection: ServerTransaction(connection, compiling, settings, also),
        is_alive=_is_alive,
        patience_s=patience_s,
        read_only=options.read_only,
        server=settings,
        end_write=(_IN_TIME,),
        polling=_POLLING,
    )


# psycopg's own: an application may have changed what its connections make of a number, a text or
# JSON, and these would inherit it.
_ADAPTERS = AdaptersMap(types=psycopg.adapters.types)
psycopg.postgres.register_default_adapters(_ADAPTERS)
register_all_arrays(_ADAPTERS)
set_json_loads(json.loads, _ADAPTERS)

# Writers queue on their session's row and then read what the one before wrote.
_READ_COMMITTED: Command = ("BEGIN ISOLATION LEVEL READ COMMITTED", ())
# One snapshot for all statements of a read; the isolation that writers use gives each its own.
_SNAPSHOT: Command = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())
_LOCALLY: Command = ("SET LOCAL citus.propagate_set_commands = 'local'", ())


def _local(settings: WriteSettings, connection: "ServerConnection") -> list[Command]:
    """The settings of a transaction that writes."""
    if connection.is_distributed:
        # A coordinator passes on nothing but SET LOCAL, and that only if the transaction asks.
        set_to = connection.synchronous_commit
        is_late = settings.durability == "normal"
        commit = "off" if is_late else "on" if set_to == "off" else set_to
        return [
            _LOCALLY,
            (f"SET LOCAL lock_timeout = '{settings.lock_timeout}'", ()),
            (f"SET LOCAL synchronous_commit = '{commit}'", ()),
        ]
    # A server may be set to acknowledge early; stricter settings than `on` are left as they are.
    commit = (
        "set_config('synchronous_commit', 'off', true)"
        if settings.durability == "normal"
        else "CASE current_setting('synchronous_commit')"
        " WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END"
    )
    text = f"SELECT set_config('lock_timeout', '{settings.lock_timeout}', true), {commit}"
    return [(text, ())]


def _also(options: EngineOptions) -> tuple[Command, ...]:
    """The caller's statements that are sent with each BEGIN."""
    commands: list[Command] = []
    if options.statement_timeout is not None:
        timeout = _milliseconds(options.statement_timeout)
        commands.append((f"SET LOCAL statement_timeout = '{timeout}'", ()))
    for statement in options.on_begin:
        match statement:
            case str(text):
                commands.append((text, ()))
            case [str(text), list() | tuple() as values]:
                commands.append((text, tuple(values)))
            case _:
                raise InvalidOption(
                    "on_begin must be a list of statements: each a text, or a pair of a text and"
                    " the values of its $1, $2.",
                    name="on_begin",
                )
    return tuple(commands)


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1_000))}ms"  # 0 would be for ever


class ServerConnection(psycopg.Connection[Any]):
    """A connection to a server, which may be the coordinator of a cluster."""

    is_distributed = False
    sees_one_owner = False
    """True if policies show the role only the sessions of the owner that a transaction names."""
    synchronous_commit = "on"
    """The settings of the server when it was connected to."""


def _connect(arguments: Mapping[str, Any], prepare: bool | None) -> ServerConnection:  # noqa: FBT001
    # Whatever the server, the role or the environment prefers: not every text has another.
    settings = {**arguments, "client_encoding": "UTF8"}
    with translated(sent=False):
        try:
            connection = ServerConnection.connect(**settings, autocommit=True, context=_ADAPTERS)
        except psycopg.Error as refused:
            raise unconnected(refused) from None
        try:
            _check_encoding(connection.info.parameter_status("server_encoding"))
            policies = connection.info.backend_pid, ADMINISTRATOR, OWNER_POLICY
            row = psycopg.RawCursor(connection).execute(_FIRST, policies).fetchone()
            assert row is not None
            is_direct, connection.is_distributed, commit, sees_one_owner, _ = row
            connection.synchronous_commit = commit
            connection.sees_one_owner = bool(sees_one_owner)
            if not (is_direct if prepare is None else prepare):
                connection.prepare_threshold = None
        except BaseException:
            connection.close()
            raise
        return connection


def _check_encoding(encoding: str | None) -> None:
    """Refuse a database that cannot hold every character."""
    if encoding != "UTF8":
        raise StoreUnavailable(
            f"The database's encoding is {encoding}, but it must be UTF8.",
            advice="Create one: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0.",
        )


def _is_alive(connection: "psycopg.Connection[Any]") -> bool:
    """True if the server has not closed an idle connection."""
    # It has nothing to say: what can be read is the server hanging up.
    if connection.closed:
        return False
    # The default one of Linux would take a descriptor, and three times as long.
    with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        return not selector.select(0)


class ServerTransaction(Transaction):
    """Statements on a connection to a server. `also` is what a caller wants sent with each BEGIN.

    Changes are sent without waiting. What is wrong with one is raised by the next query or the end.
    """

    has_round_trips = True

    def __init__(
        self,
        connection: "ServerConnection",
        compilers: Compilers,
        settings: WriteSettings,
        also: Sequence[Command],
    ) -> None:
        super().__init__(connection, compilers)
        self._settings = _local(settings, connection)
        self.is_distributed = connection.is_distributed
        self._sees_one_owner = connection.sees_one_owner
        self._run = psycopg.RawCursor(connection).execute
        self._also = also
        self._own: Sequence[Command] = ()
        # Kept until the first statement, and dropped if none comes: an empty transaction costs
        # nothing.
        self._beginning: Sequence[Command] = ()
        self._pipeline: Any = None
        self._taken: Taken | None = None
        # A write locks the session by what it sends first.
        self._is_locking = False

    @property
    def copies_rows(self) -> bool:
        """See Transaction. A cluster does it with COPY, which policies refuse."""
        return not (self.is_distributed and self._sees_one_owner)

    def begin(self, mode: TransactionMode, scope: StoreScope) -> None:
        """Begin a transaction with the first statement, which takes no round trip of its own."""
        self.narrow(scope)
        if scope.owner is None and self._sees_one_owner:
            raise InvalidOption(
                "The database shows this role the sessions of one owner only.",
                advice="Open the store with `owner`, or connect as the administrator that"
                " `db secure` names.",
                name="owner",
            )
        self._is_open = mode != "single"
        self._is_locking = mode == "write"
        self._beginning, self._own = (), ()
        also = (*self._for_owner(), *self._also)
        if mode == "write":
            self._beginning = (_READ_COMMITTED, *self._settings, *also)
        elif mode == "read":
            self._beginning = (_SNAPSHOT, *also)
        elif also:
            # Within a block of its own an append is not sent on whole to a node.
            settings = self._settings if self.is_distributed else ()
            self._own = (_READ_COMMITTED, *settings, *also)
        self._taken = None

    def reset(self) -> bool:
        """See Transaction."""
        if self._pipeline is not None:
            with suppress(*driver_errors()):
                self._leave_pipeline()
        if self.is_sound:
            self._roll_back()
        connection = self.connection.pgconn
        return (
            self.is_sound
            and connection.transaction_status == TransactionStatus.IDLE
            and connection.pipeline_status == PipelineStatus.OFF
        )

    def insert(self, statement: Insert, *rows: SqlRow, taken: Taken | None = None) -> None:
        """See Transaction."""
        compiled, at = self._compiled(statement), 0
        self._taken = taken or self._taken
        for size in _SIZES:
            while len(rows) - at >= size:
                values = [value for row in rows[at : at + size] for value in row]
                self._send(compiled.of_rows(size), values)
                at += size

    def all(self, queries: Sequence[Query]) -> list[list[SqlRow]]:
        """See Transaction."""
        if len(queries) < 2:
            return super().all(queries)
        compiled = [(self._compiled(statement), params) for statement, params in queries]
        cursors = self._together(
            [(query.text, self._bound(query, params)) for query, params in compiled]
        )
        return [
            checked_rows(query[0], cursor.fetchall())
            for query, cursor in zip(queries, cursors, strict=True)
        ]

    def many(self, statement: ClauseElement, rows: Sequence[Mapping[str, Any]]) -> None:
        """See Transaction."""
        compiled = self._compiled(statement)
        values = [self._bound(compiled, row) for row in rows]
        if isinstance(statement, Insert):
            self.insert(statement, *values)
        else:
            for row in values:
                self._send(compiled.text, row)

    def commit(self, checks: Sequence[Command] = ()) -> None:
        """See Transaction."""
        if checks and self._is_open and not self._beginning:
            self._together([*checks, ("COMMIT", ())])
            self._is_open = False
        else:
            super().commit()

    def command(self, text: str) -> SqlRow | None:
        """See Transaction. One of its own is sent alone: a VACUUM can be in no transaction."""
        return first_row(self._ask(text) if self._is_open else super()._ask(text))

    def call(self, function: str, values: Sequence[Any]) -> SqlRow | None:
        """See Transaction. The function itself sets the owner."""
        own, self._own = self._own, self._own if self._also else ()
        try:
            return super().call(function, values)
        finally:
            self._own = own

    def many_values(self, values: Sequence[str]) -> Any:
        """See Transaction."""
        return list(values)

    def exclude_others(self, key: bytes) -> None:
        """See Transaction."""
        number = int.from_bytes(key[:8], signed=True)
        self.command(f"SELECT pg_advisory_xact_lock({number})")

    def disown(self) -> None:
        """See Transaction."""
        forks.keep_open(self._pipeline)  # its end would ask the server
        self._pipeline = None
        super().disown()

    def _for_owner(self) -> Sequence[Command]:
        """The setting that policies of row-level security read, if the store has an owner."""
        if self.owner is None:
            return ()
        if not self.is_distributed:
            return (("SELECT set_config('roocontext.owner', $1, true)", (self.owner,)),)
        owner = psycopg.sql.Literal(self.owner).as_string(self.connection)
        return (_LOCALLY, (f"SET LOCAL roocontext.owner = {owner}", ()))

    def _end(self, command: str) -> None:
        if self._is_open and not self._beginning:
            self._ask(command)
        self._beginning = ()  # nothing was asked, so nothing was begun
        self._is_open = False

    def _send(self, text: str, values: Sequence[Any]) -> None:
        if not self._is_open:
            self._ask(text, values)
            return
        handled = sys.exception()
        try:
            self._queue(text, values)
        except BaseException as error:  # noqa: BLE001 - raised again
            self._fail(error, handled)

    def _ask(self, text: str, values: Sequence[Any] = ()) -> Any:
        if self._beginning or self._pipeline is not None or (self._own and not self._is_open):
            (cursor,) = self._together([(text, values)])
            return cursor
        return super()._ask(text, values)

    def _together(self, commands: Sequence[Command]) -> list[Any]:
        """Send statements and wait for all of their answers."""
        # What the caller is handling already is not an interrupt of this block.
        handled = sys.exception()
        is_own = bool(self._own) and not self._is_open
        is_locking, self._is_locking = self._is_locking, False
        asked = perf_counter()
        try:
            for command in self._own if is_own else ():
                self._queue(*command)
            cursors = [self._queue(*command) for command in commands]
            if is_own:
                self._queue("COMMIT", ())
            self._leave_pipeline()
        except BaseException as error:  # noqa: BLE001 - raised again
            self._fail(error, handled)
        if is_locking:
            note_lock_wait(perf_counter() - asked)
        return cursors

    def _queue(self, text: str, values: Sequence[Any]) -> Any:
        if self._pipeline is None:
            self._pipeline = self.connection.pipeline()
            self._pipeline.__enter__()
        beginning, self._beginning = self._beginning, ()
        for command in beginning:
            psycopg.RawCursor(self.connection).execute(*command)
        return psycopg.RawCursor(self.connection).execute(text, values)

    def _leave_pipeline(self) -> None:
        """Wait for all answers."""
        pipeline, self._pipeline = self._pipeline, None
        pipeline.__exit__(None, None, None)
        self._taken = None

    def _roll_back(self) -> None:
        begun = (TransactionStatus.INTRANS, TransactionStatus.INERROR)
        if self.connection.pgconn.transaction_status in begun:
            with suppress(psycopg.Error):
                self._run("ROLLBACK")

    def _fail(self, error: BaseException, handled: BaseException | None) -> NoReturn:
        """Raise what an error means that came while statements were sent together."""
        taken = self._taken
        if self._pipeline is not None:
            with suppress(*driver_errors()):
                self._leave_pipeline()
        # What was to be prepared on the way may be unknown to the server: nothing prepared is used
        # any more.
        self.is_sound = self.is_sound and self.connection.prepare_threshold is None
        self.connection.prepare_threshold = None
        if not self._is_open:
            self._roll_back()
        interrupt = _replaced_interrupt(error, handled)
        if interrupt is not None:
            raise interrupt from None
        if isinstance(error, driver_errors()):
            raise_taken(error, taken)
        raise error


def _replaced_interrupt(
    error: BaseException, handled: BaseException | None
) -> BaseException | None:
    """The interrupt that an error replaced, if any, since another one was being handled.

    If an interrupt lands while the driver ends a pipeline, the driver raises an error of its own.
    """
    if not isinstance(error, Exception):
        return None
    context = error.__context__
    while context is not None and context is not handled:
        if not isinstance(context, Exception):
            return context
        context = context.__context__
    return None
