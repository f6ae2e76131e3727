"""Groups by columns of a joined table, which begin below the join: answers of DuckDB, and plans."""

from __future__ import annotations

import math
import random

import pytest

import swingdb

duckdb = pytest.importorskip("duckdb")

TABLES = """
CREATE TABLE sales AS SELECT
    CASE WHEN i % 97 = 0 THEN NULL ELSE (i * 7919 % 1000)::INTEGER END AS item,
    (i % 5)::INTEGER AS store, (i % 1013)::INTEGER AS n,
    (i * 31 % 100000 * 0.01::DECIMAL(3, 2))::DECIMAL(9, 2) AS price,
    CASE WHEN i % 11 = 0 THEN NULL ELSE i % 1009 END AS maybe, i * 0.25::DOUBLE AS weight,
    CASE WHEN i * 7919 % 1000 >= 900 THEN 'none' ELSE (i % 50)::VARCHAR END AS digits
    FROM range(200000) AS g(i);
CREATE TABLE item AS SELECT
    i::INTEGER AS id, 'category ' || (i % 10) AS category, 'class ' || (i % 37) AS class,
    (i % 7)::INTEGER AS size FROM range(900) AS g(i);
INSERT INTO item SELECT id, 'twice', class, 9 FROM item WHERE id % 50 = 0
"""
#: Whether the groups begin below the join.
QUERIES = [
    (
        "SELECT category, sum(price), count(*) "
        "FROM sales JOIN item ON item = id GROUP BY category",
        True,
    ),
    (
        "SELECT category, class, min(n), max(maybe), count(maybe), avg(n), avg(weight), "
        "sum(weight) FROM sales, item WHERE item = id GROUP BY category, class",
        True,
    ),
    (
        "SELECT store, class, sum(price * 2 - 1), count(*) FILTER (WHERE n > 500), "
        "sum(n) FILTER (WHERE maybe IS NULL) FROM item JOIN sales ON id = item "
        "GROUP BY store, class",
        True,
    ),
    (
        "SELECT upper(category), sum(n) + 1 FROM sales JOIN item ON item = id GROUP BY 1 "
        "HAVING count(*) > 5000",
        True,
    ),
    (
        "SELECT class, sum(maybe) "
        "FROM sales JOIN item ON item = id WHERE n < 900 GROUP BY class",
        True,
    ),
    (
        "SELECT * FROM (SELECT class, sum(n), 'a' AS kind FROM sales JOIN item ON item = id "
        "GROUP BY class) WHERE kind = 'a'",
        True,
    ),
    ("SELECT class, sum(DISTINCT n) FROM sales JOIN item ON item = id GROUP BY class", False),
    ("SELECT class, sum(n + size) FROM sales JOIN item ON item = id GROUP BY class", False),
    ("SELECT class, sum(n) FROM sales LEFT JOIN item ON item = id GROUP BY class", False),
    ("SELECT class, sum(n) FROM sales JOIN item ON item = id AND n > size GROUP BY class", False),
    ("SELECT class, sum(digits::INTEGER) FROM sales JOIN item ON item = id GROUP BY class", False),
    (
        "SELECT class, sum(n)  "
        "FROM sales JOIN item ON item = id WHERE size = 3 GROUP BY class",
        False,
    ),
    ("SELECT store, sum(n) FROM sales JOIN item ON item = id GROUP BY store", False),
]


@pytest.fixture(scope="module")
def both():
    ours, theirs = swingdb.connect(), duckdb.connect()
    for con in (ours, theirs):
        for statement in TABLES.split(";"):
            con.execute(statement)
    yield ours, theirs
    ours.close()


def same(ours: list[tuple], theirs: list[tuple]) -> bool:
    """Whether rows are the same, sums of floating point but for their last digits."""

    def equal(a: object, b: object) -> bool:
        if isinstance(a, float) or isinstance(b, float):
            return math.isclose(float(a), float(b), rel_tol=1e-7)
        return a == b

    def key(row: tuple) -> str:
        return repr([x for x in row if isinstance(x, str | int)])

    ours, theirs = sorted(ours, key=key), sorted(theirs, key=key)
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(equal, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


@pytest.mark.parametrize(("query", "below"), QUERIES)
def test_groups_are_those_of_the_joined_rows(both, query, below):
    ours, theirs = both
    assert same(ours.execute(query).fetchall(), theirs.execute(query).fetchall())
    plan = ours.execute(f"EXPLAIN {query}").fetchall()[0][1]
    assert ("__part_0" in plan) == below, plan


def test_random_groups(both):
    ours, theirs = both
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    values = ["n", "price", "maybe", "weight", "price + 1", "n * 2.5::DECIMAL(4, 1)"]
    calls = ["sum({})", "min({})", "max({})", "count({})", "count(*)", "avg({})"]
    groups = ["category", "class", "size", "store", "size % 3", "class || category"]
    for _ in range(25):
        keys = chance.sample(groups, chance.randrange(1, 4))
        made = [chance.choice(calls).format(chance.choice(values)) for _ in range(3)]
        filters = chance.choice(["", " WHERE n % 3 = 1", " WHERE price > 100 AND maybe > 7"])
        numbers = ", ".join(str(place + 1) for place in range(len(keys)))
        query = (
            f"SELECT {', '.join(keys + made)} FROM sales JOIN item ON item = id{filters} "
            f"GROUP BY {numbers}"
        )
        assert same(ours.execute(query).fetchall(), theirs.execute(query).fetchall()), query
