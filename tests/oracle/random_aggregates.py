"""Random aggregates of every kind over many groups, on SwingDB and on DuckDB.

All aggregates that both engines have, with DISTINCT, FILTER and ORDER BY, over one group, some and
thousands, over GROUPING SETS, ROLLUP and CUBE, in windows, with HAVING and with one thread, so that
partial states of all types are merged. Values have NULLs, NaN, infinities and groups of NULL alone.

    python tests/oracle/random_aggregates.py [--seed N] [--steps N] [--runs N] [--go-on]

Needs the packages swingdb and duckdb. The seed is printed, so that a difference can be replayed.
"""

import random

import differences
import duckdb
import swingdb
from differences import query_differs

#: Columns: type, and their value in row `i`; the share of NULLs is that of the seed.
COLUMNS = {
    "n": ("INTEGER", "i * 7907 % {spread} - 5"),
    "t": ("TINYINT", "i * 31 % 100"),
    "l": ("BIGINT", "i * 7919 % 1000003 * 100000007"),
    "u": ("UBIGINT", "i * 7919 % {spread}"),
    "h": ("HUGEINT", "(i * 7919 % {spread})::HUGEINT * 10000000000000000000"),
    "x": ("DOUBLE", "(i * 7927 % {spread} - 3) / 4.0::DOUBLE"),
    "f": ("FLOAT", "(i * 7927 % 64) / 8.0::FLOAT"),
    "e": ("DECIMAL(9, 2)", "(i * 7933 % {spread} - 2) * 0.25"),
    "b": ("BOOLEAN", "i * 13 % 7 < 4"),
    "s": ("VARCHAR", "CASE i % 5 WHEN 0 THEN '' WHEN 1 THEN 'Ä'"
          " ELSE 'text ' || (i * 7937 % {spread}) END"),
    "d": ("DATE", "DATE '2024-01-01' + (i * 7949 % {spread})::INTEGER"),
    "ts": ("TIMESTAMP", "TIMESTAMP '2024-01-01' + to_seconds(i * 7951 % {spread})"),
    "li": ("INTEGER[]", "[i % 3, NULL, i % {spread}]"),
    "st": ("STRUCT(a INTEGER, b VARCHAR)", "{{'a': (i % 3)::INTEGER, 'b': 'x' || (i % {spread})}}"),
    "bl": ("BLOB", "('b' || (i % {spread}))::BLOB"),
}
NUMBERS = ("n", "t", "l", "u", "x", "f", "e")


class Aggregates:
    """A table of one seed, and queries with aggregates over it."""

    def __init__(self, seed):
        self.rng = rng = random.Random(seed)
        self.engines = [duckdb.connect(), swingdb.connect()]
        rows = rng.choice([0, 1, 30, 3000, 30_000])
        spread = rng.choice([2, 7, 50, 5000])
        nulls = rng.choice([1, 3, 10, 1000])
        columns = []
        for place, (name, (of, value)) in enumerate(COLUMNS.items()):
            value = value.format(spread=spread)
            known = f"(i * {2 * place + 3} + i // 7) % {nulls + 1} <> 0"
            columns.append(f"CASE WHEN {known} THEN ({value})::{of} END AS {name}")
        for engine in self.engines:
            engine.execute("SET TimeZone = 'UTC'")
            ddl = ", ".join(f"{name} {of}" for name, (of, _) in COLUMNS.items())
            engine.execute(f"CREATE TABLE a (i BIGINT, g INTEGER, k VARCHAR, {ddl})")
            engine.execute(
                f"INSERT INTO a SELECT i, CASE WHEN i % 11 > 0 THEN i % 3 END,"
                f" 'key ' || (i % {max(rows // 3, 1)}), {', '.join(columns)}"
                f" FROM range({rows}) q(i)")

    def pick(self, *choices):
        return self.rng.choice(choices)

    def value(self):
        return self.rng.choice(list(COLUMNS))

    def call(self):
        n, v = self.rng.choice(NUMBERS), self.value()
        w = self.rng.choice([c for c in COLUMNS if c not in ("li", "st", "bl")])
        distinct = self.pick("", "", "DISTINCT ")
        direction = self.pick("", " DESC") + self.pick(" NULLS FIRST", " NULLS LAST")
        order = f" ORDER BY {w}{direction}, i"
        k = self.rng.randint(1, 4)
        plain = self.pick(
            f"count({distinct}{v})", "count(*)", f"sum({distinct}{n})", f"avg({distinct}{n})",
            f"min({v})", f"max({v})", f"min({w}, {k})", f"max({w}, {k})",
            f"arg_min({v}, ({w}, i))", f"arg_max({v}, ({w}, i))", f"arg_max(i, i, {k})",
            f"arg_min({v}, i, {k})", f"arg_min_null({v}, i)", f"arg_max_null({v}, i)",
            "bool_and(b)", "bool_or(b)", "bit_and(n)", "bit_or(u)", "bit_xor(l)",
            f"first({v}{order})", f"last({v}{order})", f"any_value({v}{order})",
            f"list({v}{order})", f"array_agg({v} ORDER BY i DESC)",
            f"list_sort(list({distinct}{w}))", f"string_agg(s, ', '{order})",
            f"string_agg({distinct}s, '' ORDER BY s{direction})", f"median({n}::DOUBLE)",
            f"quantile_cont({n}::DOUBLE, 0.3)", f"quantile_disc({w}, 0.3)",
            f"quantile_cont({n}::DOUBLE, [0.1, 0.5, 1.0])", f"quantile_disc({w}, [0.1, 0.5])",
            f"median({self.pick('d', 'ts')})", f"quantile_disc({self.pick('s', 'd', 'ts')}, 0.5)",
            f"stddev({n})", f"stddev_pop({n})", f"var_samp({n})", f"variance({n})", "mad(x)",
            "mad(n)", "skewness(n)", "kurtosis(n)", "kurtosis_pop(t)", "sem(n)",
            "product(t % 3 + 1)", "entropy(t % 5)", f"histogram({w})", "covar_pop(n, x)",
            "covar_samp(x, t)", "regr_count(n, x)", "regr_avgx(n, x)",
            "regr_sxx(n, x)", "regr_sxy(n, x)", "regr_syy(n, x)",
            "favg(x)", "fsum(x)", "sum(i)", f"list({v}{order}) FILTER (WHERE b)",
            f"sum({n}) FILTER (WHERE {self.condition()})", f"count(DISTINCT ({w}, {v}))",
            f"count(DISTINCT {v}) FILTER (WHERE {self.condition()})",
            f"percentile_cont(0.25) WITHIN GROUP (ORDER BY {n}::DOUBLE{self.pick('', ' DESC')})",
            f"percentile_disc(0.25) WITHIN GROUP (ORDER BY {w}{self.pick('', ' DESC')})",
            f"max({w} || '')" if w in ("s",) else f"max(coalesce({w}, {w}))",
            f"sum(CASE WHEN {self.condition()} THEN {n} END)", f"avg({self.pick('d', 'ts')})",
            f"list_sort(map_keys(histogram({w})))", f"any_value({v} ORDER BY i)",
            f"max_by({v}, i)", f"min_by({w}, i)",
        )
        if self.rng.random() < 0.2 and self.is_one(plain):
            plain += f" FILTER (WHERE {self.condition()})"
        return plain

    def is_one(self, call):
        """Whether a call is one aggregate, without FILTER, and no expression of some."""
        macros = ("list_sort", "sem")
        return "FILTER" not in call and not call.startswith(macros)

    def condition(self):
        return self.pick("b", "n > 2", "s IS NOT NULL", "i % 3 = 0", "x < 1", "NOT b", "false",
                         "g = 1", "e IN (0.25, 1)", "d > DATE '2024-01-05'")

    def query(self):
        calls = ", ".join(self.call() for _ in range(self.rng.randint(1, 5)))
        where = self.pick("", "", "", f" WHERE {self.condition()}")
        kind = self.rng.random()
        if kind < 0.2:
            return f"SELECT {calls} FROM a{where}"
        if kind < 0.3:
            by = self.pick("ROLLUP (g, b)", "CUBE (g, b)", "GROUPING SETS ((g), (b), ())",
                           "GROUPING SETS ((g, b), (g))")
            return f"SELECT g, b, grouping(g, b), {calls} FROM a{where} GROUP BY {by}"
        if kind < 0.4:
            over = self.pick("PARTITION BY g", "PARTITION BY k", "")
            call = self.call()
            if " WITHIN " not in call and not call.startswith("list_sort"):
                return f"SELECT i, {call} OVER ({over}) FROM a{where} ORDER BY i LIMIT 50"
        key = self.pick("g", "g", "k", "g, b", "n", "s", "d, g", "x", "li", "st", "e")
        having = self.pick("", "", "", " HAVING count(*) > 1", " HAVING max(n) > 3")
        return f"SELECT {key}, {calls} FROM a{where} GROUP BY {key}{having}"

    def step(self):
        """The query, what is different, and details."""
        if self.rng.random() < 0.1:
            self.engines[1].execute(f"SET threads = {self.rng.randint(1, 3)}")
        sql = self.query()
        return sql, *query_differs(self.engines, sql)


if __name__ == "__main__":
    differences.main(__doc__, Aggregates)
