"""Random transactions with savepoints that change rows and tables, on SwingDB, against DuckDB.

DuckDB has no savepoints, so it runs the statements that count, each by itself: what is rolled back
is taken off a list, from which a new DuckDB is made. Statements insert, update and delete, add,
drop, rename and retype columns, rename, make and drop tables, set defaults and constraints.
Compared are failures and all tables after each statement; snapshots and the database read again
from its store have to show what was committed when.

    python tests/oracle/random_savepoints.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import random
import shutil
import tempfile

import differences
import duckdb
import swingdb
from differences import ERRORS, failures_differ, normal_rows

TYPES = ["INTEGER", "BIGINT", "VARCHAR", "DOUBLE", "DECIMAL(9, 2)", "DATE"]
NAMES = ["t", "u", "v"]
COLUMNS = ["a", "b", "c", "d", "e"]
VALUES = {
    "INTEGER": ["0", "1", "7", "-3", "NULL"], "BIGINT": ["5", "4000000000", "NULL"],
    "VARCHAR": ["'x'", "''", "'12'", "'longer than twelve bytes'", "NULL"],
    "DOUBLE": ["0.5", "2", "NULL"], "DECIMAL(9, 2)": ["1.25", "-3", "NULL"],
    "DATE": ["'2024-02-29'", "NULL"],
}


class Program:
    """A database of one seed, and what happens to it."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.folder = tempfile.mkdtemp()
        self.name = f"savepoints{seed}_{random.SystemRandom().randrange(2**32)}"
        self.swing = swingdb.connect(self.name, store=f"{self.folder}/store")
        self.log, self.marks, self.begun = [], [], None
        self.held = []
        self.again()

    def __del__(self):
        for snapshot, _ in self.held:
            snapshot.close()
        self.swing.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def again(self):
        """Makes DuckDB of the list."""
        self.duck = duckdb.connect()
        for sql in self.log:
            self.duck.execute(sql)

    def tables(self):
        sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'"
        return sorted(row[0] for row in self.duck.execute(sql).fetchall())

    def columns(self, table):
        return [row[:2] for row in self.duck.execute(f'DESCRIBE "{table}"').fetchall()]

    def state(self, con, names):
        """All rows of tables, with the names of their columns."""
        state = {}
        for name in names:
            columns = sorted(row[0] for row in con.execute(f'DESCRIBE "{name}"').fetchall())
            if columns:
                rows = con.execute(f'SELECT {", ".join(columns)} FROM "{name}"').fetchall()
                state[name] = columns, sorted(normal_rows(rows))
        return state

    # Statements

    def value(self, of):
        return self.rng.choice(VALUES.get(of.replace("DECIMAL(9,2)", "DECIMAL(9, 2)"), ["NULL"]))

    def change(self):
        rng = self.rng
        tables = self.tables()
        table = rng.choice(tables) if tables and rng.random() < 0.93 else rng.choice(NAMES)
        columns = self.columns(table) if table in tables else [("a", "INTEGER")]
        name, of = rng.choice(columns)
        other, other_of = rng.choice(columns)
        new, new_of = rng.choice(COLUMNS), rng.choice(TYPES)
        rows = ", ".join(
            f"({', '.join(self.value(of) for _, of in columns)})" for _ in range(rng.randint(1, 4)))
        where = rng.choice([f"{name} IS NULL", f"{name} = {self.value(of)}", "true",
                            f"{other} IS NOT NULL"])
        column = f"{new} {new_of}"
        default = f" DEFAULT {self.value(new_of)}"
        return rng.choice([
            *[lambda: f"INSERT INTO {table} VALUES {rows}"] * 6,
            *[lambda: f"UPDATE {table} SET {name} = {self.value(of)} WHERE {where}"] * 4,
            *[lambda: f"DELETE FROM {table} WHERE {where}"] * 2,
            *[lambda: f"INSERT INTO {table} SELECT * FROM {table} LIMIT 20"] * 2,
            lambda: f"INSERT INTO {table} ({name}) VALUES ({self.value(of)})",
            lambda: f"INSERT INTO {table} DEFAULT VALUES",
            lambda: f"TRUNCATE {table}",
            *[lambda: f"CREATE TABLE {rng.choice(NAMES)} (a INTEGER, {column}{default})"
              if new != "a" else f"CREATE TABLE {rng.choice(NAMES)} (a INTEGER PRIMARY KEY)"] * 3,
            lambda: f"CREATE TABLE {rng.choice(NAMES)} AS SELECT * FROM {table}",
            lambda: f"CREATE OR REPLACE TABLE {rng.choice(NAMES)} AS SELECT * FROM {table}",
            lambda: f"CREATE OR REPLACE TABLE {table} (a INTEGER, b VARCHAR DEFAULT 'y')",
            lambda: f"DROP TABLE {rng.choice(['', 'IF EXISTS '])}{table}",
            *[lambda: f"ALTER TABLE {table} ADD COLUMN {column}{rng.choice(['', default])}"] * 3,
            lambda: f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column}",
            *[lambda: f"ALTER TABLE {table} DROP COLUMN {name}"] * 2,
            *[lambda: f"ALTER TABLE {table} RENAME COLUMN {name} TO {new}"] * 2,
            lambda: f"ALTER TABLE {table} RENAME {name} TO {new}",
            *[lambda: f"ALTER TABLE {table} RENAME TO {rng.choice(NAMES)}"] * 2,
            # A key keeps its type in DuckDB, and a default need not be of the new type there.
            *[lambda: f"ALTER TABLE {table} ALTER {name} TYPE VARCHAR",
              lambda: f"ALTER TABLE {table} ALTER COLUMN {name} SET DATA TYPE VARCHAR"
                      f" USING concat('<', {name}, '>')"][:2 * (name != "a")],
            lambda: f"ALTER TABLE {table} ALTER COLUMN {name} SET DEFAULT {self.value(of)}",
            lambda: f"ALTER TABLE {table} ALTER COLUMN {name} DROP DEFAULT",
            lambda: f"ALTER TABLE {table} ALTER COLUMN {name} SET NOT NULL",
            lambda: f"ALTER TABLE {table} ALTER COLUMN {name} DROP NOT NULL",
        ])()

    def frame(self):
        """A statement about transactions, and what it does to the list."""
        rng = self.rng
        if self.begun is None:
            self.begun, self.marks = len(self.log), []
            return "BEGIN", None
        known = [name for name, _ in self.marks]
        kind = rng.choice(["savepoint", "savepoint", "to", "to", "release", "commit", "rollback"])
        if kind in ("to", "release") and not known:
            kind = "savepoint"
        if kind == "savepoint":
            name = rng.choice(["p", "q", "r"])
            self.marks.append((name, len(self.log)))
            return f"SAVEPOINT {name}", None
        if kind == "commit":
            self.begun, self.marks = None, []
            return "COMMIT", None
        if kind == "rollback":
            length, self.begun, self.marks = self.begun, None, []
            return "ROLLBACK", length
        name = rng.choice(known)
        place = max(n for n, (mark, _) in enumerate(self.marks) if mark == name)
        length = self.marks[place][1]
        if kind == "to":
            self.marks = self.marks[:place + 1]
            return f"ROLLBACK TO {rng.choice(['SAVEPOINT ', ''])}{name}", length
        self.marks = self.marks[:place]
        return f"RELEASE SAVEPOINT {name}", None

    # Comparison

    def differs(self):
        names = self.tables()
        try:
            found = self.state(self.swing, names)
        except ERRORS as error:
            return "failed: " + str(error), None
        expected = self.state(self.duck, names)
        if found != expected:
            return "rows differ", f"{expected} in DuckDB, {found} here"
        shown = sorted(self.swing.tables())
        if shown != names:
            return "tables differ", f"{names} in DuckDB, {shown} here"
        return None, None

    def step(self):
        """A statement, and what is different after it."""
        kind = self.rng.random()
        if kind < 0.25:
            sql, length = self.frame()
            self.swing.execute(sql)
            if length is not None:
                del self.log[length:]
                self.again()
            return sql, *self.differs()
        if kind < 0.3 and self.begun is None:
            return self.kept()
        sql = self.change()
        errors = []
        for con in (self.duck, self.swing):
            try:
                con.execute(sql)
                errors.append(None)
            except ERRORS as error:
                errors.append(error)
        what = failures_differ(*errors)
        if what is not None:
            if what != "both failed":
                # Only what both did counts.
                if errors[0] is None:
                    self.again()
                else:
                    self.swing.execute("ROLLBACK") if self.begun is not None else None
                    self.begun, self.marks = None, []
                    self.restart()
            return sql, what, None
        self.log.append(sql)
        return sql, *self.differs()

    def restart(self):
        """Begins with nothing, where only SwingDB has done something."""
        self.log = []
        for name in self.swing.tables():
            self.swing.execute(f"DROP TABLE {name}")
        self.again()

    def kept(self):
        """Reads the database from its store, or as a snapshot; older ones show what they did."""
        if self.rng.random() < 0.3:
            self.swing.close()
            self.swing = swingdb.connect(self.name, store=f"{self.folder}/store")
            return "read again", *self.differs()
        self.swing.share()
        names = self.tables()
        snapshot = swingdb.snapshot(self.name)
        self.held.append((snapshot, self.state(self.duck, names)))
        for snapshot, expected in self.held:
            found = self.state(snapshot, list(expected))
            if found != expected or sorted(snapshot.tables()) != sorted(expected):
                return "a snapshot", "rows differ", f"{expected} expected, {found} found"
        if len(self.held) > 4:
            self.held.pop(0)[0].close()
        return "a snapshot", None, None


if __name__ == "__main__":
    differences.main(__doc__, Program)
