"""Whether what a session has kept of a statement outlives what it was made of.

Three sessions on one database run a few statements over and over, so that their plans are kept.
In between, everything changes that those plans rest on: tables and their columns, views, macros,
types, sequences, schemas, temporary tables, settings, variables, functions and registered tables;
in transactions, savepoints and without. What a statement says then is compared with the
same statement in other words, which nothing is kept of; for the sessions outside of a transaction
also with a new session. A session in a transaction has to see the state of its BEGIN. At times
the database is read again from its store, or another process takes a snapshot.

    python tests/oracle/random_state.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and pyarrow. The seed is printed, so that a difference can be replayed.
"""

import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import differences
import pyarrow as pa
import swingdb
from differences import normal_rows

TYPES = ["INTEGER", "BIGINT", "VARCHAR", "DOUBLE", "DECIMAL(9, 2)", "DATE", "TIMESTAMP", "UUID",
         "TIMESTAMPTZ", "INTEGER[]", "STRUCT(x INTEGER, y VARCHAR)", "BOOLEAN", "mood", "HUGEINT",
         "UTINYINT", "TIME", "BLOB", "JSON"]
VALUES = {
    "INTEGER": ["0", "1", "7", "-3"], "BIGINT": ["1", "5", "4000000000"],
    "VARCHAR": ["'1'", "'x'", "''", "'longer than twelve bytes'"], "DOUBLE": ["0.5", "1", "'nan'"],
    "DECIMAL(9, 2)": ["1.25", "1"], "DATE": ["'2024-02-29'", "'2024-03-10'"],
    "TIMESTAMP": ["'2024-03-10 02:30:00'", "'2024-01-01'"], "BOOLEAN": ["true", "false"],
    "TIMESTAMPTZ": ["'2024-03-10 02:30:00+00'", "'2024-07-01 12:00:00+00'"],
    "INTEGER[]": ["[1, 2]", "[]"], "STRUCT(x INTEGER, y VARCHAR)": ["{'x': 1, 'y': 'a'}"],
    "mood": ["'sad'", "'ok'"], "UUID": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
    "HUGEINT": ["1", "99999999999999999999"], "UTINYINT": ["1", "255"], "TIME": ["'12:00:00'"],
    "BLOB": ["'a'"], "JSON": ["'{\"x\": 1}'", "'1'"],
}
TABLES = ["t", "u", "s.t"]
NEW = "'new', "
COLUMNS = ["a", "b", "c", "d"]
#: Statements that come again and again. They are the same in words that nothing is kept of, if
#: `{}` stands for something new each time.
QUERIES = [
    "SELECT * FROM t{}", "SELECT * FROM u{}", "SELECT * FROM main.t{}", "SELECT * FROM s.t{}",
    "SELECT a FROM t WHERE a = 1{}", "SELECT * FROM t WHERE a = 7{}",
    "SELECT b FROM t WHERE b = '1'{}",
    "SELECT a, typeof(a), typeof(b) FROM t WHERE true{}",
    "SELECT count(*), max(a), min(b) FROM t{}",
    "SELECT * FROM v{}", "SELECT * FROM w{}", "SELECT a FROM v WHERE a = 1{}",
    "SELECT count(*) FROM w{}",
    "SELECT m(a) FROM t{}", "SELECT m(1){}", "SELECT * FROM tm(1){}", "SELECT m(a) FROM v{}",
    "SELECT t.a, u.b FROM t JOIN u ON t.a = u.a{}", "SELECT * FROM t JOIN u USING (a){}",
    "SELECT * FROM t WHERE a IN (SELECT a FROM u){}", "SELECT (SELECT max(a) FROM u), a FROM t{}",
    "SELECT a::VARCHAR, b::VARCHAR, c::VARCHAR FROM t{}",
    "SELECT '2024-03-10 02:30'::TIMESTAMPTZ::VARCHAR{}",
    "SELECT getvariable('k'), a FROM t{}", "SELECT a FROM t WHERE a = getvariable('k'){}",
    "SELECT f(1){}", "SELECT f(a) FROM t{}", "SELECT * FROM r{}", "SELECT a FROM r WHERE a = 1{}",
    "SELECT * FROM t LIMIT 2{}", "SELECT a FROM t ORDER BY b{}",
    "SELECT a + 1 FROM t WHERE a > 0{}",
    "SELECT enum_range(NULL::mood){}", "SELECT 'ok'::mood{}", "SELECT b < 'ok' FROM t WHERE true{}",
    "SELECT a FROM t UNION SELECT a FROM u{}", "SELECT unnest(c) FROM t{}", "SELECT c.x FROM t{}",
    "SELECT t FROM t{}", "SELECT d FROM t WHERE d = 1{}",
    "SELECT table_name FROM duckdb_tables(){}",
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't'{}",
    "SELECT rowid FROM t WHERE a = 1{}", "SELECT * FROM o.t{}", "SELECT a FROM o.t WHERE a = 1{}",
]
#: The same, with a value.
GIVEN = ["SELECT * FROM t WHERE a = ?{}", "SELECT ? + a FROM t{}", "SELECT typeof(?), a FROM t{}",
         "SELECT a FROM v WHERE a = ?{}", "SELECT m(?){}", "SELECT * FROM tm(?){}"]
PARAMETERS = [1, 7, "1", None, 1.5, True]
CHANGES = [
    "UPDATE t SET b = b WHERE a = 1{}", "UPDATE t SET a = 7 WHERE a = 1{}",
    "DELETE FROM t WHERE a = 1{}",
    "UPDATE t SET b = a WHERE true{}", "DELETE FROM t WHERE b = '1'{}",
    "UPDATE t SET c = DEFAULT WHERE a = 1{}",
    "UPDATE v SET a = 1 WHERE true{}", "DELETE FROM t WHERE a IN (SELECT a FROM u){}",
    "UPDATE t SET a = u.a FROM u WHERE t.a = u.a{}", "DELETE FROM u WHERE a = m(1){}",
    "INSERT INTO t SELECT * FROM u WHERE true{}", "INSERT INTO t (a) SELECT 1 WHERE true{}",
    "INSERT INTO t BY NAME SELECT * FROM u WHERE true{}",
    "INSERT INTO u SELECT * FROM v WHERE true{}",
    "UPDATE s.t SET a = 1 WHERE a = 7{}", "UPDATE t SET b = f(1) WHERE a = 1{}",
]
PREPARED = ["SELECT * FROM t WHERE a = $1", "SELECT m($1)", "SELECT * FROM v", "SELECT a FROM t",
            "UPDATE t SET a = $1 WHERE a = 7", "SELECT * FROM tm($1)", "SELECT f(a) FROM t"]
DIFFERENT_SETTINGS = [
    "SET TimeZone = 'UTC'", "SET TimeZone = 'America/New_York'", "SET TimeZone = 'Asia/Kathmandu'",
    "SET VARIABLE k = 1", "SET VARIABLE k = '7'", "SET VARIABLE k = NULL", "RESET VARIABLE k",
    "SET threads = 1", "SET threads = 3",
]
READER = """
import sys, swingdb
snapshot = swingdb.snapshot(sys.argv[1])
for sql in sys.stdin.read().split(chr(10)):
    try:
        print(sorted(map(str, snapshot.execute(sql).fetchall())))
    except swingdb.Error as error:
        print(type(error).__name__)
"""


class State:
    """A database of one seed with its sessions."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.number = 0
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.name = f"state{seed}_{random.SystemRandom().randrange(2**32)}"
        self.open()
        self.other = swingdb.connect()
        self.other.execute("CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1), (2)")
        for sql in ["CREATE SCHEMA s", "CREATE TYPE mood AS ENUM ('sad', 'ok')",
                    "CREATE SEQUENCE q", "CREATE TABLE t (a INTEGER, b VARCHAR, c DOUBLE)",
                    "CREATE TABLE u (a INTEGER, b VARCHAR)", "CREATE TABLE s.t (a INTEGER)",
                    "INSERT INTO t VALUES (1, '1', 1), (7, 'x', 0.5)",
                    "INSERT INTO u VALUES (1, 'u')",
                    "CREATE VIEW v AS SELECT * FROM t", "CREATE VIEW w AS SELECT a FROM v",
                    "CREATE MACRO m(x) AS x",
                    "CREATE MACRO tm(x) AS TABLE SELECT * FROM t WHERE a = x"]:
            self.sessions[0].execute(sql)

    def open(self):
        self.main = swingdb.connect(self.name, store=str(self.folder / "store"))
        self.sessions = [self.main, self.main.duplicate(), self.main.duplicate()]
        self.begun = [None] * 3
        self.writes = [False] * 3
        self.marks = []

    def __del__(self):
        for session in self.sessions:
            session.close()
        swingdb.drop(self.name)
        shutil.rmtree(self.folder, ignore_errors=True)

    # Outcomes

    def outcome(self, session, sql, *given):
        """Rows in an order, or the kind of the error."""
        try:
            result = session.execute(sql, *given)
            if result.description is None:
                return []
            return sorted(normal_rows(result.fetchall()), key=repr)
        except swingdb.Error as error:
            text = str(error)
            if "nternal" in text or "panic" in text or "bug" in text:
                return f"BROKEN {type(error).__name__}: {text}"
            self.error = text
            return type(error).__name__

    def fresh(self):
        """What makes a text one that nothing is kept of."""
        self.number += 1
        return self.number

    def anew(self, sql):
        if sql.startswith("SELECT"):
            return f"SELECT * FROM ({sql.format('')}) AS fresh{self.fresh()}"
        n = self.fresh()
        return sql.format(f" AND {n} = {n}")

    # Steps

    def step(self):
        kind = self.rng.random()
        if kind < 0.5:
            return self.query()
        if kind < 0.62:
            return self.changed()
        if kind < 0.7:
            return self.prepared()
        if kind < 0.72:
            return self.elsewhere()
        return self.change()

    def query(self):
        place = self.rng.randrange(3)
        session = self.sessions[place]
        if self.rng.random() < 0.2:
            sql, given = self.rng.choice(GIVEN), [[self.rng.choice(PARAMETERS)]]
        else:
            sql, given = self.rng.choice(QUERIES), []
        found = [self.outcome(session, sql.format(""), *given)
                 for _ in range(self.rng.choice([1, 2, 3]))]
        again = self.outcome(session, self.anew(sql), *given)
        told = f"session {place}: {sql} {given}"
        for one in found:
            if one != again and "LIMIT" not in sql:
                return told, "a kept plan differs", f"{one} kept, {again} anew"
            if isinstance(one, str) and one.startswith("BROKEN"):
                return told, one, None
        expected = self.begun[place]
        if expected is not None and not self.writes[place] and not given and sql in expected:
            if expected[sql] != found[-1] and "k'" not in sql and "LIMIT" not in sql:
                return told, "not the state of BEGIN", f"{expected[sql]} then, {found[-1]} now"
        if not any(self.begun) and not self.of_session(sql):
            other = self.main.duplicate()
            new = self.outcome(other, sql.format(""), *given)
            other.close()
            if new != found[-1] and "LIMIT" not in sql:
                return told, "a new session differs", f"{found[-1]} here, {new} there"
        return told, None, None

    def of_session(self, sql):
        """Whether a statement means something else in another session."""
        return any(part in sql
                   for part in ["f(", " r", "k'", "TIMESTAMPTZ", "VARCHAR", " o.",
                                "duckdb_"]) or self.temp

    temp = False

    def changed(self):
        """A change, and the same in other words; both are undone, or the first is kept."""
        session = self.sessions[0]
        sql = self.rng.choice(CHANGES)
        session.execute("SAVEPOINT here" if self.begun[0] is not None else "BEGIN")
        undo = "ROLLBACK TO here" if self.begun[0] is not None else "ROLLBACK; BEGIN"
        seen = []
        for text in [sql.format(""), sql.format(""), self.anew(sql)]:
            try:
                count = session.execute(text).rowcount
            except swingdb.Error as error:
                count = type(error).__name__
                if "nternal" in str(error):
                    count = f"BROKEN {error}"
            seen.append((count, [self.outcome(session, f"SELECT * FROM {of}") for of in TABLES]))
            session.execute(undo)
        session.execute("RELEASE here" if self.begun[0] is not None else "ROLLBACK")
        if "DEFAULT" in sql or "INSERT" in sql:
            seen = [count for count, _ in seen]
        if seen[0] != seen[1] or seen[0] != seen[2]:
            return sql, "a kept change differs", f"{seen}"
        return sql, None, None

    def prepared(self):
        place = self.rng.randrange(3)
        session = self.sessions[place]
        n, sql = self.rng.choice(list(enumerate(PREPARED)))
        if sql.startswith("UPDATE"):
            place, session = 0, self.sessions[0]
        value = self.rng.choice(["1", "7", "'1'", "NULL"])
        call = f"EXECUTE p{n}({value})" if "$1" in sql else f"EXECUTE p{n}"
        known = getattr(session, "known", set())
        if n not in known:
            session.execute(f"PREPARE p{n} AS {sql}")
            session_known = known | {n}
            try:
                session.known = session_known
            except AttributeError:
                pass
        if sql.startswith("UPDATE") and self.begun[0] is None:
            return sql, None, None
        found = [self.outcome(session, call) for _ in range(2)]
        text = sql.replace("$1", value)
        again = self.outcome(session, self.anew(text + "{}")) if "SELECT" in sql else found[0]
        if found[0] != again or (found[0] != found[1] and "SELECT" in sql):
            told = f"session {place}: {call}: {sql}"
            return told, "a prepared statement differs", f"{found}, {again} anew"
        return sql, None, None

    def elsewhere(self):
        """The store read again, or a snapshot in another process."""
        queries = [sql.format("") for sql in self.rng.sample(QUERIES, 8)
                   if not self.of_session(sql)]
        if any(self.begun) or self.temp:
            return "nothing", None, None
        before = [self.outcome(self.main.duplicate(), sql) for sql in queries]
        if self.rng.random() < 0.5:
            for session in self.sessions:
                session.close()
            self.open()
            after = [self.outcome(self.main, sql) for sql in queries]
            if before != after:
                return "read again", "rows differ", f"{before} {after} {queries}"
            return "read again", None, None
        self.main.share()
        ran = subprocess.run([sys.executable, "-c", READER, self.name], input="\n".join(queries),
                             capture_output=True, text=True, check=True)
        snapshot = swingdb.snapshot(self.name)
        here = []
        for sql in queries:
            try:
                here.append(str(sorted(map(str, snapshot.execute(sql).fetchall()))))
            except swingdb.Error as error:
                here.append(type(error).__name__)
        snapshot.close()
        if ran.stdout.splitlines() != here:
            return "snapshot", "rows differ", f"{ran.stdout} {here}"
        return "snapshot", None, None

    def change(self):
        """Something else than before: in the first session, or of a session."""
        rng = self.rng
        place = rng.randrange(3)
        session = self.sessions[place]
        kind = rng.random()
        if kind < 0.2:
            return self.session_changes(place, session)
        if kind < 0.4:
            return self.transaction(place)
        sql = self.definition()
        if any(self.writes[1:]):
            return "waits", None, None
        result = self.outcome_of_change(sql)
        self.writes[0] = self.writes[0] or self.begun[0] is not None
        if isinstance(result, str) and result.startswith("BROKEN"):
            return sql, result, None
        return f"{sql} -> {result}", None, None

    def outcome_of_change(self, sql):
        try:
            self.sessions[0].execute(sql)
        except swingdb.Error as error:
            text = str(error)
            broken = "nternal" in text or "panic" in text
            return f"BROKEN {text}" if broken else type(error).__name__
        return "done"

    def session_changes(self, place, session):
        rng = self.rng
        kind = rng.choice(["set", "set", "f", "r", "attach", "temp"])
        if kind == "set":
            sql = rng.choice(DIFFERENT_SETTINGS)
            session.execute(sql)
            return f"session {place}: {sql}", None, None
        if kind == "f":
            try:
                session.remove_function("f")
            except swingdb.Error:
                pass
            n = rng.choice([1, 2, "x"])
            of = "VARCHAR" if n == "x" else rng.choice(["BIGINT", "INTEGER"])
            session.create_function("f", lambda x: n, [rng.choice(["BIGINT", "VARCHAR"])], of)
            return f"session {place}: function f is {n}", None, None
        if kind == "r":
            rows = {"a": rng.choice([[1, 2], ["1", "x"], [1.5, None], []])}
            if rng.random() < 0.5:
                rows["b"] = rows["a"]
            session.register("r", pa.table(rows))
            return f"session {place}: r is {rows}", None, None
        if kind == "attach":
            try:
                session.detach("o")
            except swingdb.Error:
                pass
            if rng.random() < 0.5:
                self.other.execute(rng.choice(
                    ["INSERT INTO t (a) VALUES (1)", "CREATE OR REPLACE TABLE t (a VARCHAR)",
                     "CREATE OR REPLACE TABLE t AS SELECT 1 AS b, 1.5 AS a"]))
            session.attach(self.other, "o")
            return f"session {place}: o attached", None, None
        sql = rng.choice(["CREATE OR REPLACE TEMP TABLE t AS SELECT 'temp' AS a, 1 AS b",
                          "DROP TABLE temp.t",
                          "CREATE OR REPLACE TEMP VIEW v AS SELECT 'tempv' AS a",
                          "DROP VIEW temp.v"])
        if place == 0 or self.begun[place] is not None:
            return "nothing", None, None
        self.temp = True
        self.outcome(session, sql)
        return f"session {place}: {sql}", None, None

    def transaction(self, place):
        rng = self.rng
        session = self.sessions[place]
        if self.begun[place] is None:
            session.execute("BEGIN")
            self.begun[place] = {
                sql: self.outcome(session, sql.format("")) for sql in rng.sample(QUERIES, 6)
                if not self.of_session(sql)} or {"": None}
            self.writes[place] = False
            return f"session {place}: BEGIN", None, None
        if place == 0 and rng.random() < 0.5:
            if self.marks and rng.random() < 0.6:
                sql = f"ROLLBACK TO {rng.choice(self.marks)}"
            else:
                sql = f"SAVEPOINT {rng.choice('xyz')}"
                self.marks.append(sql[-1])
            self.outcome(session, sql)
            return sql, None, None
        sql = rng.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        self.begun[place] = None
        if place == 0:
            self.marks = []
        result = self.outcome(session, sql)
        self.writes[place] = False
        if isinstance(result, str):
            self.outcome(session, "ROLLBACK")
            return f"session {place}: {sql}", f"failed: {result} {self.error}", None
        return f"session {place}: {sql}", None, None

    def definition(self):
        rng = self.rng
        table, column, other = rng.choice(TABLES), rng.choice(COLUMNS), rng.choice(COLUMNS)
        of = rng.choice(TYPES)
        value = rng.choice(VALUES[of])
        query = rng.choice(["SELECT * FROM t", "SELECT a FROM t", "SELECT b AS a, a AS b FROM t",
                            "SELECT * FROM u",
                            "SELECT 1 AS a", "SELECT * FROM s.t", "SELECT count(*) AS a FROM t",
                            "SELECT m(a) AS a FROM t", "SELECT * FROM tm(1)", "SELECT a, b FROM u"])
        body = rng.choice(["x", "x + 1", "concat(x, 'm')", "(SELECT max(a) FROM t)",
                           "x = (SELECT min(a) FROM u)",
                           "typeof(x)", "coalesce(x, 1)"])
        columns = ", ".join(f"{name} {rng.choice(TYPES)}"
                            for name in rng.sample(COLUMNS, rng.randint(1, 4)))
        return rng.choice([
            *[lambda: f"INSERT INTO {table} ({column}) VALUES ({value})"] * 4,
            lambda: f"UPDATE {table} SET {column} = {value}",
            lambda: f"DELETE FROM {table} WHERE {column} = {value}",
            lambda: f"CREATE OR REPLACE TABLE {table} ({columns})",
            lambda: f"CREATE OR REPLACE TABLE {table} AS {query}",
            lambda: f"CREATE TABLE {table} ({columns})",
            lambda: f"DROP TABLE IF EXISTS {table}",
            *[lambda: f"ALTER TABLE {table} ADD COLUMN {column} {of}"] * 2,
            *[lambda: f"ALTER TABLE {table} ADD COLUMN {column} {of} DEFAULT {value}"] * 2,
            lambda: f"ALTER TABLE {table} ADD COLUMN {column} BIGINT DEFAULT nextval('q')",
            lambda: f"ALTER TABLE {table} DROP COLUMN {column}",
            *[lambda: f"ALTER TABLE {table} RENAME {column} TO {other}"] * 2,
            *[lambda: f"ALTER TABLE {table} ALTER {column} TYPE {of}"] * 2,
            lambda: f"ALTER TABLE {table} ALTER {column} SET DEFAULT {value}",
            lambda: f"ALTER TABLE {table} ALTER {column} DROP DEFAULT",
            lambda: f"ALTER TABLE {table} ALTER {column} SET NOT NULL",
            lambda: f"ALTER TABLE {table} ALTER {column} DROP NOT NULL",
            lambda: f"ALTER TABLE {table} ADD CHECK ({column} IS NOT NULL)",
            lambda: f"ALTER TABLE {table} ADD UNIQUE ({column})",
            lambda: f"ALTER TABLE {table} RENAME TO {rng.choice(['t', 'u'])}",
            lambda: f"CREATE UNIQUE INDEX i{column} ON {table} ({column})",
            lambda: f"DROP INDEX IF EXISTS i{column}",
            *[lambda: f"CREATE OR REPLACE VIEW v AS {query}"] * 3,
            *[lambda: f"CREATE OR REPLACE VIEW w AS {rng.choice(['SELECT * FROM v', query])}"] * 2,
            lambda: f"DROP VIEW IF EXISTS {rng.choice('vw')}",
            *[lambda: f"CREATE OR REPLACE MACRO m(x) AS {body}"] * 3,
            *[lambda: f"CREATE OR REPLACE MACRO tm(x) AS TABLE {query}"] * 2,
            lambda: "DROP MACRO IF EXISTS m",
            lambda: "DROP TYPE IF EXISTS mood",
            lambda: f"CREATE TYPE mood AS ENUM ({rng.choice(['', NEW])}'ok', 'sad')",
            lambda: "CREATE OR REPLACE SEQUENCE q START 5",
            lambda: "DROP SCHEMA IF EXISTS s CASCADE", lambda: "CREATE SCHEMA IF NOT EXISTS s",
            lambda: f"TRUNCATE {table}",
        ])()


if __name__ == "__main__":
    differences.main(__doc__, State)
