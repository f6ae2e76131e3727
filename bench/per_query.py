"""A fresh process for each query, the data already in memory: what a shell script or a web worker
does.

`swingdb sql` on a shared database, the `duckdb` command on its file, Python with DuckDB on such a
file, with Polars on Arrow IPC files that it maps, and with DataFusion on Parquet files; all files
lie in memory. Timed from the start of the process to its end: three short queries, and all of
TPC-H. A query that an engine refuses has no time.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import common
import duckdb
import pyarrow as pa
import pyarrow.feather
import tpch_queries

import swingdb

RUNS = 7
QUERIES = {
    "one order": "SELECT * FROM orders WHERE o_orderkey = 3000005",
    "count": "SELECT count(*) FROM lineitem",
    "sum by group": "SELECT l_shipmode, sum(l_quantity) FROM lineitem GROUP BY l_shipmode",
    **{path.stem: path.read_text() for path in tpch_queries.QUERIES},
}
TABLES = tpch_queries.TABLES
POLARS = """
import sys
import polars as pl
tables = {t: pl.scan_ipc(f"{sys.argv[1]}/{t}.arrow") for t in sys.argv[3:]}
pl.Config.set_tbl_rows(20)
print(pl.SQLContext(tables).execute(sys.argv[2], eager=True))
"""
DUCKDB = """
import sys
import duckdb
print(duckdb.connect(sys.argv[1], read_only=True).execute(sys.argv[2]).fetchall())
"""
DATAFUSION = """
import sys
import datafusion
context = datafusion.SessionContext()
for table in sys.argv[3:]:
    context.register_parquet(table, f"{sys.argv[1]}/{table}.parquet")
print(context.sql(sys.argv[2]).to_pylist())
"""
#: Engines that are told which files are tables.
TOLD = ("Python, Polars", "Python, DataFusion")


def process_ms(command: list[str]) -> float | None:
    """Milliseconds from the start of a process to its end; `None` where it failed, with what it
    said shown."""
    begun = time.perf_counter()
    ended = subprocess.run(command, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1e3 if ended.returncode == 0 else None


def prepare(arguments, home: Path) -> dict[str, list[str]]:
    """Puts the same data where each engine wants it; the commands without the query."""
    common.generate_tpch(arguments, "tpch")
    snapshot = swingdb.snapshot("tpch")
    files = home / "other"
    files.mkdir()
    # The command and the module are of different versions, so each writes a file of its own.
    command = shutil.which("duckdb", path=Path(sys.executable).parent)
    duck = duckdb.connect(str(files / "module.duckdb"))
    for table in TABLES:
        arrow = pa.table(snapshot.table(table))
        duck.execute(f"CREATE TABLE {table} AS SELECT * FROM arrow")
        pyarrow.feather.write_feather(arrow, files / f"{table}.arrow", compression="uncompressed")
        duck.execute(f"COPY {table} TO '{files}/{table}.parquet'")
        sql = f"CREATE TABLE {table} AS FROM '{files}/{table}.parquet'"
        subprocess.run([command, str(files / "command.duckdb"), "-c", sql], check=True)
    duck.close()
    snapshot.close()
    return {
        "swingdb sql": [str(Path(arguments.bin) / "swingdb"), "sql", "tpch"],
        "duckdb command": [command, "-readonly", str(files / "command.duckdb"), "-c"],
        "Python, DuckDB": [sys.executable, "-c", DUCKDB, str(files / "module.duckdb")],
        "Python, Polars": [sys.executable, "-c", POLARS, str(files)],
        "Python, DataFusion": [sys.executable, "-c", DATAFUSION, str(files)],
    }


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    rows = []
    with common.namespace() as home:
        commands = prepare(arguments, home)
        for label, sql in QUERIES.items():
            times: dict[str, list[float]] = {engine: [] for engine in commands}
            for _ in range(RUNS):
                for engine, command in commands.items():
                    ms = process_ms([*command, sql, *(TABLES if engine in TOLD else [])])
                    if ms is not None:
                        times[engine].append(ms)
                    elif engine == "swingdb sql":
                        raise SystemExit(f"{label}: {engine} fails")
            times = {engine: ms for engine, ms in times.items() if ms}
            rows.append({"query": label, "ms": times})
            medians = ", ".join(f"{e} {statistics.median(t):.0f} ms" for e, t in times.items())
            print(f"{label}: {medians}", flush=True)
    versions = {
        "duckdb command": importlib.metadata.version("duckdb-cli"),
        "Python, DuckDB": duckdb.__version__,
        "Python, Polars": importlib.metadata.version("polars"),
        "Python, DataFusion": importlib.metadata.version("datafusion"),
    }
    common.write(
        "per-query",
        {"versions": versions, "scale": arguments.scale, "rows": rows, "cores": os.cpu_count()},
    )


if __name__ == "__main__":
    main()
