"""Random trees of joins of small tables with many NULLs, on SwingDB and on DuckDB.

Two to five relations, and more in subqueries: each a table, or a subquery with other names, some
rows, or groups; inner, outer, semi and anti joins in brackets of any shape; conditions of one or
two equations, NULLs equal or not, or inequalities; conditions above. So what an outer join adds is
dropped, or not, by whatever is above.

    python tests/oracle/random_joins.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import random

import differences
import duckdb
import swingdb
from differences import query_differs

TABLES = ("t", "u", "v", "w")
COLUMNS = ("a", "b", "c")
KINDS = ("JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "RIGHT JOIN",
         "FULL JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
#: A fault of DuckDB 2.0 in correlated subqueries over no rows, after which it must start again.
CRASHED = ("only DuckDB failed: INTERNAL Error: ", "only DuckDB failed: FATAL Error: ")


class Joins:
    """Tables of one seed, and queries that join them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.engines = [duckdb.connect(), swingdb.connect()]
        self.made = []
        self.names = 0
        for table in TABLES:
            self.run(f"CREATE TABLE {table} (a INTEGER, b INTEGER, c {self.key_type()})")
            rows = self.rng.choice([0, 3, 6, 9, 12])
            values = [f"({', '.join(self.value() for _ in COLUMNS)})" for _ in range(rows)]
            if values:
                self.run(f"INSERT INTO {table} VALUES {', '.join(values)}")

    def key_type(self):
        return self.rng.choice(["INTEGER", "INTEGER", "BIGINT", "DECIMAL(6, 2)", "DOUBLE"])

    def value(self):
        return "NULL" if self.rng.random() < 0.25 else str(self.rng.randrange(7))

    def run(self, sql):
        self.made.append(sql)
        for engine in self.engines:
            engine.execute(sql)

    def name(self):
        self.names += 1
        return f"r{self.names}"

    def relation(self):
        """A relation's text, and the names of its columns."""
        rng, name, table = self.rng, self.name(), self.rng.choice(TABLES)
        columns = [f"{name}.{column}" for column in COLUMNS]
        kind = rng.randrange(10)
        if kind < 6:
            return f"{table} AS {name}", columns
        if kind == 6:
            chosen = rng.sample(COLUMNS, 2)
            renamed = f"{chosen[0]} AS x, {chosen[1]} AS y"
            return f"(SELECT {renamed} FROM {table}) AS {name}", [f"{name}.x", f"{name}.y"]
        if kind == 7:
            return f"(SELECT * FROM {table} WHERE {rng.choice(COLUMNS)} > 2) AS {name}", columns
        if kind == 8:
            groups = f"SELECT a, max(b) AS b, count(*) AS n FROM {table} GROUP BY a"
            return f"({groups}) AS {name}", [f"{name}.a", f"{name}.b", f"{name}.n"]
        # What comes out of a tree of its own, under other names.
        tree, inner = self.tree(rng.randrange(2, 4))
        chosen = [rng.choice(inner) for _ in range(2)]
        listed = ", ".join(f"{column} AS k{place}" for place, column in enumerate(chosen))
        order = rng.choice(["", "", " ORDER BY 1"])
        return f"(SELECT {listed} FROM {tree}{order}) AS {name}", [f"{name}.k0", f"{name}.k1"]

    def equation(self, left, right):
        rng = self.rng
        sides = [rng.choice(left), rng.choice(right)]
        rng.shuffle(sides)
        draw = rng.random()
        if draw < 0.65:
            return " = ".join(sides)
        if draw < 0.75:
            return " IS NOT DISTINCT FROM ".join(sides)
        if draw < 0.82:
            return f"{sides[0]} + 1 = {sides[1]}"
        if draw < 0.89:
            return f"coalesce({sides[0]}, 1) = {sides[1]}"
        return f" {rng.choice(['<', '>=', '<>'])} ".join(sides)

    def condition(self, left, right):
        both = self.rng.choice([1, 1, 1, 2])
        parts = [self.equation(left, right) for _ in range(both)]
        if self.rng.random() < 0.15:
            parts.append(self.about(left + right))
        return self.rng.choice([" AND ", " AND ", " AND ", " OR "]).join(parts)

    def about(self, columns):
        """A condition about one column or two."""
        rng = self.rng
        column, other = rng.choice(columns), rng.choice(columns)
        return rng.choice([
            f"{column} > {rng.randrange(5)}", f"{column} IS NULL", f"{column} IS NOT NULL",
            f"{column} = {other}", f"coalesce({column}, 3) <> {rng.randrange(6)}",
            f"({column} IS NULL OR {other} < 4)", f"{column} IN (1, 2, {other})",
            f"{column} IN (SELECT a FROM {rng.choice(TABLES)} WHERE a IS NOT NULL)",
            f"EXISTS (FROM {rng.choice(TABLES)} AS e WHERE e.b = {column})",
            f"NOT EXISTS (FROM {rng.choice(TABLES)} AS e WHERE e.b = {column} AND e.a > 1)",
        ])

    def tree(self, relations):
        """A tree of so many relations, and the columns that come out of it."""
        if relations == 1:
            return self.relation()
        rng = self.rng
        cut = rng.randrange(1, relations)
        (left, ours), (right, theirs) = self.tree(cut), self.tree(relations - cut)
        right = f"({right})" if relations - cut > 1 else right
        if rng.random() < 0.07:
            return f"{left} CROSS JOIN {right}", ours + theirs
        kind = rng.choice(KINDS)
        columns = ours if kind in ("SEMI JOIN", "ANTI JOIN") else ours + theirs
        return f"{left} {kind} {right} ON {self.condition(ours, theirs)}", columns

    def query(self):
        rng = self.rng
        relations = rng.choice([2, 3, 3, 4, 4, 5])
        tree, columns = self.tree(relations)
        # Relations beside a comma, joined in WHERE.
        conditions = []
        if rng.random() < 0.3:
            beside, theirs = self.tree(rng.randrange(1, 3))
            tree, mine, columns = f"{tree}, {beside}", columns, columns + theirs
            conditions.append(self.equation(mine, theirs))
        conditions += [self.about(columns) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        chosen = rng.sample(columns, min(len(columns), 4))
        listed = ", ".join(f"{column} AS o{place}" for place, column in enumerate(chosen))
        return rng.choice([
            f"SELECT {listed} FROM {tree}{where}",
            f"SELECT {listed} FROM {tree}{where}",
            f"SELECT DISTINCT {listed} FROM {tree}{where}",
            f"SELECT {chosen[0]}, count(*), sum({chosen[-1]}) FROM {tree}{where} GROUP BY 1",
            f"SELECT count(*), count({chosen[0]}), max({chosen[-1]}) FROM {tree}{where}",
        ])

    def step(self):
        """The query, what is different, and details."""
        sql = self.query()
        what, detail = query_differs(self.engines, sql)
        if what is not None and what.startswith(CRASHED):
            self.engines[0] = duckdb.connect()
            for statement in self.made:
                self.engines[0].execute(statement)
            what = "both failed"
        return sql, what, detail


if __name__ == "__main__":
    differences.main(__doc__, Joins)
