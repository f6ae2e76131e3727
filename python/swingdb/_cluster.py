"""Sessions on a cluster of several machines: :func:`cluster`.

The coordinator is the program ``swingdb-cluster``, which this module starts and talks to over
pipes: results are Arrow streams. It is installed on its own, so that nobody else pays for it.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from . import _internal, errors
from ._convert import frame_of, import_optional
from ._local import Local
from .relation import row_count

if TYPE_CHECKING:
    from types import TracebackType

    import pandas
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

__all__ = ["Cluster", "ClusterResult", "cluster"]

#: The program that coordinates.
PROGRAM = "swingdb-cluster"
#: How long the program may take to end after it was told to.
_END_SECONDS = 5.0


def cluster(
    nodes: Sequence[str],
    *,
    token: str | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
    program: str | os.PathLike[str] | None = None,
) -> Cluster:
    """Opens a session on the databases of several nodes, which it reads as one.

    ``nodes`` are addresses like ``"10.0.0.1:7411/sales"``, in the order of the shards, which has to
    be the same each time; a shard with copies names all its nodes: ``"a:7411/s, b:7411/s"``.
    ``token`` is the secret that the nodes ask for (default: ``$SWINGDB_CLUSTER_TOKEN``), ``tls_ca``
    the file with the certificate that theirs are signed by. ``program`` is the path of
    ``swingdb-cluster`` (default: ``$SWINGDB_CLUSTER_PROGRAM``, else the one on the path).

    The session reads one state of all nodes until :meth:`Cluster.refresh` or a change of its own.

        with swingdb.cluster(["10.0.0.1:7411/sales", "10.0.0.2:7411/sales"]) as sales:
            sales.query("SELECT region, sum(amount) FROM orders WHERE day > ?", [day]).arrow()
    """
    if isinstance(nodes, str):
        raise errors.InterfaceError("nodes is a list of addresses, not one text")
    token = token if token is not None else os.environ.get("SWINGDB_CLUSTER_TOKEN")
    return Cluster(_Pipe(_program(program)), list(nodes), token, tls_ca)


def _program(path: str | os.PathLike[str] | None) -> str:
    chosen = path or os.environ.get("SWINGDB_CLUSTER_PROGRAM") or PROGRAM
    found = shutil.which(os.fspath(chosen))
    if found is None:
        raise errors.NotFoundError(
            f"the program {os.fspath(chosen)} is not installed: `make cluster` builds it; name its"
            " path by program= or $SWINGDB_CLUSTER_PROGRAM if it is not on the path",
            kind="program",
            name=PROGRAM,
        )
    return found


def _raise(failure: dict[str, Any]) -> None:
    """Raises an error of the program as its exception."""
    made = getattr(errors, failure["class"], errors.OperationalError)
    raise made(failure["message"], **({"node": failure["node"]} if failure["node"] else {}))


class _Pipe:
    """The program, and messages to and from it: a length, and so many bytes."""

    def __init__(self, program: str) -> None:
        # A new session, so that Ctrl-C reaches this program alone, which then ends that one.
        self._process = subprocess.Popen(
            [program, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._pid = os.getpid()
        self.is_closed = False

    def _ends(self) -> tuple[IO[bytes], IO[bytes]]:
        if self.is_closed or self._process.stdin is None or self._process.stdout is None:
            raise errors.ClosedError("the session on the cluster is closed")
        if self._pid != os.getpid():
            raise errors.ForkedError("a session on a cluster belongs to the process that opened it")
        return self._process.stdin, self._process.stdout

    def send(self, request: dict[str, Any], more: bytes | None = None) -> None:
        """Sends a request."""
        into, _ = self._ends()
        parts = [json.dumps(request).encode()] + ([] if more is None else [more])
        try:
            into.write(b"".join(struct.pack("<I", len(part)) + part for part in parts))
            into.flush()
        except OSError as error:
            self._lost(error)
        except BaseException:
            self.close()
            raise

    def receive(self) -> bytes:
        """Waits for a message."""
        _, out = self._ends()
        try:
            length = out.read(4)
            message = out.read(struct.unpack("<I", length)[0]) if len(length) == 4 else b""
            if len(length) < 4 or len(message) < struct.unpack("<I", length)[0]:
                self._lost(None)
            return message
        except errors.Error:
            raise
        except BaseException:
            # Nobody knows what comes next: an interrupted statement ends the session.
            self.close()
            raise

    def _lost(self, error: OSError | None) -> None:
        self.close()
        raise errors.ClusterError(f"{PROGRAM} has ended; see its messages") from error

    def close(self) -> None:
        """Ends the program."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._pid != os.getpid():
            return
        for end in (self._process.stdin, self._process.stdout):
            if end is not None:
                try:
                    end.close()
                except OSError:
                    pass
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Pieces:
    """The pieces of one result, as a file that Arrow reads."""

    closed = False

    def __init__(self, pipe: _Pipe, lock: threading.RLock) -> None:
        self._pipe = pipe
        #: Who has it reads the pipe: another thread's statement takes the rest of this result.
        self._lock = lock
        self._rest = b""
        self._failed: dict[str, Any] | None = None
        self.is_whole = False

    def _next(self) -> bytes:
        """The next piece; an empty one at the end."""
        piece = b"" if self.is_whole else self._pipe.receive()
        if not piece and not self.is_whole:
            self._failed = json.loads(self._pipe.receive())["failed"]
            self.is_whole = True
        # Each time: Arrow takes a stream that just ends for a whole one.
        if not piece and self._failed is not None:
            _raise(self._failed)
        return piece

    def read(self, size: int = -1) -> bytes:
        """As a file does."""
        with self._lock:
            parts, got = [self._rest], len(self._rest)
            while size < 0 or got < size:
                piece = self._next()
                if not piece:
                    break
                parts.append(piece)
                got += len(piece)
            everything = b"".join(parts)
            size = len(everything) if size < 0 else size
            self._rest = everything[size:]
            return everything[:size]

    def take_all(self) -> None:
        """Reads what is left, so that the next statement can follow."""
        parts = [self._rest]
        try:
            while not self.is_whole:
                parts.append(self._next())
        finally:
            self._rest = b"".join(parts)

    def readable(self) -> bool:
        """As a file does."""
        return True

    def seekable(self) -> bool:
        """As a file does."""
        return False

    def writable(self) -> bool:
        """As a file does."""
        return False

    def close(self) -> None:
        """As a file does."""


class _Values:
    """Makes Python's values of Arrow tables: by a database of this process, so that they are those
    of its sessions.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: _internal.Session | None = None

    def of(self, table: pyarrow.Table) -> _internal.Rows:
        """The rows of a table, whose columns may have one name, or be none."""
        names = [f"c{nth}" for nth in range(table.num_columns)]
        with self._lock:
            if self._session is None:
                self._session = _internal.Database.open(None, None).session()
            self._session.register("result", table.rename_columns(names))
            try:
                rows = "SELECT * FROM result" if names else "SELECT 1 LIMIT 0"
                return self._session.execute(rows, None)
            finally:
                self._session.deregister("result")


class ClusterResult:
    """The result of a statement: rows, which are read once, or the number of rows changed."""

    def __init__(
        self, reader: pyarrow.RecordBatchReader | None, changed: int | None, values: _Values
    ) -> None:
        self._reader = reader
        self._values = values
        self._rows: _internal.Rows | None = None
        #: How many rows a change has changed; ``None`` of a query.
        self.rows_changed = changed

    def reader(self) -> pyarrow.RecordBatchReader:
        """The rows as a stream of Arrow batches, while nodes compute."""
        if self._reader is None:
            raise errors.InterfaceError("a change has no rows")
        return self._reader

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        return iter(self.reader())

    def arrow(self) -> pyarrow.Table:
        """All rows as an Arrow table."""
        return self.reader().read_all()

    def df(self) -> pandas.DataFrame:
        """All rows as a pandas data frame."""
        import_optional("pandas", ".df()")
        return frame_of(self.arrow())

    def _taken(self) -> _internal.Rows:
        """The rows as one database gives them; takes them all from the nodes."""
        if self._rows is None:
            self._rows = self._values.of(self.arrow())
        return self._rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All remaining rows as tuples of Python's values, those of a session on one database."""
        return self._taken().next_rows(None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next ``size`` rows, fewer at the end."""
        return self._taken().next_rows(row_count(size))

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None after the last. The first call takes all rows from the nodes."""
        return self._taken().next_row()


class Cluster(Local):
    """A session on a cluster; see :func:`cluster`. Threads may share it: statements follow each
    other.
    """

    _instead = "open another with swingdb.cluster(...), or send rows (.arrow(), .fetchall())"

    def __init__(
        self,
        pipe: _Pipe,
        nodes: list[str],
        token: str | None,
        tls_ca: str | os.PathLike[str] | None,
    ) -> None:
        self._pipe = pipe
        self._lock = threading.RLock()
        self._last: _Pieces | None = None
        self._values = _Values()
        #: The addresses of the nodes.
        self.nodes = nodes
        request = {"do": "open", "nodes": nodes, "token": token}
        request["tls_ca"] = None if tls_ca is None else os.fspath(tls_ca)
        try:
            self._ask(request)
        except BaseException:
            pipe.close()
            raise

    def _ask(self, request: dict[str, Any], more: bytes | None = None) -> Any:
        if self._last is not None:
            last, self._last = self._last, None
            try:
                last.take_all()
            except errors.Error:
                # An error of the result before: who reads that is told.
                if self._pipe.is_closed:
                    raise
        self._pipe.send(request, more)
        answer = json.loads(self._pipe.receive())
        if isinstance(answer, dict) and "failed" in answer:
            _raise(answer["failed"])
        return answer

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        cut: str | None = None,
    ) -> ClusterResult:
        """Runs statements, and returns the result of the last.

        ``parameters`` fill ``?`` in order, and ``$1``, ``$2`` by number; those of a dict fill
        ``$name``: what a session on one database takes. ``cut`` says how a table that the
        statements make is dealt out: ``"hash:COLUMN"``, ``"range:COLUMN:BOUND,BOUND"``,
        ``"replicated"`` or ``"as_it_lies"``. A column whose name has a colon is quoted as in SQL.
        """
        arrow = import_optional("pyarrow", "swingdb.cluster()")
        request: dict[str, Any] = {"do": "query", "sql": sql, "cut": cut}
        more = None
        if parameters:
            request["has_parameters"] = True
            request["by_name"] = isinstance(parameters, Mapping)
            more = _row(arrow, _named(parameters))
        with self._lock:
            answer = self._ask(request, more)
            if answer != "rows":
                return ClusterResult(None, answer["changed"], self._values)
            pieces = _Pieces(self._pipe, self._lock)
            self._last = pieces
            return ClusterResult(arrow.ipc.open_stream(pieces), None, self._values)

    #: The same by another name.
    execute = query
    sql = query

    @property
    def epochs(self) -> list[int]:
        """The state that the session reads: the epoch of each shard's database."""
        with self._lock:
            epochs: list[int] = self._ask({"do": "epochs"})["epochs"]
            return epochs

    def refresh(self) -> None:
        """Moves to the newest state of all nodes."""
        with self._lock:
            self._ask({"do": "refresh"})

    def recover(self) -> None:
        """Settles a change that a dead coordinator has left: carries it out, or drops it."""
        with self._lock:
            self._ask({"do": "recover"})

    def resize(self, nodes: Sequence[str]) -> None:
        """Moves all rows to other nodes, some more or some fewer, and the session to their list.

        The first node stays the first. Nodes that come must have no tables. Other changes are
        refused until it is done; queries of other sessions go on.
        """
        with self._lock:
            self._ask({"do": "resize", "nodes": list(nodes)})
            self.nodes = list(nodes)

    def close(self) -> None:
        """Ends the session, and with it the snapshots that nodes hold for it."""
        self._pipe.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        pipe = getattr(self, "_pipe", None)
        if pipe is not None:
            pipe.close()

    def __repr__(self) -> str:
        state = "closed " if self._pipe.is_closed else ""
        return f"<{state}swingdb.Cluster of {', '.join(self.nodes)}>"


def _named(parameters: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by their names, else by the numbers that they have from one on."""
    if not isinstance(parameters, Mapping):
        return {str(nth): value for nth, value in enumerate(parameters, 1)}
    if not all(isinstance(name, str) for name in parameters):
        raise errors.ProgrammingError("the names of parameters must be strings")
    return dict(parameters)


def _row(arrow: Any, parameters: dict[str, Any]) -> bytes:
    """Parameters as one row of Arrow, by the types that they have in a session on one database."""
    columns = []
    for name, value in parameters.items():
        try:
            column = arrow.table(_internal.batches_from_columns([("p", [value], None, None)]))
        except errors.Error as error:
            raise errors.InterfaceError(f"parameter {name}: {error}") from error
        columns.append(column.column(0))
    table = arrow.table(columns, list(parameters))
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written
