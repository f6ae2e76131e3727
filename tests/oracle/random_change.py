"""Random UPDATE, DELETE, MERGE and INSERT with conditions of every kind, on SwingDB and on DuckDB.

Expressions and conditions are those of `random_select.py`: subqueries (correlated or not, IN,
EXISTS), CASE, NULLs, functions, all types. Some values are passed as parameters. Some statements
stand in a transaction that is rolled back or committed. Compared are whether a statement fails, how
many rows it changed, and the whole table after it. (`random_dml.py` does keys, ON CONFLICT and
ALTER TABLE.)

    python tests/oracle/random_change.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb, duckdb and pyarrow. The seed is printed, so that a difference can be
replayed.
"""

import datetime
import re

import differences
from differences import ERRORS, failures_differ, normal_rows, rows_differ
from random_select import FIRST_DAY, WORDS, Run, Scope

#: Rows a table is cut down to, so that histories stay quick.
MAX_ROWS = 400
SQL_OF = {
    "bool": "BOOLEAN", "int": "BIGINT", "double": "DOUBLE", "decimal": "DECIMAL(18, 2)",
    "text": "VARCHAR", "date": "DATE", "timestamp": "TIMESTAMP",
}


class Changes(Run):
    """Tables of one seed, and statements that change `t`."""

    def __init__(self, seed):
        super().__init__(seed)
        self.params = []
        self.kinds = dict(self.tables["t"])
        for con in (self.duck, self.swing):
            con.execute("CREATE TABLE source AS SELECT * FROM t")
        self.scope = Scope((f"t.{name}", kind) for name, kind in self.kinds.items())

    # Statements

    def literal(self, kind):
        """As in a query; some are parameters here, when the statement may have them."""
        if self.params is None or self.rng.random() > 0.2:
            return super().literal(kind)
        rng = self.rng
        value = {
            "int": lambda: rng.randint(-3, 20), "text": lambda: rng.choice(WORDS),
            "double": lambda: rng.randint(-40, 40) / 8, "bool": lambda: rng.random() < 0.5,
            "date": lambda: FIRST_DAY + datetime.timedelta(rng.randint(0, 30)),
        }.get(kind)
        if value is None:
            return super().literal(kind)
        self.params.append(None if rng.random() < 0.1 else value())
        return f"CAST(${len(self.params)} AS {SQL_OF[kind]})"

    def target(self):
        """A column to set, and an expression for it."""
        name = self.rng.choice([c for c, kind in self.kinds.items() if kind in SQL_OF])
        kind = self.kinds[name]
        if kind == "int" and self.rng.random() < 0.7:
            return name, f"({self.expr('int', self.scope)}) % 100"
        return name, self.expr(kind, self.scope)

    def where(self):
        return self.pick("", " WHERE " + self.expr("bool", self.scope, 3))

    def update(self):
        sets = dict(self.target() for _ in range(self.rng.randint(1, 3)))
        sets = ", ".join(f"{name} = {value}" for name, value in sets.items())
        return f"UPDATE t SET {sets}{self.where()}"

    def delete(self):
        part = f"t.c0 % {self.rng.randint(2, 5)} = 0"
        return f"DELETE FROM t WHERE {part} AND {self.expr('bool', self.scope, 3)}"

    def one_row_a_key(self):
        """A subquery `g(k, v)` with one row a key."""
        name = self.rng.choice(["u", "v", "source"])
        columns = self.tables["t" if name == "source" else name]
        inner = Scope((f"{name}.{c}", kind) for c, kind in columns)
        value = self.expr("int", inner, 1)
        return f"(SELECT c0 AS k, max(({value}) % 100) AS v FROM {name} GROUP BY c0) AS g"

    def update_from(self):
        names = [c for c, kind in self.kinds.items() if kind == "int"]
        where = f"t.c0 = g.k AND {self.expr('bool', self.scope, 2)}"
        source = self.one_row_a_key()
        return f"UPDATE t SET {self.rng.choice(names)} = g.v FROM {source} WHERE {where}"

    def merge(self):
        names = [c for c, kind in self.kinds.items() if kind == "int"]
        clauses = []
        if self.rng.random() < 0.4:
            clauses.append(f"WHEN MATCHED AND {self.expr('bool', self.scope, 1)} THEN DELETE")
        clauses.append(f"WHEN MATCHED THEN UPDATE SET {self.rng.choice(names)} = g.v")
        if self.rng.random() < 0.5:
            clauses.append("WHEN NOT MATCHED THEN INSERT (c0) VALUES (g.k)")
        if self.rng.random() < 0.3:
            clauses.append("WHEN NOT MATCHED BY SOURCE AND t.c0 % 7 = 3 THEN DELETE")
        return f"MERGE INTO t USING {self.one_row_a_key()} ON t.c0 = g.k {' '.join(clauses)}"

    def insert(self):
        source = Scope((f"source.{c}", kind) for c, kind in self.kinds.items())
        where = self.expr("bool", source, 2)
        return f"INSERT INTO t SELECT source.* FROM source WHERE {where}"

    def statement(self):
        self.params = []
        sql = self.rng.choice([
            self.update, self.update, self.update, self.delete, self.update_from, self.merge,
            self.insert,
        ])()
        # Not every expression that was made came into the statement.
        used = list(dict.fromkeys(re.findall(r"\$\d+", sql)))
        self.params = [self.params[int(name[1:]) - 1] for name in used]
        return re.sub(r"\$\d+", lambda found: f"${used.index(found[0]) + 1}", sql)

    # Comparison

    def outcome(self, con, sql):
        """The number of rows changed, or the error."""
        try:
            result = con.execute(sql, self.params) if self.params else con.execute(sql)
            if con is self.duck:
                return result.fetchone()[0], None
            return result.rowcount, None
        except ERRORS as error:
            return None, error

    def differs(self, sql):
        """What is different after a statement, as `Run.compare`."""
        count, their_error = self.outcome(self.duck, sql)
        ours, our_error = self.outcome(self.swing, sql)
        failed = failures_differ(their_error, our_error)
        if failed is not None:
            return failed, None
        if count != ours:
            return "rows differ", f"{count} changed in DuckDB, {ours} here"
        engines = (self.duck, self.swing)
        tables = (con.execute("SELECT * FROM t").fetchall() for con in engines)
        return rows_differ(*(sorted(normal_rows(table)) for table in tables))

    def step(self):
        """A statement, perhaps undone; what is different after it."""
        sql = self.statement()
        transaction = self.rng.random() < 0.2
        engines = (self.duck, self.swing)
        if transaction:
            for con in engines:
                con.execute("BEGIN")
        what, detail = self.differs(sql)
        if transaction:
            failed = what is not None
            undone = failed or self.rng.random() < 0.5
            for con in engines:
                con.execute("ROLLBACK" if undone else "COMMIT")
        if what is not None:
            self.begin_anew()
        elif self.duck.execute("SELECT count(*) FROM t").fetchone()[0] > MAX_ROWS:
            self.begin_anew()
        return f"{sql}   parameters {self.params}", what, detail

    def begin_anew(self):
        for con in (self.duck, self.swing):
            con.execute("DELETE FROM t")
            con.execute("INSERT INTO t SELECT * FROM source")


if __name__ == "__main__":
    differences.main(__doc__, Changes)
