"""Memory that the same rows take: SwingDB, DuckDB in memory and in a file, Polars, pandas, Arrow.

The rows are positions of taxis with two texts. Each holder has a process of its own, which loads
them block by block, reads all of them once, and then keeps still. Told are the proportional (PSS)
and resident (RSS) set sizes beyond what the process took before it loaded anything, the files, and
what a second process adds that reads the same rows: by a snapshot, the file, or a copy of its own.
Sums over the columns must be the same everywhere. All files lie in memory.

    python bench/footprint.py [--rows 5000000] [--holders swingdb,duckdb]
    python bench/footprint.py hold HOLDER ROLE PLACE ROWS
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import workloads
from readers import pss_bytes
from readers_writer import files_bytes

SEED = 1
#: A day's positions, so that few rows already have many taxis.
DAYS = 1
TABLE = (
    "CREATE TABLE gps (taxi_id INTEGER, seconds INTEGER, longitude DOUBLE, latitude DOUBLE, "
    "speed SMALLINT, occupied SMALLINT, plate VARCHAR, district VARCHAR)"
)
DISTRICTS = [f"District of the {n} hills" for n in ("green", "blue", "red", "high", "far", "old")]
#: What tells whether two holders have the same rows.
SUMS = "SELECT sum(speed), sum(seconds), count(DISTINCT taxi_id), sum(length(plate)) + " \
       "sum(length(district)), sum(occupied) FROM gps"


def batches(rows: int) -> Iterator[pa.RecordBatch]:
    """The rows."""
    names = pa.array(DISTRICTS)
    for batch in workloads.taxi(rows, DAYS, SEED):
        taxi = batch.column("taxi_id")
        plate = pc.binary_join_element_wise("TX", pc.cast(taxi, pa.string()), "-")
        district = names.take(pc.cast(pa.array(taxi.to_numpy() % len(DISTRICTS)), pa.int32()))
        columns = [*batch.columns, plate, district]
        yield pa.RecordBatch.from_arrays(columns, [*batch.schema.names, "plate", "district"])


def arrow_sums(table: pa.Table) -> list[int]:
    """The sums, by Arrow."""
    lengths = (pc.sum(pc.utf8_length(table[name])).as_py() for name in ("plate", "district"))
    return [
        pc.sum(table["speed"]).as_py(), pc.sum(table["seconds"]).as_py(),
        pc.count_distinct(table["taxi_id"]).as_py(), sum(lengths),
        pc.sum(table["occupied"]).as_py(),
    ]


def hold_swingdb(role: str, place: Path, rows: int) -> tuple[Any, list[int]]:
    """The database, or a snapshot of it."""
    import swingdb

    if role == "first":
        con = swingdb.connect("footprint")
        con.execute(TABLE)
        for batch in batches(rows):
            con.append("gps", batch)
        con.share()
    else:
        con = swingdb.snapshot("footprint")
    return con, list(con.execute(SUMS).fetchone())


def hold_duckdb(role: str, place: Path, rows: int) -> tuple[Any, list[int]]:
    """In memory; a second process has a second database."""
    import duckdb

    con = duckdb.connect()
    fill_duckdb(con, rows)
    return con, [int(value) for value in con.execute(SUMS).fetchone()]


def fill_duckdb(con: Any, rows: int) -> None:
    """Block by block."""
    con.execute(TABLE)
    for batch in batches(rows):
        block = pa.Table.from_batches([batch])  # noqa: F841  DuckDB finds it by its name
        con.execute("INSERT INTO gps SELECT * FROM block")


def hold_duckdb_file(role: str, place: Path, rows: int) -> tuple[Any, list[int]]:
    """A file that all open for reading, once it is written."""
    import duckdb

    path = str(place / "duck")
    if role == "first":
        with duckdb.connect(path) as con:
            fill_duckdb(con, rows)
    con = duckdb.connect(path, read_only=True)
    return con, [int(value) for value in con.execute(SUMS).fetchone()]


def hold_arrow(role: str, place: Path, rows: int) -> tuple[Any, list[int]]:
    """A table of PyArrow."""
    table = pa.Table.from_batches(list(batches(rows)))
    return table, arrow_sums(table)


def hold_arrow_file(role: str, place: Path, rows: int) -> tuple[Any, list[int]]:
    """An Arrow file that each process maps."""
    path = str(place / "gps.arrow")
    if role == "first":
        blocks = batches(rows)
        first = next(blocks)
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, first.schema) as writer:
            writer.write_batch(first)
            for block in blocks:
                writer.write_batch(block)
    source = pa.memory_map(path)
    table = pa.ipc.open_file(source).read_all()
    return (source, table), arrow_sums(table)


def hold_polars(role: str, place: Path, rows: int) -> tuple[Any, list[int]]:
    """A data frame of Polars, in one piece a column."""
    import polars as pl

    frame = pl.concat([pl.DataFrame(batch) for batch in batches(rows)], rechunk=True)
    lengths = sum(int(frame[name].str.len_chars().sum()) for name in ("plate", "district"))
    return frame, [
        int(frame["speed"].cast(pl.Int64).sum()), int(frame["seconds"].cast(pl.Int64).sum()),
        frame["taxi_id"].n_unique(), lengths, int(frame["occupied"].cast(pl.Int64).sum()),
    ]


def hold_pandas(role: str, place: Path, rows: int) -> tuple[Any, list[int]]:
    """A data frame of pandas, with its usual types."""
    import pandas as pd

    frame = pd.concat([batch.to_pandas() for batch in batches(rows)], ignore_index=True)
    lengths = sum(int(frame[name].str.len().sum()) for name in ("plate", "district"))
    speed, seconds, occupied = (
        int(frame[name].to_numpy().sum(dtype=np.int64)) for name in ("speed", "seconds", "occupied")
    )
    return frame, [speed, seconds, int(frame["taxi_id"].nunique()), lengths, occupied]


HOLDERS: dict[str, Callable[[str, Path, int], tuple[Any, list[int]]]] = {
    "SwingDB": hold_swingdb,
    "DuckDB, in memory": hold_duckdb,
    "DuckDB file": hold_duckdb_file,
    "Polars": hold_polars,
    "pandas": hold_pandas,
    "Arrow": hold_arrow,
    "Arrow file, mapped": hold_arrow_file,
}
MODULES = {
    "SwingDB": ["swingdb"], "Polars": ["polars"], "pandas": ["pandas"],
    "DuckDB, in memory": ["duckdb"], "DuckDB file": ["duckdb"],
}


def hold(holder: str, role: str, place: str, rows: str) -> None:
    """A holder's process: tells when it has imported, and when it has read all rows."""
    for module in MODULES.get(holder, []):
        __import__(module)
    print("imported", flush=True)
    sys.stdin.readline()
    held, sums = HOLDERS[holder](role, Path(place), int(rows))
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    print(json.dumps(sums), flush=True)
    sys.stdin.readline()
    del held


def rss_bytes(pid: int) -> int:
    """The resident set size of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB", text, re.MULTILINE).group(1)) * 1024


class Holder:
    """A holder's process."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, __file__, "hold", *words]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.line()
        self.before = (pss_bytes(self.process.pid), rss_bytes(self.process.pid))
        self.tell()
        self.sums = json.loads(self.line())

    def line(self) -> str:
        """What it says."""
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a holder ended with {self.process.wait()}")
        return line

    def tell(self) -> None:
        """Lets it go on."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def grown(self) -> tuple[int, int]:
        """PSS and RSS beyond what it had before the rows."""
        now = (pss_bytes(self.process.pid), rss_bytes(self.process.pid))
        return now[0] - self.before[0], now[1] - self.before[1]

    def close(self) -> None:
        """Ends it."""
        self.tell()
        self.process.communicate()


def measure(holder: str, rows: int) -> dict:
    """One holder, and a second process beside it."""
    with tempfile.TemporaryDirectory(prefix="swingdb-bench-", dir="/dev/shm") as made:
        os.environ["SWINGDB_HOME"] = str(Path(made) / "swingdb")
        first = Holder(holder, "first", made, str(rows))
        pss, rss = first.grown()
        files = files_bytes(Path(made))
        second = Holder(holder, "second", made, str(rows))
        if second.sums != first.sums:
            raise SystemExit(f"{holder}: {second.sums}, and before {first.sums}")
        together = first.grown()[0] + second.grown()[0]
        files_then = files_bytes(Path(made))
        first.close()
        second.close()
    # Pages of files in memory that a process maps are in both figures; other pages are in one.
    mapped = holder in ("SwingDB", "Arrow file, mapped")
    held, both = (max(pss, files), max(together, files_then)) if mapped else (
        pss + files, together + files_then)
    return {"holder": holder, "pss_bytes": pss, "rss_bytes": rss, "files_bytes": files,
            "memory_bytes": held, "with_second_bytes": both, "sums": first.sums}


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--holders", default="", help="parts of their names, with commas")
    arguments = parser.parse_args()
    rows = []
    for holder in HOLDERS:
        if not any(word in holder.lower() for word in arguments.holders.lower().split(",")):
            continue
        row = measure(holder, arguments.rows)
        rows.append(row)
        if row["sums"] != rows[0]["sums"]:
            raise SystemExit(f"{holder} has {row['sums']}, and {rows[0]['holder']} "
                             f"{rows[0]['sums']}")
        shown = ", ".join(f"{key[:-6]} {value / 1e6:.0f} MB" for key, value in row.items()
                          if key.endswith("_bytes"))
        print(f"{holder}: {shown}", flush=True)
    versions = {name: importlib.metadata.version(name)
                for name in ("duckdb", "polars", "pandas", "pyarrow")}
    plain = arguments.rows * workloads.row_bytes("gps") + rows[0]["sums"][3]
    print(f"plain values: {plain / 1e6:.0f} MB")
    common.write("footprint", {"table_rows": arguments.rows, "plain_bytes": plain, "rows": rows,
                               "versions": versions})


if __name__ == "__main__":
    if sys.argv[1:2] == ["hold"]:
        hold(*sys.argv[2:])
    else:
        main()
