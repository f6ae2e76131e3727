"""A fresh process for each query, the data already in memory: what a shell script or a web worker
does.

`swingdb sql` on a shared database, the `duckdb` command on its file, and Python with Polars on
Arrow IPC files that it maps; all files lie in memory. Timed from the start of the process to its
end.
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

import swingdb

RUNS = 15
QUERIES = {
    "one order": "SELECT * FROM orders WHERE o_orderkey = 3000005",
    "count": "SELECT count(*) FROM lineitem",
    "sum by group": "SELECT l_shipmode, sum(l_quantity) FROM lineitem GROUP BY l_shipmode",
    "q06": (Path(__file__).parent / "tpch/q06.sql").read_text(),
    "q03": (Path(__file__).parent / "tpch/q03.sql").read_text(),
}
TABLES = ["customer", "lineitem", "orders"]
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


def process_ms(command: list[str]) -> float:
    """Milliseconds from the start of a process to its end."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1e3


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
                    more = TABLES if "Polars" in engine else []
                    times[engine].append(process_ms([*command, sql, *more]))
            rows.append({"query": label, "ms": times})
            medians = ", ".join(f"{e} {statistics.median(t):.0f} ms" for e, t in times.items())
            print(f"{label}: {medians}", flush=True)
    versions = {
        "duckdb command": importlib.metadata.version("duckdb-cli"),
        "Python, DuckDB": duckdb.__version__,
        "Python, Polars": importlib.metadata.version("polars"),
    }
    common.write(
        "per-query",
        {"versions": versions, "scale": arguments.scale, "rows": rows, "cores": os.cpu_count()},
    )


if __name__ == "__main__":
    main()
