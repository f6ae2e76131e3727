"""Random tables of all types through files: out of one engine, into the other, and compared.

Each table, nested types and NULLs among its columns, is written by SwingDB as Parquet, CSV, JSON
lines and Arrow IPC; DuckDB (for IPC: PyArrow) reads the file, and so does SwingDB into a new table.
Then DuckDB writes Parquet, CSV and JSON, and SwingDB reads those. All must hold the same values.

    python tests/oracle/round_trip.py [--seed N] [--runs N]

Needs the packages swingdb, duckdb and pyarrow. The seed is printed, so that a difference can be
replayed.
"""

import datetime
import decimal
import math
import pathlib
import random
import tempfile

import differences
import duckdb
import pyarrow as pa
import pyarrow.ipc
import swingdb

TEXTS = [
    "", "a", "NULL", "null", "it's", 'say "hi"', "comma, semicolon;", "tab\there", "line\nbreak",
    "cr\r\nlf", " spaces ", "\\N", "\\", "ünïcödé ✓", "0123", "-7", "1e5", "true", "2020-01-01",
    "{}", "[1]", "longer than twelve bytes by far",
]
SCALARS = {
    "BOOLEAN": lambda r: r.random() < 0.5,
    "TINYINT": lambda r: r.randint(-128, 127),
    "SMALLINT": lambda r: r.choice([-32768, 32767, r.randint(-9, 9)]),
    "INTEGER": lambda r: r.choice([-(2**31), 2**31 - 1, r.randint(-9, 9)]),
    "BIGINT": lambda r: r.choice([-(2**63), 2**63 - 1, r.randint(-9, 9)]),
    "UINTEGER": lambda r: r.choice([0, 2**32 - 1]),
    "UBIGINT": lambda r: r.choice([0, 2**64 - 1, 7]),
    "REAL": lambda r: r.choice([0.5, -1.25, 1e10, r.randint(-99, 99) / 8]),
    "DOUBLE": lambda r: r.choice([0.1, 1e300, -5e-324, r.random() * 10 ** r.randint(-9, 9)]),
    "DECIMAL(9, 2)": lambda r: decimal.Decimal(r.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-2),
    "DECIMAL(38, 10)": lambda r: decimal.Decimal(r.randint(-(10**20), 10**20)).scaleb(-10),
    "VARCHAR": lambda r: r.choice(TEXTS),
    "DATE": lambda r: datetime.date(1970, 1, 1) + datetime.timedelta(r.randint(-60000, 60000)),
    "TIME": lambda r: datetime.time(r.randint(0, 23), r.randint(0, 59), 7, r.choice([0, 5, 120])),
    "TIMESTAMP": lambda r: datetime.datetime(2000, 1, 1)
    + datetime.timedelta(microseconds=r.randint(-(10**15), 10**15)),
    "BLOB": lambda r: bytes(r.randrange(256) for _ in range(r.randint(0, 5))),
}
ARROW = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INTEGER": pa.int32(),
    "BIGINT": pa.int64(), "UINTEGER": pa.uint32(), "UBIGINT": pa.uint64(), "REAL": pa.float32(),
    "DOUBLE": pa.float64(), "DECIMAL(9, 2)": pa.decimal128(9, 2),
    "DECIMAL(38, 10)": pa.decimal128(38, 10), "VARCHAR": pa.string(), "DATE": pa.date32(),
    "TIME": pa.time64("us"), "TIMESTAMP": pa.timestamp("us"), "BLOB": pa.binary(),
}
#: What a format does not carry, or the two engines write differently by design.
WITHOUT = {
    "csv": {"BLOB", "nested"},
    "json": {"BLOB", "UBIGINT", "DECIMAL(38, 10)", "TIME"},
    "parquet": set(),
    "arrow": set(),
}
ENDINGS = {"parquet": "parquet", "csv": "csv", "json": "jsonl", "arrow": "arrow"}


def column(rng, rows, without):
    """SQL type, Arrow array and values of a random column."""
    name = rng.choice(sorted(set(SCALARS) - without))
    nulls = rng.choice([0, 0.2, 1 if rng.random() < 0.1 else 0.5])
    scalar = lambda: None if rng.random() < nulls else SCALARS[name](rng)
    shape = rng.choice(["plain", "plain", "list", "struct"])
    if shape == "plain" or "nested" in without:
        return name, ARROW[name], [scalar() for _ in range(rows)]
    if shape == "list":
        elements = lambda: [scalar() for _ in range(rng.randint(0, 3))]
        some = lambda: None if rng.random() < nulls else elements()
        return f"{name}[]", pa.list_(ARROW[name]), [some() for _ in range(rows)]
    both = lambda: None if rng.random() < nulls else {"a": scalar(), "b": rng.choice(TEXTS)}
    struct = pa.struct([("a", ARROW[name]), ("b", pa.string())])
    return f"STRUCT(a {name}, b VARCHAR)", struct, [both() for _ in range(rows)]


def plain(value):
    """A value in a form that compares across the engines."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return value


def rows_of(result):
    return [tuple(map(plain, row)) for row in result.fetchall()]


class Trip:
    """One table of one seed, in both engines, and a directory for its files."""

    def __init__(self, seed, directory):
        self.rng = random.Random(seed)
        self.seed, self.directory = seed, pathlib.Path(directory)
        self.files = 0

    def make(self, kind):
        """A table in both engines; the types of its columns."""
        rng = self.rng
        rows = rng.choice([0, 1, 7, 60, 500])
        columns = [column(rng, rows, WITHOUT[kind]) for _ in range(rng.randint(1, 6))]
        odd = ["c", "odd name ", 'quo"te', "Ü", "select "]
        names = [f"{rng.choice(odd)}{i}" for i in range(len(columns))]
        self.types = [sql for sql, _, _ in columns]
        quoted = ['"' + name.replace('"', '""') + '"' for name in names]
        self.ddl = ", ".join(f"{name} {sql}" for name, sql in zip(quoted, self.types))
        table = pa.table([pa.array(values, arrow) for _, arrow, values in columns], names=names)
        self.swing, self.duck = swingdb.connect(), duckdb.connect()
        for con in (self.swing, self.duck):
            con.execute(f"CREATE TABLE t ({self.ddl})")
        self.swing.append("t", table)
        self.duck.register("source", table)
        self.duck.execute("INSERT INTO t SELECT * FROM source")
        self.expected = rows_of(self.duck.execute("SELECT * FROM t"))
        self.check("appended", rows_of(self.swing.execute("SELECT * FROM t")))

    def path(self, kind):
        self.files += 1
        return str(self.directory / f"file{self.files}.{ENDINGS[kind]}")

    def check(self, what, found, alike=None):
        expected = self.expected
        if found != expected and (alike is None or not alike(expected, found)):
            pairs = [pair for pair in zip(expected, found) if pair[0] != pair[1]]
            raise AssertionError(
                f"seed {self.seed}: {what} of ({self.ddl}): {len(expected)} rows, {len(found)} "
                f"found; first {pairs[:2]}"
            )

    def into_swing(self, what, path, options=""):
        """A file read into a new table of the same types."""
        self.swing.execute(f"CREATE OR REPLACE TABLE back ({self.ddl})")
        self.swing.execute(f"COPY back FROM '{path}'{options}")
        self.check(what, rows_of(self.swing.execute("SELECT * FROM back")))

    def parquet(self):
        ours, theirs = self.path("parquet"), self.path("parquet")
        self.swing.execute(f"COPY t TO '{ours}'")
        self.check("our Parquet in DuckDB", rows_of(self.duck.execute(f"SELECT * FROM '{ours}'")))
        self.check("our Parquet", rows_of(self.swing.execute(f"SELECT * FROM '{ours}'")))
        self.into_swing("our Parquet imported", ours)
        self.duck.execute(f"COPY t TO '{theirs}' (FORMAT parquet)")
        self.into_swing("DuckDB's Parquet imported", theirs)

    def csv(self):
        ours, theirs = self.path("csv"), self.path("csv")
        self.swing.execute(f"COPY t TO '{ours}' (FORMAT CSV, HEADER true)")
        self.into_swing("our CSV imported", ours, " (FORMAT CSV, HEADER true)")
        self.duck.execute(f"CREATE OR REPLACE TABLE back ({self.ddl})")
        self.duck.execute(f"COPY back FROM '{ours}' (FORMAT csv, HEADER true, "
                          "allow_quoted_nulls false)")
        self.check("our CSV in DuckDB", rows_of(self.duck.execute("SELECT * FROM back")))
        self.duck.execute(f"COPY t TO '{theirs}' (FORMAT csv, HEADER true)")
        self.into_swing("DuckDB's CSV imported", theirs, " (FORMAT CSV, HEADER true)")

    def json(self):
        ours, theirs = self.path("json"), self.path("json")
        self.swing.execute(f"COPY t TO '{ours}' (FORMAT JSON)")
        self.into_swing("our JSON imported", ours, " (FORMAT JSON)")
        self.duck.execute(f"CREATE OR REPLACE TABLE back ({self.ddl})")
        self.duck.execute(f"COPY back FROM '{ours}' (FORMAT json)")
        self.check("our JSON in DuckDB", rows_of(self.duck.execute("SELECT * FROM back")))
        self.duck.execute(f"COPY t TO '{theirs}' (FORMAT json)")
        self.into_swing("DuckDB's JSON imported", theirs, " (FORMAT JSON)")

    def arrow(self):
        ours, theirs = self.path("arrow"), self.path("arrow")
        self.swing.execute(f"COPY t TO '{ours}'")
        with pa.ipc.open_file(ours) as reader:
            self.duck.register("read", reader.read_all())
        self.check("our Arrow file in PyArrow", rows_of(self.duck.execute("SELECT * FROM read")))
        self.duck.unregister("read")
        self.into_swing("our Arrow file imported", ours)
        table = self.swing.sql("SELECT * FROM t").arrow()
        with pa.OSFile(theirs, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=13)
        self.into_swing("PyArrow's file imported", theirs)


def round_trips(seeds, kinds=tuple(ENDINGS), go_on=False):
    """One table a seed and kind; how many differences there were, when it goes on after them."""
    wrong = 0
    for seed in seeds:
        for kind in kinds:
            with tempfile.TemporaryDirectory() as directory:
                trip = Trip(f"{seed} {kind}", directory)
                try:
                    trip.make(kind)
                    getattr(trip, kind)()
                except (AssertionError, *differences.ERRORS) as error:
                    if not go_on:
                        raise AssertionError(f"seed {seed}, {kind}: {error}") from error
                    wrong += 1
                    print(f"--- seed {seed} {kind}: {error}", flush=True)
    return wrong


if __name__ == "__main__":
    parsed = differences.options(__doc__, runs=30)
    print(f"{round_trips(parsed.seeds, go_on=parsed.go_on)} differences")
