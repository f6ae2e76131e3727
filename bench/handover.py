"""Handing a table to another process, until that process has the sum of one of its columns.

What programs do today against `share()` and `snapshot()`: a pickled pandas frame through a pipe, an
Arrow stream through a pipe, an Arrow file that the other maps, a Parquet file, a DuckDB file; all
files lie in memory. The other process is there already, and has imported what it needs. The writer
has changed one row since the last time, so nobody can hand over what the other has already.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.parquet

import swingdb

#: Bytes of a row: a whole number and two floating point numbers.
ROW_BYTES = 24
SIZES = {"10 MB": 10 * common.MB, "100 MB": 100 * common.MB, "1 GB": common.GB}
ROUNDS = 7
QUERY = "SELECT sum(x) FROM t"


def take_snapshot(words: list[str], _connection: Any) -> float:
    with swingdb.snapshot(words[0]) as snapshot:
        return snapshot.sql(QUERY).fetchall()[0][0]


def take_pickle(_words: list[str], connection: Any) -> float:
    return float(connection.recv().x.sum())


def take_stream(words: list[str], _connection: Any) -> float:
    with open(words[0], "rb") as pipe, pa.ipc.open_stream(pipe) as stream:
        return pc.sum(stream.read_all()["x"]).as_py()


def take_arrow_file(words: list[str], _connection: Any) -> float:
    table = pyarrow.feather.read_table(words[0], memory_map=True)
    return pc.sum(table["x"]).as_py()


def take_parquet(words: list[str], _connection: Any) -> float:
    return pc.sum(pyarrow.parquet.read_table(words[0])["x"]).as_py()


def take_duckdb(words: list[str], _connection: Any) -> float:
    with duckdb.connect(words[0], read_only=True) as con:
        return con.execute(QUERY).fetchall()[0][0]


TAKERS: dict[str, Callable[[list[str], Any], float]] = {
    "SwingDB: share, snapshot": take_snapshot,
    "Arrow file, mapped": take_arrow_file,
    "Arrow stream, pipe": take_stream,
    "DuckDB file": take_duckdb,
    "pandas, pickled, pipe": take_pickle,
    "Parquet file": take_parquet,
}


def receive(connection: Any) -> None:
    """The other process: takes what it is told to, answers with the sum and when it had it."""
    while (order := connection.recv()) is not None:
        way, words = order
        total = TAKERS[way](words, connection)
        connection.send((total, time.monotonic_ns()))


class Writer:
    """Has the same rows as a database, as Arrow, as pandas, and in DuckDB."""

    def __init__(self, size: int, home: Path) -> None:
        rows = size // ROW_BYTES
        self.home, self.round = home, 0
        random = np.random.default_rng(1)
        columns = {
            "id": np.arange(rows, dtype=np.int64),
            "x": random.random(rows),
            "y": random.random(rows),
        }
        self.frame = pd.DataFrame(columns)
        self.arrow = pa.table(columns)
        self.duck = duckdb.connect()
        arrow = self.arrow
        self.duck.execute("CREATE TABLE t AS SELECT * FROM arrow")
        self.swing = swingdb.connect("handover")
        self.swing.execute("CREATE TABLE t (id BIGINT, x DOUBLE, y DOUBLE)")
        self.swing.append("t", arrow)
        self.fifo = str(home / "fifo")
        os.mkfifo(self.fifo)

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

    def tidy(self) -> None:
        """Removes the files of this round."""
        for path in self.home.glob(f"{self.round}.*"):
            path.unlink()

    def close(self) -> None:
        """Gives all memory back."""
        self.swing.close()
        swingdb.drop("handover")
        os.unlink(self.fifo)


def measure(size: int, home: Path) -> list[dict]:
    """All ways in turn, several rounds; milliseconds of each."""
    writer = Writer(size, home)
    expected = float(writer.frame.x.sum())
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=receive, args=(theirs,), daemon=True)
    process.start()
    times: dict[str, list[float]] = {way: [] for way in TAKERS}
    for measured in range(-1, ROUNDS):
        for way, values in times.items():
            writer.change()
            begun = time.monotonic_ns()
            writer.hand(way, ours)
            total, done = ours.recv()
            writer.tidy()
            if abs(total - expected) > 1e-6 * expected:
                raise SystemExit(f"{way}: the sum is {total}, not {expected}")
            if measured >= 0:
                values.append((done - begun) / 1e6)
    ours.send(None)
    process.join()
    writer.close()
    return [{"way": way, "ms": common.summary(values)} for way, values in times.items()]


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    rows = []
    with common.namespace() as home:
        for label, size in SIZES.items():
            if size > arguments.max_bytes:
                continue
            other = home / "other"
            other.mkdir(exist_ok=True)
            for result in measure(size, other):
                rows.append({"size": label, "bytes": size, **result})
                print(f"{label}: {result['way']}: {result['ms']['median']:.2f} ms", flush=True)
    versions = {m.__name__: m.__version__ for m in (pa, pd, duckdb)}
    common.write("handover", {"rows": rows, "versions": versions})


if __name__ == "__main__":
    main()
