"""Transactions, and `with`."""

from __future__ import annotations

import pytest

import swingdb


@pytest.fixture
def t(con):
    con.execute("CREATE TABLE t (a INT)")
    return con


def count(con) -> int:
    return con.sql("SELECT count(*) FROM t").fetchone()[0]


def test_commit_and_rollback(t):
    assert t.begin() is t
    assert t.in_transaction
    t.execute("INSERT INTO t VALUES (1)")
    t.rollback()
    assert count(t) == 0
    t.begin()
    t.execute("INSERT INTO t VALUES (1)")
    t.append("t", {"a": [2, 3]})
    t.commit()
    assert not t.in_transaction
    assert count(t) == 3


def test_by_sql(t):
    t.execute("BEGIN")
    assert t.in_transaction
    t.execute("INSERT INTO t VALUES (1)")
    t.execute("ROLLBACK")
    assert count(t) == 0
    t.execute("BEGIN; INSERT INTO t VALUES (1); COMMIT")
    assert count(t) == 1


def test_the_transaction_block(t):
    with t.transaction() as con:
        assert con is t
        con.execute("INSERT INTO t VALUES (1)")
    assert count(t) == 1
    with pytest.raises(ZeroDivisionError), t.transaction():
        t.execute("INSERT INTO t VALUES (2)")
        raise ZeroDivisionError
    assert count(t) == 1
    assert not t.in_transaction


def test_with_commits_and_closes():
    with swingdb.connect("kept") as con:
        con.begin()
        con.execute("CREATE TABLE t (a INT)")
    assert con.closed
    with pytest.raises(ZeroDivisionError), swingdb.connect("kept") as con:
        con.begin()
        con.execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    with swingdb.connect("kept") as con:
        assert count(con) == 0
        con.close()


def test_closing_rolls_back():
    con = swingdb.connect("kept")
    con.execute("CREATE TABLE t (a INT)")
    con.begin()
    con.execute("INSERT INTO t VALUES (1)")
    con.close()
    with swingdb.connect("kept") as con:
        assert count(con) == 0


def test_a_failed_statement_changes_nothing(t):
    t.execute("CREATE TABLE u (a INT PRIMARY KEY)")
    t.begin()
    t.execute("INSERT INTO u VALUES (1)")
    with pytest.raises(swingdb.IntegrityError):
        t.execute("INSERT INTO u VALUES (2), (1)")
    t.commit()
    assert t.sql("SELECT a FROM u").fetchall() == [(1,)]


def test_running_results_are_isolated(t):
    t.append("t", {"a": list(range(200_000))})
    cur = t.execute("SELECT a FROM t")
    first = cur.fetchmany(10)
    table = t.table("t").arrow()
    t.execute("DELETE FROM t WHERE a >= 10")
    t.execute("UPDATE t SET a = -1")
    assert len(first) + len(cur.fetchall()) == 200_000
    assert table["a"].to_pylist() == list(range(200_000))
    assert t.sql("SELECT min(a), max(a), count(*) FROM t").fetchone() == (-1, -1, 10)
