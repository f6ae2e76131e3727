"""Connections: a database or a snapshot, open in this process, and one session on it."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from . import _convert, _opened, _streams, _variables, errors
from .cursor import Cursor
from .errors import ClosedError
from .relation import Relation

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import FrameType, TracebackType

    from . import _internal
    from .cursor import Parameters

    Progress = Callable[[int, int | None, str], object]

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


class Connection:
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

    def __init__(self, opened: _opened.Opened) -> None:
        # Not called by users: swingdb.connect(), .snapshot() and .get_snapshot() make connections.
        self._opened: _opened.Opened | None = opened
        self._session_made: _internal.Session | None = None
        self._attached: dict[str, _opened.Opened] = {}
        self._naming = threading.Lock()
        opened.add(self)

    # SQL ----------------------------------------------------------------------------------------

    def execute(self, sql: str, params: Parameters = None) -> Cursor:
        """Runs one or several statements in a new cursor; see :meth:`Cursor.execute`."""
        return Cursor(self).execute(sql, params)

    def executemany(
        self, sql: str, seq_of_params: Iterable[Sequence[Any] | Mapping[str, Any]]
    ) -> Cursor:
        """Runs a statement for each set of parameters; see :meth:`Cursor.executemany`."""
        return Cursor(self).executemany(sql, seq_of_params)

    def cursor(self) -> Cursor:
        """A cursor (PEP 249). All cursors of a connection share its session and transaction."""
        self._check()
        return Cursor(self)

    def sql(self, query: str, params: Parameters = None) -> Relation:
        """Runs a query; its rows can be had in every form, any number of times.

        Names that are no table are looked up among the caller's variables: pandas, Polars and
        Arrow data, dicts of columns, lists of dicts, other relations.

        >>> import swingdb
        >>> people = {"name": ["Ada", "Bo"], "age": [36, 41]}
        >>> con = swingdb.connect()
        >>> con.sql("SELECT name FROM people WHERE age > ?", [40]).fetchall()
        [('Bo',)]
        """
        return Relation(result=self._run(query, params, _variables.caller()))

    def interrupt(self) -> None:
        """Ends the running statements of this session: they raise QueryInterruptedError.

        For other threads; Ctrl-C in the main thread does the same by itself.
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
        return Relation(batches=self._session().table(name))

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

    def import_file(
        self,
        path: str | os.PathLike[str],
        table: str,
        *,
        format: str | None = None,  # noqa: A002 - the word SQL uses
        header: bool | None = None,
        delimiter: str | None = None,
        null: str | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Appends a file to a table, which is made if it does not exist; all or nothing.

        ``format`` is ``"parquet"``, ``"csv"``, ``"json"`` (one object a line) or ``"arrow"``; it
        and the other options are found out from the file when not given. ``progress(done, total,
        unit)`` is called about ten times a second, from another thread.
        """
        options = {"format": format, "header": header, "delimiter": delimiter, "null": null}
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
    ) -> ExportReport:
        """Writes a table or a query's result to a file; the format goes by its name."""
        options = {
            "format": format,
            "header": header,
            "delimiter": delimiter,
            "compression": compression,
        }
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
        """Makes the last committed state the one that new snapshots see."""
        return ShareInfo(*self._check().database.share())

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
    def epoch(self) -> int | None:
        """The number of the newest state shared by, or taken into, this database."""
        return self._check().database.epoch

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._opened is None

    def duplicate(self) -> Connection:
        """A new session on the same database, with its own transaction and default settings."""
        return Connection(self._check())

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
        opened, self._opened = self._opened, None
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
                    session = self._session_made = opened.database.session()
        return session

    def _run(self, sql: str, params: Parameters, frame: FrameType | None) -> _internal.Rows:
        """Runs statements, with variables of ``frame`` standing in for names that are no table."""
        session = self._session()
        names = session.unresolved_tables(sql)
        variables = _variables.find(names, frame) if names else None
        if not variables:
            return session.execute(sql, params)
        # Names are the session's, so one thread at a time; a running result keeps its data itself.
        with self._naming:
            return self._run_with(session, sql, params, variables)

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


#: A value of a setting.
Setting = str | int | float | bool

_SETTING = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


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
        names = [_unquoted(name) for name in re.findall(_NAME, named)]
    return [types.get(name.lower()) == "DOUBLE" for name in names]


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
