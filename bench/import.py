"""Imports of Parquet and CSV against DuckDB's into an in-memory table, on the same cores.

Taxi reports are written once in both formats. Then fresh processes import a file, one engine after
the other, several times; what counts is the time of the import itself, and the median of it. Both
create the table, find the types by themselves, and use all cores.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import common

ROWS = 5_000_000
RUNS = 7

DUCKDB = """
import json, sys, time
import duckdb
path = sys.argv[1]
con = duckdb.connect()
con.execute("SET enable_progress_bar = false")
begun = time.perf_counter()
con.execute(f"CREATE TABLE t AS FROM '{path}'")
took = (time.perf_counter() - begun) * 1e3
print(json.dumps({"ms": took, "rows": con.execute("SELECT count(*) FROM t").fetchone()[0]}))
"""


def run(command: list[str]) -> dict:
    """What a process printed as JSON."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    jobs = str(Path(arguments.bin) / "swingdb-bench")
    rows = []
    with common.namespace(), tempfile.TemporaryDirectory() as directory:
        sizes = run([jobs, "taxi-files", directory, str(ROWS)])
        for name, size in sizes.items():
            path = str(Path(directory) / name)
            ours, theirs = [], []
            for _ in range(RUNS):
                for times, command in (
                    (ours, [jobs, "import", path]),
                    (theirs, [sys.executable, "-c", DUCKDB, path]),
                ):
                    result = run(command)
                    if result["rows"] != ROWS:
                        raise AssertionError(f"{command}: {result}")
                    times.append(result["ms"])
            ratio = statistics.median(ours) / statistics.median(theirs)
            row = {
                "file": name,
                "bytes": size,
                "swingdb_ms": round(statistics.median(ours), 1),
                "duckdb_ms": round(statistics.median(theirs), 1),
                "ratio": round(ratio, 3),
                "raw": {"swingdb_ms": ours, "duckdb_ms": theirs},
            }
            print({key: value for key, value in row.items() if key != "raw"})
            rows.append(row)
    common.write("import", {"rows": rows})


if __name__ == "__main__":
    main()
