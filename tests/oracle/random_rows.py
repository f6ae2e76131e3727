"""Random queries about which rows come, go and stay, on SwingDB and DuckDB, and SwingDB alone.

All columns are small whole numbers with NULLs, and tables share names of columns, so that rows meet
often and names are easily confused. Queries nest joins of every kind (with NULLs equal or not),
correlated subqueries of all sorts over several tables, LATERAL, LIMIT and OFFSET at any depth, rows
in the order of insertion, windows, named windows, grouping sets, set operations, common table
expressions. DELETE, UPDATE and INSERT with such queries run in transactions that are rolled back.

    python tests/oracle/random_rows.py [--seed N] [--steps N] [--runs N] [--minutes N] [--go-on]

Needs the packages swingdb, duckdb and pyarrow. The seed is printed, so that a difference can be
replayed. Compared are the rows (as a list where all are ordered, else as a multiset), or that both
engines fail; after changes the whole table. Beside that, what holds in one engine alone (M. Rigger
and Z. Su, "Finding Bugs in Database Systems via Query Partitioning", OOPSLA 2020, and "Detecting
Optimization Bugs in Database Engines via Non-optimizing Reference Engine Construction", FSE 2020):

    rows(Q) = rows(Q WHERE p) + rows(Q WHERE NOT p) + rows(Q WHERE p IS NULL)
    count(Q WHERE p) = sum(CASE WHEN p THEN 1 ELSE 0 END) over Q
"""

import random
import sys
import time

import differences
import duckdb
import pyarrow as pa
import swingdb
from differences import ERRORS, failures_differ, normal_rows, rows_differ

#: The columns of each table, beside its own number of the row, `i`.
TABLES = {"a": ("k", "v"), "b": ("k", "v", "w"), "c": ("w", "k"), "d": ("v",)}
#: What DuckDB refuses, and SwingDB does.
THEIRS = ("Binder Error", "Not implemented Error", "Parser Error", "Catalog Error")
#: Rows a table may have; the last are more than a batch holds.
SIZES = (0, 1, 4, 4, 9, 9, 9, 30, 30, 20_000)


class Rows:
    """Columns of a relation in FROM: their names as SQL."""

    def __init__(self, columns):
        self.columns = list(columns)

    def __add__(self, other):
        return Rows(self.columns + other.columns)


class Run:
    """Tables of one seed and the statements over them."""

    def __init__(self, seed):
        self.seed = seed
        self.rng = random.Random(seed)
        self.names = 0
        self.duck, self.swing = duckdb.connect(), swingdb.connect()
        self.sizes = {}
        large = False
        for name, columns in TABLES.items():
            rows = self.rng.choice(SIZES[:-1] if large else SIZES)
            large |= rows > 100
            self.sizes[name] = rows
            self.make_table(name, columns, rows)

    def make_table(self, name, columns, rows):
        rng = self.rng
        spread = rng.choice([2, 4, 4, 12]) if rows < 100 else 1000
        nulls = rng.choice([0, 0.15, 0.4])
        one = lambda: None if rng.random() < nulls else rng.randint(0, spread)
        data = {"i": pa.array(range(rows), pa.int32())}
        data |= {c: pa.array([one() for _ in range(rows)], pa.int32()) for c in columns}
        data = pa.table(data)
        ddl = f"CREATE TABLE {name} ({', '.join(f'{c} INTEGER' for c in data.column_names)})"
        for con in (self.duck, self.swing):
            con.execute(ddl)
        for start in range(0, rows, 7000):
            self.swing.append(name, data.slice(start, 7000))
        self.duck.register("source", data)
        self.duck.execute(f"INSERT INTO {name} SELECT * FROM source")
        self.duck.unregister("source")

    # Small parts

    def pick(self, *choices):
        return self.rng.choice(choices)

    def chance(self, share):
        return self.rng.random() < share

    def fresh(self, what="x"):
        self.names += 1
        return f"{what}{self.names}"

    def number(self):
        return str(self.rng.randint(0, 4))

    def operator(self):
        return self.pick("=", "=", "=", "<", "<=", "<>", ">", "IS DISTINCT FROM",
                         "IS NOT DISTINCT FROM")

    def value(self, scope):
        """A column, mostly, or an expression of some."""
        column = lambda: self.rng.choice(scope.columns)
        return self.pick(
            column, column, column, column, self.number,
            lambda: f"({column()} + {column()})",
            lambda: f"coalesce({column()}, {self.number()})",
            lambda: f"nullif({column()}, {self.number()})",
            lambda: f"CASE WHEN {column()} > {self.number()} THEN {column()} END",
        )()

    # Conditions

    def condition(self, scope, depth=2, outer=None):
        """A condition about the columns of a scope, and of one outside."""
        v = lambda: self.value(scope)
        o = lambda: self.value(outer or scope)
        no = self.pick("", "", "NOT ")
        simple = [
            lambda: f"{v()} {self.operator()} {o()}",
            lambda: f"{v()} {self.operator()} {o()}",
            lambda: f"{v()} {self.operator()} {v()}",
            lambda: f"{v()} {self.operator()} {self.number()}",
            lambda: f"{v()} IS {no}NULL",
            lambda: f"{v()} {no}BETWEEN {self.number()} AND {o()}",
            lambda: f"{v()} {no}IN ({self.number()}, {o()}, {self.number()})",
            lambda: self.bounds(v()),
        ]
        if depth <= 0:
            return self.rng.choice(simple)()
        inner = lambda: f"({self.condition(scope, depth - 1, outer)})"
        return self.pick(
            *simple[:3],
            lambda: f"{inner()} AND {inner()}",
            lambda: f"{inner()} AND {inner()}",
            lambda: f"{inner()} OR {inner()}",
            lambda: f"NOT {inner()}",
            lambda: self.membership(scope, depth - 1),
            lambda: self.membership(scope, depth - 1),
            lambda: f"{v()} {self.operator()} {self.single(scope, depth - 1)}",
        )()

    def bounds(self, value):
        """Two bounds of a value that are often equal, each on either side."""
        number = self.number()
        type_ = self.pick("", "::BIGINT", "::DOUBLE")
        bound = lambda: self.pick(number, number, self.number()) + self.pick("", type_)
        one = lambda: self.pick(
            f"{value} {self.pick('<', '<=', '>', '>=')} {bound()}",
            f"{bound()} {self.pick('<', '<=', '>', '>=')} {value}",
        )
        return f"({one()} AND {one()})"

    def membership(self, scope, depth):
        no = self.pick("", "NOT ")
        if self.chance(0.5):
            return f"{no}EXISTS ({self.subquery(scope, depth)})"
        return f"{self.value(scope)} {no}IN ({self.subquery(scope, depth)})"

    def tied(self, inner, outer, depth):
        """A condition that ties a subquery to the rows outside, maybe by several columns."""
        ties = [
            f"{self.rng.choice(inner.columns)} {self.pick('=', '=', '=', '<', '<>')} "
            f"{self.rng.choice(outer.columns)}"
            for _ in range(self.pick(0, 1, 1, 2, 2))
        ]
        twins = self.twins(inner)
        if twins and self.chance(0.4):
            ties = [f"{twin} = {self.rng.choice(outer.columns)}" for twin in twins]
        if not ties or self.chance(0.4):
            ties.append(self.condition(inner, min(depth, 1), outer))
        return " AND ".join(ties)

    def twins(self, scope):
        """Columns of one name in different relations, if there are any."""
        named = {}
        for column in scope.columns:
            named.setdefault(column.split(".")[1], []).append(column)
        several = [columns for columns in named.values() if len(columns) > 1]
        return self.rng.choice(several) if several else []

    def subquery(self, outer, depth):
        """A query of one column that may depend on the rows outside."""
        table, inner = self.relation(min(depth, 1), few=True)
        if self.chance(0.4):
            other, more = self.table(few=True)
            table, inner = f"{table}, {other}", inner + more
        where = self.tied(inner, outer, depth)
        value = self.value(inner)
        return self.pick(
            lambda: f"SELECT {value} FROM {table} WHERE {where}",
            lambda: f"SELECT {value} FROM {table} WHERE {where}",
            lambda: f"SELECT DISTINCT {value} FROM {table} WHERE {where}",
            lambda: f"SELECT {value} FROM {table} WHERE {where} ORDER BY 1 {self.cut()}",
            lambda: f"SELECT {self.aggregate(inner)} FROM {table} WHERE {where}",
            lambda: f"SELECT {self.aggregate(inner)} FROM {table} WHERE {where} "
                    f"GROUP BY {self.grouping(inner)}",
            lambda: self.of_all_rows(table, inner, where),
            lambda: f"SELECT {self.rng.choice(inner.columns)} FROM {table} WHERE {where} "
                    f"UNION ALL SELECT {self.rng.choice(outer.columns)}",
        )()

    def of_all_rows(self, table, inner, where):
        """Aggregates of all rows, which have a row of none, below something else."""
        rows = f"FROM {table} WHERE {where}"
        value = self.aggregate(inner)
        having = f"{self.aggregate(inner)} {self.operator()} {self.number()}"
        return self.pick(
            lambda: f"SELECT {value} {rows} HAVING {having}",
            lambda: f"SELECT {self.number()} {rows} HAVING count(*) = 0",
            lambda: f"SELECT DISTINCT {value} {rows}",
            lambda: f"SELECT {value} {rows} ORDER BY 1 LIMIT 1",
            lambda: f"SELECT count(n) FROM (SELECT {value} AS n {rows}) q",
            lambda: f"SELECT n FROM (SELECT {value} AS n {rows}) q WHERE n <> {self.number()}",
        )()

    def single(self, outer, depth):
        """A subquery that is one value."""
        table, inner = self.relation(min(depth, 1), few=True)
        if self.chance(0.5):
            other, more = self.table(few=True)
            table, inner = f"{table}, {other}", inner + more
        where = self.tied(inner, outer, depth)
        if self.chance(0.6):
            return f"(SELECT {self.aggregate(inner)} FROM {table} WHERE {where})"
        if self.chance(0.4):
            return f"({self.of_all_rows(table, inner, where)})"
        order = f"ORDER BY 1 {self.direction()} LIMIT 1 {self.pick('', 'OFFSET 1')}"
        return f"(SELECT {self.value(inner)} FROM {table} WHERE {where} {order})"

    def aggregate(self, scope):
        column = self.rng.choice(scope.columns)
        return self.pick("count(*)", f"count({column})", f"sum({column})", f"max({column})",
                         f"min({column})", f"count(DISTINCT {column})")

    def grouping(self, scope):
        a, b = self.rng.choice(scope.columns), self.rng.choice(scope.columns)
        if a == b:
            return self.pick(a, f"ROLLUP ({a})")
        return self.pick(a, f"ROLLUP ({a})", f"ROLLUP ({a}, {b})", f"CUBE ({a}, {b})",
                         f"GROUPING SETS (({a}), ({b}))", f"GROUPING SETS (({a}), ())")

    # Relations

    def direction(self):
        return self.pick("ASC", "DESC") + self.pick(" NULLS FIRST", " NULLS LAST")

    def order(self, columns):
        """All columns, so that only equal rows are in any order."""
        columns = self.rng.sample(columns, len(columns))
        return ", ".join(f"{column} {self.direction()}" for column in columns)

    def cut(self):
        n, skip = self.rng.randint(0, 6), self.rng.randint(0, 3)
        return self.pick(f"LIMIT {n}", f"LIMIT {n}", f"LIMIT {n} OFFSET {skip}", f"OFFSET {skip}")

    def table(self, few=False):
        names = [name for name in TABLES if not few or self.sizes[name] <= 100]
        name = self.rng.choice(names or list(TABLES))
        columns = ["i", *TABLES[name]]
        if self.sizes[name] > 100 and (few or self.chance(0.5)):
            alias = self.fresh()
            return f"(SELECT * FROM {name} WHERE i % 997 < 3) AS {alias}", Rows(
                f"{alias}.{c}" for c in columns)
        alias = self.fresh()
        return f"{name} AS {alias}", Rows(f"{alias}.{c}" for c in columns)

    def relation(self, depth=2, few=False):
        """Something in FROM, and its columns."""
        if depth <= 0 or self.chance(0.3):
            return self.table(few)
        return self.pick(self.joined, self.joined, self.derived, self.derived, self.first_rows)(
            depth - 1)

    def named(self, sql, columns):
        """A derived table whose columns have few names, so that they are met again."""
        names = self.rng.sample(["i", "k", "v", "w", "n", "m", "o", "p", "q", "r"], columns)
        alias = self.fresh()
        return f"({sql}) AS {alias}({', '.join(names)})", Rows(f"{alias}.{n}" for n in names)

    def first_rows(self, _depth):
        """The first rows of tables as they were inserted."""
        names = [name for name in TABLES if self.sizes[name]]
        name = self.rng.choice(names or list(TABLES))
        columns = ["i", *TABLES[name]]
        sql = f"SELECT * FROM {name} {self.cut()}"
        if self.chance(0.3):
            other = self.rng.choice(list(TABLES))
            seven = "CAST(7 AS INTEGER)"
            sql = f"SELECT i, i FROM {name} UNION ALL SELECT i, {seven} FROM {other} {self.cut()}"
            columns = columns[:2]
        return self.named(sql, len(columns))

    def joined(self, depth):
        left, a = self.relation(depth, few=True)
        right, b = self.relation(depth - 1, few=True)
        if " JOIN " in right and not right.startswith("("):
            right = f"({right})"
        kind = self.pick("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN",
                         "SEMI JOIN", "ANTI JOIN", "lateral", "cross")
        if kind == "cross":
            return f"{left} CROSS JOIN {right}", a + b
        if kind == "lateral":
            alias = self.fresh()
            sql = self.pick(
                lambda: self.subquery(a, depth),
                lambda: f"SELECT {self.single(a, depth)}",
            )()
            join = self.pick(" CROSS JOIN LATERAL", " LEFT JOIN LATERAL")
            on = " ON true" if "LEFT" in join else ""
            return f"{left}{join} ({sql}) AS {alias}(z){on}", a + Rows([f"{alias}.z"])
        equal = lambda: self.pick("=", "=", "IS NOT DISTINCT FROM")
        pairs = [
            f"{self.rng.choice(a.columns)} {equal()} {self.rng.choice(b.columns)}"
            for _ in range(self.pick(1, 1, 2))
        ]
        if self.chance(0.3):
            pairs.append(f"{self.value(a)} {self.operator()} {self.value(b)}")
        scope = a if kind in ("SEMI JOIN", "ANTI JOIN") else a + b
        return f"{left} {kind} {right} ON {' AND '.join(pairs)}", scope

    def derived(self, depth):
        """A query in FROM, cut where all its rows are ordered."""
        sql, columns = self.select(depth)
        if self.chance(0.5):
            numbers = [str(n + 1) for n in range(columns)]
            sql = f"{sql} ORDER BY {self.order(numbers)} {self.cut()}"
        return self.named(sql, columns)

    # Queries

    def select(self, depth=2):
        """A query without ORDER BY, and how many columns it has."""
        table, scope = self.relation(depth)
        where = f" WHERE {self.condition(scope)}" if self.chance(0.6) else ""
        return self.pick(self.plain, self.plain, self.plain, self.grouped, self.windowed,
                         self.united)(table, scope, where)

    def plain(self, table, scope, where):
        count = self.rng.randint(1, 3)
        items = [self.value(scope) for _ in range(count)]
        if self.chance(0.25):
            items[0] = self.single(scope, 1)
        if self.chance(0.2):
            items[-1] = f"CAST(({self.membership(scope, 1)}) AS INT)"
        distinct = self.pick("", "", "DISTINCT ")
        return f"SELECT {distinct}{', '.join(items)} FROM {table}{where}", count

    def grouped(self, table, scope, where):
        aggregates = ", ".join(self.aggregate(scope) for _ in range(2))
        if self.chance(0.3):
            return f"SELECT {aggregates} FROM {table}{where}", 2
        having = f" HAVING count(*) > {self.number()}" if self.chance(0.3) else ""
        return f"SELECT {aggregates} FROM {table}{where} GROUP BY {self.grouping(scope)}{having}", 2

    def windowed(self, table, scope, where):
        """Windows in an order that leaves only equal rows open."""
        order = self.order(scope.columns)
        part = f"PARTITION BY {self.rng.choice(scope.columns)}"
        column = self.rng.choice(scope.columns)
        call = self.pick(
            "row_number()", "rank()", f"sum({column})", f"count({column})",
            f"lead({column}, {self.number()})", f"lag({column}, {self.number()})",
            f"lead({column}, {self.rng.randint(1, 3)}, -1 IGNORE NULLS)",
            f"lag({column}, {self.rng.randint(1, 3)}, -1 IGNORE NULLS)",
            f"first_value({column} IGNORE NULLS)", f"last_value({column} IGNORE NULLS)",
        )
        over, window = self.pick(
            (f"({part} ORDER BY {order})", ""),
            (f"(ORDER BY {order})", ""),
            (f"(p ORDER BY {order})", f" WINDOW p AS ({part})"),
            ("o", f" WINDOW p AS ({part}), o AS (p ORDER BY {order})"),
        )
        keep = f" QUALIFY row_number() OVER ({part} ORDER BY {order}) <= {self.number()}"
        keep = keep if self.chance(0.2) and not window else ""
        all_columns = ", ".join(scope.columns[:4])
        count = 1 + len(scope.columns[:4])
        return f"SELECT {call} OVER {over}, {all_columns} FROM {table}{where}{window}{keep}", count

    def united(self, table, scope, where):
        other, more = self.relation(1, few=True)
        operator = self.pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL",
                             "INTERSECT ALL")
        columns = self.rng.randint(1, 2)
        mine, theirs = ([self.value(s) for _ in range(columns)] for s in (scope, more))
        sql = f"SELECT {', '.join(mine)} FROM {table}{where} {operator} "
        return f"{sql}SELECT {', '.join(theirs)} FROM {other}", columns

    def query(self):
        """A whole query, and whether its rows come in a definite order."""
        sql, columns = self.select(self.rng.randint(1, 3))
        if self.chance(0.2):
            name = self.fresh("q")
            names = [f"n{n}" for n in range(columns)]
            scope = Rows(f"{name}.{n}" for n in names)
            body = self.plain(name, scope, f" WHERE {self.condition(scope, 1)}")
            twice = f"{name} JOIN {name} AS s ON {name}.n0 = s.n0"
            body = self.pick(body, self.grouped(twice, scope, ""))
            sql, columns = f"WITH {name}({', '.join(names)}) AS ({sql}) {body[0]}", body[1]
        if self.chance(0.4):
            numbers = [str(n + 1) for n in range(columns)]
            return f"{sql} ORDER BY {self.order(numbers)} {self.pick('', self.cut())}", True
        return sql, False

    # Comparison

    def answer(self, con, sql):
        """The rows, or the error."""
        try:
            return normal_rows(con.execute(sql).fetchall()), None
        except ERRORS as error:
            return None, error

    def compare(self, sql, ordered):
        expected, their_error = self.answer(self.duck, sql)
        if their_error is not None and str(their_error).startswith(THEIRS):
            return "both failed", None
        found, our_error = self.answer(self.swing, sql)
        failed = failures_differ(their_error, our_error)
        if failed is not None:
            return failed, None
        if not ordered:
            expected, found = sorted(expected), sorted(found)
        return rows_differ(expected, found)

    def partitioned(self):
        """What three-valued logic says of a query and a condition, in SwingDB alone."""
        table, scope = self.relation(2)
        where = self.condition(scope)
        columns = ", ".join(scope.columns[:3])
        sql = f"SELECT {columns} FROM {table}"
        parts = [f"{sql} WHERE {p}" for p in (where, f"NOT ({where})", f"({where}) IS NULL")]
        whole, error = self.answer(self.swing, sql)
        found = []
        for part in parts:
            rows, failed = self.answer(self.swing, part)
            error = error or failed
            found += rows or []
        if error is not None:
            return parts[0], f"failed: {error}", None
        what, detail = rows_differ(sorted(whole), sorted(found))
        if what is None:
            counted = f"SELECT count(*) FROM {table} WHERE {where}"
            summed = f"SELECT coalesce(sum(CASE WHEN {where} THEN 1 ELSE 0 END), 0) FROM {table}"
            (one, error), (other, failed) = (self.answer(self.swing, s) for s in (counted, summed))
            if error or failed:
                return summed, f"failed: {error or failed}", None
            what, detail = rows_differ(one, other)
            return counted, what and "count and sum differ", detail
        return parts[0], "parts are not the whole", detail

    def change(self):
        """A statement that changes a table, which is then compared, and rolled back."""
        name = self.rng.choice(list(TABLES))
        scope = Rows(f"{name}.{c}" for c in ("i", *TABLES[name]))
        column = self.rng.choice(TABLES[name])
        sql = self.pick(
            lambda: f"DELETE FROM {name} WHERE {self.condition(scope)}",
            lambda: f"DELETE FROM {name} WHERE {self.condition(scope)}",
            lambda: f"UPDATE {name} SET {column} = {self.single(scope, 1)} "
                    f"WHERE {self.condition(scope)}",
            lambda: f"UPDATE {name} SET {column} = {self.value(scope)} "
                    f"WHERE {self.membership(scope, 1)}",
            lambda: f"INSERT INTO {name} (i, {column}) {self.pairs()}",
        )()
        columns = ", ".join(("i", *TABLES[name]))
        outcomes = []
        for con in (self.duck, self.swing):
            con.execute("BEGIN")
            try:
                con.execute(sql)
                outcomes.append((sorted(normal_rows(
                    con.execute(f"SELECT {columns} FROM {name}").fetchall())), None))
            except ERRORS as error:
                outcomes.append((None, error))
            con.execute("ROLLBACK")
        (expected, their_error), (found, our_error) = outcomes
        if their_error is not None and str(their_error).startswith(THEIRS):
            return sql, "both failed", None
        failed = failures_differ(their_error, our_error)
        if failed is not None:
            return sql, failed, None
        return sql, *rows_differ(expected, found)

    def pairs(self):
        """A query of two columns."""
        table, scope = self.relation(2)
        where = self.condition(scope)
        return f"SELECT {self.value(scope)}, {self.value(scope)} FROM {table} WHERE {where}"

    def step(self):
        """One statement, or a few about one; what is wrong."""
        kind = self.rng.random()
        if kind < 0.15:
            return self.partitioned()
        if kind < 0.35:
            return self.change()
        sql, ordered = self.query()
        return sql, *self.compare(sql, ordered)


def main():
    """Compares as the command line says, for some minutes if it says so."""
    parsed = differences.options(__doc__, runs=10, steps=100, minutes=True)
    end = time.monotonic() + 60 * parsed.minutes
    seeds = iter(parsed.seeds)
    seen = differences.compare(Run, seeds, parsed.steps, parsed.go_on)
    seed = parsed.seeds[-1] + 1
    while time.monotonic() < end:
        seen += differences.compare(Run, [seed], parsed.steps, parsed.go_on)
        seed += 1
    print(f"seeds up to {seed - 1}")
    for kind, count in seen.most_common():
        print(f"{count:6} {kind}")
    sys.exit(any(kind.startswith("WRONG") for kind in seen))


if __name__ == "__main__":
    main()
