"""The databases open in this process, shared by the connections on them.

A database has one writer process, but a process may well call ``connect("taxi")`` twice, above all
in a notebook whose cells run again. So named databases that are open for writing here are kept, by
namespace and name, as long as a connection uses them; the last one to close closes the database.

A forked child inherits none of this: its first call finds an empty table, and opens for itself.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING

from . import _internal
from .errors import ProgrammingError

if TYPE_CHECKING:
    from .connection import Connection


class Opened:
    """One open database and the connections on it."""

    __slots__ = ("__weakref__", "_is_told", "connections", "database", "home", "key")

    def __init__(
        self, database: _internal.Database, home: str | None, key: tuple[str, str] | None
    ) -> None:
        self.database = database
        self.home = home
        self.key = key
        self.connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._is_told = False

    def warn_if_fleeting(self, outlives: bool) -> None:
        """Tells once that a named database ends with its processes, unless somebody wished it."""
        if outlives or self._is_told or os.environ.get("SWINGDB_BACKING") == "memfd":
            return
        self._is_told = True
        text = (
            f"the memory of the database {self.database.name!r} ends with the last process that"
            " uses it, because the file system of its namespace has too little room. Enlarge"
            " /dev/shm (--shm-size of containers), give the database a store on a disk"
            " (swingdb.connect(..., store=directory)), or keep a process running that uses it"
        )
        warnings.warn(text, RuntimeWarning, stacklevel=3)

    def add(self, connection: Connection) -> None:
        """Counts a connection in."""
        with _lock:
            self.connections.add(connection)

    def remove(self, connection: Connection) -> None:
        """Counts a connection out; the last one closes the database."""
        with _lock:
            self.connections.discard(connection)
            if self.connections:
                return
            if self.key is not None and _named.get(self.key) is self:
                del _named[self.key]
        self.database.close()


_lock = threading.RLock()
_named: dict[tuple[str, str], Opened] = {}


def open_writer(
    name: str | None,
    home: str | None,
    store: str | None = None,
    durability: str | float | None = None,
) -> Opened:
    """The database ``name`` for writing, or a private one."""
    if name is None or name == ":memory:":
        return Opened(_internal.Database.open(name, home), home, None)
    key = (_namespace(home), name)
    with _lock:
        opened = _named.get(key)
        if opened is None or not opened.connections:
            database = _internal.Database.open(name, home, store, durability)
            opened = _named[key] = Opened(database, home, key)
            opened.warn_if_fleeting(database.outlives_processes)
        elif store is not None:
            _same_store(opened.database, store)
        return opened


def restore(directory: str, name: str | None, home: str | None) -> Opened:
    """A store on a disk, read into memory as a new database."""
    with _lock:
        database = _internal.Database.restore(directory, name, home)
        key = (_namespace(home), str(database.name))
        opened = _named[key] = Opened(database, home, key)
        return opened


def _same_store(database: _internal.Database, store: str) -> None:
    """That a database which is open in this process has the store that is asked for."""
    present = database.store()
    path = None if present is None else present["path"]
    if path != (os.path.realpath(store) if store else None):
        where = "without a store" if path is None else f"with the store {path}"
        raise ProgrammingError(
            f"the database is open in this process {where}; close its connections first"
        )


def hook(name: str, target: str | None, home: str | None) -> Opened:
    """A snapshot of the database ``name``, itself named ``target`` if that is given."""
    if target is None:
        return Opened(_internal.Database.snapshot(name, None, home), home, None)
    key = (_namespace(home), target)
    with _lock:
        opened = Opened(_internal.Database.snapshot(name, target, home), home, key)
        _named[key] = opened
        return opened


def close_named(name: str, home: str | None) -> bool:
    """Closes this process's connections to a named database; whether there were any."""
    with _lock:
        opened = _named.get((_namespace(home), name))
        connections = [] if opened is None else list(opened.connections)
    for connection in connections:
        connection.close()
    return bool(connections)


def _namespace(home: str | None) -> str:
    """What tells one namespace from another: a path, or the empty string for the usual place."""
    return os.path.realpath(home or os.environ.get("SWINGDB_HOME") or "")


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    _named.clear()
    _internal.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
