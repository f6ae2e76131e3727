"""Short statements, one after another: selects by key, sums of a hundred rows, updates, inserts.

Both engines have the same table in memory, and take turns. `text` writes the value into the
statement, so that no text comes again; `parameter` gives it to one text; `prepared` to EXECUTE.
Every answer is compared with what the row must hold.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import common
import duckdb

import swingdb

ROWS = 1_000_000
RUNS = 5
#: Statements of a run.
STATEMENTS = 600
TABLE = (
    "CREATE TABLE t AS SELECT i AS id, i * 0.5 AS price, 'item ' || i AS name "
    f"FROM generate_series(0, {ROWS - 1}) AS g(i)"
)
KEY = "ALTER TABLE t ADD PRIMARY KEY (id)"


def key(number: int) -> int:
    """Some key, another for each statement."""
    return number * 7919 % ROWS


def is_row(rows: list[tuple], number: int) -> bool:
    """Whether a select by key gave its row."""
    return len(rows) == 1 and rows[0][0] == key(number) and rows[0][2] == f"item {key(number)}"


def jobs(con: Any) -> dict[str, Callable[[int], object]]:
    """What is measured, each with the number of the statement."""

    def rows(text: str, values: list | None = None) -> list[tuple]:
        return con.execute(text, values or []).fetchall()

    def change(text: str, values: list) -> bool:
        con.execute(text, values)
        return True

    con.execute("PREPARE by_key AS SELECT * FROM t WHERE id = $1")
    inserted = iter(range(ROWS, 1 << 60))
    return {
        "select by key, text": lambda n: is_row(rows(f"SELECT * FROM t WHERE id = {key(n)}"), n),
        "select by key, parameter": lambda n: is_row(
            rows("SELECT * FROM t WHERE id = ?", [key(n)]), n
        ),
        "select by key, prepared": lambda n: is_row(rows(f"EXECUTE by_key({key(n)})"), n),
        "sum of 100 rows, parameters": lambda n: (
            rows("SELECT count(*) FROM t WHERE id >= ? AND id < ?", [key(n), key(n) + 100])[0][0]
            == min(100, ROWS - key(n))
        ),
        "update by key, parameters": lambda n: change(
            "UPDATE t SET price = ? WHERE id = ?", [n, key(n)]
        ),
        "update by key, text": lambda n: change(
            f"UPDATE t SET price = {n}.5 WHERE id = {key(n)}", []
        ),
        "insert, text": lambda _: change(
            f"INSERT INTO t VALUES ({next(inserted)}, 0.5, 'new')", []
        ),
        "insert, parameters": lambda _: change(
            "INSERT INTO t VALUES (?, ?, ?)", [next(inserted), 0.5, "new"]
        ),
    }


def run(job: Callable[[int], object]) -> dict:
    """Statements a second, and cores used."""
    job(0)
    begun, used = time.perf_counter(), time.process_time()
    right = all(job(number) for number in range(1, STATEMENTS + 1))
    seconds, used = time.perf_counter() - begun, time.process_time() - used
    assert right, "a wrong answer"
    return {"per_second": STATEMENTS / seconds, "cores": used / seconds}


def engines() -> dict[str, dict[str, Callable[[int], object]]]:
    """The jobs of both engines."""
    ours, theirs = swingdb.connect(), duckdb.connect()
    ours.execute(TABLE.replace("CREATE TABLE t AS", "CREATE TABLE made AS"))
    ours.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, price DOUBLE, name VARCHAR)")
    ours.execute("INSERT INTO t SELECT * FROM made")
    ours.execute("DROP TABLE made")
    theirs.execute(TABLE)
    theirs.execute(KEY)
    return {"swingdb": jobs(ours), "duckdb": jobs(theirs)}


def main() -> None:
    """Runs everything and writes the results."""
    common.parse(__doc__.split("\n", maxsplit=1)[0])
    of = engines()
    rows = []
    for name in of["swingdb"]:
        runs: dict[str, list[dict]] = {engine: [] for engine in of}
        for turn in range(RUNS):
            for engine in of if turn % 2 == 0 else reversed(of):
                runs[engine].append(run(of[engine][name]))
        ours, theirs = (statistics.median(r["per_second"] for r in runs[e]) for e in of)
        rows.append({"statement": name, "ratio": ours / theirs, "runs": runs})
        print(f"{name:30} {ours:8.0f}/s, DuckDB {theirs:8.0f}/s; {ours / theirs:.2f}x", flush=True)
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
    print(f"geometric mean of the rates' ratios: {mean:.2f}")
    common.write(
        "short",
        {
            "duckdb": duckdb.__version__,
            "table_rows": ROWS,
            "geometric_mean": mean,
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
