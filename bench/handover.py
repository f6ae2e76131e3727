"""Handing a table to another process, until that process has the sum of one of its columns.

What programs do today against `share()` and `snapshot()`: a pickled pandas frame through a pipe, an
Arrow stream through a pipe, NumPy arrays in `multiprocessing.shared_memory`, Arrow Flight on this
machine, an Arrow file that the other maps, a Parquet file, a DuckDB file; and, where they are
installed, Redis and Ray's object store. All files lie in memory. The other process is there
already, and has imported what it needs. The writer has changed one row since the last time, so
nobody can hand over what the other has already. `--rounds` and `--max-bytes` make it shorter.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import common
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.flight
import pyarrow.parquet
from redis_client import VALUE_BYTES, Redis, start_server

import swingdb

#: Bytes of a row: a whole number and two floating point numbers.
ROW_BYTES = 24
SIZES = {
    "10 MB": 10 * common.MB, "100 MB": 100 * common.MB, "1 GB": common.GB, "2 GB": 2 * common.GB,
    "4 GB": 4 * common.GB, "8 GB": 8 * common.GB,
}
#: The writer has the table twice. What a way needs besides, in tables, at most: what it writes, and
#: what the other process reads it into. Where memory does not hold that, a way is left out.
HELD = 2
COPIES = {
    "SwingDB: share, snapshot": 0, "Arrow file, mapped": 1, "Arrow stream, pipe": 1,
    "NumPy, shared_memory": 1, "Arrow Flight, localhost": 2, "DuckDB file": 3, "Parquet file": 2,
    "pandas, pickled, pipe": 3, "Arrow, Ray's object store": 3, "Redis, Unix socket": 4,
}
#: The part of memory that the ways may take.
USABLE = 0.75
#: Rows of a message of Arrow Flight.
FLIGHT_ROWS = 1 << 22
ROUNDS = 7
#: A way whose reader has answered already; the other process passes that on.
ANSWERED = "answered"
QUERY = "SELECT sum(x) FROM t"


#: Takes the table, and returns what sums its column.
Summing = Callable[[], float]


def take_snapshot(words: list[str], _connection: Any) -> Summing:
    snapshot = swingdb.snapshot(words[0])

    def summing() -> float:
        with snapshot:
            return snapshot.sql(QUERY).fetchall()[0][0]

    return summing


def take_pickle(_words: list[str], connection: Any) -> Summing:
    frame = connection.recv()
    return lambda: float(frame.x.sum())


def sum_of(table: pa.Table) -> Summing:
    return lambda: pc.sum(table["x"]).as_py()


def take_stream(words: list[str], _connection: Any) -> Summing:
    with open(words[0], "rb") as pipe, pa.ipc.open_stream(pipe) as stream:
        return sum_of(stream.read_all())


def take_arrow_file(words: list[str], _connection: Any) -> Summing:
    return sum_of(pyarrow.feather.read_table(words[0], memory_map=True))


def take_parquet(words: list[str], _connection: Any) -> Summing:
    return sum_of(pyarrow.parquet.read_table(words[0]))


def take_duckdb(words: list[str], _connection: Any) -> Summing:
    con = duckdb.connect(words[0], read_only=True)

    def summing() -> float:
        with con:
            return con.execute(QUERY).fetchall()[0][0]

    return summing


def take_shared(words: list[str], _connection: Any) -> Summing:
    name, rows = words
    block = shared_memory.SharedMemory(name, **ATTACHING)

    def summing() -> float:
        x = np.ndarray(int(rows), dtype=np.float64, buffer=block.buf, offset=int(rows) * 8)
        total = float(x.sum())
        del x
        block.close()
        return total

    return summing


def take_flight(words: list[str], _connection: Any) -> Summing:
    with pyarrow.flight.connect(words[0]) as client:
        return sum_of(client.do_get(pyarrow.flight.Ticket(b"t")).read_all())


def take_redis(words: list[str], _connection: Any) -> Summing:
    path, parts = words
    redis = Redis(path)
    data = b"".join(redis.call(b"GET", b"t%d" % part) for part in range(int(parts)))
    redis.close()
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        return sum_of(stream.read_all())


def start_ray(size: int) -> Any:
    """Ray with room for two tables, and a worker that is there already."""
    import ray

    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    room = max(3 * size, 100 * common.MB)
    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=room, log_to_driver=False)

    @ray.remote
    class Worker:
        """The other process."""

        def take(self, table: pa.Table) -> tuple[float, int, int]:
            """The sum, when it had the table, and when it had the sum."""
            had = time.monotonic_ns()
            return pc.sum(table["x"]).as_py(), had, time.monotonic_ns()

    worker = Worker.remote()
    ray.get(worker.take.remote(pa.table({"x": [1.0]})))
    return worker


class Flight(pyarrow.flight.FlightServerBase):
    """Gives the writer's table to whoever asks."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.table: pa.Table | None = None

    def do_get(self, _context: Any, _ticket: Any) -> pyarrow.flight.RecordBatchStream:
        # A message holds at most 2 GiB.
        batches = self.table.to_batches(max_chunksize=FLIGHT_ROWS)
        return pyarrow.flight.RecordBatchStream(pa.Table.from_batches(batches))


#: Keeps a process that only attaches to a block from removing it, where Python can.
ATTACHING = {"track": False} if sys.version_info >= (3, 13) else {}
TAKERS: dict[str, Callable[[list[str], Any], Summing]] = {
    "SwingDB: share, snapshot": take_snapshot,
    "Arrow file, mapped": take_arrow_file,
    "Arrow stream, pipe": take_stream,
    "NumPy, shared_memory": take_shared,
    "Arrow Flight, localhost": take_flight,
    "DuckDB file": take_duckdb,
    "pandas, pickled, pipe": take_pickle,
    "Parquet file": take_parquet,
}
if shutil.which("redis-server"):
    TAKERS["Redis, Unix socket"] = take_redis
#: Ray's object store, which only Ray's own workers read: they answer by themselves.
RAY = "Arrow, Ray's object store"
WAYS = [*TAKERS, *([RAY] if importlib.util.find_spec("ray") else [])]


def receive(connection: Any) -> None:
    """The other process: takes what it is told to, answers with the sum, when it had the table, and
    when it had the sum."""
    while (order := connection.recv()) is not None:
        way, words = order
        if way == ANSWERED:
            connection.send(tuple(words))
            continue
        summing = TAKERS[way](words, connection)
        had = time.monotonic_ns()
        total = summing()
        connection.send((total, had, time.monotonic_ns()))
        del summing


class Writer:
    """Has the same rows as a database, and as Arrow and pandas over the same arrays."""

    def __init__(self, size: int, home: Path, ways: list[str]) -> None:
        rows = size // ROW_BYTES
        self.home, self.round = home, 0
        random = np.random.default_rng(1)
        columns = {
            "id": np.arange(rows, dtype=np.int64),
            "x": random.random(rows),
            "y": random.random(rows),
        }
        self.frame = pd.DataFrame(columns, copy=False)
        self.arrow = pa.table(columns)
        self.duck = duckdb.connect()
        self.duck.register("t", self.arrow)
        self.swing = swingdb.connect("handover")
        self.swing.execute("CREATE TABLE t (id BIGINT, x DOUBLE, y DOUBLE)")
        self.swing.append("t", self.arrow)
        self.fifo = str(home / "fifo")
        os.mkfifo(self.fifo)
        self.flight, self.block, self.redis = Flight(), None, None
        self.flight.table = self.arrow
        threading.Thread(target=self.flight.serve, daemon=True).start()
        self.worker = start_ray(size) if RAY in ways else None
        if "Redis, Unix socket" in ways:
            self.redis_path = str(home / "redis")
            self.redis = start_server(self.redis_path)

    def change(self) -> None:
        """What happens between two rounds: one row is another."""
        self.round += 1
        self.swing.execute("UPDATE t SET y = ? WHERE id = 7", [float(self.round)])

    def file(self, kind: str) -> str:
        """A file of this round, so that nothing of an earlier one is in a cache."""
        return str(self.home / f"{self.round}.{kind}")

    def hand(self, way: str, connection: Any) -> None:
        """Hands the table over."""
        if way.startswith("SwingDB"):
            self.swing.share()
            connection.send((way, ["handover"]))
        elif way.startswith("pandas"):
            connection.send((way, []))
            connection.send(self.frame)
        elif way.startswith("Arrow stream"):
            connection.send((way, [self.fifo]))
            with open(self.fifo, "wb") as pipe:
                with pa.ipc.new_stream(pipe, self.arrow.schema) as stream:
                    stream.write_table(self.arrow)
        elif way.startswith("NumPy"):
            connection.send((way, self.share_columns()))
        elif way.startswith("Arrow Flight"):
            connection.send((way, [f"grpc://127.0.0.1:{self.flight.port}"]))
        elif way == RAY:
            import ray

            told = ray.get(self.worker.take.remote(ray.put(self.arrow)))
            connection.send((ANSWERED, list(told)))
        elif way.startswith("Redis"):
            connection.send((way, self.store_in_redis()))
        elif way.startswith("Arrow file"):
            pyarrow.feather.write_feather(self.arrow, self.file("arrow"), "uncompressed")
            connection.send((way, [self.file("arrow")]))
        elif way.startswith("Parquet"):
            pyarrow.parquet.write_table(self.arrow, self.file("parquet"))
            connection.send((way, [self.file("parquet")]))
        else:
            self.duck.execute(f"ATTACH '{self.file('duckdb')}' AS out")
            self.duck.execute("CREATE TABLE out.t AS FROM t")
            self.duck.execute("DETACH out")
            connection.send((way, [self.file("duckdb")]))

    def share_columns(self) -> list[str]:
        """Copies the columns into a new block of shared memory."""
        rows, columns = len(self.frame), list(self.frame)
        self.block = shared_memory.SharedMemory(create=True, size=rows * ROW_BYTES)
        for place, column in enumerate(columns):
            values = self.frame[column].to_numpy()
            into = np.ndarray(rows, values.dtype, buffer=self.block.buf, offset=place * rows * 8)
            into[:] = values
            del into
        return [self.block.name, str(rows)]

    def store_in_redis(self) -> list[str]:
        """Stores the table as an Arrow stream, in as many values as it takes."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.arrow.schema) as stream:
            stream.write_table(self.arrow)
        data = memoryview(sink.getvalue())
        starts = range(0, len(data), VALUE_BYTES)
        redis = Redis(self.redis_path)
        for part, start in enumerate(starts):
            redis.call(b"SET", b"t%d" % part, data[start : start + VALUE_BYTES])
        redis.close()
        return [self.redis_path, str(len(starts))]

    def tidy(self) -> None:
        """Removes the files of this round."""
        if self.redis:
            redis = Redis(self.redis_path)
            redis.call(b"FLUSHALL")
            redis.close()
        if self.block:
            self.block.close()
            self.block.unlink()
            self.block = None
        for path in self.home.glob(f"{self.round}.*"):
            path.unlink()

    def close(self) -> None:
        """Gives all memory back."""
        self.flight.shutdown()
        if self.worker:
            import ray

            ray.shutdown()
        if self.redis:
            self.redis.terminate()
            self.redis.wait()
            Path(self.redis_path).unlink(missing_ok=True)
        self.swing.close()
        swingdb.drop("handover")
        os.unlink(self.fifo)


def turns(size: int) -> list[list[str]]:
    """The ways that memory lets take part, those together that take turns: Ray's store keeps the
    memory that it had."""
    memory = USABLE * common.machine()["memory_gib"] * common.GB
    fit = [way for way in WAYS if (HELD + COPIES[way]) * size <= memory]
    return [turn for turn in ([way for way in fit if way != RAY], [RAY] * (RAY in fit)) if turn]


def measure(size: int, home: Path, ways: list[str], rounds: int) -> list[dict]:
    """All ways in turn, several rounds; milliseconds of each."""
    writer = Writer(size, home, ways)
    expected = float(writer.frame.x.sum())
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=receive, args=(theirs,), daemon=True)
    process.start()
    # So that the end of the other process is the end of the pipe.
    theirs.close()
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for measured in range(-1, rounds):
        for way, values in times.items():
            writer.change()
            begun = time.monotonic_ns()
            writer.hand(way, ours)
            total, had, done = ours.recv()
            writer.tidy()
            if abs(total - expected) > 1e-6 * expected:
                raise SystemExit(f"{way}: the sum is {total}, not {expected}")
            if measured >= 0:
                values.append(((done - begun) / 1e6, (had - begun) / 1e6))
    ours.send(None)
    process.join()
    writer.close()
    return [
        {"way": way, "ms": common.summary([whole for whole, _ in values]),
         "had_ms": common.summary([had for _, had in values])}
        for way, values in times.items()
    ]


def own_arguments(parser: argparse.ArgumentParser) -> None:
    """What this benchmark takes beside what all take."""
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each way at each size")
    parser.add_argument("--dry", action="store_true", help="write no results")


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__, own_arguments)
    rows = []
    with common.namespace() as home:
        for label, size in SIZES.items():
            if size > arguments.max_bytes:
                continue
            other = home / "other"
            other.mkdir(exist_ok=True)
            groups = turns(size)
            if out := [way for way in WAYS if way not in itertools.chain(*groups)]:
                print(f"{label}: memory is too small for {', '.join(out)}", flush=True)
            for ways in groups:
                for result in measure(size, other, ways, arguments.rounds):
                    rows.append({"size": label, "bytes": size, **result})
                    had, summed = (result[key]["median"] for key in ("had_ms", "ms"))
                    print(f"{label}: {result['way']}: had after {had:.2f} ms, summed after "
                          f"{summed:.2f} ms", flush=True)
    versions = {m.__name__: m.__version__ for m in (pa, pd, duckdb)}
    if "Redis, Unix socket" in TAKERS:
        words = ["redis-server", "--version"]
        said = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        versions["redis"] = said.split("v=")[1].split()[0]
    if RAY in WAYS:
        versions["ray"] = importlib.metadata.version("ray")
    if not arguments.dry:
        common.write("handover", {"rows": rows, "versions": versions})


if __name__ == "__main__":
    main()
