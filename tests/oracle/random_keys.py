"""Random rows of a few values and many NULLs as keys, on SwingDB and on DuckDB.

Rows of several columns, of lists and structs too, whose hashes collide: (5, NULL, 6) and
(5, 6, NULL), NULL and []. They are grouped, joined, made distinct, numbered, walked through by
recursive queries and compared in set operations.

    python tests/oracle/random_keys.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import random

import differences
import duckdb
import swingdb
from differences import query_differs

#: Types, and the values of their columns.
VALUES = {
    "INTEGER": ["0", "1", "2", "3"],
    "VARCHAR": ["''", "'a'", "'b'", "'longer than twelve bytes'"],
    "DOUBLE": ["0", "'-0.0'", "0.5", "'NaN'"],
    "DATE": ["'2024-01-01'", "'2024-01-02'", "'1969-12-31'"],
    "DECIMAL(9, 2)": ["0", "0.25", "1"],
    "BLOB": ["''", "'a'", "'\\xFF'"],
    "INTEGER[]": ["[]", "[NULL]", "[1]", "[1, NULL]", "[NULL, 1]"],
    "STRUCT(p INTEGER, q INTEGER)": [
        "{'p': NULL, 'q': NULL}", "{'p': 1, 'q': NULL}", "{'p': NULL, 'q': 1}",
    ],
}
TABLES = ("t", "u")


class Keys:
    """Two tables of one seed, and queries whose answers depend on which rows are equal."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.engines = [duckdb.connect(), swingdb.connect()]
        width = self.rng.randint(1, 5)
        few = self.rng.random() < 0.5
        types = ["INTEGER" if few else self.rng.choice(list(VALUES)) for _ in range(width)]
        self.columns = [f"c{place}" for place in range(width)]
        columns = ", ".join(f"{name} {of}" for name, of in zip(self.columns, types))
        for table in TABLES:
            rows = [self.row(place, types) for place in range(self.rng.choice([5, 60, 400]))]
            for engine in self.engines:
                engine.execute(f"CREATE TABLE {table} (id INTEGER, {columns})")
                engine.execute(f"INSERT INTO {table} VALUES {', '.join(rows)}")

    def row(self, place, types):
        def value(of):
            return "NULL" if self.rng.random() < 0.3 else self.rng.choice(VALUES[of])

        return f"({place}, {', '.join(map(value, types))})"

    def query(self):
        pick = self.rng.choice
        keys = self.rng.sample(self.columns, self.rng.randint(1, len(self.columns)))
        k = ", ".join(keys)
        equal = " AND ".join(f"t.{c} {pick(['=', 'IS NOT DISTINCT FROM'])} u.{c}" for c in keys)
        others = ", ".join(f"u.{c}" for c in keys)
        operator = pick(["UNION", "INTERSECT", "EXCEPT"]) + pick(["", " ALL"])
        return pick([
            f"SELECT {k}, count(*), min(id), sum(id) FROM t GROUP BY {k}",
            f"SELECT DISTINCT {k} FROM t",
            f"SELECT {k} FROM t {operator} SELECT {k} FROM u",
            f"SELECT t.id, count(u.id), sum(u.id) FROM t LEFT JOIN u ON {equal} GROUP BY t.id",
            f"SELECT id FROM t WHERE {pick(['', 'NOT '])}EXISTS (SELECT 1 FROM u WHERE {equal})",
            f"SELECT id, row_number() OVER (PARTITION BY {k} ORDER BY id) FROM t",
            f"SELECT {k}, count(*), grouping({k}) FROM t GROUP BY {pick(['ROLLUP', 'CUBE'])}({k})",
            f"SELECT DISTINCT ON ({k}) {k}, id FROM t ORDER BY {k}, id",
            f"SELECT {k}, id FROM t ORDER BY {k}, id LIMIT 7",
            f"SELECT u.id, (SELECT count(*) FROM t WHERE {equal}) FROM u",
            f"WITH RECURSIVE r AS (SELECT {k}, 0 AS i FROM t UNION SELECT {k}, i + 1 FROM r"
            f" WHERE i < 1) SELECT {k}, count(*), sum(i) FROM r GROUP BY {k}",
            f"WITH RECURSIVE r AS (SELECT {k} FROM t UNION SELECT {others} FROM u JOIN r"
            f" ON u.{keys[0]} = r.{keys[0]}) SELECT {k}, count(*) FROM r GROUP BY {k}",
        ])

    def step(self):
        """The query, what is different, and details."""
        sql = self.query()
        return sql, *query_differs(self.engines, sql)


if __name__ == "__main__":
    differences.main(__doc__, Keys)
