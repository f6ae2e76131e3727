"""Random values of several types beside each other, on SwingDB and on DuckDB.

Numbers of all kinds, or dates and timestamps, meet in UNION, VALUES, comparisons, joins, lists,
CASE and the like, also inside of lists and structs. What type they have in common decides whether a
tiny number becomes zero, or a point in time another one.

    python tests/oracle/random_types.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import random

import differences
import duckdb
import swingdb
from differences import query_differs

#: Types, and values of each.
NUMBERS = {
    "TINYINT": ["1", "-3"],
    "INTEGER": ["1", "2147483647"],
    "BIGINT": ["1", "-7"],
    "UBIGINT": ["1", "5"],
    "HUGEINT": ["1", "5"],
    "DECIMAL(5, 2)": ["1", "1.25", "-3.5"],
    "DECIMAL(18, 6)": ["1", "0.000001"],
    "FLOAT": ["1", "0.25", "1e-10"],
    "DOUBLE": ["1", "1e-20", "0.1", "-7"],
}
TIMES = {
    "DATE": ["2024-01-01", "2024-07-04", "9999-01-01"],
    "TIMESTAMP": ["2024-01-01 00:00:00", "2024-07-04 12:34:56.123456"],
    "TIMESTAMP_S": ["2024-01-01 00:00:00"],
    "TIMESTAMPTZ": ["2024-01-01 00:00:00", "2024-07-04 12:34:56+00"],
}
#: What a value is put into, and how it is taken out.
SHAPES = [("{}", "{}"), ("[{}]", "{}[1]"), ("{{'a': {}}}", "{}.a"), ("[{{'a': {}}}]", "({}[1]).a")]


class Types:
    """Queries over values of one family of types in one shape."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.engines = [duckdb.connect(), swingdb.connect()]
        for engine in self.engines:
            engine.execute("SET TimeZone = 'America/New_York'")

    def choose(self):
        self.family = self.rng.choice([NUMBERS, NUMBERS, TIMES])
        self.inside, self.outside = self.rng.choice(SHAPES[:1] * 2 + SHAPES)

    def value(self):
        of = self.rng.choice(list(self.family))
        if self.rng.random() < 0.07:
            return self.inside.format(f"NULL::{of}")
        return self.inside.format(f"'{self.rng.choice(self.family[of])}'::{of}")

    def relation(self):
        """A query with one column, `x`."""
        values = [self.value() for _ in range(self.rng.choice([1, 2, 2, 3, 3]))]
        if self.rng.random() < 0.25:
            return f"SELECT * FROM (VALUES {', '.join(f'({value})' for value in values)}) v(x)"
        union = self.rng.choice([" UNION ALL ", " UNION ALL ", " UNION "])
        first, *others = [f"SELECT {value}" for value in values]
        if len(others) == 2 and self.rng.random() < 0.3:
            others = [f"({union.join(others)})"]
        return union.join([f"{first} AS x", *others])

    def shown(self, column):
        """A column as plain values; of numbers also the sign, for some are tiny."""
        plain = self.outside.format(column)
        if self.family is NUMBERS:
            return f"{plain}::DOUBLE, sign({plain}::DOUBLE)"
        # EXCEPT and INTERSECT have the types of the first query here, and common ones in DuckDB.
        return f"{plain}::TIMESTAMPTZ::VARCHAR"

    def query(self):
        self.choose()
        x, r, pick = self.shown("x"), self.relation, self.rng.choice
        compared = pick(["=", "<", ">=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        queries = [
            f"SELECT {x} FROM ({r()})",
            f"SELECT {x} FROM ({r()} UNION ALL SELECT {self.value()})",
            f"SELECT {x} FROM (SELECT x FROM ({r()}) a {pick(['INTERSECT', 'EXCEPT'])} ({r()}))",
            f"SELECT {x} FROM ({r()}) WHERE x {compared} {self.value()}",
            f"SELECT {x}, x IN ({self.value()}, {self.value()}) FROM ({r()})",
            f"SELECT {x}, x BETWEEN {self.value()} AND {self.value()} FROM ({r()})",
            f"SELECT {self.shown('a.x')}, {self.shown('b.x')} FROM ({r()}) a"
            f" {pick(['JOIN', 'LEFT JOIN', 'FULL JOIN'])} ({r()}) b ON a.x = b.x",
            f"SELECT {x} FROM (SELECT coalesce({self.value()}, {self.value()}) AS x)",
            f"SELECT {x} FROM (SELECT CASE WHEN x IS NULL THEN {self.value()} ELSE x END AS x"
            f" FROM ({r()}))",
            f"SELECT {x} FROM (SELECT unnest([x, {self.value()}]) AS x FROM ({r()}))",
            f"SELECT {x}, n FROM (SELECT x, count(*) AS n FROM ({r()}) GROUP BY x)",
            f"SELECT {x} FROM (SELECT max(x) AS x FROM ({r()}))",
            f"SELECT {x}, rank() OVER (ORDER BY x) FROM ({r()})",
            f"SELECT {self.shown('y')}, (SELECT count(*) FROM ({r()}) WHERE x = y)"
            f" FROM ({r()}) o(y)",
            f"WITH a AS ({r()}), b AS (SELECT x FROM a UNION ALL SELECT {self.value()})"
            f" SELECT {x} FROM b",
        ]
        return pick(queries)

    def step(self):
        """The query, what is different, and details."""
        sql = self.query()
        return sql, *query_differs(self.engines, sql)


if __name__ == "__main__":
    differences.main(__doc__, Types)
