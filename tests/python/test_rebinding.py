"""One text with parameters of other types each time: the plan of one is not that of another."""

from __future__ import annotations

import datetime as dt
import decimal
import random

import pytest

import swingdb

#: Parameters, each of another type than the next.
VALUES = [
    1, -1, 2**40, 2**63, 1.5, "1", "a", "2020-01-01", True, None, b"a", [1, 2], ["1"],
    decimal.Decimal("12.34"), dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 1, 2, 3),
    dt.timedelta(days=1), {"a": 1},
]  # fmt: skip

TEXTS = [
    "SELECT ?",
    "SELECT typeof(?)",
    "SELECT i FROM t WHERE i = ? ORDER BY 1",
    "SELECT i FROM t WHERE s = ? ORDER BY 1",
    "SELECT i FROM t WHERE d > ? ORDER BY 1",
    "SELECT i FROM t WHERE i IN (?, 7) ORDER BY 1",
    "SELECT i + ? FROM t ORDER BY 1",
    "SELECT d + ? FROM t ORDER BY 1",
    "SELECT coalesce(s, ?) FROM t ORDER BY 1",
    "SELECT list_contains(l, ?) FROM t ORDER BY 1",
    "SELECT max(?), count(DISTINCT ?) FROM t",
    "SELECT i FROM t ORDER BY i LIMIT ?",
    "SELECT CASE WHEN i = 1 THEN ? END FROM t ORDER BY i",
    "WITH c AS (SELECT ? AS x) SELECT a.x, b.x FROM c a, c b",
    "SELECT sum(i) OVER (ORDER BY i ROWS ? PRECEDING) FROM t",
    "SELECT * FROM (SELECT ? AS x UNION ALL SELECT ?) ORDER BY 1",
]


def made() -> swingdb.Connection:
    con = swingdb.connect()
    con.execute("CREATE TABLE t (i INT, s VARCHAR, d DATE, l INT[])")
    con.execute("INSERT INTO t VALUES (1, 'a', '2020-01-01', [1, 2]), (2, '1', '2021-05-05', []), "
                "(NULL, NULL, NULL, NULL)")
    return con


def outcome(con: swingdb.Connection, sql: str, value: object) -> tuple[str, object]:
    """The rows and their types, or the error."""
    try:
        result = con.sql(sql, [value] * sql.count("?"))
        return repr(result.types), result.fetchall()
    except swingdb.Error as error:
        return type(error).__name__, str(error)


def test_what_came_before_does_not_matter(rng: random.Random) -> None:
    """A session that has seen all types answers as one that has seen none."""
    used = made()
    fresh = {}
    for sql in TEXTS:
        for at, value in enumerate(VALUES):
            with made() as con:
                fresh[sql, at] = outcome(con, sql, value)
    for _ in range(3 * len(fresh)):
        sql, at = rng.choice(TEXTS), rng.randrange(len(VALUES))
        assert outcome(used, sql, VALUES[at]) == fresh[sql, at], (sql, VALUES[at])


@pytest.mark.parametrize("kind", ["execute", "PREPARE"])
def test_the_schema_changes_under_a_statement(kind: str) -> None:
    """A text that is run again knows the columns of the table that is there now."""
    with made() as con:
        if kind == "PREPARE":
            con.execute("PREPARE p AS SELECT * FROM t WHERE i = $1")
        run = lambda: con.execute(
            "EXECUTE p(1)" if kind == "PREPARE" else "SELECT * FROM t WHERE i = 1").fetchall()
        assert run() == [(1, "a", dt.date(2020, 1, 1), [1, 2])]
        con.execute("ALTER TABLE t DROP COLUMN l")
        assert run() == [(1, "a", dt.date(2020, 1, 1))]
        con.execute("ALTER TABLE t ALTER i TYPE VARCHAR")
        assert run() == [("1", "a", dt.date(2020, 1, 1))]
        con.execute("DROP TABLE t")
        with pytest.raises(swingdb.NotFoundError):
            run()
        con.execute("CREATE TABLE t (i DOUBLE)")
        con.execute("INSERT INTO t VALUES (1), (2)")
        assert run() == [(1.0,)]
