"""The systems of the paper's database experiments: each holds a table, and an application in
another process gets the rows of a query from it.

The benchmark loads one system after the other (`load`), and starts the application
(`bench/application.py`), which gets rows by the `Client` of the same name. A client says how long
the query took and how long the rows were on their way:

* Where the database runs in the application's process (SwingDB, DuckDB's file), the transfer is
  what it takes to have the database there: `snapshot()`, opening the file.
* A server that has its whole result before it sends the first row says how long that took. The
  rest, with the connection, is the transfer.
* Where a server sends while its query runs, the query lasts until the first row has come.

Rows come as a list of pieces, each a dict of NumPy arrays. Peers that are not installed are left
out, and `missing` says why.

    python bench/systems.py serve DuckDB-socket FILE ADDRESS
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from redis_client import Redis, start_server
from workloads import TABLES, numpy_types

Pieces = list[dict[str, np.ndarray]]
#: How long a server may take to start.
PATIENCE_S = 60.0
#: Rows of one fetch of PostgreSQL's cursor, and of one Arrow batch.
FETCH_ROWS = 50_000
BATCH_ROWS = 122_880
BATCH_BYTES = 1 << 20
_LENGTH = struct.Struct("<d")


class Got(NamedTuple):
    """Rows, and what it took to have them."""

    pieces: Pieces
    query_s: float
    transfer_s: float


def pieces_of(batches: Iterable[pa.RecordBatch]) -> Pieces:
    """Arrow's batches as NumPy arrays over the same memory."""
    return [
        {name: column.to_numpy() for name, column in zip(b.schema.names, b.columns, strict=True)}
        for b in batches if b.num_rows
    ]


def create(table: str) -> str:
    """The statement that makes a table; the same everywhere."""
    columns = ", ".join(f"{name} {of} NOT NULL" for name, of in TABLES[table].items())
    return f"CREATE TABLE {table} ({columns})"


def installed(module: str) -> bool:
    """Whether a package is there."""
    return importlib.util.find_spec(module) is not None


class System:
    """One system: made in the benchmark's process to hold the data."""

    #: What the results call it.
    name = ""
    #: Whether it can answer a query; else it only gives the whole table back.
    answers = True
    #: Whether it makes an object of each value: such a system has one round.
    slow = False

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot take part here."""
        return None

    def __init__(self, home: Path) -> None:
        self.home, self.server = home, None

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> str:
        """Stores the rows; the word by which the application finds them."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives all memory back, also after a load that failed."""
        if self.server:
            self.server.terminate()
            self.server.wait()

    @staticmethod
    def get(word: str, sql: str, columns: list[str]) -> Got:
        """In the application: the rows of a query over `columns`."""
        raise NotImplementedError


class SwingDB(System):
    """The application takes a snapshot and runs the query itself."""

    name = "SwingDB"

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> str:
        import swingdb

        self.database = f"paper_{table}"
        self.con = swingdb.connect(self.database)
        self.con.execute(create(table))
        for batch in batches:
            self.con.append(table, batch)
        self.con.share()
        return self.database

    def close(self) -> None:
        import swingdb

        self.con.close()
        swingdb.drop(self.database)

    @staticmethod
    def get(word: str, sql: str, columns: list[str]) -> Got:
        import swingdb

        begun = time.perf_counter()
        snapshot = swingdb.snapshot(word)
        taken = time.perf_counter()
        table = sql.removeprefix("WHOLE ")
        if table != sql:
            # The columns where they lie: what the paper calls lower-level access.
            rows = pa.table(snapshot.table(table)).select(columns)
        else:
            rows = pa.table(snapshot.sql(sql))
        pieces = pieces_of(rows.to_batches())
        return Got(pieces, time.perf_counter() - taken, taken - begun)


def whole(sql: str, columns: list[str]) -> str:
    """The text of a query that may be `WHOLE table`."""
    table = sql.removeprefix("WHOLE ")
    return sql if table == sql else f"SELECT {', '.join(columns)} FROM {table}"


class DuckDBFile(System):
    """The application opens the file, which nobody else has open, and runs the query itself."""

    name = "DuckDB file"

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> str:
        import duckdb

        self.table, self.path = table, self.home / f"{table}.duckdb"
        with duckdb.connect(str(self.path)) as con:
            con.execute(create(table))
            for batch in batches:
                rows = pa.Table.from_batches([batch])  # noqa: F841  DuckDB finds it by its name
                con.execute(f"INSERT INTO {table} SELECT * FROM rows")
        return str(self.path)

    def close(self) -> None:
        super().close()
        (self.home / f"{self.table}.duckdb").unlink(missing_ok=True)

    @staticmethod
    def get(word: str, sql: str, columns: list[str]) -> Got:
        import duckdb

        begun = time.perf_counter()
        con = duckdb.connect(word, read_only=True)
        opened = time.perf_counter()
        rows = con.sql(whole(sql, columns)).to_arrow_table(batch_size=BATCH_ROWS)
        pieces = pieces_of(rows.to_batches())
        done = time.perf_counter()
        con.close()
        return Got(pieces, done - opened, opened - begun)


class Served(DuckDBFile):
    """DuckDB in a server process."""

    name = ""
    kind = ""

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> str:
        super().load(table, batches)
        self.address = self.home / f"{table}-{self.kind}"
        words = [sys.executable, __file__, "serve", self.kind, str(self.path), str(self.address)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.server = subprocess.Popen(words, text=True, **pipes)
        return self.server.stdout.readline().strip()

    def close(self) -> None:
        super().close()
        if self.server:
            self.server.stdin.close()
            self.server.stdout.close()
            self.address.unlink(missing_ok=True)


class DuckDBSocket(Served):
    """A server that has the whole result, and then sends it as an Arrow stream."""

    name, kind = "DuckDB, Arrow over a socket", "whole"

    @staticmethod
    def get(word: str, sql: str, columns: list[str]) -> Got:
        begun = time.perf_counter()
        with socket.socket(socket.AF_UNIX) as own:
            own.connect(word)
            own.sendall(whole(sql, columns).encode() + b"\n")
            with own.makefile("rb", buffering=1 << 20) as answer:
                query_s = _LENGTH.unpack(answer.read(_LENGTH.size))[0]
                came = time.perf_counter()
                with pa.ipc.open_stream(answer) as stream:
                    pieces = pieces_of(stream)
        ended = time.perf_counter()
        if query_s < 0:
            return Got(pieces, came - begun, ended - came)
        return Got(pieces, query_s, ended - begun - query_s)


class DuckDBStream(DuckDBSocket):
    """The same, sending each batch as soon as it is there."""

    name, kind = "DuckDB, Arrow over a socket, streamed", "streamed"


class DuckDBFlight(Served):
    """The same by Arrow Flight."""

    name, kind = "DuckDB, Arrow Flight", "flight"

    @classmethod
    def missing(cls) -> str | None:
        return None if installed("pyarrow.flight") else "PyArrow has no Flight"

    @staticmethod
    def get(word: str, sql: str, columns: list[str]) -> Got:
        import pyarrow.flight

        begun = time.perf_counter()
        with pyarrow.flight.connect(word) as client:
            text = whole(sql, columns).encode()
            info = client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(text))
            ready = time.perf_counter()
            rows = client.do_get(info.endpoints[0].ticket).read_all()
            pieces = pieces_of(rows.to_batches())
        return Got(pieces, ready - begun, time.perf_counter() - ready)


def serve_socket(file: str, address: str, streamed: bool) -> None:
    """Answers one query a connection, for ever."""
    import duckdb

    con = duckdb.connect(file, read_only=True)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    print(address, flush=True)
    while True:
        peer = listening.accept()[0]
        with peer, peer.makefile("rb") as words, peer.makefile("wb", buffering=1 << 20) as answer:
            sql = words.readline().decode()
            begun = time.perf_counter()
            if streamed:
                rows = con.sql(sql).to_arrow_reader(batch_size=BATCH_ROWS)
                batches, took = rows, -1.0
            else:
                rows = con.sql(sql).to_arrow_table(batch_size=BATCH_ROWS)
                batches, took = rows.to_batches(), time.perf_counter() - begun
            # One that has gone away wants no more.
            with contextlib.suppress(BrokenPipeError):
                first = next(iter(batches), None) if streamed else None
                answer.write(_LENGTH.pack(took))
                with pa.ipc.new_stream(answer, rows.schema) as stream:
                    if first is not None:
                        stream.write_batch(first)
                    for batch in batches:
                        stream.write_batch(batch)
                answer.flush()
            del rows, batches


def serve_flight(file: str) -> None:
    """The same by Arrow Flight: the query runs when its place is asked for."""
    import duckdb
    import pyarrow.flight as flight

    class Server(flight.FlightServerBase):
        """One result at a time."""

        def __init__(self) -> None:
            super().__init__("grpc://127.0.0.1:0")
            self.con, self.rows = duckdb.connect(file, read_only=True), None

        def get_flight_info(self, _context: Any, asked: Any) -> flight.FlightInfo:
            sql = asked.command.decode()
            self.rows = self.con.sql(sql).to_arrow_table(batch_size=BATCH_ROWS)
            place = flight.FlightEndpoint(asked.command, [f"grpc://127.0.0.1:{self.port}"])
            return flight.FlightInfo(self.rows.schema, asked, [place], self.rows.num_rows, -1)

        def do_get(self, _context: Any, _ticket: Any) -> flight.RecordBatchStream:
            rows, self.rows = self.rows, None
            return flight.RecordBatchStream(rows)

    server = Server()
    print(f"grpc://127.0.0.1:{server.port}", flush=True)
    server.serve()


class Postgres(System):
    """A server of PostgreSQL with its files in memory; rows come through a cursor."""

    name, slow = "PostgreSQL, cursor", True
    PROGRAMS = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin")
    #: What a benchmark in memory would set.
    SETTINGS = {
        "listen_addresses": "", "fsync": "off", "full_page_writes": "off", "wal_level": "minimal",
        "max_wal_senders": "0", "synchronous_commit": "off", "shared_buffers": "512MB",
        "work_mem": "256MB", "max_parallel_workers_per_gather": str(os.cpu_count()),
        "synchronize_seqscans": "off", "autovacuum": "off", "jit": "on",
    }

    @classmethod
    def programs(cls) -> Path | None:
        """Where the server's programs are."""
        found = [p for place in cls.PROGRAMS for p in Path("/").glob(place[1:])]
        found += [Path(p).parent for p in [shutil.which("initdb")] if p]
        return next((p for p in sorted(found)[::-1] if (p / "initdb").exists()), None)

    @classmethod
    def missing(cls) -> str | None:
        if cls.programs() is None:
            return "PostgreSQL is not installed"
        return None if installed("psycopg") else "the package psycopg is not installed"

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> str:
        import psycopg

        self.place = self.home / f"postgres-{table}"
        self.place.mkdir()
        # The server refuses to be root.
        as_other = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            as_other = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            self.home.chmod(0o711)
            os.chown(self.place, user.pw_uid, user.pw_gid)
        data, programs = self.place / "data", self.programs()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": self.place}
        words = [programs / "initdb", "-D", data, "-U", "bench", "-A", "trust", "--no-sync"]
        subprocess.run(words, check=True, **quiet, **as_other)
        settings = [word for pair in self.SETTINGS.items() for word in ("-c", "=".join(pair))]
        words = [programs / "postgres", "-D", data, "-k", self.place, *settings]
        log = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self.place}
        self.server = subprocess.Popen(words, **log, **as_other)
        where = f"host={self.place} user=bench dbname=postgres"
        self._wait(where)
        types = numpy_types(table)
        # Each field of the binary format: its length, its bytes, highest first.
        fields = [("fields", ">i2")]
        for name, of in types.items():
            fields += [(f"{name} length", ">i4"), (name, np.dtype(of).newbyteorder(">"))]
        with psycopg.connect(where, autocommit=True) as con:
            con.execute(create(table).replace("CREATE", "CREATE UNLOGGED", 1))
            with con.cursor().copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy:
                copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
                for batch in batches:
                    rows = np.empty(batch.num_rows, np.dtype(fields))
                    rows["fields"] = len(types)
                    for name, of in types.items():
                        rows[f"{name} length"] = np.dtype(of).itemsize
                        rows[name] = batch.column(name).to_numpy()
                    copy.write(rows.tobytes())
                copy.write(b"\xff\xff")
            con.execute(f"VACUUM ANALYZE {table}")
        return where

    def _wait(self, where: str) -> None:
        import psycopg

        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                psycopg.connect(where).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > end or self.server.poll() is not None:
                    raise
                time.sleep(0.05)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.place)

    @staticmethod
    def get(word: str, sql: str, columns: list[str]) -> Got:
        import psycopg

        begun = time.perf_counter()
        came, pieces = None, []
        with psycopg.connect(word) as con, con.cursor("rows", binary=True) as cursor:
            cursor.execute(whole(sql, columns))
            names = None
            while found := cursor.fetchmany(FETCH_ROWS):
                came = came or time.perf_counter()
                names = names or [column.name for column in cursor.description]
                arrays = [np.array(values) for values in zip(*found, strict=True)]
                pieces.append(dict(zip(names, arrays, strict=True)))
        ended = time.perf_counter()
        came = came or ended
        return Got(pieces, came - begun, ended - came)


class PostgresCopy(Postgres):
    """The same by COPY in its binary format, which the ADBC driver turns into Arrow."""

    name, slow = "PostgreSQL, COPY BINARY", False

    @classmethod
    def missing(cls) -> str | None:
        lacking = not installed("adbc_driver_postgresql")
        return super().missing() or (
            "the package adbc-driver-postgresql is not installed" if lacking else None
        )

    @staticmethod
    def get(word: str, sql: str, columns: list[str]) -> Got:
        import adbc_driver_postgresql.dbapi

        begun = time.perf_counter()
        host, user, database = (part.partition("=")[2] for part in word.split())
        where = f"postgresql://{user}@/{database}?host={host}"
        with adbc_driver_postgresql.dbapi.connect(where) as con, con.cursor() as cursor:
            # Small batches, so that the first row is seen when it comes.
            cursor.adbc_statement.set_options(
                **{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)}
            )
            cursor.execute(whole(sql, columns))
            reader = cursor.fetch_record_batch()
            batches = [next(reader, None)]
            came = time.perf_counter()
            batches += reader
            pieces = pieces_of(batch for batch in batches if batch is not None)
        return Got(pieces, came - begun, time.perf_counter() - came)


class RedisValues(System):
    """Arrow streams as values: what takes no query, only all rows."""

    name, answers = "Redis, Arrow as values", False

    @classmethod
    def missing(cls) -> str | None:
        return None if shutil.which("redis-server") else "Redis is not installed"

    def load(self, table: str, batches: Iterable[pa.RecordBatch]) -> str:
        address = str(self.home / f"{table}-redis")
        self.server, values = start_server(address), 0
        redis = Redis(address)
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            redis.call(b"SET", b"t%d" % values, memoryview(sink.getvalue()))
            values += 1
        redis.close()
        return f"{address} {values}"

    @staticmethod
    def get(word: str, sql: str, columns: list[str]) -> Got:
        begun = time.perf_counter()
        address, values = word.split()
        redis, batches = Redis(address), []
        for value in range(int(values)):
            data = pa.py_buffer(redis.call(b"GET", b"t%d" % value))
            with pa.ipc.open_stream(data) as stream:
                batches += [batch.select(columns) for batch in stream]
        redis.close()
        return Got(pieces_of(batches), 0.0, time.perf_counter() - begun)


SYSTEMS: dict[str, type[System]] = {
    system.name: system
    for system in (SwingDB, DuckDBFile, DuckDBSocket, DuckDBStream, DuckDBFlight, RedisValues,
                   PostgresCopy, Postgres)
}


def main(words: list[str]) -> None:
    """A server: its kind, DuckDB's file, and the address of its socket."""
    kind, file, address = words

    def end_with_parent() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    if kind == "flight":
        serve_flight(file)
    else:
        serve_socket(file, address, kind == "streamed")


if __name__ == "__main__":
    if sys.argv[1:2] != ["serve"]:
        raise SystemExit(__doc__)
    main(sys.argv[2:])
