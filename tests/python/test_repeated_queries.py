"""Queries that come again with other values: every answer is that of the same query with its values
written into it, by a connection that has not seen it before."""

from __future__ import annotations

import datetime
import random

import pytest

import swingdb

ROWS = 3_000
TABLE = f"""CREATE TABLE t AS SELECT
    i::BIGINT AS id, (i % 100)::TINYINT AS small, (i % 1000)::INTEGER AS medium,
    (i * 3)::UBIGINT AS large, 'name ' || (i % 50) AS name,
    DATE '2024-01-01' + (i % 365)::INTEGER AS day,
    CASE WHEN i % 7 = 0 THEN NULL ELSE i END AS maybe,
    i * 0.5 AS price, (i / 4)::DECIMAL(12, 2) AS amount
    FROM range({ROWS}) AS g(i)"""
#: Texts with one value each, and the values that they get: some are not of the column's type.
QUERIES = [
    ("SELECT * FROM t WHERE id = ?", [0, 17, 2_999, 3_000, -1, None, 2**62, 5.0, 5.5]),
    ("SELECT name, price FROM t WHERE ? = id", [3, 4, None]),
    ("SELECT id FROM t WHERE small = ? ORDER BY id", [5, 99, 100, 127, 128, -129, 2**40, None]),
    ("SELECT count(*), sum(medium) FROM t WHERE medium < ?", [0, 10, 999, 2**31, -(2**31) - 1]),
    ("SELECT id FROM t WHERE CAST(medium AS TINYINT) = ? LIMIT 3", [1, 100, 127]),
    ("SELECT id FROM t WHERE small = CAST(? AS TINYINT) LIMIT 3", [1, 100, 300]),
    ("SELECT id FROM t WHERE medium = CAST(? AS TINYINT) LIMIT 3", [1, 100, 300]),
    ("SELECT max(id) FROM t WHERE large <= ?", [0, 8_997, 2**63, -1]),
    ("SELECT id FROM t WHERE name = ? ORDER BY id LIMIT 5", ["name 3", "name", "", None, "NAME 3"]),
    ("SELECT min(id), count(DISTINCT name) FROM t WHERE name >= ?", ["name 4", "name 9", "o"]),
    ("SELECT id FROM t WHERE day = ? ORDER BY id", [datetime.date(2024, 2, 29), None]),
    (
        "SELECT count(*) FROM t WHERE day > ?",
        [datetime.date(2024, 12, 1), datetime.datetime(2024, 12, 1, 12, 0)],
    ),
    ("SELECT count(maybe) FROM t WHERE maybe >= ?", [0, 7, 2_998, None]),
    ("SELECT id FROM t WHERE price = ?", [0.5, -0.0, float("nan"), 1]),
    ("SELECT id FROM t WHERE amount = ? ORDER BY 1 LIMIT 3", [1, 2.5, "3.00"]),
    ("SELECT upper(name), id + 1 FROM t WHERE id = ?", [1, 2, 3]),
    ("SELECT name, count(*) FROM t WHERE id > ? GROUP BY name ORDER BY 1 LIMIT 4", [100, 2_999]),
    ("SELECT id FROM t WHERE id > ? AND medium = 5 ORDER BY id DESC LIMIT 2", [0, 1_500, 5_000]),
    ("SELECT id, ? AS given FROM t WHERE id < 2", [1, "a", None]),
    ("SELECT id FROM t ORDER BY id LIMIT ?", [0, 3]),
    ("SELECT v.id FROM (SELECT id, name FROM t) v WHERE v.id = ?", [6, 7]),
    ("SELECT id FROM t WHERE id IN (?, 5)", [1, 5, None]),
    ("SELECT id FROM t WHERE id = ? OR id = 3", [1, 2]),
    ("SELECT id / (id - ?) FROM t WHERE id = ?", [1]),
]


def answer(con: swingdb.Connection, text: str, values: list[object]) -> object:
    """The rows of a query, or the class of its error."""
    try:
        return repr(con.execute(text, values).fetchall())
    except swingdb.Error as error:
        return type(error)


@pytest.mark.parametrize(("text", "values"), QUERIES)
def test_values_are_compared_as_if_they_were_written(text: str, values: list[object]) -> None:
    con = swingdb.connect("repeated")
    con.execute(TABLE)
    for turn in range(3):
        if turn == 2:
            # Only rows are others: the plan stays.
            con.execute("DELETE FROM t WHERE id % 3 = 1; INSERT INTO t SELECT * FROM t LIMIT 20")
        for value in values * 2:
            given = [value] * text.count("?")
            with swingdb.connect("repeated") as fresh:
                assert answer(con, text, given) == answer(fresh, text, given), (turn, value)


#: Texts that values are written into: some have a plan that is kept for others, and some have none.
TEXTS = [
    "SELECT * FROM t WHERE id = {}",
    "SELECT id, name, price FROM t WHERE small = {} AND id > {} ORDER BY 1",
    "SELECT id FROM t WHERE name = {}",
    "SELECT id, day FROM t WHERE day = {}",
    "SELECT count(*) FROM t WHERE amount = {} OR price = {}",
    "SELECT id = {} FROM t WHERE id < {} ORDER BY id LIMIT 3",
    "SELECT id AS n FROM t WHERE id >= {} AND {} > id ORDER BY n DESC LIMIT 2;",
    "SELECT count(*) FILTER (WHERE id > {}), max(name) FROM t WHERE id < {}",
    "SELECT name, count(*) FROM t WHERE id > {} GROUP BY name HAVING count(*) > {} ORDER BY 1",
    "SELECT id FROM (SELECT id, small FROM t WHERE id > {}) WHERE small = {} ORDER BY id LIMIT 4",
    "SELECT a.id FROM t AS a JOIN t AS b ON a.id = b.id WHERE a.medium = {} ORDER BY 1",
    "SELECT id FROM t WHERE CASE WHEN small = {} THEN true ELSE id = {} END ORDER BY 1 LIMIT 5",
    "SELECT id FROM t WHERE id = {} AND name IN (SELECT name FROM t WHERE small = {})",
    "SELECT sum(id) OVER () FROM t WHERE medium <= {} LIMIT 2",
]
WRITTEN = ["7", "0", "2999", "'name 3'", "'7'", "128", "9223372036854775807", "2.5", "-3", "NULL"]


def described(con: swingdb.Connection, text: str) -> object:
    """The columns and rows of a query, or its error."""
    try:
        result = con.execute(text)
        return repr([result.description, result.fetchall()])
    except swingdb.Error as error:
        return f"{type(error)} {error}"


@pytest.mark.parametrize("text", TEXTS)
def test_values_that_are_written_into_texts(text: str) -> None:
    con = swingdb.connect("repeated")
    con.execute(TABLE)
    for turn in range(3):
        if turn == 2:
            con.execute("DELETE FROM t WHERE id % 3 = 1; INSERT INTO t SELECT * FROM t LIMIT 20")
        for first in WRITTEN:
            for second in WRITTEN[:5]:
                written = text.format(first, second)
                with swingdb.connect("repeated") as fresh:
                    assert described(con, written) == described(fresh, written), (turn, written)


#: Changes that values are written into.
CHANGES = [
    "UPDATE t SET price = {} WHERE id = {}",
    "UPDATE t SET medium = {}, name = 'new' WHERE small = {} AND id > 2000",
    "UPDATE t SET amount = {}, maybe = small + 1 WHERE name = {}",
    "UPDATE t SET day = {} WHERE (id >= 17 AND id < {})",
    "UPDATE t SET name = {} WHERE id = {} OR id = 3",
    "UPDATE t AS u SET large = {} WHERE u.amount = {}",
    "UPDATE t SET price = price + {} WHERE price < {}",
    "UPDATE t SET price = s.large, name = {} FROM t AS s WHERE s.id = t.id AND t.id = {}",
    "DELETE FROM t WHERE id <= {} AND name = {}",
    "DELETE FROM t WHERE medium < {} AND day >= {}",
]


@pytest.mark.parametrize("text", CHANGES)
def test_values_that_are_written_into_changes(text: str) -> None:
    con = swingdb.connect("repeated")
    con.execute(TABLE)
    written = [*WRITTEN, "12.50", "-0.125", "-7", "'2024-02-29'", "TRUE", "1e2", "'it''s'"]

    def changed(con: swingdb.Connection, text: str) -> tuple:
        con.execute("BEGIN")
        try:
            rows = con.execute(text + " RETURNING *").fetchall()
            left = con.execute("SELECT * FROM t WHERE id < 40 ORDER BY id").fetchall()
            return (repr(sorted(rows, key=repr)), repr(left), con.execute(text).rowcount)
        except swingdb.Error as error:
            return (type(error), str(error))
        finally:
            con.execute("ROLLBACK")

    for turn in range(2):
        for first in written:
            for second in written:
                statement = text.format(first, second)
                with swingdb.connect("repeated") as fresh:
                    assert changed(con, statement) == changed(fresh, statement), (turn, statement)


def test_a_plan_kept_for_other_values_sees_variables_and_changes(con: swingdb.Connection) -> None:
    con.execute("CREATE TABLE t AS SELECT range AS id, range * 2 AS n FROM range(100)")
    for number in range(5):
        assert con.sql(f"SELECT n FROM t WHERE id = {number}").fetchall() == [(number * 2,)]
    con.execute("UPDATE t SET n = -1 WHERE id = 7")
    assert con.sql("SELECT n FROM t WHERE id = 7").fetchall() == [(-1,)]
    con.execute("ALTER TABLE t RENAME TO u")
    t = [{"id": 7, "n": 70}]
    assert con.sql("SELECT n FROM t WHERE id = 7").fetchall() == [(70,)]
    assert t[0]["n"] == 70
    con.execute("CREATE VIEW t AS SELECT id, n + 1 AS n FROM u")
    for number in (7, 8, 9):
        expected = 0 if number == 7 else number * 2 + 1
        assert con.sql(f"SELECT n FROM t WHERE id = {number}").fetchall() == [(expected,)]


def test_prepared_queries_of_random_values(con: swingdb.Connection) -> None:
    con.execute(TABLE)
    con.execute("PREPARE one AS SELECT name, medium FROM t WHERE id = $1 AND small >= $2")
    chance = random.Random(7)
    for _ in range(300):
        number, least = chance.randrange(-5, ROWS + 5), chance.randrange(-200, 200)
        known = 0 <= number < ROWS and number % 100 >= least
        expected = [(f"name {number % 50}", number % 1000)] if known else []
        assert con.execute(f"EXECUTE one({number}, {least})").fetchall() == expected


def test_a_repeated_query_sees_what_changed() -> None:
    con, other = swingdb.connect("repeated"), swingdb.connect("repeated")
    con.execute("CREATE TABLE t AS SELECT range AS id, range AS n FROM range(10)")
    text = "SELECT n FROM t WHERE id = ?"
    for turn in range(6):
        assert con.execute(text, [4]).fetchall() == [(4 + turn,)]
        other.execute("UPDATE t SET n = n + 1")
    con.execute("BEGIN")
    con.execute("UPDATE t SET n = -1")
    assert con.execute(text, [4]).fetchall() == [(-1,)]
    con.execute("ROLLBACK")
    assert con.execute(text, [4]).fetchall() == [(10,)]
    con.execute("ALTER TABLE t DROP COLUMN n")
    with pytest.raises(swingdb.Error, match="n"):
        con.execute(text, [4])
