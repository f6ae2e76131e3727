"""SwingDB: an in-memory analytical database that any process can take as its own snapshot.

One process writes a named database and shares it; others take the shared state as their own
snapshot in microseconds, query it with SQL over the very same memory, change their copy without
anybody noticing, and share the result on.

>>> import swingdb
>>> con = swingdb.connect("doc_taxi")                       # its one writer
>>> _ = con.execute("CREATE TABLE trips (id INT, km DOUBLE)")
>>> _ = con.executemany("INSERT INTO trips VALUES (?, ?)", [(1, 2.5), (2, 4.0)])
>>> _ = con.share()
>>> snap = swingdb.snapshot("doc_taxi")                     # usually in another process
>>> snap.sql("SELECT sum(km) AS km FROM trips").fetchall()
[(6.5,)]
>>> snap.close(); con.close()
>>> _ = swingdb.drop("doc_taxi")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import errors
from ._databases import (
    DatabaseInfo,
    DropReport,
    Finding,
    GcReport,
    LineageNode,
    Parent,
    connect,
    discard_snapshot,
    doctor,
    drop,
    gc,
    get_snapshot,
    lineage,
    restore,
    snapshot,
)
from ._databases import list_databases as list  # noqa: A004 - the name users know it by
from ._default import from_arrow, from_df, read_csv, read_json, read_parquet, sql
from ._internal import __version__
from .connection import (
    CheckpointInfo,
    Connection,
    ExportReport,
    ImportReport,
    ShareInfo,
    StoreInfo,
)
from .cursor import Cursor
from .errors import *  # noqa: F403 - exactly errors.__all__
from .relation import Relation
from .types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Interval,
    SqlType,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

if TYPE_CHECKING:
    from ._cluster import Cluster, ClusterResult, cluster
    from .heap import HeapError, HeapSnapshot, HeapStats, ObjectHeap

#: PEP 249: the version of the interface.
apilevel = "2.0"
#: PEP 249: threads may share the module and connections.
threadsafety = 2
#: PEP 249: ``?``; also ``$1`` from a sequence and ``$name`` from a dict.
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "CheckpointInfo",
    "Cluster",
    "ClusterResult",
    "Connection",
    "Cursor",
    "DatabaseInfo",
    "Date",
    "DateFromTicks",
    "DropReport",
    "ExportReport",
    "Finding",
    "GcReport",
    "HeapError",
    "HeapSnapshot",
    "HeapStats",
    "ImportReport",
    "Interval",
    "LineageNode",
    "ObjectHeap",
    "Parent",
    "Relation",
    "ShareInfo",
    "SqlType",
    "StoreInfo",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "__version__",
    "apilevel",
    "cluster",
    "connect",
    "discard_snapshot",
    "doctor",
    "drop",
    "errors",
    "from_arrow",
    "from_df",
    "gc",
    "get_snapshot",
    "lineage",
    "list",
    "paramstyle",
    "read_csv",
    "read_json",
    "read_parquet",
    "restore",
    "snapshot",
    "sql",
    "threadsafety",
    *errors.__all__,
]


def __getattr__(name: str) -> object:
    # What stands on the C interface is not imported by those who do not use it.
    if name in ("HeapError", "HeapSnapshot", "HeapStats", "ObjectHeap"):
        from . import heap

        return getattr(heap, name)
    # What starts processes is not imported by those who need none.
    if name in ("Cluster", "ClusterResult", "cluster"):
        from . import _cluster

        return getattr(_cluster, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
