"""Random changes of tables with constraints, on SwingDB and on DuckDB.

CHECK over several columns, NOT NULL, UNIQUE and PRIMARY KEY of one and of two columns, foreign keys
(also of a table to itself), defaults and generated columns, under INSERT (also ON CONFLICT), UPDATE
(also FROM), DELETE, MERGE and transactions. Compared are whether a statement fails and all tables
after it. DuckDB tests keys row by row where SwingDB tests the outcome of a statement, so a change
that only DuckDB refuses is taken back and counted apart.

    python tests/oracle/random_constraints.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import random

import differences
import duckdb
import swingdb
from differences import ERRORS, failures_differ, normal_rows, rows_differ

PARENT = [
    "CREATE TABLE p (id INTEGER PRIMARY KEY, name VARCHAR UNIQUE, n INTEGER NOT NULL DEFAULT 3, "
    "CHECK (n > 0 OR name IS NULL))",
    "CREATE TABLE p (id INTEGER PRIMARY KEY, name VARCHAR, n INTEGER DEFAULT 1 CHECK (n < 6), "
    "twice INTEGER GENERATED ALWAYS AS (n * 2), UNIQUE (name, n))",
    "CREATE TABLE p (id INTEGER UNIQUE, name VARCHAR NOT NULL, "
    "n INTEGER CHECK (n % 2 = 0 OR id > 2))",
]
CHILD = [
    "CREATE TABLE c (k INTEGER PRIMARY KEY, p INTEGER REFERENCES p (id), x INTEGER, "
    "CHECK (x IS NULL OR x >= k))",
    "CREATE TABLE c (k INTEGER, p INTEGER NOT NULL, x INTEGER DEFAULT 2, UNIQUE (k, x), "
    "FOREIGN KEY (p) REFERENCES p (id))",
    "CREATE TABLE c (k INTEGER PRIMARY KEY, p INTEGER REFERENCES p (id), x INTEGER, "
    "s INTEGER AS (x + k), CHECK (x + k < 12))",
]


class Constraints:
    """The tables of one seed, and changes of them."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.engines = [duckdb.connect(), swingdb.connect()]
        self.open = False
        tables = [self.rng.choice(PARENT), self.rng.choice(CHILD)]
        self.columns = {"p": ["id", "name", "n"], "c": ["k", "p", "x"]}
        for sql in tables:
            for engine in self.engines:
                engine.execute(sql)

    def pick(self, *choices):
        return self.rng.choice(choices)

    def number(self):
        return self.pick("NULL", "0", "1", "2", "3", "4", "5", "6", "7", "-1", "DEFAULT")

    def value(self, column):
        if column == "name":
            return self.pick("NULL", "'a'", "'b'", "'c'", "''")
        return self.number()

    def computed(self, column):
        if column == "name":
            return self.pick("name || 'x'", "NULL", "'a'", "coalesce(name, 'b')")
        other = self.pick(*(c for c in self.columns[self.table] if c != "name"))
        return self.pick(f"{other} + 1", f"{other}", f"{other} - 1", "3", "NULL",
                         f"(SELECT max({other}) + 1 FROM {self.table})",
                         f"CASE WHEN {other} > 2 THEN 1 ELSE {other} END")

    def condition(self):
        column = self.pick(*(c for c in self.columns[self.table] if c != "name"))
        return self.pick(f"{column} = {self.pick('1', '2', '3', '4')}", f"{column} > 2",
                         f"{column} IS NULL", "true", f"{column} % 2 = 1")

    def statement(self):
        """A change."""
        self.table = table = self.pick("p", "c")
        columns = self.columns[table]
        kind = self.rng.random()
        if kind < 0.4:
            given = columns if self.rng.random() < 0.7 else self.rng.sample(columns, 2)
            many = self.pick(1, 1, 2, 3)
            rows = ", ".join(f"({', '.join(map(self.value, given))})" for _ in range(many))
            # Of several rows DuckDB takes NULLs for equal keys, and drops more than it has to.
            conflict = self.pick("", " ON CONFLICT DO NOTHING") if many == 1 else ""
            return f"INSERT INTO {table} ({', '.join(given)}) VALUES {rows}{conflict}"
        if kind < 0.5:
            key, other = columns[0], columns[-1]
            value = self.pick(f"excluded.{other}", f"{other} + 1", "9")
            return (f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
                    f"({', '.join(map(self.value, columns))}) ON CONFLICT ({key}) "
                    f"DO UPDATE SET {other} = {value}")
        if kind < 0.75:
            changed = self.rng.sample(columns, self.pick(1, 1, 2))
            assigned = ", ".join(f"{column} = {self.computed(column)}" for column in changed)
            if self.rng.random() < 0.2 and table == "c":
                return f"UPDATE c SET x = p.n FROM p WHERE c.p = p.id AND p.n > {self.pick(0, 2)}"
            return f"UPDATE {table} SET {assigned} WHERE {self.condition()}"
        if kind < 0.88:
            return f"DELETE FROM {table} WHERE {self.condition()}"
        source = self.pick("(VALUES (1, 2), (3, 4))", "(VALUES (2, NULL), (8, 1))",
                           "(SELECT 5, 5)", "(VALUES (1, 1), (2, 2), (9, 3))")
        key, other = columns[0], columns[-1]
        fresh = f"({key}, {other}) VALUES (v.a, v.b)"
        if table == "c":
            fresh = f"({key}, p, {other}) VALUES (v.a, {self.pick('1', '2', 'v.b')}, v.b)"
        elif "name" in columns:
            fresh = f"({key}, name, {other}) VALUES (v.a, 'm' || v.a, v.b)"
        matched = self.pick(f"UPDATE SET {other} = v.b", "DELETE", f"UPDATE SET {key} = v.a + 1")
        return (f"MERGE INTO {table} USING {source} v(a, b) ON {table}.{key} = v.a "
                f"WHEN MATCHED THEN {matched} WHEN NOT MATCHED THEN INSERT {fresh}")

    def run(self, sql):
        """The failure of each engine; after one both are where they were before."""
        errors = []
        for engine in self.engines:
            try:
                engine.execute("BEGIN")
                engine.execute(sql)
                errors.append(None)
            except ERRORS as error:
                errors.append(error)
        keep = errors == [None, None] and self.rng.random() < 0.9
        for engine, error in zip(self.engines, errors):
            try:
                engine.execute("COMMIT" if keep else "ROLLBACK")
            except ERRORS as late:
                errors[self.engines.index(engine)] = error or late
        return errors

    def step(self):
        sql = self.statement()
        theirs, ours = self.run(sql)
        what = failures_differ(theirs, ours)
        if theirs is not None and ours is None and is_early(theirs):
            return sql, "only DuckDB failed: Out of Range Error: Overflow in keys", None
        if what is not None and what != "both failed":
            return sql, what, f"DuckDB: {theirs}, SwingDB: {ours}"
        for table in ("p", "c"):
            rows = [sorted(normal_rows(engine.execute(f"SELECT * FROM {table}").fetchall()))
                    for engine in self.engines]
            differs = rows_differ(*rows)
            if differs[0] is not None:
                return sql, *differs
        return sql, what, None


def is_early(error):
    """Whether DuckDB may refuse what only is so in between, while it goes from row to row."""
    text = str(error)
    return any(word in text for word in ("uplicate key", "foreign key", "violat"))


if __name__ == "__main__":
    differences.main(__doc__, Constraints)
