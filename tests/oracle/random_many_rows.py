"""Random aggregates and windows over more rows than a batch has, on SwingDB and on DuckDB.

FILTER, DISTINCT and ORDER BY together in one call, several such calls side by side, few groups and
many, GROUPING SETS, texts of one and of many values, and windows whose partitions are longer than
a batch.

    python tests/oracle/random_many_rows.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb, duckdb and pyarrow. The seed is printed, so that a difference can be
replayed.
"""

import datetime
import random

import differences
import duckdb
import pyarrow as pa
import swingdb
from differences import query_differs
from random_windows import Windows

TEXTS = ["", "a", "b", "Ä", "longer than twelve bytes", "longer than twelve bytes too"]
DAY = datetime.date(2024, 1, 30)


class ManyRows(Windows):
    """A table of one seed, and queries over it."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        rows = rng.choice([8191, 8192, 8193, 20_000, 40_000])
        nulls = rng.choice([0, 0.1, 0.5])
        several = rng.choice([3, 50, rows])

        def column(value, of=None):
            values = [None if rng.random() < nulls else value() for _ in range(rows)]
            return pa.array(values, of)

        table = pa.table({  # noqa: F841: both engines find it
            "i": pa.array(range(rows), pa.int32()),
            "p": column(lambda: rng.randrange(3), pa.int32()),
            "n": column(lambda: rng.randrange(-several, several), pa.int32()),
            "x": column(lambda: rng.randrange(-several, several) / 4, pa.float64()),
            "s": column(lambda: rng.choice(TEXTS) + rng.choice(["", str(rng.randrange(several))]),
                        pa.string()),
            "d": column(lambda: DAY + datetime.timedelta(rng.randrange(several)), pa.date32()),
            "b": column(lambda: rng.random() < 0.5, pa.bool_()),
            "l": column(lambda: [rng.randrange(several)] * rng.randrange(3), pa.list_(pa.int32())),
        })
        self.engines = [duckdb.connect(), swingdb.connect()]
        for engine in self.engines:
            engine.register("rows_of_all", table)
            engine.execute("CREATE TABLE t AS SELECT *, {'a': p, 'b': n % 5} AS st, "
                           "(n * 0.25)::DECIMAL(12, 2) AS e FROM rows_of_all ORDER BY i")

    def value(self):
        return self.pick("i", "p", "n", "x", "s", "d", "b", "e", "l", "st", "n % 7", "upper(s)",
                         "coalesce(s, 'none')")

    def plain(self):
        return self.pick("i", "p", "n", "x", "s", "d", "e", "n % 7", "upper(s)")

    def number(self):
        return self.pick("i", "p", "n", "e", "n % 7", "x")

    def condition(self):
        return self.pick("b", "n > 1", "s IS NOT NULL", "i % 2 = 0", "x < 2 OR n = 2", "NOT b",
                         "i > 8192", "i < 0", "l IS NOT NULL", "s LIKE '%1%'")

    def order(self):
        keys = self.rng.sample(["p", "n", "x", "s", "d", "b", "e"], self.rng.randint(0, 2))
        return ", ".join(f"{key}{self.direction()}" for key in [*keys, "i"])

    def aggregate(self):
        v, c, k = self.value(), self.plain(), self.number()
        distinct = self.pick("", "DISTINCT ")
        same = f"{c}{self.direction()}"
        call = self.pick(
            f"sum({distinct}{k})", f"avg({distinct}{k}::DOUBLE)", f"count({distinct}{v})",
            "count(*)",
            f"count(DISTINCT {v})", f"count(DISTINCT {v})",
            f"min({v})", f"max({v})", "bool_and(b)", "bit_xor(i)", f"stddev_pop({k})",
            f"median({k})", f"median({distinct}{k}::DOUBLE)", f"quantile_disc({c}, 0.3)",
            f"quantile_cont({k}::DOUBLE, [0.1, 0.9])", f"mode({c}) IS NULL", f"mad({k}::DOUBLE)",
            f"md5(list(DISTINCT {c} ORDER BY {same})::VARCHAR)",
            f"md5(list({c} ORDER BY {self.order()})::VARCHAR)",
            f"md5(list({v} ORDER BY {self.order()})::VARCHAR)",
            f"md5(string_agg(s, '-' ORDER BY {self.order()}))",
            "md5(string_agg(DISTINCT s, '-' ORDER BY s))",
            f"first({v} ORDER BY {self.order()})", f"last({v} ORDER BY {self.order()})",
            f"arg_max({v}, i)", f"arg_min({v}, (n, i))", f"max({k}, 3)", f"arg_max(i, i, 2)",
            f"any_value({v} ORDER BY {self.order()})", f"histogram(p)", "covar_pop(n, x)",
            f"list_sort(list(DISTINCT {self.pick('p', 'n % 7', 'st', 'b')}))",
            f"regr_slope(n, i)", f"entropy({c})", "skewness(n)", "kurtosis(i)",
        )
        return f"{call} FILTER (WHERE {self.condition()})" if self.rng.random() < 0.35 else call

    def groups(self):
        keys = self.pick("p", "p, b", "n % 3", "s", "st", "l", "d", "i // 3", "x", "e, p")
        first = keys.split(",")[0]
        by = self.pick(keys, keys, keys, f"ROLLUP ({keys})",
                       f"GROUPING SETS (({keys}), ({first}), ())")
        return keys, by

    def windowed(self):
        """A window function whose frames do not gather all rows for each."""
        k, c = self.number(), self.plain()
        part = self.pick("", "", "PARTITION BY p ", "PARTITION BY b, n % 2 ")
        call = self.pick(f"sum({k})", f"avg({k}::DOUBLE)", f"count({c})", f"min({c})", f"max({c})",
                         "count(*)", f"first_value({c})", f"last_value({c})",
                         f"first_value({c} IGNORE NULLS)",
                         f"nth_value({c}, 3)", f"count(DISTINCT {self.pick('p', 'n % 7', 'st')})")
        if "_value" not in call and self.rng.random() < 0.3:
            call += f" FILTER (WHERE {self.condition()})"
        frame = self.pick("", f" ROWS {self.bounds(['0', '1', '7', '100'])}",
                          f" ROWS {self.bounds(['0', '5000', '8192', '9000'])}")
        order = f"ORDER BY {self.order()}"
        if self.rng.random() < 0.2:
            other = self.pick(f"lag({c}, 8192)", f"lead({c}, 3)", "ntile(7)", "row_number()",
                              f"lag({c} IGNORE NULLS)")
            return f"{other} OVER ({part}{order})"
        return f"{call} OVER ({part}{order}{frame})"

    def step(self):
        where = self.pick("", "", f" WHERE {self.condition()}")
        if self.rng.random() < 0.3:
            calls = ", ".join(f"{self.windowed()} AS w{at}" for at in range(self.rng.randint(1, 2)))
            sql = f"SELECT i, {calls} FROM t{where}"
            return sql, *query_differs(self.engines, sql)
        calls = ", ".join(f"{self.aggregate()} AS a{at}" for at in range(self.rng.randint(1, 4)))
        if self.rng.random() < 0.4:
            sql = f"SELECT {calls} FROM t{where}"
        else:
            keys, by = self.groups()
            having = self.pick("", "", " HAVING count(*) > 1", " HAVING count(DISTINCT n) > 1")
            sql = f"SELECT {keys}, {calls} FROM t{where} GROUP BY {by}{having}"
        return sql, *query_differs(self.engines, sql)


if __name__ == "__main__":
    differences.main(__doc__, ManyRows)
