"""Conditions on columns that segments are sorted by, and changes that come again and again."""

from __future__ import annotations

import bisect
import datetime
import random

import pytest

import swingdb

ROWS = 300_000


def key_of(kind: str, number: int) -> object:
    """The key that stands for a number, in the order of the numbers."""
    if kind == "DATE":
        return datetime.date(1, 1, 1) + datetime.timedelta(days=number)
    return f"{number:07}" if kind == "VARCHAR" else number


MADE = {
    "BIGINT": "range * 3",
    "DECIMAL(12, 0)": "(range * 3)::DECIMAL(12, 0)",
    "DATE": "DATE '0001-01-01' + (range * 3)::INTEGER",
    "VARCHAR": "lpad((range * 3)::VARCHAR, 7, '0')",
    "DOUBLE": "(range * 3)::DOUBLE",
}
OPERATORS = {
    "=": lambda at, to: range(at, to),
    ">": lambda _, to: range(to, ROWS),
    ">=": lambda at, _: range(at, ROWS),
    "<": lambda at, _: range(at),
    "<=": lambda _, to: range(to),
}


@pytest.mark.parametrize("kind", MADE)
def test_conditions_on_a_sorted_column(con, kind):
    """Rows found by searching are those that a look at all rows finds; some are deleted."""
    con.execute(
        f"CREATE TABLE t AS SELECT {MADE[kind]} AS k, range AS n FROM range({ROWS});"
        "DELETE FROM t WHERE n % 7 = 3"
    )
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    keys = [n * 3 for n in range(ROWS)]
    for _ in range(60):
        number = chance.choice([chance.randrange(-5, ROWS * 3 + 5), 0, ROWS * 3 - 3])
        number = max(number, 0) if kind in ("DATE", "VARCHAR") else number
        op, other = chance.choice(list(OPERATORS)), chance.choice(list(OPERATORS))
        second = max(number + chance.randrange(-2000, 2000), 0)
        expected = range(ROWS)
        for operator, value in ((op, number), (other, second)):
            span = (bisect.bisect_left(keys, value), bisect.bisect_right(keys, value))
            found = OPERATORS[operator](*span)
            expected = range(max(expected.start, found.start), min(expected.stop, found.stop))
        live = [n for n in expected if n % 7 != 3]
        sql = f"SELECT count(*), coalesce(sum(n), 0) FROM t WHERE k {op} ? AND ? {swapped(other)} k"
        values = [key_of(kind, number), key_of(kind, second)]
        assert con.execute(sql, values).fetchone() == (len(live), sum(live)), (sql, values)


def swapped(operator: str) -> str:
    """The operator of the same comparison from the other side."""
    return operator.translate(str.maketrans("<>", "><"))


def test_a_search_is_shown(con):
    con.execute(f"CREATE TABLE t AS SELECT range AS k, range % 10 AS n FROM range({ROWS})")

    def scan(condition: str) -> str:
        plan = con.execute(f"EXPLAIN SELECT * FROM t WHERE {condition}").fetchall()
        return "\n".join(row[-1] for row in plan)

    assert ", rows=1," in scan("k = 250000")
    assert ", rows=150000," in scan("k >= 50000 AND k < 200000")
    assert ", rows=" not in scan("n = 5")
    # Of a condition only truth counts: NULL in a list, or beside it, hides no bound.
    assert ", rows=1," in scan("k IN (250000, NULL)")
    assert ", rows=1," in scan("(k = 250000 OR NULL) AND n < 10")
    assert con.execute("SELECT k FROM t WHERE k IN (3, NULL)").fetchall() == [(3,)]
    assert con.execute("SELECT k FROM t WHERE k NOT IN (3, NULL)").fetchall() == []
    con.execute("UPDATE t SET k = 7 WHERE k = 250000")
    assert con.execute("SELECT k, n FROM t WHERE k = 7 ORDER BY n").fetchall() == [(7, 0), (7, 7)]
    assert con.execute("SELECT count(*) FROM t WHERE k = 250000").fetchone() == (0,)
    assert con.execute("SELECT count(*) FROM t WHERE k >= 250000").fetchone() == (49_999,)


def test_changes_that_come_again(con):
    """Their plan is kept, and is right for other values, types, rows and definitions."""
    con.execute(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, price DOUBLE, name VARCHAR);"
        "INSERT INTO t SELECT range, range, 'n' || range FROM range(1000)"
    )
    model = {n: (float(n), f"n{n}") for n in range(1000)}
    chance = random.Random(11)
    for step in range(300):
        key = chance.randrange(1100)
        change = chance.randrange(5)
        if change == 0:
            price = chance.choice([step, step / 4, None])
            con.execute("UPDATE t SET price = ? WHERE id = ?", [price, key])
            if key in model:
                model[key] = (None if price is None else float(price), model[key][1])
        elif change == 1:
            con.execute("UPDATE t SET price = price + ?, name = ? WHERE id = ?", [step, "x", key])
            if key in model:
                old = model[key][0]
                model[key] = (None if old is None else old + step, "x")
        elif change == 2:
            con.execute("DELETE FROM t WHERE id = ?", [key])
            model.pop(key, None)
        elif change == 3 and key not in model:
            con.execute("INSERT INTO t VALUES (?, ?, ?)", [key, 0.5, "new"])
            model[key] = (0.5, "new")
        elif change == 4:
            con.execute("BEGIN")
            con.execute("UPDATE t SET name = ? WHERE id = ?", ["lost", key])
            con.execute("UPDATE t SET name = ? WHERE id = ?", ["lost", key + 1])
            con.execute("ROLLBACK")
    rows = {n: (price, name) for n, price, name in con.execute("FROM t").fetchall()}
    assert rows == model
    # Another column comes before the others; a type that the column cannot hold stays an error.
    con.execute("ALTER TABLE t DROP COLUMN name; ALTER TABLE t ADD COLUMN name INTEGER DEFAULT 1")
    with pytest.raises(swingdb.Error):
        con.execute("UPDATE t SET price = price + ?, name = ? WHERE id = ?", [1, "x", 1])
    con.execute("UPDATE t SET price = ?, name = ? WHERE id = ?", [1, 5, min(model)])
    assert con.execute("SELECT price, name FROM t WHERE name = 5").fetchall() == [(1.0, 5)]
