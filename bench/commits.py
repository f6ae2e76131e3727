"""Durable commits of one row by 1, 4 and 16 threads, against SQLite (WAL, synchronous=FULL).

Each thread has a session of its own (SwingDB) or a connection of its own (SQLite), and inserts
numbered rows one by one, or adds to rows of a table that has them, each in a transaction of its
own. Both databases lie in the same folder. The two take turns. Afterwards both have all rows;
SwingDB also says how often it synced a file. How many cores were busy is the process's user and
system time over the time that passed.

And the stalls of a writer during a checkpoint: one thread inserts rows, which do not wait for the
disk (durability "manual"), while the tables of TPC-H are written to the store for the first time.
A busy machine lets every thread wait for a processor; the time that the writer waited for something
else is what an insert took without that, which the kernel counts for each thread.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import common

import swingdb

RUNS = 3
THREADS = (1, 4, 16)
#: Commits of all threads of a run together.
COMMITS = 960
#: What a commit does to its row, and whether the rows are there before.
STATEMENTS = {
    "insert": ("INSERT INTO t VALUES (?, 'a row of the table', 1)", False),
    "update": ("UPDATE t SET count = count + 1 WHERE number = ?", True),
}
TABLE = "CREATE TABLE t (number INTEGER PRIMARY KEY, text VARCHAR, count INTEGER)"
#: Afterwards: rows, and the sum of their counts.
CHECK = "SELECT count(DISTINCT number), sum(count) FROM t"


def run(threads: int, session: Callable[[], Callable[[int], None]]) -> dict:
    """Commits a second, and busy cores; `session` makes what a thread commits with, in it."""
    start = threading.Barrier(threads + 1)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            insert = session()
            start.wait()
            for row in range(number, COMMITS, threads):
                insert(row)
        except BaseException as error:  # shown by the caller
            failures.append(error)
            start.abort()

    all_threads = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in all_threads:
        thread.start()
    start.wait()
    begun, worked = time.perf_counter(), time.process_time()
    for thread in all_threads:
        thread.join()
    seconds, worked = time.perf_counter() - begun, time.process_time() - worked
    if failures:
        raise failures[0]
    return {"per_second": COMMITS / seconds, "cores": worked / seconds}


def fill(execute: Callable, what: str) -> None:
    """Makes the table, with all rows if the statement changes rows that are there."""
    execute(TABLE)
    if STATEMENTS[what][1]:
        rows = ", ".join(f"({number}, 'a row of the table', 0)" for number in range(COMMITS))
        execute(f"INSERT INTO t VALUES {rows}")


def swing(place: Path, threads: int, what: str) -> dict:
    """One run of SwingDB."""
    with swingdb.connect("commits", store=place / "store") as con:
        fill(con.execute, what)
        before = con.store.syncs

        def session() -> Callable[[int], None]:
            own = con.duplicate()
            return lambda row: own.execute(STATEMENTS[what][0], [row])

        found = run(threads, session)
        assert con.sql(CHECK).fetchone() == (COMMITS, COMMITS)
        found["syncs_per_commit"] = (con.store.syncs - before) / COMMITS
    swingdb.drop("commits")
    return found


def sqlite(place: Path, threads: int, what: str) -> dict:
    """One run of SQLite."""

    def connect() -> sqlite3.Connection:
        con = sqlite3.connect(place / "sqlite", timeout=60, isolation_level=None)
        con.execute("PRAGMA journal_mode=WAL")
        con.execute("PRAGMA synchronous=FULL")
        return con

    fill(connect().execute, what)

    def session() -> Callable[[int], None]:
        own = connect()
        return lambda row: own.execute(STATEMENTS[what][0], [row])

    found = run(threads, session)
    assert connect().execute(CHECK).fetchone() == (COMMITS, COMMITS)
    return found


def measure(folder: str, threads: int, what: str) -> dict:
    """All runs with so many threads."""
    runs: dict[str, list[dict]] = {"swingdb": [], "sqlite": []}
    for turn in range(RUNS):
        for engine in (swing, sqlite) if turn % 2 == 0 else (sqlite, swing):
            with tempfile.TemporaryDirectory(dir=folder, prefix="commits-") as made:
                name = "swingdb" if engine is swing else "sqlite"
                runs[name].append(engine(Path(made), threads, what))
    ours, theirs = (statistics.median(r["per_second"] for r in runs[e]) for e in runs)
    cores = [statistics.median(r["cores"] for r in runs[e]) for e in runs]
    syncs = statistics.median(run["syncs_per_commit"] for run in runs["swingdb"])
    print(f"{what}, {threads:3} threads: {ours:8.0f} commits/s ({cores[0]:.2f} cores), {syncs:.2f} "
          f"syncs a commit; SQLite {theirs:8.0f} commits/s ({cores[1]:.2f} cores); "
          f"{ours / theirs:.2f}x", flush=True)
    return {"statement": what, "threads": threads, "ratio": ours / theirs, "runs": runs}


class Writing:
    """What inserts take, in milliseconds, and what of it was not waiting for a processor."""

    def __init__(self, writer: swingdb.Connection) -> None:
        self.writer = writer
        # Statements run in threads of the module.
        tasks = Path("/proc/self/task").iterdir()
        ours = [t for t in tasks if t.name == str(os.getpid())
                or (t / "comm").read_text().startswith("swingdb-python")]
        self.waits = [task / "schedstat" for task in ours]
        self.took: list[float] = []
        self.stalled: list[float] = []

    def waited_ms(self) -> float:
        """How long the threads have waited for a processor so far."""
        return sum(int(wait.read_text().split()[1]) for wait in self.waits) / 1e6

    def insert(self) -> None:
        """One row."""
        waited, begun = self.waited_ms(), time.perf_counter()
        self.writer.execute("INSERT INTO own VALUES (1)")
        took = (time.perf_counter() - begun) * 1e3
        self.took.append(took)
        self.stalled.append(max(0.0, took - (self.waited_ms() - waited)))


def stalls(arguments: argparse.Namespace, folder: str) -> dict:
    """How long inserts take while a checkpoint runs, in milliseconds; and without one."""
    common.generate_tpch(arguments, "stalls")
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="commits-") as made,
        swingdb.connect("stalls", store=Path(made) / "store", durability="manual") as con,
        con.duplicate() as writer,
    ):
        con.execute("CREATE TABLE own (a INTEGER)")
        alone = Writing(writer)
        for _ in range(200):
            alone.insert()
        during = Writing(writer)
        checkpoint = threading.Thread(target=con.checkpoint)
        checkpoint.start()
        while checkpoint.is_alive():
            during.insert()
    swingdb.drop("stalls")
    print(f"inserts during a checkpoint: median {statistics.median(during.took):.1f} ms, longest "
          f"{max(during.took):.1f} ms, {max(during.stalled):.1f} ms without waiting for a "
          f"processor; without a checkpoint {statistics.median(alone.took):.1f} and "
          f"{max(alone.took):.1f} ms")
    found = {"during": during, "alone": alone}
    return {
        f"{when}{what}_ms": common.summary(values)
        for when, writing in found.items()
        for what, values in (("", writing.took), ("_stalled", writing.stalled))
    }


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    folder = os.environ.get("BENCH_DIR", str(Path.cwd()))
    with common.namespace():
        rows = [measure(folder, threads, what) for what in STATEMENTS for threads in THREADS]
        waits = stalls(arguments, folder)
    common.write("commits", {"sqlite": sqlite3.sqlite_version, "commits": COMMITS, "rows": rows,
                             "stalls": waits, "disk": common.disk(Path(folder))})


if __name__ == "__main__":
    main()
