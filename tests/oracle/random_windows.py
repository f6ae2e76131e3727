"""Random window functions over every kind of frame, on SwingDB and on DuckDB.

ROWS, RANGE (with distances of numbers, decimals, dates and intervals) and GROUPS, bounds on either
side of the row, FILTER, DISTINCT, IGNORE NULLS, functions of ranks and values, aggregates of
several arguments and in an order of their own, named windows, QUALIFY, windows over groups and over
GROUPING SETS, ties and NULLs in the order, partitions of one row and of none.

    python tests/oracle/random_windows.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import random

import differences
import duckdb
import swingdb
from differences import query_differs

#: The columns: type, and values.
COLUMNS = {
    "p": ("INTEGER", ["0", "1", "1", "2"]),
    "n": ("INTEGER", ["0", "1", "2", "2", "3", "7", "-4"]),
    "x": ("DOUBLE", ["0.5", "-1.25", "2", "2", "1e3"]),
    "e": ("DECIMAL(9, 2)", ["0.25", "1.5", "1.5", "-3", "10"]),
    "d": ("DATE", ["'2024-01-30'", "'2024-01-31'", "'2024-02-29'", "'2024-03-31'"]),
    "ts": ("TIMESTAMP", ["'2024-01-30 12:00:00'", "'2024-01-31'", "'2024-02-29 01:00:00'"]),
    "s": ("VARCHAR", ["''", "'a'", "'b'", "'b'", "'longer than twelve bytes'"]),
    "b": ("BOOLEAN", ["true", "false"]),
}
DISTANCES = {
    "n": ["0", "1", "2", "5"], "x": ["0", "0.5", "1.75", "10"], "e": ["0", "0.5", "1.25", "7"],
    "d": ["INTERVAL 0 DAY", "INTERVAL 1 DAY", "INTERVAL 1 MONTH", "INTERVAL 40 DAYS"],
    "ts": ["INTERVAL 0 DAY", "INTERVAL 1 DAY", "INTERVAL 1 MONTH", "INTERVAL 12 HOURS"],
}


class Windows:
    """A table of one seed, and queries with window functions over it."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.engines = [duckdb.connect(), swingdb.connect()]
        nulls = rng.choice([0, 0.15, 0.4])
        rows = []
        for number in range(rng.choice([0, 1, 6, 20, 20, 60, 300])):
            values = ["NULL" if rng.random() < nulls else rng.choice(values)
                      for _, values in COLUMNS.values()]
            rows.append(f"({number}, {', '.join(values)})")
        ddl = ", ".join(f"{name} {of}" for name, (of, _) in COLUMNS.items())
        for engine in self.engines:
            engine.execute(f"CREATE TABLE t (i INTEGER, {ddl})")
            if rows:
                engine.execute(f"INSERT INTO t VALUES {', '.join(rows)}")

    def pick(self, *choices):
        return self.rng.choice(choices)

    def direction(self):
        return self.pick("", " DESC") + self.pick(" NULLS FIRST", " NULLS LAST")

    def total(self):
        """An order without ties."""
        keys = self.rng.sample(list(COLUMNS), self.rng.randint(0, 2))
        return ", ".join(f"{key}{self.direction()}" for key in [*keys, "i"])

    def partition(self):
        return self.pick("", "PARTITION BY p ", "PARTITION BY s ", "PARTITION BY p, b ",
                         "PARTITION BY n % 2 ")

    def bounds(self, distances):
        """Two bounds of a frame; the first may be behind the second."""
        of = lambda: self.rng.choice(distances)
        if self.rng.random() < 0.3:
            near, far = distances[0], self.rng.choice(distances)
            return self.pick(f"BETWEEN {far} PRECEDING AND {near} PRECEDING",
                             f"BETWEEN {near} FOLLOWING AND {far} FOLLOWING")
        start = self.pick("UNBOUNDED PRECEDING", f"{of()} PRECEDING", f"{of()} PRECEDING",
                          "CURRENT ROW", f"{of()} FOLLOWING")
        ends = ["UNBOUNDED FOLLOWING"]
        if "FOLLOWING" not in start:
            ends += ["CURRENT ROW", f"{of()} FOLLOWING"]
            if start == "UNBOUNDED PRECEDING":
                ends += [f"{of()} PRECEDING"] * 2
        return f"BETWEEN {start} AND {self.rng.choice(ends)}"

    def exclude(self):
        return self.pick("", "", "", " EXCLUDE NO OTHERS")

    def window(self, total=False):
        """What stands in OVER, and whether its order leaves no ties."""
        part = self.partition()
        kind = self.pick("rows", "rows", "range", "range", "groups", "plain", "none")
        if kind == "rows" or total:
            distances = ["0", "1", "2", "5"]
            frame = self.pick("", f" ROWS {self.bounds(distances)}{self.exclude()}",
                              f" ROWS {self.bounds(distances)}{self.exclude()}")
            return f"{part}ORDER BY {self.total()}{frame}", True
        if kind == "none":
            return part, False
        if kind == "range":
            key = self.rng.choice(list(DISTANCES))
            bounds = self.bounds(DISTANCES[key])
            order = f"{key}{self.direction()}"
            return f"{part}ORDER BY {order} RANGE {bounds}{self.exclude()}", False
        keys = self.rng.sample(list(COLUMNS), self.rng.randint(1, 2))
        order = ", ".join(f"{key}{self.direction()}" for key in keys)
        if kind == "plain":
            return f"{part}ORDER BY {order}", False
        bounds = self.bounds(["0", "1", "2"])
        return f"{part}ORDER BY {order} GROUPS {bounds}{self.exclude()}", False

    def value(self):
        return self.rng.choice([*COLUMNS, "i", "n + i", "coalesce(n, 9)", "upper(s)", "x * 2"])

    def number(self):
        return self.pick("n", "i", "n", "e", "n % 3", "x")

    def aggregate(self):
        v, k = self.value(), self.number()
        distinct = self.pick("", "", "", "DISTINCT ")
        call = self.pick(
            f"sum({distinct}{k})", f"avg({distinct}{k})", f"count({distinct}{v})", "count(*)",
            f"min({v})", f"max({v})", "bool_and(b)", "bool_or(b)", "bit_or(n)", "bit_xor(i)",
            f"stddev_pop({k})", f"var_samp({k})", f"median({k})",
            f"quantile_cont({k}::DOUBLE, 0.25)", f"quantile_disc({k}, 0.5)",
            f"arg_max(i, ({v}, i))",
            f"arg_min({v}, i)", "product(x / 100)",
            f"list_sort(list({distinct}{v}))", "covar_pop(n, x)", "regr_count(n, i)", "skewness(i)",
            f"approx_count_distinct({v}) >= 0", "entropy(p)",
            f"list_sort(list({v}))", "kahan_sum(n)", "max(i, 2)", "min(i, 3)",
        )
        if self.rng.random() < 0.25:
            call += f" FILTER (WHERE {self.condition()})"
        return call

    def condition(self):
        return self.pick("b", "n > 1", "s IS NOT NULL", "i % 2 = 0", "x < 2 OR n = 2", "NOT b")

    def of_order(self):
        """A function whose answer needs an order without ties."""
        v = self.value()
        nulls = self.pick("", "", " IGNORE NULLS", " RESPECT NULLS")
        return self.pick(
            f"first_value({v}{nulls})", f"last_value({v}{nulls})",
            f"nth_value({v}, {self.rng.randint(1, 4)}{nulls})", f"first({v})", f"last({v})",
            f"list({v})", "string_agg(s, '-')", f"any_value({v})",
            f"list({v} ORDER BY i DESC)", "string_agg(s, '-' ORDER BY s, i)",
        )

    def ranked(self):
        """A function that knows no frame, of an order without ties."""
        v = self.value()
        nulls = self.pick("", "", " IGNORE NULLS")
        return self.pick(
            f"lag({v}{nulls})", f"lead({v}, {self.rng.randint(-2, 3)}{nulls})",
            f"lag({v}, {self.rng.randint(0, 3)}{nulls})", "row_number()",
            f"ntile({self.rng.randint(1, 5)})",
        )

    def peers(self):
        return self.pick("rank()", "dense_rank()", "percent_rank()", "cume_dist()")

    def call(self):
        kind = self.rng.random()
        if kind < 0.5:
            return f"{self.aggregate()} OVER ({self.window()[0]})"
        if kind < 0.75:
            return f"{self.of_order()} OVER ({self.window(total=True)[0]})"
        if kind < 0.9:
            return f"{self.ranked()} OVER ({self.partition()}ORDER BY {self.total()})"
        keys = self.rng.sample(list(COLUMNS), self.rng.randint(1, 2))
        order = ", ".join(f"{key}{self.direction()}" for key in keys)
        return f"{self.peers()} OVER ({self.partition()}ORDER BY {order})"

    def grouped(self):
        """Windows over groups."""
        keys = self.pick("p", "p, b", "s", "n % 3")
        first = keys.split(",")[0]
        by = self.pick(keys, keys, f"ROLLUP ({keys})", f"CUBE ({keys})",
                       f"GROUPING SETS (({keys}), ({first}), ())", f"GROUPING SETS (({first}))")
        plain = by == keys
        value = self.pick("sum(i)", "count(*)", "max(x)", "count(DISTINCT n)",
                          "sum(i) FILTER (WHERE b)", "list_sort(list(DISTINCT s))")
        grouping = f"grouping({keys})"
        order = ", ".join([f"{key}{self.direction()}" for key in keys.split(", ")])
        over = self.pick(
            f"PARTITION BY {grouping} ORDER BY {order}" if not plain else f"ORDER BY {order}",
            f"ORDER BY {grouping}, {order}", "",
            f"ORDER BY {grouping}, {order} ROWS {self.bounds(['1', '2'])}",
            f"ORDER BY count(*) {self.pick('', 'DESC')} RANGE {self.bounds(['1', '2'])}",
        )
        call = self.pick(f"sum({value})" if "list" not in value else f"count({value})",
                         f"max({value})", "sum(count(*))", "rank()" if "ORDER" in over else
                         "count(*)")
        if "ROWS" in over or "RANGE" in over:
            call = call.replace("rank()", "count(*)")
        having = self.pick("", "", " HAVING count(*) > 1", " HAVING max(i) > 5")
        return (f"SELECT {keys}, {grouping}, {value}, {call} OVER ({over}) FROM t GROUP BY {by}"
                f"{having}")

    def query(self):
        where = self.pick("", "", f" WHERE {self.condition()}")
        kind = self.rng.random()
        if kind < 0.15:
            return self.grouped()
        if kind < 0.3:
            over = self.window()[0]
            order = self.direction()
            kept = self.pick("a IS NOT NULL", "c > 1", "count(*) OVER w > 2",
                             f"row_number() OVER (PARTITION BY p ORDER BY i{order}) <= 2")
            return (f"SELECT i, {self.aggregate()} OVER w AS a, max(n) OVER w AS c FROM t{where}"
                    f" WINDOW w AS ({over}) QUALIFY {kept}")
        calls = ", ".join(self.call() for _ in range(self.rng.randint(1, 3)))
        sql = f"SELECT i, {calls} FROM t{where}"
        if kind < 0.4:
            return f"SELECT * FROM ({sql}) WHERE i % 3 = 1"
        if kind < 0.5:
            return f"{sql} ORDER BY i LIMIT {self.rng.randint(0, 9)}"
        return sql

    def step(self):
        """The query, what is different, and details."""
        sql = self.query()
        return sql, *query_differs(self.engines, sql)


if __name__ == "__main__":
    differences.main(__doc__, Windows)
