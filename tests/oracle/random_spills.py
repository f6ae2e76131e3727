"""Random queries with little memory, whose operators write temporary files: on SwingDB without a
limit, on SwingDB with one, and on DuckDB.

Tables have some hundred thousand rows of whole numbers, decimals, texts of all lengths, dates and
lists, many of them NULL, in batches of several sizes. Queries sort by several keys in both
directions, group and aggregate (also DISTINCT, ordered and over sets of keys), join, number rows in
windows, and make rows unique; some do several of these one after the other, or make a table. A
query that does not fit into its limit must say so, and is run again with more.

    python tests/oracle/random_spills.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb, duckdb and pyarrow. The seed is printed, so that a difference can be
replayed. Rows are compared as a list where all are ordered, else sorted.
"""

import os
import pathlib
import random
import tempfile
import threading

import differences
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import swingdb
from differences import failures_differ

#: Rows of the tables.
SIZES = {"a": (60_000, 250_000), "b": (20_000, 120_000)}
#: Columns of both, beside the number of the row, `i`.
COLUMNS = ("k", "g", "d", "s", "t")
#: Limits of memory to begin with, in megabytes.
LIMITS = (12, 20, 30, 45, 70)
MOST_MB = 4000


def columns(rng, rows):
    """Random columns; what repeats is drawn from few values."""
    def some(values, nulls):
        one = lambda: None if rng.random() < nulls else rng.randrange(len(values))
        return values.take(pa.array([one() for _ in range(rows)], pa.int32()))

    words = [rng.choice("abcdé") * rng.choice([0, 1, 5, 11, 12, 13, 40, 300]) for _ in range(50)]
    words = [word + str(rng.randrange(10**6)) for word in words]
    nulls = rng.choice([0, 0.05, 0.3])
    spread = rng.choice([5, 300, 100_000])
    numbers = pa.array([rng.randrange(-spread, spread) for _ in range(min(spread, 3000))])
    ends = pa.array([str(rng.randrange(rng.choice([10, rows]))) for _ in range(rows)])
    texts = pc.binary_join_element_wise(some(pa.array(words), 0), ends, "-")
    return {
        "i": pa.array(range(rows), pa.int64()),
        "k": some(numbers.cast(pa.int32()), nulls),
        "g": some(pa.array(range(7), pa.int64()), nulls),
        "d": some(numbers.cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)), nulls),
        "s": texts,
        "t": some(pa.array(words), nulls),
    }


class Queries:
    """Random SQL that means the same to both engines, and whether its rows are ordered."""

    def __init__(self, rng):
        self.rng = rng

    def keys(self, most=3):
        return self.rng.sample(COLUMNS, self.rng.randint(1, most))

    def order(self, keys, alias=""):
        """Keys in any direction, and at last what tells all rows apart."""
        kinds = ["", " DESC", " NULLS FIRST", " DESC NULLS FIRST", " DESC NULLS LAST"]
        named = [f"{alias}{key}{self.rng.choice(kinds)}" for key in keys]
        return ", ".join([*named, f"{alias}i{self.rng.choice(['', ' DESC'])}"])

    def aggregates(self):
        some = ["count(*)", "sum(k)", "sum(d)", "min(s)", "max(s)", "min(t)", "max(d)", "count(t)"]
        some += ["count(DISTINCT k)", "count(DISTINCT s)", "sum(DISTINCT g)", "median(k)"]
        some += ["max(length(s))", "sum(i) FILTER (WHERE g > 2)", "arg_max(i, i)", "bool_or(k > 5)"]
        some += ["md5(string_agg(t, '' ORDER BY i))", "list(k ORDER BY i)[:3]"]
        picked = self.rng.sample(some, self.rng.randint(1, 4))
        return ", ".join(f"{sql} AS a{n}" for n, sql in enumerate(picked))

    def window(self):
        part = f"PARTITION BY {', '.join(self.keys(2))} " if self.rng.random() < 0.7 else ""
        over = f"({part}ORDER BY {self.order(self.keys(2))}"
        frame = self.rng.choice(["", " ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING"])
        function = self.rng.choice(
            ["row_number()", "rank()", "lag(s)", "lead(k, 3)", "ntile(7)", "first_value(t)"]
            + [f"{call} OVER {over}{frame})" for call in ["sum(k)", "min(s)", "count(d)"]]
        )
        return function if "OVER" in function else f"{function} OVER {over})"

    def source(self, depth=1):
        """A relation with all columns, whose `i` tells rows apart."""
        pick = self.rng.randint(0, 5 if depth else 1)
        name = self.rng.choice("ab")
        if pick < 2:
            return name
        if pick == 2:
            limit = self.rng.choice([1000, 50_000, 10**6])
            inner = self.source(depth - 1)
            return f"(SELECT * FROM {inner} ORDER BY {self.order(self.keys())} LIMIT {limit})"
        if pick == 3:
            return (
                f"(SELECT min(i) AS i, {', '.join(f'{c}' for c in COLUMNS)} FROM"
                f" {self.source(depth - 1)} GROUP BY {', '.join(COLUMNS)})"
            )
        if pick == 4:
            return f"(SELECT * FROM {self.source(depth - 1)} WHERE g IS DISTINCT FROM 3)"
        return (
            f"(SELECT i, k, g, d, s, CASE WHEN w > 3 THEN t END AS t FROM (SELECT *, row_number()"
            f" OVER (PARTITION BY {', '.join(self.keys(2))} ORDER BY i) AS w"
            f" FROM {self.source(depth - 1)}))"
        )

    def query(self):
        return self.rng.choice(
            [self.sorted, self.sorted, self.grouped, self.grouped, self.windowed, self.joined]
            + [self.unique, self.sets, self.twice]
        )()

    def sorted(self):
        order = self.order(self.keys())
        end = self.rng.choice(["", "", f" LIMIT {self.rng.choice([10, 30_000])} OFFSET 5"])
        return f"SELECT i, k, s, t FROM {self.source()} ORDER BY {order}{end}", True

    def grouped(self):
        keys, sets = self.keys(), self.rng.choice(["{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})"])
        by = sets.format(", ".join(keys))
        having = self.rng.choice(["", "", " HAVING count(*) > 1"])
        return (
            f"SELECT {', '.join(keys)}, {self.aggregates()} FROM {self.source()}"
            f" GROUP BY {by}{having}"
        ), False

    def windowed(self):
        windows = f"{self.window()} AS w, {self.window()} AS x"
        return f"SELECT i, s, {windows} FROM {self.source()}", False

    def joined(self):
        kind = self.rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
        shown = "x.i, x.s" if kind[:4] in ("SEMI", "ANTI") else "x.i, x.s, y.i AS j, y.t"
        condition = self.rng.choice(["x.i = y.i", "x.s = y.s", "x.i = y.i * 2 AND x.g = y.g"])
        sides = f"{self.source()} AS x {kind} {self.source(0)} AS y"
        sql = f"SELECT {shown} FROM {sides} ON {condition}"
        if self.rng.random() < 0.5:
            return sql, False
        last = "x.i" if kind[:4] in ("SEMI", "ANTI") else "x.i, y.i"
        return f"{sql} ORDER BY x.{self.rng.choice(COLUMNS)}, {last}", True

    def unique(self):
        return f"SELECT DISTINCT {', '.join(self.keys(4))} FROM {self.source()}", False

    def sets(self):
        of = self.rng.choice(["UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL"])
        keys = ", ".join(self.keys())
        return f"SELECT {keys} FROM {self.source()} {of} SELECT {keys} FROM {self.source()}", False

    def twice(self):
        """One part is read twice, and so kept."""
        part = f"SELECT g, s, sum(i) AS n FROM {self.source()} GROUP BY g, s"
        return (
            f"WITH q AS MATERIALIZED ({part}) SELECT x.g, count(*), sum(x.n + y.n) FROM q AS x"
            f" JOIN q AS y ON x.s = y.s GROUP BY x.g"
        ), False


class Spills:
    """Tables of one seed, and queries over them."""

    #: Queries during which temporary files were seen, and those that were refused at first.
    spilled = refused = 0

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.queries = Queries(self.rng)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="random-spills-"))
        self.duck, self.swing = duckdb.connect(), swingdb.connect()
        for name, sizes in SIZES.items():
            rows = self.rng.randint(*sizes)
            table = pa.table(columns(self.rng, rows))
            size = self.rng.choice([500, 7000, 200_000])
            for start in range(0, rows, size):
                part = table.slice(start, size)
                if start == 0:
                    self.swing.register("part", part.slice(0, 0))
                    self.swing.execute(f"CREATE TABLE {name} AS SELECT * FROM part")
                self.swing.append(name, part)
            self.duck.register("source", table)
            self.duck.execute(f"CREATE TABLE {name} AS SELECT * FROM source")
            self.duck.unregister("source")

    def files(self):
        """Descriptors of temporary files."""
        count = 0
        for name in os.listdir("/proc/self/fd"):
            try:
                count += os.readlink(f"/proc/self/fd/{name}").startswith(str(self.folder))
            except OSError:
                pass
        return count

    def limited(self, sql):
        """The rows within a limit of memory."""
        limit = self.rng.choice(LIMITS)
        self.swing.execute(f"SET threads = {self.rng.choice([1, 2, 2, 4, 7])}")
        self.swing.execute(f"SET temp_directory = '{self.folder}'")
        seen, ended = [0], threading.Event()

        def look():
            while not ended.wait(0.005):
                seen[0] = max(seen[0], self.files())

        thread = threading.Thread(target=look)
        thread.start()
        try:
            while True:
                self.swing.execute(f"SET memory_limit = '{limit}MB'")
                try:
                    return self.rows(self.swing, sql)
                except swingdb.OutOfMemoryError as error:
                    assert "raise it (SET memory_limit)" in str(error), error
                    limit *= 2
                    Spills.refused += 1
                    assert limit < MOST_MB, f"{error}: {sql}"
        finally:
            ended.set()
            thread.join()
            Spills.spilled += seen[0] > 0
            self.swing.execute("RESET ALL")
            assert os.listdir(self.folder) == []

    @staticmethod
    def rows(con, sql):
        """The rows in types that both engines have."""
        found = con.execute(sql)
        in_duckdb = isinstance(found, duckdb.DuckDBPyConnection)
        table = found.to_arrow_table() if in_duckdb else pa.table(found.arrow())
        fields = []
        for column in table.columns:
            kind = column.type
            if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
                column = column.cast(pa.decimal128(38, 2))
            elif pa.types.is_large_string(kind) or "view" in str(kind):
                column = column.cast(pa.string())
            elif pa.types.is_floating(kind):
                column = column.cast(pa.float64())
            elif pa.types.is_nested(kind):
                column = pa.chunked_array([pa.array(map(str, column.to_pylist()), pa.string())])
            fields.append(column)
        return pa.table(fields, names=[f"c{n}" for n in range(len(fields))]).combine_chunks()

    @staticmethod
    def differ(expected, found, ordered):
        """What is different between two tables, and details."""
        if not ordered:
            keys = [(name, "ascending") for name in expected.column_names]
            expected, found = expected.sort_by(keys), found.sort_by(keys)
        if expected.equals(found):
            return None, None
        counts = f"{expected.num_rows} rows expected, {found.num_rows} found"
        for n, (e, f) in enumerate(zip(expected.to_pylist(), found.to_pylist())):
            if e != f:
                return "rows differ", f"{counts}; first at {n}: {e}, {f}"
        return "rows differ", counts

    def step(self):
        """One query; what is wrong."""
        sql, ordered = self.queries.query()
        try:
            whole, ours = self.rows(self.swing, sql), None
        except swingdb.Error as error:
            whole, ours = None, error
        if ours is None:
            what, details = self.differ(whole, self.limited(sql), ordered)
            if what is not None:
                return sql, f"{what} with little memory", details
        try:
            expected, theirs = self.rows(self.duck, sql), None
        except duckdb.Error as error:
            expected, theirs = None, error
        what = failures_differ(theirs, ours)
        return sql, *((what, None) if what else self.differ(expected, whole, ordered))


def main():
    """Compares as the command line says."""
    parsed = differences.options(__doc__, runs=5, steps=40)
    seen = differences.compare(Spills, parsed.seeds, parsed.steps, parsed.go_on)
    for kind, count in seen.most_common():
        print(f"{count:6} {kind}")
    print(f"{Spills.spilled:6} with temporary files, {Spills.refused} refusals")


if __name__ == "__main__":
    main()
