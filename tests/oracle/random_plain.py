"""Plain random queries over more rows than a batch has, on SwingDB and on DuckDB.

Extremes, first rows, first groups, DISTINCT, LIMIT, windows over all rows, UNION ALL, joins and
subqueries of one table of some ten thousand rows in several batches, on several threads. Columns
are rising, falling, random, NULL in the first half, and of types whose values are compared in a way
of their own: NaN of both signs, both zeros, lists and structs with NULLs inside, decimals.

    python tests/oracle/random_plain.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
Rows are compared as a list where the query orders them all.
"""

import random

import differences
import duckdb
import swingdb
from differences import query_differs

#: The columns, of row `i` of `{rows}`.
COLUMNS = {
    "i": "i", "falling": "{rows} - i", "g": "(i * 7919 % 1009)::INTEGER",
    "r": "CASE WHEN i * 31 % 17 > 0 THEN i * 7907 % 5003 END::INTEGER",
    "x": "CASE i * 13 % 29 WHEN 0 THEN NULL WHEN 1 THEN 'nan' WHEN 2 THEN '-nan' WHEN 3 THEN '-0.0'"
         " ELSE ((i * 7927 % 2003 - 1000) / 8.0)::DOUBLE END::DOUBLE",
    "s": "CASE WHEN i % 23 > 0 THEN 's' || (i * 7949 % 3001) END",
    "d": "CASE WHEN i % 9 > 0 THEN DATE '2024-01-01' + (i * 7933 % 977)::INTEGER END",
    "e": "((i * 7933 % 401 - 200) * 0.25)::DECIMAL(9, 2)",
    "l": "CASE i % 4 WHEN 0 THEN [i % 7, NULL] WHEN 1 THEN NULL ELSE [i % 11] END::INTEGER[]",
    "st": "CASE WHEN i % 5 > 0 THEN {{'p': i % 3, 'q': nullif(i % 4, 1)}} END"
          "::STRUCT(p INTEGER, q INTEGER)",
    "b": "i % 3 = 0",
    "late": "CASE WHEN i > {rows} // 2 THEN i * 37 % 101 END::INTEGER",
    "always": "7",
}


class Plain:
    """A table of one seed, and queries over it."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.engines = [duckdb.connect(), swingdb.connect()]
        self.rows = self.rng.choice([9000, 20_000, 40_000])
        columns = ", ".join(
            f"{value.format(rows=self.rows)} AS {name}" for name, value in COLUMNS.items())
        for engine in self.engines:
            engine.execute(f"CREATE TABLE t AS SELECT {columns} FROM range({self.rows}) q(i)")

    def pick(self, *choices):
        return self.rng.choice(choices)

    def where(self):
        rng = self.rng
        return self.pick(
            "", "", f" WHERE {self.pick('r', 'late', 'falling')} > {rng.randrange(3000)}",
            " WHERE x > 10", " WHERE s < 's2'", " WHERE late IS NOT NULL",
            f" WHERE i BETWEEN {rng.randrange(self.rows)} AND {self.rows}",
        )

    def query(self):
        """A query, and whether its rows come in a definite order."""
        rng, w = self.rng, self.where()
        g, c, other = (rng.choice(list(COLUMNS)) for _ in range(3))
        f, f2 = self.pick("min", "max"), self.pick("min", "max")
        way = self.pick("", " DESC") + self.pick(" NULLS FIRST", " NULLS LAST")
        k = self.pick(1, 3, 10, 200)
        cut = f"LIMIT {k}" + self.pick("", " OFFSET 3", " OFFSET 900")
        twice = f"(SELECT {c}, i FROM t WHERE i % 2 = 0 UNION ALL SELECT {c}, i FROM t{w})"
        over = self.pick("", "", "PARTITION BY b", "ORDER BY i ROWS BETWEEN 1 PRECEDING AND "
                         "UNBOUNDED FOLLOWING", "ORDER BY i", f"PARTITION BY {g} ORDER BY i")
        key = self.pick(f"length(s) > {k}", "r // 2 > 100", "l[1] > 3 AND b", f"NOT {c} IS NULL",
                        f"coalesce({c} = {other}, false)" if c == other else "x + 1 > 5",
                        "starts_with(s, 's1')", f"CASE WHEN abs(r) > {k} THEN 1 ELSE 2 END")
        return self.pick(
            (f"SELECT m FROM (SELECT {g}, {f}({c}) AS m FROM t{w} GROUP BY {g} ORDER BY m{way}"
             f" {cut})", False),
            (f"SELECT m, n FROM (SELECT {g}, {f}({c}) AS m, count(*) AS n FROM t{w} GROUP BY {g})"
             f" ORDER BY m{way}, n {cut}", True),
            (f"SELECT DISTINCT {g} FROM t{w} ORDER BY {g}{way} {cut}", True),
            (f"SELECT count(*) FROM (SELECT DISTINCT {g} FROM t{w} {cut})", True),
            (f"SELECT count(*), count({c}) FROM (SELECT {c} FROM t{w} {cut})", True),
            *[(f"SELECT {f}({c}), {f2}({other}) FROM t{w}", True)] * 2,
            (f"SELECT {f}({c}), {f2}(coalesce({other}, {other})), max(i % 100) FROM t{w}", True),
            (f"SELECT {f}({c}) FROM t{w} HAVING count(*) > 3", True),
            (f"SELECT {f}({c}) FILTER (WHERE r > 100), {f2}({other}) FROM t{w}", True),
            (f"SELECT {f}({c}) FROM (SELECT * FROM t ORDER BY {other}{way}, i LIMIT {k})", True),
            (f"SELECT {c} FROM t{w} ORDER BY {c}{way} {cut}", True),
            (f"SELECT {c}, i FROM t{w} ORDER BY {c}{way}, {other}{way}, i {cut}", True),
            (f"SELECT i, {c} FROM t{w} ORDER BY {key}{way}, i {cut}", True),
            (f"SELECT a.{c} FROM t a JOIN t b ON a.i = b.falling WHERE b.r > 100"
             f" ORDER BY a.{c}{way} {cut}", True),
            (f"SELECT {f}(a.{c}) FROM t a JOIN t b ON a.i = b.falling WHERE b.r > 100", True),
            (f"SELECT {c}, i FROM {twice} ORDER BY {c}{way}, i {cut}", True),
            (f"SELECT {f}({c}), count(*) FROM {twice}", True),
            (f"SELECT {g}, count(*) AS n FROM t{w} GROUP BY {g} ORDER BY n DESC, {g}{way}"
             f" LIMIT {k}", True),
            (f"SELECT i FROM t{w} QUALIFY row_number() OVER (PARTITION BY {g} ORDER BY {c}{way}, i)"
             " <= 2 ORDER BY i LIMIT 50", True),
            *[(f"SELECT {c}, i, count({g}) OVER ({over}), {f}({other}) OVER ({over}) FROM t{w}"
               f" ORDER BY i {cut}", True)] * 2,
            (f"SELECT i FROM t{w} QUALIFY count(*) OVER ({over}) > 2 ORDER BY i {cut}", True),
            (f"SELECT i, rank() OVER (ORDER BY {key}{way}) FROM t{w} ORDER BY i {cut}", True),
            (f"SELECT count(*) FROM t WHERE {c} = (SELECT {f}({c}) FROM t{w})", True),
            (f"SELECT sum(i) FROM t WHERE {c} NOT IN (SELECT {c} FROM t WHERE i < 40"
             f" AND {c} IS NOT NULL)", True),
            (f"SELECT count(*), sum(a.i) FROM t a JOIN (SELECT {c} FROM t WHERE i < 9) b"
             f" ON a.{c} = b.{c}", True),
            (f"SELECT first(i ORDER BY {c}{way}, i), last(i ORDER BY {key}, i) FROM t{w}", True),
            (f"SELECT {g}, first(i ORDER BY {c}{way}, i) FROM t{w} GROUP BY {g} ORDER BY {g}{way}"
             " LIMIT 20", True),
        )

    def step(self):
        """The query, what is different, and details."""
        sql, ordered = self.query()
        return sql, *query_differs(self.engines, sql, ordered)


if __name__ == "__main__":
    differences.main(__doc__, Plain)
