"""How long taking a snapshot takes from Python, in a fresh handle, at several database sizes.

    python bench/snapshot_python.py [--sizes 1MB,1GB,8GB] [--commits 1] [--repeats 300]
                                    [--json FILE]

For each size a process of its own fills and shares a database; this process, which holds nothing of
it, then takes snapshots: `swingdb.snapshot(name)` alone, and with the first row of a query on it.
Medians, with the 5th and 95th percentile. The memory of one size is freed before the next.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import swingdb

UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
#: Bytes of a row of the table: three columns of eight.
ROW_BYTES = 24

FILL = """
import sys, swingdb
name, rows, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with swingdb.connect(name) as con:
    con.execute("CREATE TABLE t (a BIGINT, x DOUBLE, y DOUBLE)")
    step = max(1, -(-rows // commits))
    for start in range(0, rows, step):
        end = min(rows, start + step) - 1
        con.execute(
            "INSERT INTO t SELECT a, a * 0.5, a * 0.25 "
            f"FROM generate_series({start}, {end}) AS g(a)"
        )
    con.share()
"""


def parse_size(text: str) -> int:
    """`8GB` in bytes."""
    return int(float(text[:-2]) * UNITS[text[-2:].upper()])


def measure(action, repeats: int) -> dict[str, float]:
    """Median and percentiles of `action` in microseconds; what it returns is let go outside."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter_ns()
        kept = action()
        times.append((time.perf_counter_ns() - started) / 1000)
        kept.close()
    times.sort()
    return {
        "median_us": statistics.median(times),
        "p05_us": times[len(times) // 20],
        "p95_us": times[-1 - len(times) // 20],
    }


def snapshot_and_query(name: str) -> swingdb.Connection:
    """A snapshot, and the first row of the smallest query on it."""
    snap = swingdb.snapshot(name)
    snap.execute("SELECT count(*) FROM t").fetchone()
    return snap


def main() -> None:
    """Measures every size and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1MB,1GB,8GB")
    parser.add_argument("--commits", type=int, default=1, help="commits that fill a database")
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    for size in options.sizes.split(","):
        name = f"bench_python_{size}"
        rows = max(1, parse_size(size) // ROW_BYTES)
        arguments = [name, str(rows), str(options.commits)]
        subprocess.run([sys.executable, "-c", FILL, *arguments], check=True)
        try:
            measure(lambda: swingdb.snapshot(name), 20)
            result = {"size": size, **measure(lambda: swingdb.snapshot(name), options.repeats)}
            query = measure(lambda: snapshot_and_query(name), min(100, options.repeats))
            result["with_query_median_us"] = query["median_us"]
        finally:
            swingdb.drop(name)
            swingdb.gc()
        results.append(result)
        print(
            f"{size:>6}: snapshot {result['median_us']:8.1f} us "
            f"({result['p05_us']:.1f} .. {result['p95_us']:.1f}), "
            f"with a first query {result['with_query_median_us']:8.1f} us"
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
