"""The first rows of each group: what is left out before the sort changes no answer."""

from __future__ import annotations

import random

import pytest

np = pytest.importorskip("numpy")
duckdb = pytest.importorskip("duckdb")
pyarrow = pytest.importorskip("pyarrow")

ROWS = 120_000
QUERIES = (
    "SELECT g, id FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY v DESC, id) AS n "
    "FROM t) WHERE n <= 2",
    "SELECT g, h, id FROM t QUALIFY row_number() OVER (PARTITION BY g, h ORDER BY d, id DESC) = 1",
    "SELECT g, id, n FROM (SELECT *, rank() OVER (PARTITION BY g ORDER BY v) AS n FROM t) "
    "WHERE n < 4 AND id % 3 <> 1",
    "SELECT g, id FROM t QUALIFY 3 >= rank() OVER (PARTITION BY g ORDER BY d NULLS FIRST)",
    "SELECT g, id FROM t QUALIFY dense_rank() OVER (PARTITION BY g ORDER BY v) <= 2",
    "SELECT g, id, s FROM (SELECT *, row_number() OVER w AS n, sum(v) OVER w AS s FROM t "
    "WINDOW w AS (PARTITION BY g ORDER BY v, id)) WHERE n <= 3",
    "SELECT g, id FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY x DESC, id) AS n "
    "FROM t WHERE v > 2) WHERE n BETWEEN 2 AND 5",
    "SELECT a.g, a.id FROM (SELECT * FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY id) "
    "= 1) a JOIN t b ON a.id = b.id",
)


@pytest.mark.parametrize("groups", [1, 7, 3000, 100_000])
def test_they_are_those_of_another_engine(con, groups):
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = np.random.default_rng(seed)
    some = lambda values: pyarrow.array(values, mask=chance.random(ROWS) < 0.02)  # noqa: E731
    given = pyarrow.table({
        "id": np.arange(ROWS),
        "g": some(chance.integers(0, groups, ROWS)),
        "h": pyarrow.array([f"h{n}" for n in chance.integers(0, 3, ROWS)]),
        "v": some(chance.integers(0, 50, ROWS)),
        "x": some(chance.choice([0.0, -0.0, 1.5, np.nan, -3.0, np.inf], ROWS)),
        "d": some(chance.integers(0, 3000, ROWS)),
    })
    other = duckdb.connect()
    for engine in (con, other):
        engine.register("given", given)
        engine.execute(
            "CREATE TABLE t AS "
            "SELECT * REPLACE (DATE '2024-01-01' + d::INTEGER AS d) FROM given"
        )
    for threads in (1, 2, 8):
        con.execute(f"SET threads = {threads}")
        for query in QUERIES:
            expected = sorted(map(repr, other.execute(query).fetchall()))
            assert sorted(map(repr, con.execute(query).fetchall())) == expected, (query, threads)


def test_where_it_is_done(con):
    con.execute("CREATE TABLE t AS SELECT range AS id, range % 9 AS g, 'x' AS s FROM range(100000)")

    def plan(condition: str) -> str:
        rows = con.execute(f"EXPLAIN SELECT id FROM t QUALIFY {condition}").fetchall()
        return "\n".join(row[-1] for row in rows)

    window = "OVER (PARTITION BY g ORDER BY id)"
    assert "TopOfGroupsExec: fetch=2, groups=[g" in plan(f"row_number() {window} < 3")
    assert "TopOfGroupsExec: fetch=1" in plan(f"1 = rank() {window} AND id > 7")
    for other in (
        f"row_number() {window} > 2",
        f"row_number() {window} <= 1000",
        f"dense_rank() {window} <= 2",
        "row_number() OVER (PARTITION BY g ORDER BY s) <= 2",
        "row_number() OVER (ORDER BY id) <= 2",
        f"row_number() {window} <= 2 AND sum(id) {window} > 5",
    ):
        assert "TopOfGroupsExec" not in plan(other), other
