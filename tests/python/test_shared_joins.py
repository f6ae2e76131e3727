"""Joins that several threads build: which ones, and that they are the same with one thread."""

from __future__ import annotations

import pytest

import swingdb


def fill(con: swingdb.Connection) -> None:
    con.execute("CREATE TABLE small AS SELECT i AS id, i * 2 AS x FROM range(500000) r(i)")
    con.execute("CREATE TABLE large AS SELECT i AS id, i % 700000 AS k FROM range(1500000) r(i)")
    con.execute("CREATE TABLE tiny AS SELECT i AS id FROM range(100) r(i)")


def plan(con: swingdb.Connection, query: str) -> str:
    return str(con.sql(f"EXPLAIN {query}").fetchall())


QUERY = "SELECT count(*), sum(x) FROM small JOIN large ON small.id = large.k"


def test_large_build_sides_are_built_by_all_threads(con: swingdb.Connection) -> None:
    fill(con)
    con.execute("SET threads = 8")
    assert "SharedHashJoinExec: join_type=Inner" in plan(con, QUERY)
    assert "RepartitionExec: partitioning=Hash" not in plan(con, QUERY)
    # A table of few rows is not worth it.
    few = plan(con, "SELECT count(*) FROM tiny JOIN large ON tiny.id = large.k")
    assert "HashJoinExec: mode=CollectLeft" in few and "Shared" not in few
    rows = con.execute(QUERY).fetchall()
    con.execute("SET threads = 1")
    assert "SharedHashJoinExec" not in plan(con, QUERY)
    assert con.execute(QUERY).fetchall() == rows


def test_scans_of_the_other_side_learn_the_keys(con: swingdb.Connection) -> None:
    fill(con)
    con.execute("SET threads = 8")
    query = "SELECT count(*) FROM small JOIN large ON small.id = large.id WHERE small.x < 900000"
    shown = str(con.sql(f"EXPLAIN ANALYZE {query}").fetchall())
    assert "SharedHashJoinExec" in shown and "DynamicFilter" in shown, shown
    assert con.execute(query).fetchall() == [(450000,)]


def test_a_join_beyond_the_memory_limit_says_so(con: swingdb.Connection) -> None:
    con.execute("CREATE TABLE wide AS SELECT i AS id, i * 1000003 AS k FROM range(1000000) r(i)")
    con.execute("SET threads = 8")
    con.execute("SET memory_limit = '1MB'")
    with pytest.raises(swingdb.Error, match="HashJoinInput|emory"):
        con.execute("SELECT count(*) FROM wide a JOIN wide b ON a.k = b.k").fetchall()


def test_the_table_is_built_of_groups_where_they_are_fewer(con: swingdb.Connection) -> None:
    """Of text, whose number of values nothing but a sample tells: most are seen once in it."""
    con.execute(
        "CREATE TABLE x AS SELECT 'id' || i * 7919 % 50000 AS k, i % 16 AS v"
        " FROM range(500000) r(i)"
    )
    query = """
        SELECT count(*) FROM x JOIN (SELECT k, max(v) AS v FROM x GROUP BY k) AS y ON x.k = y.k
        WHERE y.v >= 0
    """
    assert "RightSemi" in plan(con, query)
    assert con.execute(query).fetchall() == [(500_000,)]
