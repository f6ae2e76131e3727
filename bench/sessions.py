"""Many sessions at once: whether they share the cores fairly, what a short query waits for beside
long ones, and what commits wait for beside the queries of snapshots.

* fairness: sessions of one process ask the same query again and again; how many answers each gets.
* short: one session selects rows by key, alone and beside sessions whose queries take long.
* commits: one session updates rows by key, alone and while other processes query snapshots, which
  they take anew for each query.

DuckDB does the first two as well, with a cursor for each session, and the third with cursors of the
same process, as no other process can read its database meanwhile.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import Any

import common
import duckdb

import swingdb

ROWS = 10_000_000
TABLE = (
    "CREATE TABLE t AS SELECT i AS id, i % 1000 AS kind, i * 0.5 AS price, 'item ' || i AS name "
    f"FROM generate_series(0, {ROWS - 1}) AS g(i)"
)
KEY = "ALTER TABLE t ADD PRIMARY KEY (id)"
LONG = "SELECT kind, sum(price), max(name) FROM t GROUP BY kind ORDER BY 2 DESC LIMIT 3"
SESSIONS = 8
SECONDS = 8
#: Sessions or processes with long queries beside the short ones.
BESIDE = 4
SHORT = 400
READER = f"""
import swingdb
while True:
    with swingdb.snapshot("sessions") as snapshot:
        snapshot.sql({LONG!r}).fetchall()
"""


def key(number: int) -> int:
    """Some key, another for each statement."""
    return number * 7919 % ROWS


@contextmanager
def busy(work: Callable[[], object], threads: int):
    """Threads that work again and again meanwhile."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            work()

    all_threads = [threading.Thread(target=run) for _ in range(threads)]
    for thread in all_threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in all_threads:
            thread.join()


@contextmanager
def readers():
    """Processes that query snapshots meanwhile."""
    with ExitStack() as stack:
        processes = [subprocess.Popen([sys.executable, "-c", READER]) for _ in range(BESIDE)]
        for process in processes:
            stack.callback(process.wait)
            stack.callback(process.kill)
        time.sleep(1)
        yield
        if any(process.poll() is not None for process in processes):
            raise SystemExit("a reader has ended")


def fairness(session: Callable[[], Any]) -> dict:
    """How many answers each of the sessions got."""
    answers = [0] * SESSIONS
    start, end = threading.Barrier(SESSIONS), time.monotonic() + SECONDS

    def run(number: int) -> None:
        own = session()
        start.wait()
        while time.monotonic() < end:
            own.execute(LONG).fetchall()
            answers[number] += 1

    threads = [threading.Thread(target=run, args=(number,)) for number in range(SESSIONS)]
    used = time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "answers": answers,
        "least_of_mean": min(answers) / statistics.fmean(answers),
        "cores": (time.process_time() - used) / SECONDS,
    }


def timed(own: Any, statement: str, values: Callable[[int], list]) -> dict:
    """Milliseconds of statements, one after another."""
    ms = []
    for number in range(SHORT):
        begun = time.perf_counter()
        done = own.execute(statement, values(number))
        if statement.startswith("SELECT"):
            done.fetchall()
        ms.append((time.perf_counter() - begun) * 1e3)
    ms.sort()
    return {"p50": ms[SHORT // 2], "p99": ms[SHORT * 99 // 100], "most": ms[-1]}


def measure(session: Callable[[], Any], beside: Callable[[Any], Any]) -> dict:
    """All three of one engine; `beside` is what queries while rows are updated."""
    own = session()
    select = ("SELECT * FROM t WHERE id = ?", lambda number: [key(number)])
    update = ("UPDATE t SET price = ? WHERE id = ?", lambda number: [number, key(number)])
    found = {"fairness": fairness(session)}
    found["select alone"] = timed(own, *select)
    with busy(lambda: session().execute(LONG).fetchall(), BESIDE):
        found["select beside"] = timed(own, *select)
    found["update alone"] = timed(own, *update)
    with beside(session):
        found["update beside"] = timed(own, *update)
    return found


def show(engine: str, found: dict) -> None:
    """What was measured."""
    fair = found["fairness"]
    print(f"{engine}: {SESSIONS} sessions got {fair['answers']} answers, the least "
          f"{fair['least_of_mean']:.2f} of the mean, on {fair['cores']:.2f} cores")
    for what in ("select alone", "select beside", "update alone", "update beside"):
        ms = found[what]
        print(f"  {what}: p50 {ms['p50']:.2f} ms, p99 {ms['p99']:.2f} ms, most {ms['most']:.2f} ms",
              flush=True)


def main() -> None:
    """Measures and writes."""
    common.parse(__doc__)
    results = {}
    with common.namespace(), swingdb.connect("sessions") as con:
        con.execute(TABLE)
        con.execute(KEY)
        con.share()
        # What was updated is shared, so that readers move on.
        sharing = busy(lambda: (con.share(), time.sleep(0.1)), 1)
        with sharing:
            results["SwingDB"] = measure(con.duplicate, lambda _session: readers())
        show("SwingDB", results["SwingDB"])
    with duckdb.connect() as con:
        con.execute(TABLE)
        con.execute(KEY)

        def queries(session: Callable[[], Any]):
            return busy(lambda: session().execute(LONG).fetchall(), BESIDE)

        results["DuckDB"] = measure(con.cursor, queries)
        show("DuckDB", results["DuckDB"])
    common.write("sessions", {
        "duckdb": duckdb.__version__, "rows": ROWS, "sessions": SESSIONS, "beside": BESIDE,
        "engines": results,
    })


if __name__ == "__main__":
    main()
