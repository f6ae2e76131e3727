"""The databases of this machine: opening, listing, lineage, dropping, cleaning up, advice."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _internal, _opened
from .connection import Connection
from .errors import NotFoundError, ProgrammingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .connection import Setting


class Parent(NamedTuple):
    """A database another one was taken or cloned from."""

    name: str | None
    epoch: int


class DatabaseInfo(NamedTuple):
    """One named database or snapshot, as :func:`swingdb.list` returns it."""

    #: Its name; None for an unnamed one.
    name: str | None
    #: Memory that is its own, in bytes.
    own_bytes: int
    #: Memory that it shares with the databases it came from, in bytes.
    shared_bytes: int
    #: Memory written since it was shared last, in bytes.
    private_bytes: int
    #: The writer's process id, if it runs.
    pid: int | None
    #: The writer's command line.
    command: str | None
    #: The number of the state new snapshots see; None while nothing was shared.
    shared_epoch: int | None
    #: The number of the last committed state.
    committed_epoch: int | None
    #: The processes that hold snapshots of it.
    readers: tuple[int, ...]
    #: When it was made, in seconds since 1970.
    created: float
    #: When it was shared last, in seconds since 1970.
    shared: float | None
    #: The databases it came from.
    parents: tuple[Parent, ...]
    #: What its owner calls it besides: the name that a program in C gave to an area, whose own name
    #: is ``swing-token-5``, or "object heap"; None for databases.
    label: str | None = None


class LineageNode(NamedTuple):
    """One database in the forest of who came from whom."""

    name: str | None
    parents: tuple[str, ...]
    children: tuple[str, ...]
    info: DatabaseInfo


class DropReport(NamedTuple):
    """What :func:`swingdb.drop` and :func:`swingdb.discard_snapshot` freed."""

    freed_bytes: int
    #: Memory that snapshots of it still use, and that goes with them.
    kept_bytes: int


class GcReport(NamedTuple):
    """What :func:`swingdb.gc` freed."""

    freed_bytes: int
    #: Databases of dead processes that are gone now.
    removed: int
    #: Databases that stay, and lost what their dead writers left over.
    swept: int


class Finding(NamedTuple):
    """Something on this system that costs speed or capacity."""

    what: str
    cost: str
    #: The command that mends it; empty if all is well.
    mend: str


def connect(
    name: str | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
    config: Mapping[str, Setting] | None = None,
    store: str | os.PathLike[str] | None = None,
    durability: str | float | None = None,
    read_only: bool = False,
) -> Connection:
    """Opens the database ``name`` as its one writer, making it if need be.

    Without a name, or as ``":memory:"``, it is private, and ends with the process. A second writer
    *process* gets :class:`BusyError`; connections of one process share the database. ``home`` is
    the directory of the namespace: else ``$SWINGDB_HOME``, else ``/dev/shm/swingdb-<uid>``.
    ``config`` has settings of the session, as SET takes them; ``lock_configuration`` comes last
    wherever it stands.

    ``store`` is a directory on a disk where the database outlives the machine's memory; it is made
    when it is missing, and remembered. The newer of what is there and what is in memory is taken;
    :class:`StoreError` if they do not belong together. ``durability`` says when changes get there:
    ``"commit"``, with each commit (the default); a number of seconds, in the background; or
    ``"manual"``, with :meth:`Connection.checkpoint` alone. ``store=""`` goes on in memory alone.

    ``read_only=True`` gives a snapshot of the newest shared state instead, as :func:`snapshot`
    does, whether or not somebody writes the database; statements that change it are errors.

    >>> import swingdb
    >>> with swingdb.connect("doc_connect", config={"memory_limit": "1GB"}) as con:
    ...     _ = con.execute("CREATE TABLE t AS SELECT 42 AS a")
    ...     epoch = con.share().epoch
    >>> with swingdb.snapshot("doc_connect") as snap:
    ...     snap.sql("SELECT a FROM t").fetchall()
    [(42,)]
    >>> _ = swingdb.drop("doc_connect")
    """
    if read_only:
        if name is None or name == ":memory:":
            raise ProgrammingError("a private database is empty; read_only=True needs a name")
        if store is not None:
            raise ProgrammingError("read_only=True reads the state in memory; leave store out")
        opened = _opened.hook(name, None, _path(home))
        return _configured(Connection(opened, read_only=True), config)
    if durability is not None and store is None:
        raise ProgrammingError("durability goes with store=")
    if store is not None and (name is None or name == ":memory:"):
        raise ProgrammingError("a private database has no store; give the database a name")
    directory = None if store is None else os.fspath(store)
    opened = _opened.open_writer(name, _path(home), directory, durability)
    return _configured(Connection(opened), config)


def restore(
    directory: str | os.PathLike[str],
    name: str | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
) -> Connection:
    """Reads a store on a disk into memory, as the new database ``name``.

    Without ``name`` it is that of the database in the store. The store stays as it is, and the
    database has none. :class:`AlreadyExistsError` if there is a database of the name.
    """
    return Connection(_opened.restore(os.fspath(directory), name, _path(home)))


def snapshot(
    name: str,
    *,
    home: str | os.PathLike[str] | None = None,
    config: Mapping[str, Setting] | None = None,
) -> Connection:
    """Takes a snapshot of the newest shared state of ``name``, in microseconds, copying nothing.

    It can be written to; nobody else sees that. It ends with this process. ``config`` is that of
    :func:`connect`.
    """
    return _configured(Connection(_opened.hook(name, None, _path(home))), config)


def get_snapshot(
    proposed: str,
    target: str,
    *,
    home: str | os.PathLike[str] | None = None,
    config: Mapping[str, Setting] | None = None,
) -> Connection:
    """Takes a snapshot of the database ``proposed`` under the name ``target``.

    As a database of that name it can be shared on, and then outlives this process.

    >>> import swingdb
    >>> con = swingdb.connect("doc_raw")
    >>> _ = con.execute("CREATE TABLE t AS SELECT 1 AS a UNION ALL SELECT NULL")
    >>> _ = con.share()
    >>> mine = swingdb.get_snapshot("doc_raw", "doc_clean")
    >>> mine.execute("DELETE FROM t WHERE a IS NULL").rowcount
    1
    >>> _ = mine.share()
    >>> con.sql("SELECT count(*) FROM t").fetchone()
    (2,)
    >>> swingdb.snapshot("doc_clean").sql("SELECT count(*) FROM t").fetchone()
    (1,)
    >>> _ = swingdb.discard_snapshot("doc_clean")
    >>> con.close()
    >>> _ = swingdb.drop("doc_raw")
    """
    return _configured(Connection(_opened.hook(proposed, target, _path(home))), config)


def _configured(connection: Connection, config: Mapping[str, Setting] | None) -> Connection:
    """The connection with these settings, or none at all."""
    if config:
        try:
            connection.configure(config)
        except BaseException:
            connection.close()
            raise
    return connection


def drop(name: str, *, home: str | os.PathLike[str] | None = None) -> DropReport:
    """Drops a named database. Snapshots of it stay valid; memory goes when nobody uses it.

    :class:`BusyError` while a process, also this one, has it open for writing.
    """
    return DropReport(*_internal.drop(name, _path(home)))


def discard_snapshot(name: str, *, home: str | os.PathLike[str] | None = None) -> DropReport:
    """Drops a named snapshot, after closing this process's connections to it.

    Arrays and results read from it stay valid. A database that is no snapshot of another one is
    left alone: that takes :func:`swingdb.drop`.
    """
    known = next((info for info in list_databases(home=home) if info.name == name), None)
    if known is not None and not known.parents:
        raise ProgrammingError(f"{name!r} is no snapshot of another database; use swingdb.drop")
    closed = _opened.close_named(name, _path(home))
    try:
        return DropReport(*_internal.discard_snapshot(name, _path(home)))
    except NotFoundError:
        if not closed:
            raise
        # One that was neither written to nor shared ends when it is closed.
        return DropReport(0, 0)


def list_databases(*, home: str | os.PathLike[str] | None = None) -> list[DatabaseInfo]:
    """All databases and named snapshots; exported as ``swingdb.list``."""
    return [_info(item) for item in _internal.list_databases(_path(home))]


def lineage(*, home: str | os.PathLike[str] | None = None) -> list[LineageNode]:
    """All databases with those they came from and those that came from them."""
    return [
        LineageNode(item["name"], tuple(parents), tuple(children), _info(item))
        for item, parents, children in _internal.lineage(_path(home))
    ]


def gc(*, home: str | os.PathLike[str] | None = None) -> GcReport:
    """Frees what dead processes left behind."""
    return GcReport(*_internal.gc(_path(home)))


def doctor() -> list[Finding]:
    """What on this system costs speed or capacity, and the command that mends it."""
    return [Finding(*finding) for finding in _internal.doctor()]


def _info(item: dict[str, Any]) -> DatabaseInfo:
    fields = dict(item)
    fields["parents"] = tuple(Parent(*parent) for parent in item["parents"])
    fields["readers"] = tuple(item["readers"])
    return DatabaseInfo(**fields)


def _path(home: str | os.PathLike[str] | None) -> str | None:
    return None if home is None else os.fspath(home)
