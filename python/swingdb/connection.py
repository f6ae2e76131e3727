"""Connections: a database or a snapshot, open in this process, and one session on it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

from . import _convert, _opened, _reading, _streams, _text, _variables, errors
from ._local import Local
from ._query import Query
from .cursor import Current, Cursor
from .errors import ClosedError
from .relation import Relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import FrameType, TracebackType

    import numpy
    import pandas  # type: ignore[import-untyped,unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

    from . import _internal
    from .cursor import Parameters

    Progress = Callable[[int, int | None, str], object]
    Path = str | os.PathLike[str] | IO[str] | IO[bytes]
    Paths = Path | Sequence[Path]

__all__ = ["Connection", "ExportReport", "ImportReport", "ShareInfo"]


class ShareInfo(NamedTuple):
    """What :meth:`Connection.share` did."""

    #: The number of the state that new snapshots see from now on.
    epoch: int
    #: How long it took, in seconds.
    seconds: float


class CheckpointInfo(NamedTuple):
    """What :meth:`Connection.checkpoint` did."""

    #: The version of the state that is on the disk.
    version: int
    #: Bytes of column data that were written; 0 if nothing had changed.
    written_bytes: int
    #: How long it took, in seconds.
    seconds: float


class StoreInfo(NamedTuple):
    """The store of a database on a disk, as :attr:`Connection.store` has it."""

    #: Its directory.
    path: str
    #: When changes get there.
    durability: str
    #: The version of the last committed state in memory.
    memory_version: int
    #: The version of the state on the disk; the store is up to date if both are equal.
    stored_version: int | None
    #: Bytes of the store's files.
    used_bytes: int
    #: Bytes of them that are needed.
    live_bytes: int
    #: How often a file of it was synced (``fsync``) since it was opened.
    syncs: int
    #: While the database is read from the store: bytes in memory, and bytes of all.
    loading: tuple[int, int] | None
    #: Why the last checkpoint, or the reading, in the background failed.
    failure: str | None


class ImportReport(NamedTuple):
    """What :meth:`Connection.import_file` did."""

    rows: int
    bytes: int
    seconds: float


class ExportReport(NamedTuple):
    """What :meth:`Connection.export` did."""

    rows: int
    bytes: int
    seconds: float


class Connection(Local):
    """A database or a snapshot and one session on it: what :func:`swingdb.connect` and
    :func:`swingdb.snapshot` return.

    Each statement is atomic and commits itself, unless :meth:`begin` opened a transaction. In a
    ``with`` block the end commits an open transaction (an exception rolls it back) and closes.
    Threads may share a connection; their statements run one after the other. Use :meth:`duplicate`
    for a second session on the same database.

    >>> import swingdb
    >>> with swingdb.connect() as con:
    ...     con.execute("CREATE TABLE t AS SELECT 1 AS a")
    ...     con.sql("SELECT a + 1 AS b FROM t").fetchall()
    <swingdb.Cursor of <swingdb.Connection unnamed>>
    [(2,)]
    """

    # PEP 249's optional extension: the exceptions as attributes of connections.
    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, opened: _opened.Opened, *, read_only: bool = False) -> None:
        # Not called by users: swingdb.connect(), .snapshot() and .get_snapshot() make connections.
        self._opened: _opened.Opened | None = opened
        self._session_made: _internal.Session | None = None
        self._attached: dict[str, _opened.Opened] = {}
        self._read_only = read_only
        self._naming = threading.Lock()
        #: The result of the last execute(): without its cursor, which holds the connection.
        self._last: Current | None = None
        opened.add(self)

    # SQL ----------------------------------------------------------------------------------------

    def execute(self, sql: str, params: Parameters = None) -> Cursor:
        """Runs one or several statements in a new cursor; see :meth:`Cursor.execute`.

        Its rows are the cursor's; :meth:`fetchall` and the like of the connection take them from
        there, until the next statement.
        """
        self._last = None
        cursor = Cursor(self).execute(sql, params)
        self._last = cursor._current
        return cursor

    def executemany(
        self, sql: str, seq_of_params: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> Cursor:
        """Runs a statement for each set of parameters; see :meth:`Cursor.executemany`."""
        return Cursor(self).executemany(sql, seq_of_params)

    def cursor(self) -> Cursor:
        """A cursor (PEP 249). All cursors of a connection share its session and transaction."""
        self._check()
        return Cursor(self)

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row of the last :meth:`execute`, or None after the last row."""
        return self._last_cursor().fetchone()

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next ``size`` rows of the last :meth:`execute`, fewer at the end."""
        return self._last_cursor().fetchmany(size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows of the last :meth:`execute` that are left.

        >>> import swingdb
        >>> con = swingdb.connect()
        >>> _ = con.execute("SELECT range FROM range(3)")
        >>> con.fetchone(), con.fetchall()
        ((0,), [(1,), (2,)])
        """
        return self._last_cursor().fetchall()

    def arrow(self, *, views: bool = False) -> pyarrow.Table:
        """The rows of the last :meth:`execute` that are left, as a ``pyarrow.Table``."""
        return self._last_cursor().arrow(views=views)

    def df(self) -> pandas.DataFrame:
        """The rows of the last :meth:`execute` that are left, as a ``pandas.DataFrame``."""
        return self._last_cursor().df()

    #: What DuckDB calls it, too.
    fetchdf = df

    def pl(self) -> polars.DataFrame:
        """The rows of the last :meth:`execute` that are left, as a ``polars.DataFrame``."""
        return self._last_cursor().pl()

    def fetchnumpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """The rows of the last :meth:`execute` that are left, as a dict of NumPy arrays."""
        return self._last_cursor().fetchnumpy()

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """The columns of the last :meth:`execute`; None if it returned no rows."""
        return None if self._last is None else self._last_cursor().description

    @property
    def rowcount(self) -> int:
        """How many rows the last :meth:`execute` changed; -1 for queries."""
        return -1 if self._last is None else self._last_cursor().rowcount

    def sql(self, query: str, params: Parameters = None, *, alias: str = "") -> Relation:
        """Runs a query; its rows can be had in every form, any number of times.

        Names that are no table are looked up among the caller's variables: pandas, Polars and
        Arrow data, dicts of columns, lists of dicts, other relations.

        >>> import swingdb
        >>> people = {"name": ["Ada", "Bo"], "age": [36, 41]}
        >>> con = swingdb.connect()
        >>> con.sql("SELECT name FROM people WHERE age > ?", [40]).fetchall()
        [('Bo',)]
        """
        session = self._session()
        variables = self._variables(session, query, _variables.caller())
        result = self._run_variables(session, query, params, variables)

        def made_of() -> Query | None:
            made = Query.of_text(self, query, params, variables)
            return made and made.known(result.columns)

        return Relation(result=result, connection=self, made_of=made_of, alias=alias or None)

    #: What DuckDB calls it, too.
    query = sql

    def interrupt(self) -> None:
        """Ends all running statements of this session, and results that are still being computed:
        they raise QueryInterruptedError. :meth:`Cursor.interrupt` ends those of one cursor.

        For other threads. Ctrl-C ends what the main thread waits for, by itself.
        """
        self._session().interrupt()

    # Tables -------------------------------------------------------------------------------------

    def table(self, name: str) -> Relation:
        """A table's rows over the database's own memory, without copying.

        The rows are those of the last committed state (inside a transaction: of the transaction),
        and stay as they are, and valid, whatever happens afterwards. Rows next to deleted ones are
        copied together.

        >>> import swingdb
        >>> con = swingdb.connect()
        >>> _ = con.execute("CREATE TABLE t AS SELECT 7 AS a")
        >>> con.table("t").fetchnumpy()["a"]
        array([7])
        """
        try:
            batches = self._session().table(name)
        except errors.PlanError:
            return self.view(name)

        def made_of() -> Query:
            return Query.of_table(self, name).known(batches.columns)

        return Relation(batches=batches, connection=self, made_of=made_of)

    def view(self, name: str) -> Relation:
        """The rows of a view, or of what is registered under a name."""
        query = Query.of_table(self, name)
        query.columns()
        return Relation(connection=self, query=query)

    def from_arrow(self, data: Any) -> Relation:
        """A relation over rows that are there: Arrow, pandas or Polars data, a dict of columns, a
        list of dicts; see :meth:`append`. A stream is read once, to its end.

        >>> import swingdb
        >>> con = swingdb.connect()
        >>> con.from_arrow({"a": [1, 2, 3]}).filter("a > 1").fetchall()
        [(2,), (3,)]
        """
        return Relation(batches=self._rows_of("the data", data), connection=self)

    from_df = from_arrow

    def values(self, *rows: Sequence[Any]) -> Relation:
        """A relation of rows that are written out; its columns are ``col0``, ``col1`` and so on.

        >>> import swingdb
        >>> swingdb.connect().values((1, "a"), (2, "b")).filter("col0 = 2").fetchall()
        [(2, 'b')]
        """
        if not rows or any(len(row) != len(rows[0]) or not row for row in rows):
            raise errors.ProgrammingError("values() takes rows, all of as many values")
        columns = zip(*rows, strict=True)
        return self.from_arrow({f"col{index}": list(c) for index, c in enumerate(columns)})

    def read_csv(self, path: Paths, **options: Any) -> Relation:
        """CSV files as a relation; a pattern or a list names several, and an object with a method
        ``read`` is one. ``options`` are those of SQL (``delimiter``, ``header``, ``columns`` ...),
        also under pandas' names for them, and are found out from the file if not given.

        >>> import swingdb, tempfile
        >>> con = swingdb.connect()
        >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        ...     con.sql("SELECT range AS a FROM range(3)").to_csv(file.name)
        ...     con.read_csv(file.name).filter("a > 0").fetchall()
        [(1,), (2,)]
        """
        return self._read("read_csv", path, options)

    def read_parquet(self, path: Paths, **options: Any) -> Relation:
        """Parquet files as a relation; see :meth:`read_csv`."""
        return self._read("read_parquet", path, options)

    def read_json(self, path: Paths, **options: Any) -> Relation:
        """JSON files as a relation; see :meth:`read_csv`."""
        return self._read("read_json", path, options)

    def append(self, table: str, data: Any) -> int:
        """Appends rows to a table, all or none; returns their number.

        ``data`` is an Arrow table, batch or stream, a pandas or Polars frame, a dict of columns, a
        list of dicts, or anything with the Arrow PyCapsule interface. Columns are matched by name,
        or by position when the names are others; types are cast where no value is lost.

        >>> import swingdb
        >>> con = swingdb.connect()
        >>> _ = con.execute("CREATE TABLE t (a INT, b VARCHAR)")
        >>> con.append("t", {"a": [1, 2], "b": ["x", None]})
        2
        """
        rows = self._session().append(table, _convert.to_stream(data))
        _streams.check_read("the data", data, rows)
        return rows

    def register(self, name: str, data: Any) -> None:
        """Makes data queryable under a name in this session; a table of that name goes first."""
        self._register(self._session(), name, data)

    def unregister(self, name: str) -> None:
        """Undoes :meth:`register`; no error when nothing is registered under the name."""
        self._session().deregister(name)

    def create_function(
        self,
        name: str,
        function: Callable[..., Any],
        parameters: Sequence[Any] | None = None,
        return_type: Any = None,
        *,
        type: str = "native",  # noqa: A002 - the word DuckDB uses
        null_handling: str = "default",
        exception_handling: str = "default",
        side_effects: bool = False,
    ) -> Connection:
        """Makes a Python function one of SQL, in this session; another of the name gives way.

        Types are those of SQL, or Python's, or as the function is annotated. It is called for each
        row, or with ``type="arrow"`` for each batch, with an Arrow array for each argument. A NULL
        among the arguments makes the result NULL, unless ``null_handling`` is ``"special"``; an
        exception ends the statement, unless ``exception_handling`` is ``"return_null"``. One that
        gives different results for the same arguments has ``side_effects``.

        >>> import swingdb
        >>> con = swingdb.connect()
        >>> def initials(name: str) -> str:
        ...     return "".join(word[0] for word in name.split())
        >>> _ = con.create_function("initials", initials)
        >>> con.sql("SELECT initials('Ada Lovelace')").fetchone()
        ('AL',)
        """
        from . import _functions

        _one_of("type", type, ("native", "arrow"))
        _one_of("null_handling", null_handling, ("default", "special"))
        _one_of("exception_handling", exception_handling, ("default", "return_null"))
        types = _functions.types(function, parameters, return_type)
        if type == "arrow":
            if (null_handling, exception_handling) != ("default", "default"):
                raise errors.ProgrammingError(
                    "a function of Arrow arrays sees NULLs itself, and has no row to make NULL"
                )
            call = _functions.vectorised(function)
        else:
            call = _functions.native(
                function,
                calls_for_null=null_handling == "special",
                null_for_error=exception_handling == "return_null",
            )
        self._session().create_function(name, types, call, side_effects, type == "arrow")
        return self

    def create_aggregate(
        self,
        name: str,
        aggregate: Callable[..., Any],
        parameters: Sequence[Any] | None = None,
        return_type: Any = None,
        *,
        type: str = "native",  # noqa: A002 - as create_function has it
        null_handling: str = "default",
    ) -> Connection:
        """Makes a Python class or function an aggregate of SQL, in this session.

        A class has ``step(*arguments)``, which adds a row, ``finish()``, which gives the value, and
        where it can ``merge(other)``, which adds the rows of another object: then threads work on
        parts of a group. A function is called with a list for each argument, of all rows of a
        group. With ``type="arrow"`` both get Arrow arrays, a class of some rows at a time. Rows
        with a NULL are left out, unless ``null_handling`` is ``"special"``.

        >>> import swingdb, statistics
        >>> con = swingdb.connect()
        >>> _ = con.create_aggregate("harmonic", statistics.harmonic_mean, ["DOUBLE"], "DOUBLE")
        >>> con.sql("SELECT harmonic(x) FROM (VALUES (40.0), (60.0)) AS t(x)").fetchone()
        (48.0,)
        """
        from . import _aggregates

        _one_of("type", type, ("native", "arrow"))
        _one_of("null_handling", null_handling, ("default", "special"))
        skips_nulls, arrow = null_handling == "default", type == "arrow"
        work = _aggregates.work(aggregate, arrow=arrow, skips_nulls=skips_nulls)
        types = _aggregates.types(aggregate, parameters, return_type)
        self._session().create_aggregate(name, types, work, (skips_nulls, work.merges, arrow))
        return self

    def create_table_function(
        self,
        name: str,
        function: Callable[..., Any],
        parameters: Sequence[Any] | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> Connection:
        """Makes a Python function a table of SQL, in this session: ``FROM name(1, 'x')``.

        It is called with constants, and returns rows or an iterable of pieces of them, such as a
        generator: whatever :meth:`append` takes. ``columns`` are their names and types.

        >>> import swingdb
        >>> con = swingdb.connect()
        >>> def squares(n: int):
        ...     yield {"x": list(range(n)), "y": [x * x for x in range(n)]}
        >>> columns = {"x": int, "y": int}
        >>> _ = con.create_table_function("squares", squares, ["BIGINT"], columns)
        >>> con.sql("SELECT sum(y) FROM squares(4)").fetchone()
        (14,)
        """
        from . import _functions

        if not columns:
            raise errors.ProgrammingError(
                "the columns of a table function are declared, such as columns={'a': 'BIGINT'}"
            )
        types, _ = _functions.types(function, parameters, "BIGINT")
        declared = [(column, _functions.sql_type(kind)) for column, kind in columns.items()]
        pieces = _functions.pieces(function)
        self._session().create_table_function(name, types, declared, pieces)
        return self

    def remove_function(self, name: str) -> Connection:
        """Takes away a function that this session was given, of any kind."""
        self._session().remove_function(name.lower())
        return self

    def import_file(
        self,
        path: str | os.PathLike[str],
        table: str,
        *,
        format: str | None = None,  # noqa: A002 - the word SQL uses
        header: bool | None = None,
        delimiter: str | None = None,
        null: str | list[str] | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> ImportReport:
        """Appends a file to a table, which is made if it does not exist; all or nothing.

        ``format`` is ``"parquet"``, ``"csv"``, ``"json"`` (one object a line) or ``"arrow"``; it
        and the other options, which are those of SQL's ``COPY ... FROM``, are found out from the
        file when not given. ``progress(done, total, unit)`` is called about ten times a second,
        from another thread.
        """
        given = {"format": format, "header": header, "delimiter": delimiter, "null": null}
        options = {**given, **options}
        return ImportReport(*self._session().import_file(path, table, options, progress))

    def export(
        self,
        query_or_table: str,
        path: str | os.PathLike[str],
        *,
        format: str | None = None,  # noqa: A002 - the word SQL uses
        header: bool | None = None,
        delimiter: str | None = None,
        compression: str | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> ExportReport:
        """Writes a table or a query's result to a file; the format goes by its name.

        ``options`` are those of SQL's ``COPY ... TO``.
        """
        given = {
            "format": format,
            "header": header,
            "delimiter": delimiter,
            "compression": compression,
        }
        options = {**given, **options}
        return ExportReport(*self._session().export(query_or_table, path, options, progress))

    def tables(self) -> list[str]:
        """The tables and views a query can name."""
        return self._session().tables()

    # Transactions -------------------------------------------------------------------------------

    def begin(self) -> Connection:
        """Opens a transaction; returns the connection."""
        self._session().begin()
        return self

    def commit(self) -> Connection:
        """Commits the open transaction; does nothing without one (PEP 249)."""
        session = self._session()
        if session.in_transaction:
            session.commit()
        return self

    def rollback(self) -> Connection:
        """Undoes the open transaction; does nothing without one (PEP 249)."""
        session = self._session()
        if session.in_transaction:
            session.rollback()
        return self

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A ``with`` block that is one transaction: committed at its end, undone by an exception.

        >>> import swingdb
        >>> con = swingdb.connect()
        >>> with con.transaction():
        ...     _ = con.execute("CREATE TABLE t (a INT)")
        >>> con.tables()
        ['t']
        """
        self.begin()
        try:
            yield self
        except BaseException:
            self.rollback()
            raise
        self.commit()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._session().in_transaction

    # Sharing ------------------------------------------------------------------------------------

    def share(self) -> ShareInfo:
        """Makes the last committed state the one that new snapshots see.

        Warns if that state ends with the last process that uses it, because there is too little
        room where databases lie (a small ``/dev/shm``), and no store on a disk has it.

        While the database is still read from its store, this waits until all of it is in memory;
        Ctrl-C, :meth:`interrupt` and ``statement_timeout`` end the waiting, and nothing is shared.
        """
        opened = self._check()
        # Where it may take long, it is a statement, which can be interrupted.
        shares = self._session() if opened.database.is_loading else opened.database
        epoch, seconds, outlives = shares.share()
        opened.warn_if_fleeting(outlives)
        return ShareInfo(epoch, seconds)

    def checkpoint(self, directory: str | os.PathLike[str] | None = None) -> CheckpointInfo:
        """Brings the store on the disk to the last committed state, and waits until it is there.

        With ``directory``, which has to be missing or empty, a copy is made there instead: of a
        snapshot too. :func:`swingdb.restore` reads it.
        """
        directory = None if directory is None else os.fspath(directory)
        return CheckpointInfo(*self._check().database.checkpoint(directory))

    @property
    def store(self) -> StoreInfo | None:
        """The store on a disk and how far it is behind; None if the database has none."""
        store = self._check().database.store()
        return None if store is None else StoreInfo(**store)

    def refresh(self) -> bool:
        """Moves a snapshot to the newest shared state; False if there is none newer.

        When the database has been dropped and made anew since, that is the new one's.
        An error once the snapshot was written to. Rows handed out before keep their state.
        """
        return self._check().database.refresh()

    def wait_newer(self, timeout_s: float | None = None) -> bool:
        """Waits for a newer shared state than the snapshot's; False if none came in time.

        So is any state of a database that was made anew under the name. A ``NotFoundError`` when
        there is none of the name, or no longer one. What is newer stays to be taken, by
        :meth:`refresh`. Without ``timeout_s`` it waits for ever.
        """
        return self._check().database.wait_newer(timeout_s)

    def attach(self, other: Connection | str, alias: str | None = None) -> Connection:
        """Makes another database's tables readable here as ``alias.table``.

        ``other`` is a connection, or the name of a database to take a snapshot of. Its tables can
        be cloned without copying: ``CREATE TABLE mine CLONE alias.theirs``.
        """
        if isinstance(other, str):
            opened = _opened.hook(other, None, self._check().home)
            name = alias or other
        else:
            opened = other._check()
            name = alias or opened.database.name or ""
        if not name:
            raise errors.ProgrammingError("an unnamed database needs an alias to be attached")
        self._session().attach(opened.database, name)
        # Stays open until it is detached, also when `other` is closed or forgotten before.
        opened.add(self)
        self._attached[name] = opened
        return self

    def detach(self, alias: str) -> Connection:
        """Undoes :meth:`attach`."""
        self._session().detach(alias)
        self._let_go(alias)
        return self

    # About it -----------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The name other processes know the database by, if any."""
        return self._check().database.name

    @property
    def is_snapshot(self) -> bool:
        """Whether it was taken from another database."""
        return self._check().database.is_snapshot

    @property
    def read_only(self) -> bool:
        """Whether it was opened with ``read_only=True``: statements cannot change it."""
        return self._read_only

    @property
    def epoch(self) -> int | None:
        """The number of the newest state shared by, or taken into, this database."""
        return self._check().database.epoch

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._opened is None

    def duplicate(self) -> Connection:
        """A new session on the same database, with its own transaction and default settings."""
        return Connection(self._check(), read_only=self._read_only)

    def configure(self, config: Mapping[str, Setting]) -> Connection:
        """Changes settings of this session, all or none; as SET does, but in one call.

        ``lock_configuration`` comes last, wherever it stands.

        >>> import swingdb
        >>> con = swingdb.connect(
        ...     config={"lock_configuration": True, "enable_external_access": False}
        ... )
        >>> con.execute("SELECT * FROM 'secret.csv'")
        Traceback (most recent call last):
            ...
        swingdb.errors.NotAllowedError: not allowed: the file "secret.csv": this session has no \
access to files and other databases (enable_external_access is false)
        """
        names = sorted(config, key=lambda name: name.lower() == "lock_configuration")
        parts = []
        for name in names:
            if not _SETTING.fullmatch(name):
                raise errors.ProgrammingError(f"{name!r} is not the name of a setting")
            parts.append(f"{name} = {_setting(config[name])}")
        if parts:
            self.execute("SET " + ", ".join(parts))
        return self

    # Closing ------------------------------------------------------------------------------------

    def close(self) -> None:
        """Rolls back an open transaction and lets go of the database; may be called twice.

        A named database stays in memory. Rows handed out before stay valid.
        """
        opened, self._opened, self._last = self._opened, None, None
        session, self._session_made = self._session_made, None
        if session is not None:
            session.close()
        for alias in tuple(self._attached):
            self._let_go(alias)
        if opened is not None:
            opened.remove(self)

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._opened is None:
            return
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()

    def __del__(self) -> None:
        # A connection that fails in __init__ has no attributes.
        if getattr(self, "_opened", None) is not None:
            with contextlib.suppress(Exception):
                self.close()

    def __repr__(self) -> str:
        if self._opened is None:
            return "<swingdb.Connection closed>"
        database = self._opened.database
        kind = "snapshot " if database.is_snapshot else ""
        name = "unnamed" if database.name is None else repr(database.name)
        return f"<swingdb.Connection {kind}{name}>"

    # Inside -------------------------------------------------------------------------------------

    def _last_cursor(self) -> Cursor:
        self._check()
        return Cursor(self, self._last)

    def _let_go(self, alias: str) -> None:
        """Counts this connection out of an attached database, unless it uses it otherwise too."""
        opened = self._attached.pop(alias, None)
        others = (self._opened, *self._attached.values())
        if opened is not None and opened not in others:
            opened.remove(self)

    def _check(self) -> _opened.Opened:
        if self._opened is None:
            raise ClosedError("the connection is closed")
        return self._opened

    def _session(self) -> _internal.Session:
        # Made with the first statement, so that taking a snapshot does not wait for it.
        session = self._session_made
        if session is None:
            opened = self._check()
            with self._naming:
                session = self._session_made
                if session is None:
                    session = opened.database.session()
                    if self._read_only:
                        session.set_read_only(_READ_ONLY)
                    if "ipykernel" in sys.modules:
                        # Notebooks show long statements' progress, as they do with DuckDB.
                        session.execute("SET enable_progress_bar = true", None)
                    self._session_made = session
        return session

    def _read(self, function: str, path: Paths, options: dict[str, Any]) -> Relation:
        with _reading.named(path) as paths:
            query = Query(self, f"SELECT * FROM {_reading.call(function, paths, options)}")
            query.columns()
            relation = Relation(connection=self, query=query)
            # A file object is read once: its rows are kept.
            return relation.kept() if _reading.is_open(path) else relation

    def _variables(
        self, session: _internal.Session, sql: str, frame: FrameType | None
    ) -> dict[str, Any] | None:
        """Variables of ``frame`` that stand in for names that are no table."""
        names = session.unresolved_tables(sql)
        return _variables.find(names, frame) if names else None

    def _run(self, sql: str, params: Parameters, frame: FrameType | None) -> _internal.Rows:
        """Runs statements, with variables of ``frame`` standing in for names that are no table."""
        session = self._session()
        return self._run_variables(session, sql, params, self._variables(session, sql, frame))

    def _run_variables(
        self,
        session: _internal.Session,
        sql: str,
        params: Parameters,
        variables: dict[str, Any] | None,
    ) -> _internal.Rows:
        if not variables:
            return session.execute(sql, params)
        # Names are the session's, so one thread at a time; a running result keeps its data itself.
        with self._naming:
            return self._run_with(session, sql, params, variables)

    def _run_given(
        self, sql: str, params: Mapping[str, Any] | None, given: Mapping[str, Any]
    ) -> _internal.Rows:
        """Runs a composed statement over the data that its names stand for."""
        session = self._session()
        return self._run_variables(session, sql, params or None, dict(given))

    def _rows_of(self, name: str, data: Any) -> _internal.Batches:
        """The rows of whatever is a table to Python, which is read once."""
        session, unique = self._session(), _text.fresh("rows")
        with self._naming:
            rows = session.register(unique, _convert.to_stream(data))
            try:
                _streams.check_read(name, data, rows)
                result = session.execute(f"SELECT * FROM {unique}", None)
            finally:
                session.deregister(unique)
        return result.collect()

    def _register(self, session: _internal.Session, name: str, data: Any) -> None:
        rows = session.register(name, _convert.to_stream(data))
        try:
            _streams.check_read(repr(name), data, rows)
        except errors.InterfaceError:
            session.deregister(name)
            raise

    def _run_with(
        self, session: _internal.Session, sql: str, params: Parameters, given: dict[str, Any]
    ) -> _internal.Rows:
        registered = []
        try:
            for name, data in given.items():
                self._register(session, name, data)
                registered.append(name)
            return session.execute(sql, params)
        finally:
            for name in registered:
                session.deregister(name)

    def _run_many(self, sql: str, seq_of_params: Iterable[Any], frame: FrameType | None) -> int:
        """Runs a statement for each set of parameters, as one transaction; the rows changed."""
        session = self._session()
        sets = seq_of_params if isinstance(seq_of_params, list) else list(seq_of_params)
        if not sets:
            return 0
        bulk = _as_bulk_insert(session, sql, sets)
        if bulk is not None:
            with self._naming:
                result = self._run_with(session, bulk[0], None, {_ROWS: bulk[1]})
            return result.rows_changed or 0
        changed = 0
        own = not session.in_transaction
        if own:
            session.begin()
        try:
            for params in sets:
                result = self._run(sql, params, frame)
                if result.columns:
                    raise errors.ProgrammingError("executemany() is not for queries")
                changed += result.rows_changed or 0
        except BaseException:
            if own:
                session.rollback()
            raise
        if own:
            session.commit()
        return changed


#: What a statement hears that would change what was opened so.
_READ_ONLY = "the database was opened with read_only=True; swingdb.snapshot() gives one to change"

#: A value of a setting.
Setting = str | int | float | bool

_SETTING = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


def _one_of(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise errors.ProgrammingError(f"{what} is one of {', '.join(known)}, not {value!r}")


def _setting(value: Setting) -> str:
    """The value of a setting as SQL."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "'" + text.replace("'", "''") + "'"


#: The name under which the rows of a bulk insert are registered while it runs.
_ROWS = "swingdb_executemany_rows"

_NAME = r'(?:[A-Za-z_]\w*|"(?:[^"]|"")+")'
_PLAIN_INSERT = re.compile(
    rf"\s*(INSERT\s+INTO\s+({_NAME}(?:\.{_NAME}){{0,2}})"
    rf"\s*(?:\(\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*\))?)"
    r"\s*VALUES\s*\(\s*(\?(?:\s*,\s*\?)*)\s*\)\s*;?\s*",
    re.IGNORECASE,
)


def _as_bulk_insert(
    session: _internal.Session, sql: str, sets: list[Any]
) -> tuple[str, Any] | None:
    """The same insert as one statement over a table of all the parameters, if it is that plain."""
    match = _PLAIN_INSERT.fullmatch(sql)
    if match is None:
        return None
    insert, table, named, marks = match.groups()
    width = marks.count("?")
    columns = _convert.columns_of_rows(sets, width, _doubles(session, table, named, width))
    if columns is None:
        return None
    names = ", ".join(f"c{index}" for index in range(width))
    return f"{insert} SELECT {names} FROM {_ROWS}", columns


def _doubles(
    session: _internal.Session, table: str, named: str | None, width: int
) -> list[bool]:
    """Which columns of an insert the table stores as DOUBLE; none of a table that is not there."""
    try:
        columns = session.table(table).columns
    except errors.Error:
        return [False] * width
    types = {column[0].lower(): column[1] for column in columns}
    names = [column[0] for column in columns]
    if named is not None:
        names = [_text.unquoted(name) for name in re.findall(_NAME, named)]
    return [types.get(name.lower()) == "DOUBLE" for name in names]

