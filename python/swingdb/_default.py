"""The database behind :func:`swingdb.sql`: unnamed, one a process, made with the first query."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ._databases import connect

if TYPE_CHECKING:
    from .connection import Connection, Paths
    from .cursor import Parameters
    from .relation import Relation

#: By process: a forked child makes its own.
_connections: dict[int, Connection] = {}


def sql(query: str, params: Parameters = None) -> Relation:
    """Runs a query in an unnamed database that the whole process shares; see
    :meth:`Connection.sql`.

    For a quick look at variables and files; whoever keeps tables connects to a database.

    >>> import swingdb
    >>> people = {"name": ["Ada", "Bo"], "age": [36, 41]}
    >>> swingdb.sql("SELECT max(age) FROM people").fetchone()
    (41,)
    """
    return _connection().sql(query, params)


def read_csv(path: Paths, **options: Any) -> Relation:
    """CSV files as a relation; see :meth:`Connection.read_csv`."""
    return _connection().read_csv(path, **options)


def read_parquet(path: Paths, **options: Any) -> Relation:
    """Parquet files as a relation; see :meth:`Connection.read_parquet`."""
    return _connection().read_parquet(path, **options)


def read_json(path: Paths, **options: Any) -> Relation:
    """JSON files as a relation; see :meth:`Connection.read_json`."""
    return _connection().read_json(path, **options)


def from_arrow(data: Any) -> Relation:
    """A relation over rows that are there; see :meth:`Connection.from_arrow`."""
    return _connection().from_arrow(data)


#: What DuckDB calls it for pandas.
from_df = from_arrow


def _connection() -> Connection:
    pid = os.getpid()
    # Of two threads that come first one finds the other's, and its own is closed.
    return _connections.get(pid) or _connections.setdefault(pid, connect())

