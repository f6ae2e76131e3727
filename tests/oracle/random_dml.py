"""Random statements that change data, on SwingDB and on DuckDB, compared after every one.

Both engines run the same text: INSERT (values, queries, ON CONFLICT), UPDATE (subqueries, FROM),
DELETE (USING), MERGE, ALTER TABLE, transactions (without savepoints: DuckDB has none). Compared are
whether the statement fails, how many rows it changed, and the whole table as a sorted list.

    python tests/oracle/random_dml.py [--seed N] [--steps N] [--runs N]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import datetime
import decimal
import random

import differences
import duckdb
import swingdb

TEXTS = ["", "a", "b", "Ä", "it''s", "longer than twelve bytes"]
FIRST_DAY = datetime.date(2020, 1, 1)
TYPES = ["INTEGER", "BIGINT", "DOUBLE", "DECIMAL(12, 2)", "VARCHAR", "DATE", "BOOLEAN"]


class History:
    """One random history; `expected` is DuckDB's connection, `found` SwingDB's."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seed = seed
        self.expected = duckdb.connect()
        self.found = swingdb.connect()
        self.columns = [("id", "INTEGER"), ("a", "INTEGER"), ("s", "VARCHAR")]
        self.names = 0
        self.shift = 100
        self.in_transaction = False
        for sql in (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, s VARCHAR)",
            "CREATE TABLE o (k INTEGER, v INTEGER, w VARCHAR)",
        ):
            self.both(sql)

    def both(self, sql):
        """Runs a statement on both; the pair of (failed, rows changed)."""
        outcomes = []
        for con in (self.expected, self.found):
            try:
                result = con.execute(sql)
                if con is self.expected:
                    rows = result.fetchall()
                    count = rows[0][0] if rows and result.description[0][0] == "Count" else None
                else:
                    count = result.rowcount
                outcomes.append((None, count))
            except differences.ERRORS as error:
                outcomes.append((error, None))
        return outcomes

    def run(self, steps):
        for step in range(steps):
            sql = self.statement()
            (error, count), (our_error, our_count) = self.both(sql)
            place = f"seed {self.seed}, step {step}: {sql}"
            if (error is None) != (our_error is None):
                raise AssertionError(f"{place}\n  DuckDB: {error}\n  SwingDB: {our_error}")
            if error is not None and self.in_transaction:
                # DuckDB's transaction is over after an error, SwingDB's is not.
                self.found.execute("ROLLBACK")
                self.expected.execute("ROLLBACK")
                self.in_transaction = False
                self.reread()
            word = sql.split()[0]
            counted = word in ("INSERT", "UPDATE", "DELETE", "MERGE") and count is not None
            if counted and count != our_count:
                raise AssertionError(f"{place}\n  DuckDB changed {count}, SwingDB {our_count}")
            self.compare(place)

    def reread(self):
        rows = self.expected.execute("DESCRIBE t").fetchall()
        self.columns = [(row[0], row[1]) for row in rows]

    def compare(self, place):
        for table in ("t", "o"):
            query = f"SELECT * FROM {table}"
            pair = [con.execute(query).fetchall() for con in (self.expected, self.found)]
            expected, found = (sorted(map(key, rows)) for rows in pair)
            if expected != found:
                gone = [row for row in expected if row not in found]
                new = [row for row in found if row not in expected]
                raise AssertionError(f"{place}\n  only in DuckDB: {gone}\n  only in SwingDB: {new}")

    # Generators

    def statement(self):
        kinds = [
            (self.insert, 5), (self.insert_select, 2), (self.upsert, 3),
            (self.update, 5), (self.update_from, 2), (self.delete, 2), (self.delete_using, 1),
            (self.merge, 4), (self.fill_other, 3), (self.empty_other, 1),
            (self.add_column, 1), (self.drop_column, 1), (self.transaction, 3),
        ]
        generators, weights = zip(*kinds)
        return self.random.choices(generators, weights)[0]()

    def literal(self, kind):
        r = self.random
        if r.random() < 0.15:
            return "NULL"
        return {
            "INTEGER": lambda: str(r.randint(-5, 40)),
            "BIGINT": lambda: str(r.choice([r.randint(-9, 9), r.randint(-(2**62), 2**62)])),
            "DOUBLE": lambda: repr(r.choice([0.5, -1.25, 1e10, r.randint(0, 9) / 4])),
            "DECIMAL(12, 2)": lambda: str(decimal.Decimal(r.randint(-9999, 9999)) / 100),
            "VARCHAR": lambda: "'" + r.choice(TEXTS) + "'",
            "DATE": lambda: f"DATE '{FIRST_DAY + datetime.timedelta(r.randint(0, 900))}'",
            "BOOLEAN": lambda: r.choice(["TRUE", "FALSE"]),
        }[kind.replace(",", ", ").replace("  ", " ")]()

    def row(self, distinct=None):
        key = self.random.randint(0, 50) if distinct is None else distinct
        values = [str(key)] + [self.literal(kind) for _, kind in self.columns[1:]]
        return "(" + ", ".join(values) + ")"

    def of_kind(self, kind):
        return [name for name, k in self.columns if k == kind]

    def condition(self, depth=1):
        r = self.random
        column = r.choice(self.of_kind("INTEGER"))
        simple = [
            f"t.{column} < {r.randint(-2, 45)}",
            f"t.{column} BETWEEN {r.randint(0, 20)} AND {r.randint(10, 40)}",
            f"t.{column} % 3 = {r.randint(0, 2)}",
            f"t.{column} IS NULL",
            f"t.{column} IN (SELECT k FROM o)",
            f"t.{column} NOT IN (SELECT k FROM o WHERE k IS NOT NULL)",
            f"t.{column} NOT IN (SELECT v FROM o)",
            f"EXISTS (SELECT 1 FROM o WHERE o.k = t.{column})",
            f"NOT EXISTS (SELECT 1 FROM o WHERE o.k = t.{column} AND o.v > 5)",
            f"t.{column} > (SELECT avg(v) FROM o)",
            f"t.{column} = (SELECT max(v) FROM o WHERE o.k = t.id)",
            "t.s LIKE '%a%'",
            "(t.s = 'b' OR t.s IS NULL)",
            "length(t.s) > 3",
            "TRUE", "FALSE", "NULL",
        ]
        if "s" not in dict(self.columns):
            simple = [c for c in simple if "t.s" not in c]
        if depth == 0 or r.random() < 0.5:
            return r.choice(simple)
        parts = self.condition(depth - 1), self.condition(depth - 1)
        return r.choice(["({} AND {})", "({} OR {})", "(NOT ({}) AND {})"]).format(*parts)

    def insert(self):
        rows = ", ".join(self.row() for _ in range(self.random.randint(1, 5)))
        return f"INSERT INTO t VALUES {rows}"

    def insert_select(self):
        rest = [name for name, _ in self.columns[1:]]
        shift = self.random.randint(20, 90)
        columns = ", ".join([f"id + {shift}", *rest])
        return f"INSERT INTO t SELECT {columns} FROM t WHERE {self.condition()}"

    def upsert(self):
        keys = self.random.sample(range(50), self.random.randint(1, 5))
        rows = ", ".join(self.row(key) for key in keys)
        name = self.random.choice(self.columns[1:])[0]
        action = self.random.choice([
            "ON CONFLICT DO NOTHING",
            f"ON CONFLICT (id) DO UPDATE SET {name} = excluded.{name}",
            f"ON CONFLICT (id) DO UPDATE SET {name} = excluded.{name} WHERE t.id > 20",
        ])
        return f"INSERT INTO t VALUES {rows} {action}"

    def sets(self):
        r = self.random
        name, kind = r.choice(self.columns[1:])
        if kind == "INTEGER":
            numbers = r.choice(self.of_kind("INTEGER"))
            value = r.choice([
                self.literal(kind), f"{numbers} + 1", f"t.{numbers} * 2", "(SELECT max(v) FROM o)",
                "(SELECT count(*) FROM o WHERE o.k = t.id)",
                f"CASE WHEN {numbers} > 10 THEN 10 ELSE {numbers} END",
            ])
        else:
            value = r.choice([self.literal(kind), r.choice(self.of_kind(kind))])
        sets = [f"{name} = {value}"]
        if r.random() < 0.2:
            # DuckDB checks keys row by row, so that id = id + 1 may fail there: only new keys here.
            self.shift += 100
            sets.append(f"id = id + {r.choice([0, self.shift])}")
        return ", ".join(sets)

    def update(self):
        return f"UPDATE t SET {self.sets()} WHERE {self.condition()}"

    def update_from(self):
        column = self.random.choice([n for n in self.of_kind("INTEGER") if n != "id"] or ["id"])
        source = "(SELECT k, min(v) AS v FROM o GROUP BY k) g"
        return f"UPDATE t SET {column} = g.v FROM {source} WHERE g.k = t.id AND {self.condition(0)}"

    def delete(self):
        return f"DELETE FROM t WHERE {self.condition()} AND t.id % 2 = {self.random.randint(0, 1)}"

    def delete_using(self):
        # One partner a row: DuckDB fails to delete a row of a keyed table that it finds twice.
        source = f"(SELECT DISTINCT k FROM o WHERE v > {self.random.randint(0, 30)}) p"
        return f"DELETE FROM t USING {source} WHERE p.k = t.id"

    def merge(self):
        r = self.random
        source = r.choice(["o", "(SELECT k, max(v) AS v, max(w) AS w FROM o GROUP BY k) AS o"])
        clauses = []
        if r.random() < 0.5:
            clauses.append(f"WHEN MATCHED AND o.v > {r.randint(0, 30)} THEN DELETE")
        if r.random() < 0.3:
            clauses.append("WHEN MATCHED AND o.v IS NULL THEN DO NOTHING")
        name, kind = r.choice(self.columns[1:])
        value = "o.v" if kind == "INTEGER" else "o.w" if kind == "VARCHAR" else self.literal(kind)
        clauses.append(f"WHEN MATCHED THEN UPDATE SET {name} = {value}")
        if r.random() < 0.6:
            clauses.append("WHEN NOT MATCHED AND o.k IS NOT NULL THEN INSERT (id) VALUES (o.k)")
        if r.random() < 0.3:
            clauses.append(f"WHEN NOT MATCHED BY SOURCE AND t.id > {r.randint(20, 60)} THEN DELETE")
        return f"MERGE INTO t USING {source} ON t.id = o.k " + " ".join(clauses)

    def fill_other(self):
        rows = []
        for _ in range(self.random.randint(1, 3)):
            key = "NULL" if self.random.random() < 0.1 else self.random.randint(0, 50)
            rows.append(f"({key}, {self.literal('INTEGER')}, {self.literal('VARCHAR')})")
        return f"INSERT INTO o VALUES {', '.join(rows)}"

    def empty_other(self):
        where = self.random.choice(["", " WHERE k % 2 = 0", " WHERE k IS NULL"])
        return f"DELETE FROM o{where}"

    def add_column(self):
        if len(self.columns) > 7:
            return self.drop_column()
        kind = self.random.choice(TYPES)
        self.names += 1
        self.columns.append((f"c{self.names}", kind))
        return f"ALTER TABLE t ADD COLUMN c{self.names} {kind} DEFAULT {self.literal(kind)}"

    def drop_column(self):
        extra = [name for name, _ in self.columns if name.startswith("c")]
        if not extra:
            return self.insert()
        name = self.random.choice(extra)
        self.columns = [column for column in self.columns if column[0] != name]
        return f"ALTER TABLE t DROP COLUMN {name}"

    def transaction(self):
        if not self.in_transaction:
            self.in_transaction = True
            self.at_begin = list(self.columns)
            return "BEGIN"
        self.in_transaction = False
        if self.random.random() < 0.4:
            self.columns = self.at_begin
            return "ROLLBACK"
        return "COMMIT"


def key(row):
    """A row in a form that sorts: NULL first, each value with the name of its kind."""
    def part(value):
        if value is None:
            return ("",)
        if isinstance(value, bool):
            return ("bool", str(value))
        if isinstance(value, (int, decimal.Decimal)):
            return ("number", str(decimal.Decimal(value).normalize()))
        return (type(value).__name__, str(value))

    return tuple(part(value) for value in row)


if __name__ == "__main__":
    parsed = differences.options(__doc__, runs=5, steps=300, go_on=False)
    for seed in parsed.seeds:
        History(seed).run(parsed.steps)
    print("no difference")
