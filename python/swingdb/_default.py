"""The database behind :func:`swingdb.sql`: unnamed, one a process, made with the first query."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ._databases import connect

if TYPE_CHECKING:
    from .connection import Connection
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
    pid = os.getpid()
    # Of two threads that come first one finds the other's, and its own is closed.
    connection = _connections.get(pid) or _connections.setdefault(pid, connect())
    return connection.sql(query, params)

