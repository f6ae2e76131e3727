"""A private copy of a table, one row in a hundred changed: what a process does that tries something
out on another one's data.

One process has the table. Another, which is there already and has imported what it needs, wants a
copy of its own, adds 1 to a column of 1 % of the rows (every hundredth, or a range), and sums the
column. Told are the milliseconds from its wish to the sum, and the memory that this took: what the
process has more than before (PSS), and new files. The owner's data must be as before. All files lie
in memory.

    python bench/private_copy.py [--mb 100,1000] [--rounds 5] [--ways swingdb,fork]
    python bench/private_copy.py change WAY PLACE ROWS
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path
from typing import Any

import common
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
from handover import ATTACHING
from readers import pss_bytes
from readers_writer import files_bytes

import swingdb

#: Bytes of a row: a whole number and two floating point numbers.
ROW_BYTES = 24
SEED = 3
#: The number of a copy that is not measured.
WARM_UP = 1_000_000
WHICH = {"every hundredth": "id % 100 = 7", "a range": "id BETWEEN {first} AND {last}"}


def columns(rows: int) -> dict[str, np.ndarray]:
    """The rows. Halves add up without rounding."""
    random = np.random.default_rng(SEED)
    return {
        "id": np.arange(rows, dtype=np.int64),
        "x": random.integers(0, 1000, rows) / 2,
        "y": random.random(rows),
    }


def condition(which: str, rows: int) -> str:
    """Which rows change, in SQL."""
    return WHICH[which].format(first=rows // 3, last=rows // 3 + rows // 100 - 1)


def places(which: str, rows: int) -> slice:
    """The same for arrays."""
    if which == "a range":
        return slice(rows // 3, rows // 3 + rows // 100)
    return slice(7, None, 100)


class Way:
    """How the other process has its copy."""

    def __init__(self, place: Path, rows: int) -> None:
        self.place, self.rows = place, rows

    @contextlib.contextmanager
    def owner(self) -> Iterator[None]:
        """The owner has the data."""
        yield

    def change(self, which: str, number: int) -> tuple[float, Any]:
        """In the other process: the sum, and what holds the copy."""
        raise NotImplementedError


class Swing(Way):
    """A snapshot, and UPDATE in it."""

    @contextlib.contextmanager
    def owner(self) -> Iterator[None]:
        with swingdb.connect("owned") as con:
            con.execute("CREATE TABLE t (id BIGINT, x DOUBLE, y DOUBLE)")
            con.append("t", pa.table(columns(self.rows)))
            con.share()
            yield
            total = con.execute("SELECT sum(x) FROM t").fetchone()[0]
            assert total == columns(self.rows)["x"].sum(), "the owner's rows have changed"

    def change(self, which: str, number: int) -> tuple[float, Any]:
        snapshot = swingdb.snapshot("owned")
        snapshot.execute(f"UPDATE t SET x = x + 1 WHERE {condition(which, self.rows)}")
        return snapshot.execute("SELECT sum(x) FROM t").fetchone()[0], snapshot


class Shared(Way):
    """`multiprocessing.shared_memory`, copied."""

    @contextlib.contextmanager
    def owner(self) -> Iterator[None]:
        block = shared_memory.SharedMemory(create=True, size=self.rows * ROW_BYTES)
        (self.place / "name").write_text(block.name)
        for at, values in enumerate(columns(self.rows).values()):
            into = np.ndarray(self.rows, values.dtype, block.buf, at * self.rows * 8)
            into[:] = values
            del into
        try:
            yield
        finally:
            block.close()
            block.unlink()

    def change(self, which: str, number: int) -> tuple[float, Any]:
        block = shared_memory.SharedMemory((self.place / "name").read_text(), **ATTACHING)
        if not ATTACHING:
            # Else the end of this process would remove the owner's block.
            resource_tracker.unregister(f"/{block.name}", "shared_memory")
        held = {
            name: np.ndarray(self.rows, of, block.buf, at * self.rows * 8).copy()
            for at, (name, of) in enumerate((("id", "i8"), ("x", "f8"), ("y", "f8")))
        }
        block.close()
        held["x"][places(which, self.rows)] += 1
        return float(held["x"].sum()), held


class ArrowFile(Way):
    """A mapped Arrow file, and a new column."""

    @contextlib.contextmanager
    def owner(self) -> Iterator[None]:
        table = pa.table(columns(self.rows))
        pyarrow.feather.write_feather(table, self.place / "arrow", "uncompressed")
        yield

    def change(self, which: str, number: int) -> tuple[float, Any]:
        table = pyarrow.feather.read_table(self.place / "arrow", memory_map=True)
        x = table["x"].to_numpy().copy()
        x[places(which, self.rows)] += 1
        table = table.set_column(1, "x", pa.array(x))
        return pc.sum(table["x"]).as_py(), table


class Polars(ArrowFile):
    """The same by Polars."""

    def change(self, which: str, number: int) -> tuple[float, Any]:
        frame = pl.scan_ipc(self.place / "arrow")
        first = self.rows // 3
        last = first + self.rows // 100 - 1
        chosen = {"every hundredth": pl.col("id") % 100 == 7,
                  "a range": pl.col("id").is_between(first, last)}[which]
        new = pl.when(chosen).then(pl.col("x") + 1).otherwise(pl.col("x"))
        frame = frame.with_columns(x=new).collect()
        return float(frame["x"].sum()), frame


class Pandas(Way):
    """A pickled frame, as `multiprocessing` sends it; here through a file in memory."""

    @contextlib.contextmanager
    def owner(self) -> Iterator[None]:
        pd.DataFrame(columns(self.rows)).to_pickle(self.place / "pickle")
        yield

    def change(self, which: str, number: int) -> tuple[float, Any]:
        frame = pd.read_pickle(self.place / "pickle")
        frame.iloc[places(which, self.rows), 1] += 1
        return float(frame["x"].sum()), frame


class DuckDB(Way):
    """A copy of the file, and UPDATE in it."""

    @contextlib.contextmanager
    def owner(self) -> Iterator[None]:
        with duckdb.connect(str(self.place / "duck")) as con:
            rows = pa.table(columns(self.rows))  # noqa: F841  DuckDB finds it by its name
            con.execute("CREATE TABLE t AS SELECT * FROM rows")
        yield

    def change(self, which: str, number: int) -> tuple[float, Any]:
        path = self.place / f"duck-{number}"
        shutil.copyfile(self.place / "duck", path)
        con = duckdb.connect(str(path))
        con.execute(f"UPDATE t SET x = x + 1 WHERE {condition(which, self.rows)}")
        return con.execute("SELECT sum(x) FROM t").fetchone()[0], con


class Fork(Way):
    """`fork` of the owner: the kernel copies pages that are written. A child only."""

    def __init__(self, place: Path, rows: int) -> None:
        super().__init__(place, rows)
        self.held = columns(rows)

    def change(self, which: str, number: int) -> tuple[float, Any]:
        self.held["x"][places(which, self.rows)] += 1
        return float(self.held["x"].sum()), self.held


WAYS: dict[str, type[Way]] = {
    "SwingDB: snapshot, UPDATE": Swing,
    "NumPy, shared_memory": Shared,
    "Arrow file, mapped": ArrowFile,
    "Polars, Arrow file": Polars,
    "pandas, pickled": Pandas,
    "DuckDB file, copied": DuckDB,
    "fork, NumPy": Fork,
}


def once(way: Way, which: str, number: int, before: int) -> dict:
    """One copy, in the process that has it."""
    begun = time.perf_counter()
    total, held = way.change(which, number)
    took = time.perf_counter() - begun
    pss = pss_bytes(os.getpid()) - before
    del held
    return {"ms": took * 1e3, "sum": total, "pss_bytes": pss}


def forked(way: Way, which: str, number: int) -> dict:
    """The same in a child; its start counts."""
    begun = time.perf_counter()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        before = pss_bytes(os.getpid())
        found = once(way, which, number, before)
        found["ms"] = (time.perf_counter() - begun) * 1e3
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        found = json.loads(pipe.read())
    os.waitpid(child, 0)
    return found


def change(name: str, place: str, rows: str) -> None:
    """The other process: a copy for each line that it reads."""
    way = WAYS[name](Path(place), int(rows))
    if not name.startswith("fork"):
        # What is started and imported with the first copy is no part of the second.
        way.change("a range", WARM_UP)
    print("there", flush=True)
    for number, line in enumerate(sys.stdin):
        which = line.strip()
        if name.startswith("fork"):
            found = forked(way, which, number)
        else:
            found = once(way, which, number, pss_bytes(os.getpid()))
        print(json.dumps(found), flush=True)


def measure(name: str, rows: int, rounds: int) -> list[dict]:
    """A way, for each kind of change. Each round has a process of its own."""
    expected = float(columns(rows)["x"].sum())
    with tempfile.TemporaryDirectory(prefix="swingdb-bench-", dir="/dev/shm") as made:
        os.environ["SWINGDB_HOME"] = str(Path(made) / "swingdb")
        found: dict[str, list[dict]] = {which: [] for which in WHICH}
        way = Way(Path(made), rows) if name.startswith("fork") else WAYS[name](Path(made), rows)
        with way.owner():
            for _ in range(rounds):
                for which, runs in found.items():
                    runs.append(copy(name, Path(made), rows, which))
                    added = len(range(*places(which, rows).indices(rows)))
                    if runs[-1]["sum"] != expected + added:
                        raise SystemExit(f"{name}, {which}: {runs[-1]['sum']} instead of "
                                         f"{expected + added}")
    return [{"way": name, "which": which, "runs": runs} for which, runs in found.items()]


def copy(name: str, place: Path, rows: int, which: str) -> dict:
    """One round."""
    words = [sys.executable, __file__, "change", name, str(place), str(rows)]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    other.stdout.readline()
    before = files_bytes(place)
    other.stdin.write(which + "\n")
    other.stdin.flush()
    line = other.stdout.readline()
    files = files_bytes(place) - before
    other.communicate()
    if not line:
        raise SystemExit(f"{name}: the other process ended with {other.returncode}")
    for path in place.glob("duck-*"):
        path.unlink()
    return json.loads(line) | {"files_bytes": files}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", default="100,1000", help="sizes of the table")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", default="", help="parts of their names, with commas")
    arguments = parser.parse_args()
    rows = []
    for megabytes in map(float, arguments.mb.split(",")):
        count = int(megabytes * 1e6) // ROW_BYTES
        for name in WAYS:
            if not any(word in name.lower() for word in arguments.ways.lower().split(",")):
                continue
            for row in measure(name, count, arguments.rounds):
                rows.append({"mb": megabytes, **row})
                ms = statistics.median(run["ms"] for run in row["runs"])
                memory = max(run["pss_bytes"] for run in row["runs"])
                files = max(run["files_bytes"] for run in row["runs"])
                print(f"{megabytes:g} MB, {row['which']}: {name}: {ms:.1f} ms, PSS "
                      f"{memory / 1e6:+.0f} MB, files {files / 1e6:+.0f} MB", flush=True)
    versions = {m.__name__: m.__version__ for m in (pa, pd, pl, duckdb)}
    common.write("private-copy", {"rounds": arguments.rounds, "rows": rows, "versions": versions})


if __name__ == "__main__":
    if sys.argv[1:2] == ["change"]:
        change(*sys.argv[2:])
    else:
        main()
