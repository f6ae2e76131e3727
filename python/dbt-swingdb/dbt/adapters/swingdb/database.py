"""Databases that dbt has open, and sessions on them.

dbt opens and closes connections as it likes; a private database would end with the last of them,
and a named one could be taken by another process in between. So the first connection opens the
database, and it stays open: a named one until the command ends, a private one until the process
does. Each connection of dbt is a session of its own, whose temporary tables end with it.

A database has one write transaction at a time, and its readers wait for nobody. dbt opens a
transaction for queries, too, and may leave it open while it does something else. So a transaction
begins with its first change, which waits for its turn; until then each query sees the newest
committed state.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import swingdb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dbt.adapters.swingdb.credentials import SwingDBCredentials

__all__ = ["Database", "Session", "close_all", "is_read", "open_database"]

_opened: dict[tuple[str | None, str | None], Database] = {}
_opening = threading.Lock()

_LEADING = re.compile(r"(?:\s|/\*.*?\*/|--[^\n]*(?:\n|\Z)|;|\()*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]+")
_READS = frozenset(("select", "with", "values", "from", "describe", "show", "explain", "set"))
_CHANGES = re.compile(r"\b(?:insert|update|delete|merge)\b", re.IGNORECASE)
_INNER_SEMICOLON = re.compile(r";\s*\S")


class Database:
    """A database that this process has open, with the snapshots that belong to its sessions."""

    def __init__(self, credentials: SwingDBCredentials) -> None:
        self.name = credentials.name
        self._root = swingdb.connect(
            credentials.name,
            home=credentials.home,
            store=credentials.store,
            durability=credentials.durability,
        )
        #: Taken once, so that all models of a run see the same state of other databases.
        self._others: list[tuple[swingdb.Connection, str]] = []
        for other in credentials.attach:
            taken = swingdb.snapshot(other["name"], home=credentials.home)
            self._others.append((taken, other.get("alias", other["name"])))
        self._share = credentials.share if credentials.name else "never"
        self._changed = False

    def session(self, settings: dict[str, Any]) -> Session:
        """A new session."""
        connection = self._root.duplicate()
        if settings:
            connection.configure(settings)
        for taken, alias in self._others:
            connection.attach(taken, alias)
        return Session(connection, self)

    def committed(self) -> None:
        """Notes that something was committed."""
        self._changed = True
        if self._share == "commit":
            self._root.share()

    def share(self) -> None:
        """Shows other processes what a run has built, if they are to see it."""
        if self._changed and self._share == "run":
            self._root.share()
        self._changed = False

    def close(self) -> None:
        """Closes the database; sessions that are open keep it."""
        for taken, _ in self._others:
            taken.close()
        self._root.close()


def open_database(credentials: SwingDBCredentials) -> Database:
    """The database of a profile, which this opens if it is not open."""
    key = (credentials.home, credentials.name)
    with _opening:
        if key not in _opened:
            _opened[key] = Database(credentials)
        return _opened[key]


def close_all() -> None:
    """At the end of a command: shares what was built, and closes the databases that have names."""
    with _opening:
        try:
            for database in _opened.values():
                database.share()
        finally:
            for key in [key for key, database in _opened.items() if database.name]:
                _opened.pop(key).close()


def is_read(sql: str) -> bool:
    """Whether a text is one query: in doubt it is not, and takes the write transaction.

    >>> is_read("/* dbt */ select 1;"), is_read("with a as (select 1) insert into t from a")
    (True, False)
    """
    start = _LEADING.match(sql)
    rest = sql[start.end() :] if start else sql
    word = _WORD.match(rest)
    if word is None or word.group().lower() not in _READS:
        return False
    return not _CHANGES.search(rest) and not _INNER_SEMICOLON.search(rest)


class Session:
    """A session: what dbt calls the handle of a connection."""

    def __init__(self, connection: swingdb.Connection, database: Database) -> None:
        self.connection = connection
        self._database = database
        #: dbt has asked for a transaction, which its first change begins.
        self._wanted = False
        self._begun = False

    def cursor(self) -> Cursor:
        """A cursor of the session."""
        return Cursor(self)

    def before(self, sql: str) -> bool:
        """Prepares the session for a statement; False if there is nothing to run."""
        word = _LEADING.sub("", sql, count=1).strip().rstrip(";").strip().lower()
        if word in ("begin", "begin transaction", "start transaction"):
            self._wanted = True
            return False
        if word in ("commit", "end", "commit transaction"):
            self.commit()
            return False
        if word in ("rollback", "rollback transaction"):
            self.rollback()
            return False
        if self._wanted and not self._begun and not is_read(sql):
            self.connection.execute("BEGIN IMMEDIATE")
            self._begun = True
        return True

    def after(self, sql: str) -> None:
        """What follows a statement that did not fail."""
        if not self._begun and not is_read(sql):
            self._database.committed()

    def commit(self) -> None:
        """Ends the transaction, if there is one."""
        begun, self._begun, self._wanted = self._begun, False, False
        if begun:
            self.connection.execute("COMMIT")
            self._database.committed()

    def rollback(self) -> None:
        """Takes the transaction back, if there is one."""
        begun, self._begun, self._wanted = self._begun, False, False
        if begun:
            self.connection.execute("ROLLBACK")

    def interrupt(self) -> None:
        """Ends the statement that another thread runs."""
        self.connection.interrupt()

    def close(self) -> None:
        """Ends the session and its temporary tables; an open transaction is taken back."""
        self.rollback()
        self.connection.close()


class Cursor:
    """A cursor (PEP 249) whose statements begin transactions as the module's text says."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cursor = session.connection.cursor()

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> Cursor:
        """Runs statements."""
        if self._session.before(sql):
            # Names are tables: the variables of dbt's own functions are none of theirs.
            self._cursor._execute(sql, bindings, None)
            self._session.after(sql)
        return self

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> Cursor:
        """Runs a statement for each row of parameters."""
        if self._session.before(sql):
            self._cursor._execute_many(sql, rows, None)
            self._session.after(sql)
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)
