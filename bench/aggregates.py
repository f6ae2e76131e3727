"""Aggregates of few and of many groups: SwingDB beside DuckDB.

    python bench/aggregates.py [--rows 3000000] [--only 'mode(v)'] [--groups few,many,most]

Each aggregate of integers, floating point numbers or texts, some of them NULL, with 10, 100 000 and
1 000 000 groups. The engines take turns, and each has the best of three runs. Shown are the times,
how many cores were at work (processor time over time), and SwingDB's time and processor time as
multiples of DuckDB's. Nothing is stored: this is for finding what is slow.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import duckdb

import swingdb

RUNS = 3
#: Nothing is run again that takes longer.
LONG_S = 5.0
TABLE = """CREATE TABLE t AS SELECT i,
    CASE WHEN i % 11 = 0 THEN NULL ELSE (i * 7919) % 1000003 END AS v,
    CASE WHEN i % 13 = 0 THEN NULL ELSE 'text number ' || ((i * 104729) % 50021) END AS s,
    ((i * 7919) % 1000003)::DOUBLE / 3 AS d,
    DATE '2020-01-01' + ((i % 1000)::INT) AS day,
    ((i * 48271) % 2147483647) % 10 AS few,
    ((i * 48271) % 2147483647) % 100000 AS many,
    ((i * 48271) % 2147483647) % 1000000 AS most
    FROM range({rows}) r(i)"""
AGGREGATES = (
    "count(v)", "sum(v)", "avg(d)", "min(v)", "min(s)", "max(s)", "min(day)",
    "first(v)", "last(v)", "any_value(v)", "first(s)", "last(s)", "any_value(s)",
    "first(v ORDER BY i)", "last(s ORDER BY i)", "arg_max(v, i)", "arg_min(s, v)", "arg_max(i, s)",
    "count(DISTINCT v)", "count(DISTINCT s)", "sum(DISTINCT v)", "list(DISTINCT v)",
    "string_agg(s, ',')", "string_agg(DISTINCT s, ',')", "string_agg(s, ',' ORDER BY i)",
    "list(v)", "list(s)", "list({'a': v, 'b': s})", "list(v ORDER BY i)", "list(v ORDER BY v)",
    "max(v, 3)", "arg_max(i, v, 3)",
    "mode(v)", "mode(s)", "entropy(v)", "histogram(day)", "histogram(s)",
    "median(v)", "median(d)", "mad(d)", "quantile_cont(d, 0.9)", "quantile_disc(v, 0.9)",
    "quantile_disc(s, 0.5)", "quantile_cont(d, [0.25, 0.5, 0.75])", "approx_quantile(d, 0.5)",
    "approx_count_distinct(v)", "approx_count_distinct(s)",
    "stddev(d)", "skewness(d)", "kurtosis(d)", "product(d)", "fsum(d)", "corr(d, v)",
    "regr_slope(d, v)", "bit_xor(v)", "bool_and(v > 5)",
)


def run(connection: Any, query: str) -> tuple[float, float]:
    """Seconds that a query takes, and seconds of all processors."""
    before, begun = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    connection.execute(query).fetchall()
    taken, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(connections: list[Any], query: str) -> list[tuple[float, float]]:
    """The shortest run of each engine."""
    runs: list[list[tuple[float, float]]] = [[] for _ in connections]
    for _ in range(RUNS):
        for connection, times in zip(connections, runs, strict=True):
            if not times or min(times)[0] < LONG_S:
                times.append(run(connection, query))
    return [min(times) for times in runs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--only", help="aggregates, with semicolons between them")
    parser.add_argument("--groups", default="few,many,most")
    arguments = parser.parse_args()
    connections = [swingdb.connect(), duckdb.connect()]
    for connection in connections:
        connection.execute(TABLE.format(rows=arguments.rows))
    only = arguments.only.split(";") if arguments.only else AGGREGATES
    for aggregate in only:
        for key in arguments.groups.split(","):
            grouped = f"SELECT {key}, {aggregate} AS x FROM t GROUP BY {key}"
            (ours, ours_cpu), (theirs, theirs_cpu) = best(
                connections, f"SELECT count(x) FROM ({grouped})"
            )
            print(
                f"{aggregate:36} {key:5}"
                f" SwingDB {ours:7.3f} s on {ours_cpu / ours:4.2f},"
                f" DuckDB {theirs:7.3f} s on {theirs_cpu / theirs:4.2f}:"
                f" {ours / theirs:6.2f}, {ours_cpu / theirs_cpu:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
