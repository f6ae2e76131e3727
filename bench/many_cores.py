"""Import, CREATE TABLE AS and the 22 queries of TPC-H by number of cores, against DuckDB.

For 1, 2, 4 ... cores, up to those of the machine, each engine runs in a fresh process that may use
so many: one engine after the other, several times. It imports the eight tables from the same
Parquet files, copies the largest one within the database, and answers the queries. Beside each time
is the number of cores used: processor time of the process, user and system, over wall time. What
one engine answers is compared with what the other does. From one core and the most follows which
part of each time is serial (Amdahl).

`make bench-many-cores SCALE=10` on a machine with many cores and 64 GiB. `--files` names a folder
with the Parquet files of an earlier run, which are made and kept there when it has none.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import common
from tpch_queries import QUERIES, TABLES, compare

RUNS = 3
ENGINES = ("swingdb", "duckdb")

WORK = """
import sys
sys.path.insert(0, sys.argv[1])
import many_cores
many_cores.work(*sys.argv[2:])
"""


def processor_seconds() -> float:
    """Processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds that a call took: wall, processor."""
    begun, processor = time.perf_counter(), processor_seconds()
    run()
    return time.perf_counter() - begun, processor_seconds() - processor


def plain(value: object) -> object:
    """A value of either engine as JSON has it."""
    is_exact = value is None or isinstance(value, (str, int, bool))
    try:
        return value if is_exact else float(value)
    except (TypeError, ValueError):
        return str(value)


def warm(path: str) -> None:
    """Reads a file, so that no engine waits for the disk and the next one does not."""
    with open(path, "rb") as file:
        while file.read(common.MB):
            pass


def work(engine: str, threads: str, directory: str, copies: str) -> None:
    """One engine's part, in a process of its own: prints seconds and the first answers."""
    cores = sorted(os.sched_getaffinity(0))[: int(threads)]
    os.sched_setaffinity(0, cores)
    if engine == "swingdb":
        import swingdb

        con = swingdb.connect("many_cores")
        load = con.import_file
        fetch = lambda sql: con.sql(sql).arrow()  # noqa: E731
    else:
        import duckdb

        con = duckdb.connect()
        load = lambda p, t: con.execute(f"CREATE TABLE {t} AS FROM '{p}'")  # noqa: E731
        fetch = lambda sql: con.sql(sql).to_arrow_table()  # noqa: E731
    con.execute(f"SET threads = {threads}")
    times: dict[str, list[tuple[float, float]]] = {}
    for table in TABLES:
        path = str(Path(directory) / f"{table}.parquet")
        warm(path)
        times[f"import {table}"] = [timed(lambda p=path, t=table: load(p, t))]
    if copies == "1":
        copy = "CREATE TABLE l2 AS SELECT * FROM lineitem"
        times[copy] = [timed(lambda: con.execute(copy))]
        con.execute("DROP TABLE l2")
    answers = {}
    for path in QUERIES:
        sql = path.read_text()
        rows = con.execute(sql).fetchall()
        answers[path.stem] = [[plain(value) for value in row] for row in rows]
        times[path.stem] = [timed(lambda s=sql: fetch(s)) for _ in range(RUNS)]
    con.close()
    print(json.dumps({"times": times, "answers": answers}))


def numbers_of_cores(asked: str) -> list[int]:
    """Those asked for; else 1, 2, 4 ... and all that this process may use."""
    if asked:
        return [int(number) for number in asked.split(",")]
    most = len(os.sched_getaffinity(0))
    return [n for n in (1 << i for i in range(16)) if n < most] + [most]


def measured(directory: str, threads: int, runs: int, copies: bool) -> list[dict]:
    """All parts with so many cores: seconds of both engines, raw."""
    parts: dict[str, dict[str, list]] = {}
    for _ in range(runs):
        found = {}
        for engine in ENGINES:
            with common.namespace():
                words = (engine, str(threads), directory, str(int(copies)))
                found[engine] = common.python_job(WORK, str(Path(__file__).parent), *words)
            for part, times in found[engine]["times"].items():
                parts.setdefault(part, {e: [] for e in ENGINES})[engine].extend(times)
        for query, rows in found["swingdb"]["answers"].items():
            compare(query, rows, found["duckdb"]["answers"][query])
    return [{"cores": threads, "part": part, **times} for part, times in parts.items()]


def medians(row: dict, engine: str) -> tuple[float, float]:
    """Seconds and cores used."""
    wall = statistics.median(wall for wall, _ in row[engine])
    return wall, statistics.median(cpu / wall for wall, cpu in row[engine])


def show(rows: list[dict]) -> None:
    """The table of one number of cores."""
    for row in rows:
        (ours, mine), (theirs, its) = (medians(row, engine) for engine in ENGINES)
        print(
            f"{row['cores']:3} cores  {row['part'][:42]:42} {ours:8.3f} s on {mine:5.2f}, "
            f"DuckDB {theirs:8.3f} s on {its:5.2f}, {ours / theirs:.2f}x",
            flush=True,
        )


def summary(rows: list[dict]) -> list[dict]:
    """Totals and geometric means by number of cores."""
    kinds = {
        "import": lambda part: part.startswith("import"),
        "CREATE TABLE AS": lambda part: part.startswith("CREATE"),
        "queries": lambda part: part.startswith("q"),
    }
    totals = []
    for cores in sorted({row["cores"] for row in rows}):
        for kind, is_of in kinds.items():
            of = [row for row in rows if row["cores"] == cores and is_of(row["part"])]
            if not of:
                continue
            walls = {e: [medians(row, e)[0] for row in of] for e in ENGINES}
            used = {e: sum(math.prod(medians(row, e)) for row in of) for e in ENGINES}
            ratios = [a / b for a, b in zip(walls["swingdb"], walls["duckdb"], strict=True)]
            totals.append(
                {
                    "cores": cores,
                    "kind": kind,
                    **{f"{e}_s": sum(walls[e]) for e in ENGINES},
                    **{f"{e}_cores": used[e] / sum(walls[e]) for e in ENGINES},
                    "geometric_mean_ratio": statistics.geometric_mean(ratios),
                }
            )
    return totals


def serial_parts(rows: list[dict]) -> list[dict]:
    """The part of each time that more cores do not shorten, by Amdahl's law: of one core, and of
    the most. 0: so many times faster on so many cores; 1: no faster."""
    one = {row["part"]: row for row in rows if row["cores"] == 1}
    most = max(row["cores"] for row in rows)
    if most == 1:
        return []

    def serial(row: dict, engine: str) -> float:
        share = medians(row, engine)[0] / medians(one[row["part"]], engine)[0]
        return (share - 1 / most) / (1 - 1 / most)

    return [
        {"part": row["part"], "cores": most, **{e: serial(row, e) for e in ENGINES}}
        for row in rows
        if row["cores"] == most and row["part"] in one
    ]


def make_files(arguments: argparse.Namespace, directory: str) -> None:
    """The tables of TPC-H as Parquet files, where they are not there yet."""
    import swingdb

    if all((Path(directory) / f"{table}.parquet").exists() for table in TABLES):
        return
    with common.namespace():
        common.generate_tpch(arguments, "tpch")
        with swingdb.snapshot("tpch") as data:
            for table in TABLES:
                data.execute(f"COPY {table} TO '{directory}/{table}.parquet'")


def more(parser: argparse.ArgumentParser) -> None:
    """What only this benchmark is told."""
    parser.add_argument("--files", help="a folder for the Parquet files, which stay there")
    parser.add_argument("--cores", default="", help="numbers of cores, such as 1,4,16")
    parser.add_argument("--no-copy", action="store_true", help="no table twice, for little memory")
    parser.add_argument("--processes", type=int, default=RUNS, help="fresh processes of each")


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__, more)
    import duckdb

    rows: list[dict] = []
    with contextlib.ExitStack() as stack:
        directory = arguments.files
        if directory is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
        make_files(arguments, directory)
        for threads in numbers_of_cores(arguments.cores):
            found = measured(directory, threads, arguments.processes, not arguments.no_copy)
            show(found)
            rows += found
    totals = summary(rows)
    for total in totals:
        print(
            f"{total['cores']:3} cores  {total['kind']:15} "
            f"{total['swingdb_s']:8.2f} s on {total['swingdb_cores']:5.2f}, "
            f"DuckDB {total['duckdb_s']:8.2f} s on {total['duckdb_cores']:5.2f}, "
            f"{total['swingdb_s'] / total['duckdb_s']:.2f}x, "
            f"geometric mean {total['geometric_mean_ratio']:.2f}"
        )
    serial = serial_parts(rows)
    for row in serial:
        print(
            f"serial part of {row['part'][:42]:42} {row['swingdb']:5.2f}, "
            f"DuckDB {row['duckdb']:5.2f} (1 and {row['cores']} cores)"
        )
    figures = {"scale": arguments.scale, "duckdb": duckdb.__version__}
    found = {"totals": totals, "serial": serial, "rows": rows}
    common.write("many-cores", figures | found, indent=None)


if __name__ == "__main__":
    main()
