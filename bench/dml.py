"""UPDATE, DELETE, INSERT and MERGE of many rows, and of one, against DuckDB in memory.

Each statement runs on a fresh copy of the same table, in a transaction of its own, on one engine
and then on the other, several times; medians count. SwingDB's database is a named one: its commits
survive the death of the process, DuckDB's in memory do not. After each statement both tables are
compared.
"""

from __future__ import annotations

import math
import statistics
import time

import common
import duckdb

import swingdb

ROWS = 4_000_000
RUNS = 5
ENGINES = ("swingdb_ms", "duckdb_ms")

TABLE = f"""
CREATE TABLE base AS SELECT
    i AS id,
    (i * 7919) % 100003 AS grp,
    CAST((i * 31) % 10007 AS DOUBLE) AS price,
    'item number ' || (i % 5000) AS name
FROM generate_series(0, {ROWS - 1}) AS g(i)
"""
#: A tenth of the table's keys, and as many again that are not in it.
OTHER = f"""
CREATE TABLE other AS SELECT
    i * 10 AS id, i AS grp, CAST(i AS DOUBLE) AS price, 'new' AS name
FROM generate_series(0, {ROWS // 5 - 1}) AS g(i)
"""
STATEMENTS = {
    "UPDATE, all rows": "UPDATE t SET price = price * 1.25",
    "UPDATE, every tenth row": "UPDATE t SET price = price + 1 WHERE id % 10 = 3",
    "UPDATE, every tenth row, two columns": (
        "UPDATE t SET price = 0, grp = grp + 1 WHERE id % 10 = 3"
    ),
    "UPDATE, every tenth row, text": "UPDATE t SET name = 'changed' WHERE id % 10 = 3",
    "UPDATE, a range of a tenth": (
        f"UPDATE t SET price = -price WHERE id BETWEEN {ROWS // 2} AND {ROWS // 2 + ROWS // 10}"
    ),
    "UPDATE, every 10 000th row": "UPDATE t SET price = price + 1 WHERE id % 10000 = 3",
    "UPDATE, one row": f"UPDATE t SET price = price + 1 WHERE id = {ROWS // 3}",
    "UPDATE from another table": (
        "UPDATE t SET price = other.price FROM other WHERE t.id = other.id"
    ),
    "DELETE, every tenth row": "DELETE FROM t WHERE id % 10 = 3",
    "DELETE, nine rows of ten": "DELETE FROM t WHERE id % 10 <> 3",
    "DELETE, a range of a tenth": (
        f"DELETE FROM t WHERE id BETWEEN {ROWS // 2} AND {ROWS // 2 + ROWS // 10}"
    ),
    "DELETE, one row": f"DELETE FROM t WHERE id = {ROWS // 3}",
    "DELETE with a subquery": "DELETE FROM t WHERE id IN (SELECT id FROM other)",
    "INSERT from a query": "INSERT INTO t SELECT * FROM other",
    "MERGE": (
        "MERGE INTO t USING other ON t.id = other.id "
        "WHEN MATCHED THEN UPDATE SET price = other.price, name = other.name "
        "WHEN NOT MATCHED THEN INSERT (id, grp, price, name) "
        "VALUES (other.id, other.grp, other.price, other.name)"
    ),
}
COMPARED = "SELECT count(*), sum(id), sum(grp), sum(price), sum(length(name)), min(name) FROM t"


def fresh(con: swingdb.Connection | duckdb.DuckDBPyConnection) -> None:
    """Makes the table anew."""
    con.execute("DROP TABLE IF EXISTS t")
    con.execute("CREATE TABLE t AS SELECT * FROM base")


def compare(label: str, connections: list) -> None:
    """An error when the engines' tables are not the same."""
    ours, theirs = (con.execute(COMPARED).fetchone() for con in connections)
    for a, b in zip(ours, theirs, strict=True):
        numbers = isinstance(a, float)
        if not (math.isclose(a, b, rel_tol=1e-9) if numbers else a == b):
            raise AssertionError(f"{label}: {ours}, but DuckDB {theirs}")


def main() -> None:
    """Measures and writes."""
    common.parse(__doc__)
    rows = []
    with common.namespace():
        connections = [swingdb.connect("dml"), duckdb.connect()]
        for con in connections:
            con.execute(TABLE)
            con.execute(OTHER)
        for label, sql in STATEMENTS.items():
            times: dict[str, list[float]] = {engine: [] for engine in ENGINES}
            for _ in range(RUNS):
                for engine, con in zip(ENGINES, connections, strict=True):
                    fresh(con)
                    begun = time.perf_counter()
                    con.execute(sql)
                    times[engine].append((time.perf_counter() - begun) * 1e3)
            compare(label, connections)
            ours, theirs = (statistics.median(times[engine]) for engine in ENGINES)
            rows.append({"statement": label, "sql": sql, **times, "ratio": ours / theirs})
            print(
                f"{label:38} {ours:8.1f} ms, DuckDB {theirs:8.1f} ms, {ours / theirs:.2f}x",
                flush=True,
            )
        connections[0].close()
    figures = {"table_rows": ROWS, "duckdb": duckdb.__version__, "rows": rows}
    common.write("dml", figures)


if __name__ == "__main__":
    main()
