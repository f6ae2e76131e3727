"""Random queries over random tables, on SwingDB and on DuckDB, compared value by value.

Tables have columns of many types with NULLs. Queries are built from typed expressions: joins of
every kind, grouping with DISTINCT, FILTER and ROLLUP, windows with frames, common table
expressions, set operations, correlated subqueries, CASE, casts, LIKE, functions of text and dates,
ORDER BY with NULLS FIRST and LAST, LIMIT. Only what means the same in both engines is generated;
docs/sql.md lists what does not.

    python tests/oracle/random_select.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb, duckdb and pyarrow. The seed is printed, so that a difference can be
replayed. Compared are the rows (as a list under a total ORDER BY, else as a multiset), or that both
engines fail. A query that SwingDB refuses as not supported is counted, not taken for a difference.
"""

import datetime
import decimal
import random

import differences
import duckdb
import pyarrow as pa
import swingdb
from differences import ERRORS, failures_differ, normal_rows, rows_differ

TYPES = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(),
    "BIGINT": pa.int64(), "UTINYINT": pa.uint8(), "UINTEGER": pa.uint32(), "REAL": pa.float32(),
    "DOUBLE": pa.float64(), "DECIMAL(9, 2)": pa.decimal128(9, 2), "VARCHAR": pa.string(),
    "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"), "TIME": pa.time64("us"),
}
#: What an expression can be of; columns of other types are turned into one of these.
KINDS = ("bool", "int", "double", "decimal", "text", "date", "timestamp")
KIND_OF = {
    "BOOLEAN": "bool", "TINYINT": "int", "SMALLINT": "int", "INTEGER": "int", "BIGINT": "int",
    "UTINYINT": "int", "UINTEGER": "int", "REAL": "double", "DOUBLE": "double",
    "DECIMAL(9, 2)": "decimal", "VARCHAR": "text", "DATE": "date", "TIMESTAMP": "timestamp",
    "TIME": "time",
}
WORDS = ["", "a", "b", "ab", "aB", "Abba", "Ä", "it's", "50%", "a_b", "longer than twelve bytes",
         "longer than that", "ünïcödé", " x ", "-7", "12"]
PATTERNS = ["a%", "%b", "%a%", "_", "a_b", "%", "", "longer%", "%th_t%", "Ä%", "%bb%"]
EXPRESSIONS = ["a", "^a", "b$", "[ab]+", "l.*t", "(th|x)", "^$", "\\d", "[[:upper:]]"]
FIRST_DAY = datetime.date(2019, 12, 20)
FIRST_TIME = datetime.datetime(2019, 12, 30, 22, 15)


def values(rng, name, rows):
    """A column of a type, with a share of NULLs of its own and few different values."""
    nulls = rng.choice([0, 0.1, 0.4])
    spread = rng.choice([3, 12, 1000])

    def one():
        if name == "BOOLEAN":
            return rng.random() < 0.5
        if KIND_OF[name] == "int":
            return rng.randint(0, min(spread, 100)) - (0 if name[0] == "U" else 3)
        if KIND_OF[name] == "double":
            return rng.randint(-spread, spread) / 8
        if name == "VARCHAR":
            return rng.choice(WORDS)
        if name == "DATE":
            return FIRST_DAY + datetime.timedelta(rng.randint(0, spread))
        if name == "TIMESTAMP":
            return FIRST_TIME + datetime.timedelta(seconds=rng.randint(0, spread) * 5003)
        if name == "TIME":
            return datetime.time(rng.randint(0, 23), rng.randint(0, 59), 7)
        return decimal.Decimal(rng.randint(-spread, spread)) / 4

    return pa.array([None if rng.random() < nulls else one() for _ in range(rows)], TYPES[name])


class Scope:
    """The columns an expression may use: (SQL, kind)."""

    def __init__(self, columns):
        self.columns = list(columns)

    def of(self, kind):
        return [sql for sql, k in self.columns if k == kind]

    def __add__(self, other):
        return Scope(self.columns + other.columns)


class Run:
    """Tables of one seed and the queries over them."""

    def __init__(self, seed):
        self.seed = seed
        self.rng = random.Random(seed)
        self.duck, self.swing = duckdb.connect(), swingdb.connect()
        self.duck.execute("SET TimeZone = 'UTC'")
        self.tables = {}
        self.alias = 0
        for name in ("t", "u", "v"):
            self.make_table(name, self.rng.choice([0, 1, 7, 40, 40, 300]))

    def make_table(self, name, rows):
        rng = self.rng
        types = ["INTEGER", "VARCHAR", *rng.sample(sorted(TYPES), rng.randint(2, 7))]
        names = [f"c{i}" for i in range(len(types))]
        data = pa.table([values(rng, t, rows) for t in types], names=names)
        ddl = ", ".join(f"{n} {t}" for n, t in zip(names, types))
        self.swing.execute(f"CREATE TABLE {name} ({ddl})")
        for start in range(0, rows, 17):
            self.swing.append(name, data.slice(start, 17))
        self.duck.execute(f"CREATE TABLE {name} ({ddl})")
        self.duck.register("source", data)
        self.duck.execute(f"INSERT INTO {name} SELECT * FROM source")
        self.duck.unregister("source")
        self.tables[name] = [(n, KIND_OF[t]) for n, t in zip(names, types)]

    # Expressions

    def pick(self, *choices):
        return self.rng.choice(choices)

    def fresh(self):
        self.alias += 1
        return f"x{self.alias}"

    def expr(self, kind, scope, depth=2):
        """An expression of a kind, with columns of the scope."""
        known = scope.of(kind)
        if depth <= 0 or self.rng.random() < 0.25:
            if known and self.rng.random() < 0.8:
                return self.rng.choice(known)
            return self.literal(kind)
        if self.rng.random() < 0.15:
            return self.generic(kind, scope, depth)
        return getattr(self, f"expr_{kind}")(scope, depth - 1)

    def literal(self, kind):
        rng = self.rng
        if rng.random() < 0.05:
            name = {"bool": "BOOLEAN", "int": "INTEGER", "double": "DOUBLE", "text": "VARCHAR",
                    "decimal": "DECIMAL(9, 2)", "date": "DATE", "timestamp": "TIMESTAMP"}[kind]
            return f"CAST(NULL AS {name})"
        if kind == "bool":
            return self.pick("TRUE", "FALSE")
        if kind == "int":
            return str(rng.randint(0, 12))
        if kind == "double":
            return f"CAST({rng.randint(-40, 40) / 8} AS DOUBLE)"
        if kind == "decimal":
            return f"CAST({rng.randint(-900, 900) / 100} AS DECIMAL(9, 2))"
        if kind == "text":
            return "'" + rng.choice(WORDS).replace("'", "''") + "'"
        if kind == "date":
            return f"DATE '{FIRST_DAY + datetime.timedelta(rng.randint(0, 30))}'"
        return f"TIMESTAMP '{FIRST_TIME + datetime.timedelta(hours=rng.randint(0, 90))}'"

    def generic(self, kind, scope, depth):
        e = lambda: self.expr(kind, scope, depth - 1)
        c = lambda: self.expr("bool", scope, depth - 1)
        return self.pick(
            lambda: f"CASE WHEN {c()} THEN {e()} ELSE {e()} END",
            lambda: f"CASE WHEN {c()} THEN {e()} WHEN {c()} THEN {e()} END",
            lambda: f"coalesce({e()}, {e()})",
            lambda: f"nullif({e()}, {e()})",
            lambda: f"CASE {e()} WHEN {e()} THEN {e()} ELSE {e()} END",
            lambda: f"greatest({e()}, {e()})" if kind != "bool" else e(),
            lambda: f"least({e()}, {e()}, {e()})" if kind != "bool" else e(),
            lambda: self.scalar_subquery(kind, scope),
        )()

    def expr_bool(self, scope, depth):
        rng = self.rng
        kind = rng.choice(KINDS[1:])
        e = lambda k=kind: self.expr(k, scope, depth)
        operator = self.pick("<", "<=", "=", "<>", ">", ">=")
        no = self.pick("", "NOT ")
        return self.pick(
            lambda: f"({e()} {operator} {e()})",
            lambda: f"({e()} {operator} {e()})",
            lambda: f"({e()} {no}BETWEEN {e()} AND {e()})",
            lambda: f"({e()} {no}IN ({e()}, {e()}, {e()}))",
            lambda: f"({e()} IS {no}NULL)",
            lambda: f"({e()} IS {no}DISTINCT FROM {e()})",
            lambda: f"({e('text')} {no}{self.pick('LIKE', 'ILIKE')} '{rng.choice(PATTERNS)}')",
            lambda: f"regexp_matches({e('text')}, '{rng.choice(EXPRESSIONS)}')",
            lambda: f"starts_with({e('text')}, {e('text')})",
            lambda: f"contains({e('text')}, {e('text')})",
            lambda: f"({e('bool')} AND {e('bool')})",
            lambda: f"({e('bool')} OR {e('bool')})",
            lambda: f"(NOT {e('bool')})",
            lambda: f"({e('bool')} IS {no}{self.pick('TRUE', 'FALSE')})",
            lambda: self.predicate(scope),
        )()

    def expr_int(self, scope, depth):
        e = lambda k="int": self.expr(k, scope, depth)
        part = self.pick("year", "month", "day", "doy", "dow", "isodow", "week", "quarter")
        unit = self.pick("day", "week", "month", "quarter", "year", "decade")
        return self.pick(
            lambda: f"({e()} {self.pick('+', '-')} {e()})",
            lambda: f"(({e()} % 50) * ({e()} % 50))",
            lambda: f"({e()} % {self.rng.randint(2, 9)})",
            lambda: f"abs({e()})",
            lambda: f"(0 - {e()})",
            lambda: f"length({e('text')})",
            lambda: f"strpos({e('text')}, {e('text')})",
            lambda: f"ascii({e('text')})",
            lambda: f"CAST(extract({part} FROM {e(self.pick('date', 'timestamp'))}) AS BIGINT)",
            lambda: f"CAST(extract(hour FROM {e('timestamp')}) AS BIGINT)",
            lambda: f"date_diff('{unit}', {e('date')}, {e('date')})",
            lambda: f"CAST({e('bool')} AS INTEGER)",
            lambda: f"CAST({e('double')} AS BIGINT)",
            lambda: f"CAST({e('decimal')} AS INTEGER)",
            lambda: f"TRY_CAST(replace({e('text')}, '.', 'z') AS INTEGER)",
            lambda: f"({e()} & {e()})",
            lambda: f"({e('date')} - {e('date')})",
        )()

    def expr_double(self, scope, depth):
        e = lambda k="double": self.expr(k, scope, depth)
        return self.pick(
            # `+ 0`: DuckDB does not sort one zero before the other.
            lambda: f"({e()} {self.pick('+', '-', '*')} {e()} + 0)",
            lambda: f"({e()} / nullif({e()}, 0) + 0)",
            lambda: f"abs({e()})",
            lambda: f"({self.pick('floor', 'ceil')}({e()}) + 0)",
            lambda: f"sqrt(abs({e()}))",
            lambda: f"CAST({e('int')} AS DOUBLE)",
            lambda: f"CAST({e('decimal')} AS DOUBLE)",
            lambda: f"(0 - {e()})",
            lambda: f"(round({e()}, 1) + 0)",
            lambda: f"(TRY_CAST({e('text')} AS DOUBLE) + 0)",
        )()

    def expr_decimal(self, scope, depth):
        e = lambda k="decimal": self.expr(k, scope, depth)
        return self.pick(
            lambda: f"CAST({e()} {self.pick('+', '-')} {e()} AS DECIMAL(18, 2))",
            lambda: f"CAST({e('int')} % 1000 AS DECIMAL(9, 2))",
            lambda: f"abs({e()})",
            lambda: f"(-{e()})",
        )()

    def expr_text(self, scope, depth):
        e = lambda k="text": self.expr(k, scope, depth)
        rng = self.rng
        return self.pick(
            lambda: f"({e()} || {e()})",
            lambda: f"concat({e()}, {e()})",
            lambda: f"{self.pick('lower', 'upper', 'trim', 'reverse', 'ltrim', 'rtrim')}({e()})",
            lambda: f"substr({e()}, {rng.randint(1, 4)}, {rng.randint(0, 5)})",
            lambda: f"{self.pick('left', 'right')}({e()}, {rng.randint(0, 4)})",
            lambda: f"replace({e()}, {self.literal('text')}, {self.literal('text')})",
            lambda: f"regexp_replace({e()}, '{rng.choice(EXPRESSIONS)}', '#')",
            lambda: f"split_part({e()}, '{self.pick('a', ' ', 'b')}', {rng.randint(1, 3)})",
            lambda: f"lpad({e()}, {rng.randint(0, 8)}, 'xy')",
            lambda: f"CAST({e(self.pick('int', 'bool', 'date', 'decimal'))} AS VARCHAR)",
            lambda: f"repeat({e()}, {rng.randint(0, 2)})",
            lambda: f"concat_ws('-', {e()}, {e()})",
        )()

    def expr_date(self, scope, depth):
        e = lambda k="date": self.expr(k, scope, depth)
        rng = self.rng
        return self.pick(
            lambda: f"CAST({e('timestamp')} AS DATE)",
            lambda: f"CAST({e()} + INTERVAL '{rng.randint(-3, 40)} days' AS DATE)",
            lambda: f"CAST({e()} + INTERVAL '{rng.randint(-13, 13)} months' AS DATE)",
            lambda: f"CAST(date_trunc('{self.pick('month', 'week', 'year')}', {e()}) AS DATE)",
            lambda: f"last_day({e()})",
            lambda: f"({e()} + {rng.randint(0, 9)})",
        )()

    def expr_timestamp(self, scope, depth):
        e = lambda k="timestamp": self.expr(k, scope, depth)
        unit = self.pick("hour", "day", "month", "quarter", "minute")
        return self.pick(
            lambda: f"date_trunc('{unit}', {e()})",
            lambda: f"({e()} {self.pick('+', '-')} INTERVAL '{self.rng.randint(0, 99)} hours')",
            lambda: f"CAST({e('date')} AS TIMESTAMP)",
        )()

    # Subqueries

    def inner_table(self):
        name = self.rng.choice(sorted(self.tables))
        alias = self.fresh()
        return f"{name} AS {alias}", Scope((f"{alias}.{c}", k) for c, k in self.tables[name])

    def correlation(self, inner, outer):
        kind = self.pick("int", "text")
        if inner.of(kind) and outer.of(kind):
            pair = self.rng.choice(inner.of(kind)), self.rng.choice(outer.of(kind))
            return f"{pair[0]} = {pair[1]}"
        return "TRUE"

    def scalar_subquery(self, kind, scope):
        table, inner = self.inner_table()
        aggregate = {
            "int": "max", "bool": "bool_and", "double": "min", "text": "max", "decimal": "sum",
            "date": "min", "timestamp": "max",
        }[kind]
        value = self.expr(kind, inner, 1)
        where = self.expr("bool", inner, 1)
        if self.rng.random() < 0.5:
            where = f"{self.correlation(inner, scope)} AND {where}"
        sql = f"(SELECT {aggregate}({value}) FROM {table} WHERE {where})"
        return f"CAST({sql} AS DECIMAL(18, 2))" if kind == "decimal" else sql

    def predicate(self, scope):
        table, inner = self.inner_table()
        no = self.pick("", "NOT ")
        where = self.expr("bool", inner, 1)
        if self.rng.random() < 0.5:
            where = f"{self.correlation(inner, scope)} AND {where}"
        kind = self.pick("int", "text", "date")
        return self.pick(
            f"{no}EXISTS (SELECT 1 FROM {table} WHERE {where})",
            f"({self.expr(kind, scope, 1)} {no}IN "
            f"(SELECT {self.expr(kind, inner, 1)} FROM {table} WHERE {where}))",
        )

    # Queries

    def source(self, depth=2):
        """A FROM clause and its scope."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.4:
            return self.inner_table()
        if rng.random() < 0.25:
            sql, kinds = self.select(depth - 1)
            alias = self.fresh()
            names = [f"n{i}" for i in range(len(kinds))]
            scope = Scope((f"{alias}.{n}", k) for n, k in zip(names, kinds))
            return f"({sql}) AS {alias}({', '.join(names)})", scope
        left, a = self.source(depth - 1)
        right, b = self.inner_table()
        join = self.pick("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
        if join == "CROSS JOIN":
            few, names = self.fresh(), {sql.split(".")[1]: kind for sql, kind in b.columns}
            b = Scope((f"{few}.{name}", kind) for name, kind in names.items())
            few = f"(SELECT * FROM {right} ORDER BY ALL LIMIT 2) AS {few}"
            return f"{left} CROSS JOIN {few}", a + b
        condition = self.correlation(a, b)
        if condition == "TRUE" or rng.random() < 0.3:
            kind = self.pick("int", "double", "date", "text")
            operator = self.pick("<", ">=", "=")
            condition += f" AND {self.expr(kind, a, 1)} {operator} {self.expr(kind, b, 1)}"
        return f"{left} {join} {right} ON {condition}", a + b

    def columns(self, scope, count, depth=2):
        kinds = [self.rng.choice(KINDS) for _ in range(count)]
        return [self.expr(kind, scope, depth) for kind in kinds], kinds

    def select(self, depth=1):
        """A query without ORDER BY, and the kinds of its columns."""
        table, scope = self.source(depth)
        where = f" WHERE {self.expr('bool', scope)}" if self.rng.random() < 0.6 else ""
        return self.pick(
            self.plain, self.plain, self.grouped, self.grouped, self.windowed, self.united
        )(table, scope, where)

    def plain(self, table, scope, where):
        sqls, kinds = self.columns(scope, self.rng.randint(1, 4))
        distinct = self.pick("", "", "DISTINCT ")
        return f"SELECT {distinct}{', '.join(sqls)} FROM {table}{where}", kinds

    def united(self, table, scope, where):
        sqls, kinds = self.columns(scope, self.rng.randint(1, 3), 1)
        other, inner = self.inner_table()
        others = [self.expr(kind, inner, 1) for kind in kinds]
        operator = self.pick("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL",
                             "INTERSECT ALL")
        sql = f"SELECT {', '.join(sqls)} FROM {table}{where}"
        return f"{sql} {operator} SELECT {', '.join(others)} FROM {other}", kinds

    def aggregate(self, scope):
        rng = self.rng
        e = lambda kind, depth=1: self.expr(kind, scope, depth)
        kind = self.rng.choice(KINDS[1:])
        distinct = self.pick("", "", "DISTINCT ")
        column = rng.choice(scope.of("text") or ["upper('a')"])
        sql, result = rng.choice((
            ("count(*)", "int"),
            (f"count({distinct}{e(kind)})", "int"),
            (f"sum({distinct}{e('int')} % 1000)", "int"),
            (f"sum({distinct}{e('double')})", "double"),
            (f"avg({e(self.pick('int', 'double'))})", "double"),
            (f"min({e(kind)})", kind),
            (f"max({e(kind)})", kind),
            (f"bool_and({e('bool')})", "bool"),
            (f"bool_or({e('bool')})", "bool"),
            (f"median({e('double')})", "double"),
            (f"stddev({e('int')} % 1000)", "double"),
            (f"var_pop({e('int')} % 1000)", "double"),
            (f"CAST(sum({e('decimal')}) AS DECIMAL(18, 2))", "decimal"),
            ("string_agg({0}, '+' ORDER BY {0})".format(column), "text"),
        ))
        if self.rng.random() < 0.25 and not sql.startswith("CAST"):
            sql += f" FILTER (WHERE {e('bool')})"
        return sql, result

    def grouped(self, table, scope, where):
        rng = self.rng
        keys, kinds = self.columns(scope, rng.randint(0, 2), 1)
        aggregates = [self.aggregate(scope) for _ in range(rng.randint(1, 3))]
        kinds += [kind for _, kind in aggregates]
        sql = f"SELECT {', '.join(keys + [a for a, _ in aggregates])} FROM {table}{where}"
        if keys:
            numbers = ", ".join(str(i + 1) for i in range(len(keys)))
            columns = [k for k in keys if k in dict(scope.columns)]
            if len(columns) == len(set(keys)) == len(keys) and rng.random() < 0.3:
                numbers = self.pick(f"ROLLUP ({', '.join(keys)})", f"CUBE ({', '.join(keys)})")
            sql += f" GROUP BY {numbers}"
        if rng.random() < 0.3:
            sql += f" HAVING count(*) {self.pick('>', '<', '=')} {rng.randint(0, 5)}"
        return sql, kinds

    def window(self, scope):
        """OVER (...) with an order that leaves no ties open, but for frames by RANGE and GROUPS."""
        rng = self.rng
        every = [sql for sql, _ in scope.columns]
        partition = f"PARTITION BY {rng.choice(every)} " if rng.random() < 0.6 else ""
        order = ", ".join(f"{sql} {self.order()}" for sql in rng.sample(every, len(every)))
        start = self.pick("UNBOUNDED PRECEDING", f"{rng.randint(0, 3)} PRECEDING", "CURRENT ROW")
        end = self.pick("UNBOUNDED FOLLOWING", f"{rng.randint(0, 3)} FOLLOWING", "CURRENT ROW")
        frame = self.pick("", f" ROWS BETWEEN {start} AND {end}")
        numbers = scope.of("int")
        if numbers and rng.random() < 0.3:
            order = f"{rng.choice(numbers)} {self.order()}"
            bounds = f"BETWEEN {start} AND {end}"
            frame = self.pick(f" RANGE {bounds}", f" GROUPS {bounds}", "")
            return f"({partition}ORDER BY {order}{frame})", False
        return f"({partition}ORDER BY {order}{frame})", True

    def windowed(self, table, scope, where):
        """Window functions; one at most whose value differs between rows that are equal."""
        rng = self.rng
        sqls, kinds = self.columns(scope, rng.randint(1, 2), 1)
        single = False
        for _ in range(rng.randint(1, 2)):
            window, total = self.window(scope)
            rows, framed = "ROWS" in window, " BETWEEN " in window
            if rows and single:
                continue
            kind = rng.choice(KINDS[1:])
            e = lambda k: self.expr(k, scope, 1)
            choices = [
                (f"sum({e('int')} % 1000)", "int"), (f"count({e(kind)})", "int"),
                (f"min({e(kind)})", kind), (f"max({e(kind)})", kind),
                (f"avg({e('int')} % 1000)", "double"), ("count(*)", "int"),
            ]
            if not framed:
                choices += [
                    ("rank()", "int"), ("dense_rank()", "int"), ("percent_rank()", "double"),
                    ("cume_dist()", "double"),
                ]
            if total and not single:
                choices += [
                    (f"first_value({e(kind)})", kind), (f"last_value({e(kind)})", kind),
                    (f"nth_value({e(kind)}, {rng.randint(1, 3)})", kind),
                ]
                if not rows:
                    choices += [
                        (f"lag({e(kind)}, {rng.randint(0, 2)})", kind),
                        (f"lead({e(kind)}, 1, {self.literal(kind)})", kind),
                        ("row_number()", "int"), (f"ntile({rng.randint(1, 4)})", "int"),
                    ]
            place = rng.randrange(len(choices))
            single |= rows or place >= 10
            sql, result = choices[place]
            sqls.append(f"{sql} OVER {window}")
            kinds.append(result)
        return f"SELECT {', '.join(sqls)} FROM {table}{where}", kinds

    def order(self):
        return self.pick("ASC", "DESC") + self.pick(" NULLS FIRST", " NULLS LAST")

    def query(self):
        """A whole query, and whether its rows come in a definite order."""
        rng = self.rng
        sql, kinds = self.select(rng.randint(0, 2))
        if rng.random() < 0.25:
            names = ", ".join(f"n{i}" for i in range(len(kinds)))
            name = self.fresh()
            scope = Scope((f"{name}.n{i}", kind) for i, kind in enumerate(kinds))
            where = f" WHERE {self.expr('bool', scope)}"
            twice = f"(SELECT * FROM {name} UNION ALL SELECT * FROM {name}) AS {name}"
            within = f"(SELECT * FROM {name} WHERE n0 IN (SELECT n0 FROM {name})) AS {name}"
            table = self.pick(name, name, twice, within)
            outer, kinds = self.pick(self.plain, self.grouped)(table, scope, where)
            sql = f"WITH {name}({names}) AS ({sql}) {outer}"
        if rng.random() < 0.5:
            numbers = list(range(1, len(kinds) + 1))
            rng.shuffle(numbers)
            sql += " ORDER BY " + ", ".join(f"{n} {self.order()}" for n in numbers)
            if rng.random() < 0.6:
                sql += f" LIMIT {rng.randint(0, 20)}"
                if rng.random() < 0.5:
                    sql += f" OFFSET {rng.randint(0, 9)}"
            return sql, True
        return sql, False

    # Comparison

    def answer(self, con, sql):
        """The rows, or the error."""
        try:
            return normal_rows(con.execute(sql).fetchall()), None
        except ERRORS as error:
            return None, error

    def compare(self, sql, ordered):
        """What is different, and details."""
        expected, their_error = self.answer(self.duck, sql)
        found, our_error = self.answer(self.swing, sql)
        failed = failures_differ(their_error, our_error)
        if failed is not None:
            return failed, None
        if not ordered:
            expected, found = sorted(expected), sorted(found)
        return rows_differ(expected, found)

    def step(self):
        """A query; what is different in its answers."""
        sql, ordered = self.query()
        return sql, *self.compare(sql, ordered)


if __name__ == "__main__":
    differences.main(__doc__, Run)
