"""Random queries over a large table in every form that a query can take, against DuckDB.

The table has several segments and commits, a key, columns that are constant, sorted, or of few
values, NULLs, deleted and updated rows, a column that was added later. Conditions, first rows,
groups, joins and selects by key are each asked as they are, after the same text with other
constants (whose plan is kept), with parameters, PREPARE, through a view, a subquery, a temporary
table, INSERT, with one thread, with little memory, in a snapshot, in a transaction that has changed
the table and undone that, and after the database has been read again from its store.

    python tests/oracle/random_forms.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import datetime
import decimal
import random
import re
import shutil
import tempfile

import differences
import duckdb
import swingdb
from differences import ERRORS, failures_differ, normal_rows, rows_differ

WORDS = ["", "a", "b", "ab", "longer than twelve bytes", "Ä"]
START = datetime.datetime(2024, 1, 1)
#: The columns of `t`: kind, and how the value of row `i` is computed in both engines.
COLUMNS = {
    "id": ("int", "BIGINT", "i"),
    "c": ("int", "INTEGER", "7"),
    "few": ("text", "VARCHAR", "CASE i * 7919 % 11 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN"
            " 'ab' WHEN 3 THEN 'longer than twelve bytes' WHEN 4 THEN 'Ä' ELSE 'w' || (i % 3) END"),
    "s": ("int", "INTEGER", "i // 1000"),
    "r": ("int", "INTEGER", "CASE WHEN i * 31 % 17 = 0 THEN NULL ELSE i * 7907 % 1009 END"),
    "x": ("double", "DOUBLE", "CASE i * 13 % 29 WHEN 0 THEN NULL WHEN 1 THEN 'NaN'::DOUBLE WHEN 2"
          " THEN 'inf'::DOUBLE ELSE (i * 7927 % 2003 - 1000) / 8.0::DOUBLE END"),
    "dec": ("decimal", "DECIMAL(12, 2)", "(i * 7933 % 4001 - 2000) * 0.25"),
    "ts": ("time", "TIMESTAMP", "TIMESTAMP '2024-01-01' + to_seconds(i * 60)"),
    "u": ("text", "VARCHAR", "'text ' || (i * 7949 % 65537)"),
    "nul": ("int", "INTEGER", "CASE WHEN i >= 100000 AND i < 140000 THEN i % 5 END"),
}


class Forms:
    """A table of one seed, and queries that are asked in several forms."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.folder = tempfile.mkdtemp()
        self.name = f"forms{seed}_{random.SystemRandom().randrange(2**32)}"
        self.duck = duckdb.connect()
        self.swing = swingdb.connect(self.name, store=f"{self.folder}/store")
        self.duck.execute("SET TimeZone = 'UTC'")
        self.names = 0
        self.make()

    def __del__(self):
        self.swing.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # The table

    def both(self, sql):
        for con in (self.duck, self.swing):
            con.execute(sql)

    def make(self):
        rng = self.rng
        key = rng.choice(["", " PRIMARY KEY"])
        columns = ", ".join(
            f"{name} {of}{key if name == 'id' else ''}" for name, (_, of, _) in COLUMNS.items())
        self.columns = {name: kind for name, (kind, *_) in COLUMNS.items()}
        self.both(f"CREATE TABLE t ({columns})")
        self.both("CREATE TABLE small (k INTEGER, word VARCHAR, x DOUBLE)")
        for _ in range(rng.choice([0, 3, 40])):
            k = rng.choice(["NULL", str(rng.randrange(1100))])
            self.both(f"INSERT INTO small VALUES ({k}, '{rng.choice(WORDS)}', {rng.random()})")
        start = 0
        for rows in rng.choice([(150_000, 20_000), (40_000, 100_000, 50_000), (9000,), (300_000,)]):
            values = ", ".join(
                f"({value})::{of} AS {name}" for name, (_, of, value) in COLUMNS.items())
            self.both(f"INSERT INTO t SELECT {values} FROM range({start}, {start + rows}) AS q(i)")
            start += rows
        self.rows = start
        for _ in range(rng.randint(0, 4)):
            self.change()
        if rng.random() < 0.5:
            self.both("ALTER TABLE t ADD COLUMN late INTEGER DEFAULT 5")
            self.both("UPDATE t SET late = id % 4 WHERE id % 3 = 1")
            self.columns["late"] = "int"

    def change(self):
        rng = self.rng
        low = rng.randrange(self.rows)
        high = low + rng.choice([1, 100, 5000, 140_000])
        part = rng.choice([f"id BETWEEN {low} AND {high}", f"id % {rng.randint(2, 9)} = 1",
                           "few = 'ab'", "r IS NULL", f"s = {rng.randrange(100)}"])
        self.both(rng.choice([
            f"DELETE FROM t WHERE {part}",
            f"UPDATE t SET r = r + 1, few = 'b' WHERE {part}",
            f"UPDATE t SET x = NULL, s = s + 50 WHERE {part}",
            f"UPDATE t SET dec = dec * 2, u = u || '!' WHERE {part}",
            f"INSERT INTO t SELECT * REPLACE (id + {self.rows * 10 + high} AS id) FROM t"
            f" WHERE id >= {low} ORDER BY id LIMIT 700",
        ]))

    # Queries, with constants as {n}

    def constant(self, kind, column=None):
        rng = self.rng
        value = {
            "int": lambda: rng.choice([rng.randint(-2, 12), rng.randint(0, 1100),
                                       rng.randrange(self.rows)]),
            "text": lambda: rng.choice([*WORDS, "w0", "w1", f"text {rng.randrange(65537)}"]),
            "double": lambda: rng.choice([rng.randint(-1000, 1000) / 8, 0.0]),
            "decimal": lambda: decimal.Decimal(rng.randint(-2000, 2000)) / 4,
            "time": lambda: START + datetime.timedelta(minutes=rng.randrange(self.rows)),
        }[kind]()
        self.constants.append(value)
        return f"{{{len(self.constants) - 1}}}"

    def column(self, *kinds):
        return self.rng.choice([n for n, k in self.columns.items() if not kinds or k in kinds])

    def condition(self, depth=2):
        rng = self.rng
        name = self.column()
        of = self.columns[name]
        k = lambda: self.constant(of)
        inner = lambda: f"({self.condition(depth - 1)})"
        operator = rng.choice(["=", "=", "<", "<=", ">", ">=", "<>", "IS DISTINCT FROM"])
        no = rng.choice(["", "NOT "])
        return rng.choice([
            lambda: f"t.{name} {operator} {k()}",
            lambda: f"t.{name} {operator} {k()}",
            lambda: f"{k()} {operator} t.{name}",
            lambda: f"t.{name} IS {no}NULL",
            lambda: f"t.{name} {no}IN ({k()}, {k()}, {k()})",
            lambda: f"t.{name} {no}BETWEEN {k()} AND {k()}",
            lambda: f"t.id {no}IN ({self.constant('int')}, {self.constant('int')})",
            lambda: f"t.few {no}LIKE '{rng.choice(['%a%', 'w_', '', 'l%s'])}'",
            lambda: f"t.r {operator} t.s",
            lambda: f"t.r + t.s {operator} {self.constant('int')}",
            lambda: f"t.r {no}IN (SELECT k FROM small WHERE small.x > 0.3)",
            lambda: f"{no}EXISTS (SELECT 1 FROM small WHERE small.word = t.few)",
            lambda: f"t.s {operator} (SELECT max(k) FROM small WHERE small.word = t.few)",
            *([lambda: f"{inner()} AND {inner()}", lambda: f"{inner()} AND {inner()}",
               lambda: f"{inner()} OR {inner()}", lambda: f"NOT {inner()}"] if depth else []),
        ])()

    def aggregates(self):
        rng = self.rng
        return ", ".join(rng.sample([
            "count(*)", f"count(t.{self.column()})", f"min(t.{self.column()})",
            f"max(t.{self.column()})", "sum(t.r)", "sum(t.dec)", "avg(t.s)",
            f"count(DISTINCT t.{self.column()})", "sum(t.id)", "min(t.x)", "max(t.x)",
            "count(*) FILTER (WHERE t.r > 500)", "sum(CASE WHEN t.few = 'ab' THEN 1 END)",
        ], rng.randint(1, 4)))

    def of_all_rows(self):
        return self.rng.choice(["count(*)", "count(t.r)", "max(t.s)", "sum(t.id)", "min(t.r)"])

    def query(self):
        """A query whose rows come in a definite order where it is `True`."""
        rng = self.rng
        self.constants = []
        where = self.condition()
        shown = ", ".join(f"t.{self.column()}" for _ in range(rng.randint(1, 3)))
        direction = lambda: rng.choice(["", " DESC"]) + rng.choice(
            [" NULLS FIRST", " NULLS LAST"])
        order = f"t.{self.column()}{direction()}, t.{self.column()}{direction()}, t.id"
        cut = f"LIMIT {rng.choice([1, 3, 20, 500])}{rng.choice(['', ' OFFSET 2'])}"
        join = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = rng.choice(["t.r = small.k", "t.few = small.word", "t.s = small.k AND t.r < 500",
                         f"t.id = small.k AND t.few = {self.constant('text')}"])
        key = rng.choice(["t.few", "t.s", "t.c", "t.r % 7", "t.nul", "t.few, t.nul",
                          "date_trunc('day', t.ts)"])
        return rng.choice([
            lambda: (f"SELECT t.id, {shown} FROM t WHERE {where} ORDER BY {order} {cut}", True),
            lambda: (f"SELECT t.id, {shown} FROM t WHERE {where} ORDER BY {order} {cut}", True),
            lambda: (f"SELECT * FROM t WHERE t.id = {self.constant('int')} AND {where}", False),
            lambda: (f"SELECT {self.aggregates()} FROM t WHERE {where}", False),
            lambda: (f"SELECT {self.aggregates()} FROM t WHERE {where}", False),
            lambda: (f"SELECT {key}, {self.aggregates()} FROM t WHERE {where} GROUP BY {key}",
                     False),
            lambda: (f"SELECT {key}, count(*), max(t.id) FROM t WHERE {where} GROUP BY {key}"
                     f" HAVING count(*) > {self.constant('int')}", False),
            lambda: (f"SELECT t.few, max(t.id) AS m FROM t WHERE {where} GROUP BY t.few"
                     f" ORDER BY m DESC, 1 {cut}", True),
            lambda: (f"SELECT t.id, small.word, {shown} FROM t {join} small ON {on} WHERE {where}"
                     f" ORDER BY {order}, small.k, small.word, small.x {cut}", True),
            lambda: (f"SELECT count(*), sum(t.id), count(small.k) FROM t {join} small ON {on}"
                     f" WHERE {where}", False),
            lambda: (f"SELECT small.word, {self.aggregates()} FROM t {join} small ON {on}"
                     f" WHERE {where} GROUP BY small.word", False),
            lambda: (f"SELECT DISTINCT {key} FROM t WHERE {where}", False),
            lambda: (f"SELECT t.id, t.few FROM t WHERE {where} QUALIFY row_number() OVER"
                     f" (PARTITION BY t.few ORDER BY {order}) <= 2", False),
            lambda: (f"SELECT DISTINCT ON (t.few) t.few, t.id, {shown} FROM t WHERE {where}"
                     f" ORDER BY t.few NULLS LAST, {order}", True),
            lambda: (f"SELECT t.id, {self.of_all_rows()} OVER () AS n FROM t WHERE {where}"
                     f" ORDER BY {rng.choice(['', order + ', '])}t.id {cut}", True),
            lambda: (f"SELECT t.id, t.r FROM t WHERE {where} QUALIFY {self.of_all_rows()} OVER ()"
                     f" > {self.constant('int')} ORDER BY t.id{direction()} {cut}", True),
            lambda: (f"SELECT t.id, sum(t.r) OVER (PARTITION BY {key} ORDER BY t.id) FROM t"
                     f" WHERE {where} ORDER BY t.id {cut}", True),
            lambda: (f"SELECT t.id, rank() OVER (ORDER BY ({where}){direction()}) AS n FROM t"
                     f" ORDER BY t.id DESC {cut}", True),
            lambda: (f"SELECT arg_max(t.id, (t.ts, t.id)), arg_min(t.few, t.id) FROM t"
                     f" WHERE {where}", False),
        ])()

    # Forms

    def text(self, template, constants):
        def literal(found):
            value = constants[int(found[1])]
            if isinstance(value, str):
                return f"'{value}'"
            if isinstance(value, datetime.datetime):
                return f"TIMESTAMP '{value}'"
            if isinstance(value, float):
                return f"{value!r}::DOUBLE"
            return str(value) if str(value)[0] != "-" else f"({value})"
        return re.sub(r"\{(\d+)\}", literal, template)

    def other_constants(self):
        other = []
        for value in self.constants:
            same = [v for v in self.constants if type(v) is type(value)]
            other.append(self.rng.choice(same))
        return other

    def as_parameters(self, template):
        params = []
        def mark(found):
            params.append(self.constants[int(found[1])])
            return "?"
        return re.sub(r"\{(\d+)\}", mark, template), params

    def fetch(self, sql, *params):
        return self.swing.execute(sql, *params).fetchall()

    def repeated(self, template, sql):
        for constants in (self.other_constants(), self.other_constants()):
            try:
                self.fetch(self.text(template, constants))
            except ERRORS:
                pass
        return self.fetch(sql)

    def prepared(self, template, sql):
        number = len(self.constants)
        used = sorted({int(n) for n in re.findall(r"\{(\d+)\}", template)})
        if used != list(range(number)):
            return self.fetch(sql)
        text = re.sub(r"\{(\d+)\}", lambda found: f"${int(found[1]) + 1}", template)
        self.swing.execute(f"PREPARE q AS {text}")
        values = ", ".join(self.text(f"{{{n}}}", self.constants) for n in range(number))
        try:
            return self.fetch(f"EXECUTE q{f'({values})' if number else ''}")
        finally:
            self.swing.execute("DEALLOCATE q")

    def created(self, kind, sql):
        self.swing.execute(f"CREATE {kind} made AS {sql}")
        try:
            return self.fetch("SELECT * FROM made")
        finally:
            self.swing.execute(f"DROP {kind.split()[-1]} made")

    def with_setting(self, name, value, sql):
        self.swing.execute(f"SET {name} = {value}")
        try:
            return self.fetch(sql)
        except swingdb.OutOfMemoryError:
            self.swing.execute(f"RESET {name}")
            return self.fetch(sql)
        finally:
            self.swing.execute(f"RESET {name}")

    def in_snapshot(self, sql):
        self.swing.share()
        with swingdb.snapshot(self.name) as snapshot:
            return snapshot.execute(sql).fetchall()

    def undone(self, sql):
        self.swing.execute("BEGIN")
        try:
            self.swing.execute("UPDATE t SET r = 3, few = 'w1' WHERE id % 2 = 0")
            self.swing.execute("DELETE FROM t WHERE id % 5 = 0")
            self.fetch(sql)
        finally:
            self.swing.execute("ROLLBACK")
        return self.fetch(sql)

    def read_again(self, sql):
        self.swing.checkpoint()
        self.swing.close()
        self.swing = swingdb.connect(self.name, store=f"{self.folder}/store")
        return self.fetch(sql)

    def forms(self, template, sql):
        """Some pairs of a name, and a function that gives the rows."""
        forms = {
            "repeated": lambda: self.repeated(template, sql),
            "parameters": lambda: self.fetch(*self.as_parameters(template)),
            "prepared": lambda: self.prepared(template, sql),
            "view": lambda: self.created("VIEW", sql),
            "temporary table": lambda: self.created("TEMP TABLE", sql),
            "table": lambda: self.created("TABLE", sql),
            "subquery": lambda: self.fetch(f"SELECT * FROM ({sql}) AS q"),
            "CTE": lambda: self.fetch(f"WITH q AS MATERIALIZED ({sql}) SELECT * FROM q"),
            "one thread": lambda: self.with_setting("threads", 1, sql),
            "little memory": lambda: self.with_setting("memory_limit", "'60MB'", sql),
            "snapshot": lambda: self.in_snapshot(sql),
            "undone": lambda: self.undone(sql),
        }
        yield "as it is", lambda: self.fetch(sql)
        yield from self.rng.sample(list(forms.items()), 5)
        if self.rng.random() < 0.1:
            yield "read again", lambda: self.read_again(sql)

    def step(self):
        """One query in all forms; what is different."""
        template, ordered = self.query()
        sql = self.text(template, self.constants)
        try:
            expected, their_error = normal_rows(self.duck.execute(sql).fetchall()), None
        except ERRORS as error:
            expected, their_error = None, error
        for name, ask in self.forms(template, sql):
            try:
                found, our_error = normal_rows(ask()), None
            except ERRORS as error:
                found, our_error = None, error
            failed = failures_differ(their_error, our_error)
            if failed is not None and failed != "both failed":
                return f"[{name}] {sql}", failed, None
            if failed is None:
                pair = (expected, found) if ordered else (sorted(expected), sorted(found))
                what, detail = rows_differ(*pair)
                if what is not None:
                    return f"[{name}] {sql}", what, detail
        return sql, None, None


if __name__ == "__main__":
    differences.main(__doc__, Forms)
