"""The first query of a fresh process on a database that lies on a disk, against DuckDB's file.

Both have the tables of TPC-H. For each query a process is started that opens the database and asks;
the time goes from the call that opens to the last row. Nothing is in memory before: SwingDB's
database is dropped there and its store read with direct I/O, DuckDB's file is evicted from the page
cache. Values are compared. Which of the two goes first alternates.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import math
import os
import statistics
import tempfile
from decimal import Decimal
from pathlib import Path

import common
import duckdb
import pyarrow as pa
from tpch_queries import QUERIES, TABLES, compare

import swingdb

RUNS = 3
#: Nothing but a table's own columns, read by one scan.
SIMPLE = {
    "sum of a column": "SELECT sum(l_extendedprice) FROM lineitem",
    "five aggregates": "SELECT sum(l_quantity), min(l_shipdate), max(l_receiptdate), "
    "avg(l_discount), count(l_comment) FROM lineitem",
}
#: What a result that was printed may name.
NAMES = {"datetime": datetime, "Decimal": Decimal}
FRESH = """
import datetime, json, os, sys, time
engine, place, sql = sys.argv[1:]
used = os.times()
begun = time.perf_counter()
if engine == "swingdb":
    import swingdb
    begun = time.perf_counter()
    con = swingdb.connect("tpch", store=place)
    opened = time.perf_counter()
    rows = con.sql(sql).fetchall()
else:
    import duckdb
    begun = time.perf_counter()
    con = duckdb.connect(place, read_only=True)
    opened = time.perf_counter()
    rows = con.execute(sql).fetchall()
ended, now = time.perf_counter(), os.times()
processor = now.user + now.system - used.user - used.system
print(json.dumps({"ms": (ended - begun) * 1e3, "open_ms": (opened - begun) * 1e3,
                  "cores": processor / (ended - begun), "rows": repr(rows)}))
"""


def evict(place: Path) -> None:
    """Takes files from the page cache."""
    files = [place] if place.is_file() else [p for p in place.rglob("*") if p.is_file()]
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def fill(arguments: argparse.Namespace, store: Path, file: Path) -> dict:
    """The tables in both; bytes on the disk and in memory."""
    common.generate_tpch(arguments, "tpch")
    with duckdb.connect(str(file)) as duck, swingdb.connect("tpch", store=store) as swing:
        for table in TABLES:
            arrow = pa.table(swing.table(table))
            duck.execute(f"CREATE TABLE {table} AS SELECT * FROM arrow")
            del arrow
        used = swing.store.live_bytes
    memory = next(found.own_bytes for found in swingdb.list() if found.name == "tpch")
    return {"memory_bytes": memory, "store_bytes": used, "duckdb_bytes": file.stat().st_size}


def ask(engine: str, place: Path, sql: str) -> dict:
    """One fresh process."""
    evict(place)
    found = common.python_job(FRESH, engine, str(place), sql)
    # Where the process was slow enough, the background has brought everything into memory.
    with contextlib.suppress(swingdb.NotFoundError):
        swingdb.drop("tpch")
    return found


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    rows = []
    folder = os.environ.get("BENCH_DIR", Path.cwd())
    with common.namespace(), tempfile.TemporaryDirectory(dir=folder, prefix="cold-") as made:
        store, file = Path(made) / "store", Path(made) / "tpch.duckdb"
        sizes = fill(arguments, store, file)
        swingdb.drop("tpch")
        queries = SIMPLE | {path.stem: path.read_text() for path in QUERIES}
        for query, sql in queries.items():
            runs = {"swingdb": [], "duckdb": []}
            for turn in range(RUNS):
                order = ["swingdb", "duckdb"] if turn % 2 == 0 else ["duckdb", "swingdb"]
                for engine in order:
                    runs[engine].append(ask(engine, store if engine == "swingdb" else file, sql))
            ours, theirs = (statistics.median(r["ms"] for r in runs[e]) for e in runs)
            values = [eval(runs[e][0].pop("rows"), NAMES) for e in runs]
            compare(query, *values)
            row = {"query": query, "ratio": ours / theirs}
            for engine, all_runs in runs.items():
                row[f"{engine}_ms"] = [run["ms"] for run in all_runs]
                row[f"{engine}_open_ms"] = [run["open_ms"] for run in all_runs]
                row[f"{engine}_cores"] = statistics.median(run["cores"] for run in all_runs)
            rows.append(row)
            print(f"{query:16} {ours:8.0f} ms ({row['swingdb_cores']:.1f} cores), DuckDB "
                  f"{theirs:8.0f} ms ({row['duckdb_cores']:.1f}), {row['ratio']:.2f}x", flush=True)
        machine_disk = common.disk(Path(made))
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
    print(f"geometric mean {mean:.2f}")
    common.write("cold", {"scale": arguments.scale, "duckdb": duckdb.__version__, "rows": rows,
                          "geometric_mean": mean, "disk": machine_disk} | sizes)


if __name__ == "__main__":
    main()
