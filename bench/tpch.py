"""The 22 queries of TPC-H against DuckDB in memory, on the same data, values compared.

SwingDB makes the data; DuckDB gets it as Arrow and keeps it in its own in-memory tables. Both use
all cores. A query runs on one engine and then on the other, several times; medians count.
"""

from __future__ import annotations

import statistics
import time

import common
import duckdb
import pyarrow as pa
from tpch_queries import QUERIES, TABLES, compare

import swingdb

RUNS = 5


def timed(run) -> float:
    """Milliseconds that a call took."""
    begun = time.perf_counter()
    run()
    return (time.perf_counter() - begun) * 1e3


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__)
    rows = []
    with common.namespace():
        common.generate_tpch(arguments, "tpch")
        swing = swingdb.connect("tpch")
        duck = duckdb.connect()
        for table in TABLES:
            arrow = pa.table(swing.table(table))
            duck.execute(f"CREATE TABLE {table} AS SELECT * FROM arrow")
            del arrow
        for path in QUERIES:
            query, sql = path.stem, path.read_text()
            compare(query, swing.execute(sql).fetchall(), duck.execute(sql).fetchall())
            ours, theirs = [], []
            for _ in range(RUNS):
                ours.append(timed(lambda sql=sql: swing.sql(sql).arrow()))
                theirs.append(timed(lambda sql=sql: duck.execute(sql).to_arrow_table()))
            row = {"query": query, "swingdb_ms": ours, "duckdb_ms": theirs}
            row["ratio"] = statistics.median(ours) / statistics.median(theirs)
            rows.append(row)
            print(
                f"{query}: {statistics.median(ours):7.1f} ms, DuckDB "
                f"{statistics.median(theirs):7.1f} ms, {row['ratio']:.2f}x",
                flush=True,
            )
        swing.close()
    totals = [sum(statistics.median(r[k]) for r in rows) for k in ("swingdb_ms", "duckdb_ms")]
    ratio = totals[0] / totals[1]
    print(f"total: {totals[0]:.0f} ms, DuckDB {totals[1]:.0f} ms, {ratio:.2f}x; all values equal")
    figures = {"scale": arguments.scale, "duckdb": duckdb.__version__, "rows": rows}
    common.write("tpch", figures | {"total_ms": totals, "ratio": ratio})


if __name__ == "__main__":
    main()
