"""Groups of a column that the table is sorted by: each is in one partition of the scan."""

from __future__ import annotations

import random

import pytest

np = pytest.importorskip("numpy")
duckdb = pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")

ROWS = 400_000
QUERIES = (
    "SELECT k, count(*), sum(v), min(w) FROM t GROUP BY k ORDER BY k",
    "SELECT k, w, count(*) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT count(*), min(k), max(k) FROM (SELECT DISTINCT k FROM t)",
    "SELECT k, sum(v) s FROM t WHERE w <> 3 GROUP BY k HAVING sum(v) > 1000 ORDER BY k",
    "SELECT k, count(DISTINCT w) FROM t GROUP BY k ORDER BY k",
    "SELECT k + 1 AS k, count(*) FROM t GROUP BY 1 ORDER BY 1",
    "SELECT t.k, count(*), sum(u.v) FROM t JOIN u ON t.w = u.w GROUP BY t.k ORDER BY 1",
    "SELECT t.k, count(u.v) FROM t LEFT JOIN u ON t.k = u.k AND u.w < 3 GROUP BY t.k ORDER BY 1",
    "SELECT u.k, count(t.v) FROM t RIGHT JOIN u ON t.k = u.k GROUP BY u.k ORDER BY 1",
    "SELECT a.k, n, m FROM (SELECT k, count(*) n FROM t GROUP BY k) a "
    "FULL JOIN (SELECT k, sum(v) m FROM u GROUP BY k) b ON a.k = b.k ORDER BY 1, 2, 3",
    "SELECT k, sum(n) FROM (SELECT k, count(*) n FROM t GROUP BY k "
    "UNION ALL SELECT k, count(*) FROM u GROUP BY k) GROUP BY k ORDER BY k",
    "SELECT k, max(n) OVER (PARTITION BY k) FROM (SELECT k, w, count(*) n FROM t GROUP BY k, w) "
    "ORDER BY ALL",
    "SELECT k, w, count(*) FROM t GROUP BY ROLLUP (k, w) ORDER BY ALL",
    "SELECT k, list(v ORDER BY v)[1:2] FROM t GROUP BY k ORDER BY k",
)


@pytest.mark.parametrize("kind", ["BIGINT", "VARCHAR", "DOUBLE"])
@pytest.mark.parametrize("repeats", [1, 5, 3000, 200_000])
def test_they_have_the_rows_of_another_engine(con, kind, repeats):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, 2 * repeats, ROWS // repeats + 1)
    keys = np.repeat(np.arange(len(lengths)) * 2, lengths)[:ROWS]
    columns = {
        "k": keys,
        "v": chance.integers(0, 100, len(keys)),
        "w": chance.integers(0, 6, len(keys)),
    }
    some = {name: values[:: max(len(keys) // 300, 1)] for name, values in columns.items()}
    other = duckdb.connect()
    for engine in (con, other):
        for name, rows in (("t", columns), ("u", some)):
            engine.execute("CREATE OR REPLACE TABLE plain (k BIGINT, v BIGINT, w BIGINT)")
            given = pyarrow.table(rows)
            engine.register("given", given)
            engine.execute("INSERT INTO plain SELECT * FROM given")
            key = "lpad(k::VARCHAR, 8, '0')" if kind == "VARCHAR" else f"k::{kind}"
            engine.execute(f"CREATE TABLE {name} AS SELECT {key} AS k, v, w FROM plain")
        engine.execute("DELETE FROM t WHERE v = 50")
    for threads in random.Random(seed).sample([1, 2, 3, 8, 16], 2):
        con.execute(f"SET threads = {threads}")
        for query in QUERIES:
            if kind == "VARCHAR" and "k + 1" in query:
                continue
            expected = other.execute(query).fetchall()
            assert con.execute(query).fetchall() == expected, (query, threads)


def test_where_it_is_done(con):
    con.execute(
        "SET threads = 8;"
        f"CREATE TABLE t AS SELECT range // 3 AS k, range % 5 AS v FROM range({ROWS})"
    )

    def plan(query: str) -> str:
        return "\n".join(row[-1] for row in con.execute("EXPLAIN " + query).fetchall())

    once = plan("SELECT k, count(*) FROM t GROUP BY k")
    assert "whole_groups_of=[k]" in once and "SinglePartitioned" in once
    assert "Repartition" not in once
    distinct = plan("SELECT k, count(DISTINCT v) FROM t GROUP BY k")
    assert distinct.count("SinglePartitioned") == 2 and "Repartition" not in distinct
    for other in (
        "SELECT v, count(*) FROM t GROUP BY v",
        "SELECT k / 2, count(*) FROM t GROUP BY 1",
        "SELECT k::DOUBLE, count(*) FROM t GROUP BY 1",
        "SELECT k, count(*) FROM t GROUP BY ROLLUP (k)",
    ):
        assert "whole_groups" not in plan(other), other
    con.execute("INSERT INTO t VALUES (1, 1)")
    assert "whole_groups" not in plan("SELECT k, count(*) FROM t GROUP BY k"), "not sorted any more"
