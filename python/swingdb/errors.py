"""The exceptions of SwingDB: the tree of PEP 249, with one class below it for each kind of error of
the engine.

Every exception carries what the engine knows as attributes, so that a program need not parse
messages:

>>> import swingdb
>>> con = swingdb.connect()
>>> try:
...     con.execute("SELECT * FROM no_such_table")
... except swingdb.NotFoundError as error:
...     error.kind, error.name
('table', 'no_such_table')

An attribute that does not apply to an error is ``None``. Exceptions can be pickled, so they travel
from worker processes.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "Warning",
    "Error",
    "InterfaceError",
    "DatabaseError",
    "DataError",
    "OperationalError",
    "IntegrityError",
    "InternalError",
    "ProgrammingError",
    "NotSupportedError",
    "ParseError",
    "PlanError",
    "NotFoundError",
    "AlreadyExistsError",
    "ConstraintError",
    "ConversionError",
    "ExecutionError",
    "FileImportError",
    "OutOfMemoryError",
    "BusyError",
    "NotSharedError",
    "TransactionError",
    "FileError",
    "CorruptError",
    "MemoryGoneError",
    "StoreError",
    "QueryInterruptedError",
    "StatementTimeoutError",
    "LimitReachedError",
    "NotAllowedError",
    "ForkedError",
    "ClosedError",
    "ClusterError",
    "NodeLostError",
    "NodeVersionError",
    "NodeFailedError",
    "UndeliveredError",
    "InDoubtError",
]


class Warning(Exception):  # noqa: A001 - the name is PEP 249's
    """Important warnings, such as data truncated while it was written (PEP 249)."""


class Error(Exception):
    """Base of all errors of SwingDB (PEP 249).

    Attributes that apply to the error are set on the instance; all others read as ``None``.
    """

    #: What kind of thing the error is about, e.g. ``"table"`` or ``"column"``.
    kind: str | None = None
    #: The name of that thing.
    name: str | None = None
    #: A similar name that does exist.
    suggestion: str | None = None
    #: The table that is affected.
    table: str | None = None
    #: The column that is affected.
    column: str | None = None
    #: The columns of the constraint that was violated.
    columns: list[str] | None = None
    #: The constraint that was violated, e.g. ``"PRIMARY KEY (id)"``.
    constraint: str | None = None
    #: More about what happened.
    detail: str | None = None
    #: The file.
    path: str | None = None
    #: The line in the SQL text or in the file, counted from 1.
    line: int | None = None
    #: The process that holds what was asked for.
    pid: int | None = None
    #: That process's command line.
    command: str | None = None
    #: How many bytes of memory were needed.
    needed: int | None = None
    #: How many bytes were free.
    free: int | None = None
    #: ``errno`` of the failed system call.
    errno: int | None = None
    #: The address of the cluster's node that is to blame.
    node: str | None = None

    def __init__(self, message: object = "", **details: Any) -> None:
        super().__init__(message)
        self.__dict__.update(details)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: type[Error], args: tuple[Any, ...], details: dict[str, Any]) -> Error:
    """Makes an exception again after pickling."""
    return cls(*args, **details)


#: Characters shown on each side of the place of an error.
_AROUND = 60


def _pointed(sql: str, line: int, column: int) -> str | None:
    """The line of ``sql`` and a caret below its ``column``; both are counted from 1."""
    # Here, so that `import swingdb` does not wait for it.
    from unicodedata import east_asian_width

    lines = sql.split("\n")
    if not (1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1):
        return None
    source = lines[line - 1].replace("\t", " ").replace("\r", " ")
    first = max(0, column - 1 - _AROUND)
    before = source[first : column - 1]
    width = sum(2 if east_asian_width(char) in "WF" else 1 for char in before)
    return f"  {source[first : first + 2 * _AROUND].rstrip()}\n  {' ' * width}^"


class InterfaceError(Error):
    """The database interface was misused rather than the database (PEP 249)."""


class DatabaseError(Error):
    """Base of the errors that concern the database (PEP 249)."""


class DataError(DatabaseError):
    """A problem with the processed data: out of range, wrong type, malformed (PEP 249)."""


class OperationalError(DatabaseError):
    """The database's operation failed, not necessarily by the program's fault: memory, files, locks
    (PEP 249).
    """


class IntegrityError(DatabaseError):
    """A constraint would be violated (PEP 249)."""


class InternalError(DatabaseError):
    """The database found itself in an unexpected state: please report it (PEP 249)."""


class ProgrammingError(DatabaseError):
    """The program made a mistake: a name that does not exist, a syntax error, wrong parameters (PEP
    249).
    """


class NotSupportedError(DatabaseError):
    """Something SwingDB cannot do (PEP 249)."""


class ParseError(ProgrammingError):
    """The SQL text is not SQL. ``line`` and ``column`` say where, if known."""


class PlanError(ProgrammingError):
    """The SQL is well formed but makes no sense: unknown functions, types that do not fit."""


class NotFoundError(ProgrammingError):
    """``kind`` (database, table, column, ...) ``name`` does not exist; ``suggestion`` is a similar
    name that does.
    """


class AlreadyExistsError(ProgrammingError):
    """``kind`` ``name`` exists already."""


class ConstraintError(IntegrityError):
    """NOT NULL, PRIMARY KEY or UNIQUE: see ``table``, ``constraint``, ``detail``."""


class ConversionError(DataError):
    """A value does not fit the type it is meant for: see ``column``, ``line``, ``detail``."""


class ExecutionError(DataError):
    """A statement failed while it ran: division by zero, overflow."""


class FileImportError(DataError):
    """A file could not be imported: see ``path``, ``line``, ``detail``. The table is as it was
    before.
    """


class OutOfMemoryError(OperationalError, MemoryError):
    """The memory-backed file system or the machine is full: see ``needed`` and ``free``. Or what
    does not fit into memory does not fit into the folder ``path`` for temporary files either.
    Nothing was changed.
    """


class BusyError(OperationalError):
    """Another process (``pid``, ``command``) is the writer of the database ``name``: take a
    snapshot instead. Or that refuses snapshots at the moment (``pid`` is None): try again later.
    """


class NotSharedError(OperationalError):
    """A snapshot of the database ``name``, which exists but of which nothing was shared yet: wait
    until its writer calls :meth:`Connection.share`.
    """


class StoreError(OperationalError):
    """The store of a database on a disk (``path``) could not be opened, read or written; memory,
    and what was on the disk before, is as it was.

    ``problem`` is one of "in use", "full", "read-only", "missing", "damaged", "version", "not a
    store", "mismatch", "unknown" and "io". After "unknown" a commit may be on the disk or not:
    close the database and open it again.
    """


class TransactionError(OperationalError):
    """A transaction was begun twice, or conflicts with another one."""


class FileError(OperationalError):
    """A file could not be read or written: see ``path`` and ``errno``."""


class CorruptError(OperationalError):
    """Shared memory holds something that is not a valid database: see ``path`` and ``detail``."""


class MemoryGoneError(OperationalError):
    """The memory of the database ``name`` went with the last process that held it: it was a memfd,
    not a file in the folder ``path``. Drop it or make it anew, and keep a process open that uses
    it.
    """


class QueryInterruptedError(OperationalError):
    """The statement was cancelled by :meth:`Connection.interrupt`. (Ctrl-C raises
    KeyboardInterrupt.)
    """


class StatementTimeoutError(QueryInterruptedError):
    """The statement took longer than the setting ``statement_timeout`` allows. Nothing of it was
    applied.
    """


class LimitReachedError(OperationalError):
    """The result is larger than the setting ``name`` (``max_result_rows``, ``max_result_bytes``)
    allows.
    """


class NotAllowedError(OperationalError):
    """The session is confined (``enable_external_access``, ``lock_configuration``), and the
    statement goes beyond that.
    """


class ForkedError(InterfaceError):
    """A connection was used in a forked child of the process that opened it. Open one of its own in
    the child.
    """


class ClosedError(InterfaceError):
    """The connection, cursor or result was closed before."""


class ClusterError(OperationalError):
    """A statement on a cluster failed: ``node`` is to blame, if one is."""


class NodeLostError(ClusterError):
    """A node is gone, or does not answer in time. There is never an answer from a part of the
    nodes.
    """


class NodeVersionError(ClusterError):
    """A node has another version than the coordinator."""


class NodeFailedError(ClusterError):
    """A node refused a statement, or failed to carry it out."""


class UndeliveredError(ClusterError):
    """A change is decided, but ``node`` could not be told yet: :meth:`Cluster.recover` tells it."""


class InDoubtError(ClusterError):
    """The node that decides was lost meanwhile: :meth:`Cluster.recover` finds out whether the
    change was carried out, and settles it.
    """
