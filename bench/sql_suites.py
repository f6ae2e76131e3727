"""Suites of queries on the same tables: SwingDB, DuckDB, Polars' SQL, DataFusion alone.

    python bench/sql_suites.py [--suites tpch,tpcds,db-benchmark,clickbench] [--scale 1]
                               [--tpcds FOLDER] [--rows 10000000] [--clickbench FILE]
                               [--hits 5000000]

* tpch: the 22 queries, at a scale factor.
* tpcds: the 99 queries on the tables of a folder; `make tpcds-files FOLDER=...` makes it.
* db-benchmark: the questions of H2O.ai's benchmark of grouping and joining, on a table with its
  cardinalities (100 groups in a column, and rows / 100 in another).
* clickbench: the queries of a file or folder, one a line or a file each, on a table of hits that is
  made here: whatever columns the queries name, text for those that hold text, and numbers with
  many or few values. They are not part of this repository: `git clone --depth 1
  https://github.com/apache/datafusion` has them in benchmarks/queries/clickbench/queries.

All data are in memory, each engine has tables of its own, and they take turns on each query.
DuckDB's answers are what the others' are compared with; an engine that refuses a query, or answers
something else, is said to. A query with LIMIT may have ties, so only its number of rows counts.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
from systems import installed
from tpch_queries import QUERIES, TABLES, compare

import swingdb

SEED = 5
#: Columns of hits that hold text, or times; others are numbers.
TEXTS = ("URL", "Title", "Referer", "SearchPhrase", "MobilePhoneModel")
DAYS_SINCE_1970 = 15_887  # 2013-07-01
#: Queries for which an engine was seen to take more than 12 GiB: it would be killed here.
TOO_LARGE = {"Polars": ("q72",), "DataFusion": ("q72",)}
Tables = dict[str, pa.Table]


class Engine:
    """Has tables, and answers queries."""

    name = ""

    def load(self, tables: Tables) -> None:
        """Takes the tables into its own memory."""

    def ask(self, sql: str) -> pa.Table:
        """A query's answer, as Arrow."""
        raise NotImplementedError

    def close(self) -> None:
        """Gives the memory back."""


class Swing(Engine):
    """A named database."""

    name = "SwingDB"

    def load(self, tables: Tables) -> None:
        self.con = swingdb.connect("suites")
        for name, table in tables.items():
            rows = table.slice(0, 0)  # noqa: F841  found by its name
            self.con.execute(f'CREATE TABLE {name} AS SELECT * FROM "rows"')
            self.con.append(name, table)

    def ask(self, sql: str) -> pa.Table:
        return self.con.sql(sql).arrow()

    def close(self) -> None:
        self.con.close()
        swingdb.drop("suites")


class Duck(Engine):
    """Native tables in memory."""

    name = "DuckDB"

    def load(self, tables: Tables) -> None:
        self.con = duckdb.connect()
        # A function that DataFusion's texts of ClickBench use.
        self.con.execute("CREATE MACRO to_timestamp_seconds(s) AS epoch_ms(s * 1000)")
        for name, table in tables.items():
            self.con.register("loaded", table)
            self.con.execute(f"CREATE TABLE {name} AS SELECT * FROM loaded")
            self.con.unregister("loaded")

    def ask(self, sql: str) -> pa.Table:
        return self.con.sql(sql).to_arrow_table()

    def close(self) -> None:
        self.con.close()


class Polars(Engine):
    """Data frames, and Polars' SQL."""

    name = "Polars"

    def load(self, tables: Tables) -> None:
        self.frames = {name: pl.DataFrame(table) for name, table in tables.items()}
        self.context = pl.SQLContext(self.frames)

    def ask(self, sql: str) -> pa.Table:
        return self.context.execute(sql.strip().rstrip(";"), eager=True).to_arrow()


class Fusion(Engine):
    """DataFusion alone, its tables in memory."""

    name = "DataFusion"

    def load(self, tables: Tables) -> None:
        import datafusion

        self.context = datafusion.SessionContext()
        for name, table in tables.items():
            # As many partitions as cores, or it would use one.
            cores, batches = common.machine()["cores"], table.to_batches(max_chunksize=65_536)
            parts = [batches[core::cores] for core in range(cores)]
            self.context.register_record_batches(name, [part for part in parts if part])

    def ask(self, sql: str) -> pa.Table:
        return self.context.sql(sql).to_arrow_table()


def engines() -> list[type[Engine]]:
    """Those that are installed."""
    return [Swing, Duck, Polars, *([Fusion] if installed("datafusion") else [])]


def tpch(arguments: argparse.Namespace) -> tuple[Tables, dict[str, str]]:
    """TPC-H at `--scale`."""
    common.generate_tpch(arguments, "tpch")
    with swingdb.connect("tpch") as con:
        tables = {name: con.table(name).arrow() for name in TABLES}
    swingdb.drop("tpch")
    return tables, {path.stem: path.read_text() for path in QUERIES}


def tpcds(arguments: argparse.Namespace) -> tuple[Tables, dict[str, str]]:
    """TPC-DS, as `tpcds_files.py` has made it."""
    place = arguments.tpcds
    if place is None or not place.exists():
        return {}, {}
    tables = {path.stem: parquet.read_table(path) for path in sorted(place.glob("*.parquet"))}
    queries = sorted((place / "queries").glob("*.sql"))
    return tables, {f"q{path.stem}": path.read_text() for path in queries}


def db_benchmark(arguments: argparse.Namespace) -> tuple[Tables, dict[str, str]]:
    """A table of `--rows`, and three to join it with."""
    rows, random = arguments.rows, np.random.default_rng(SEED)
    few, many = 100, max(rows // 100, 1)

    def text(numbers: np.ndarray) -> pa.Array:
        words = pa.array([f"id{number:010d}" for number in range(int(numbers.max()) + 1)])
        return words.take(pa.array(numbers))

    x = pa.table({
        "id1": text(random.integers(1, few + 1, rows)),
        "id2": text(random.integers(1, few + 1, rows)),
        "id3": text(random.integers(1, many + 1, rows)),
        "id4": random.integers(1, few + 1, rows).astype(np.int32),
        "id5": random.integers(1, few + 1, rows).astype(np.int32),
        "id6": random.integers(1, many + 1, rows).astype(np.int32),
        "v1": random.integers(1, 6, rows).astype(np.int32),
        "v2": random.integers(1, 16, rows).astype(np.int32),
        "v3": random.integers(0, 100_000_000, rows) / 1e6,
    })
    sizes = {"small": max(rows // 1_000_000, 10), "medium": max(rows // 1000, 100), "big": rows}
    tables = {"x": x.append_column("key", pa.array(random.integers(0, rows, rows)))}
    for name, size in sizes.items():
        tables[name] = pa.table({"key": np.arange(size), "w": random.integers(0, 1000, size)})
    return tables, {
        "one text, few groups": "SELECT id1, sum(v1) AS v1 FROM x GROUP BY id1",
        "two texts": "SELECT id1, id2, sum(v1) AS v1 FROM x GROUP BY id1, id2",
        "text, many groups": "SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM x GROUP BY id3",
        "number, few groups":
            "SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM x GROUP BY id4",
        "number, many groups":
            "SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM x GROUP BY id6",
        "median and deviation":
            "SELECT id4, id5, median(v3) AS m, stddev(v3) AS s FROM x GROUP BY id4, id5",
        "range of many groups": "SELECT id3, max(v1) - min(v2) AS r FROM x GROUP BY id3",
        "two largest of each":
            "SELECT id6, v3 FROM (SELECT id6, v3, row_number() OVER (PARTITION BY id6 "
            "ORDER BY v3 DESC) AS n FROM x) AS ordered WHERE n <= 2",
        "correlation": "SELECT id2, id4, corr(v1, v2) AS r FROM x GROUP BY id2, id4",
        "six columns": "SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS n FROM x "
                       "GROUP BY id1, id2, id3, id4, id5, id6",
        **{f"join, {name}": f"SELECT count(*) AS n, sum(x.v1) AS v, sum({name}.w) AS w FROM x "
           f"JOIN {name} ON x.key = {name}.key" for name in sizes},
        "left join, medium": "SELECT count(*) AS n, sum(x.v1) AS v, sum(medium.w) AS w FROM x "
                             "LEFT JOIN medium ON x.key = medium.key",
        "join, text": "SELECT count(*) AS n, sum(x.v1) AS v FROM x JOIN (SELECT id3, max(v2) AS "
                      "v2 FROM x GROUP BY id3) AS y ON x.id3 = y.id3 WHERE y.v2 > 7",
    }


def clickbench(arguments: argparse.Namespace) -> tuple[Tables, dict[str, str]]:
    """A table with the columns that the queries name, and the queries."""
    place = arguments.clickbench
    if place is None or not place.exists():
        return {}, {}
    if place.is_dir():
        files = sorted(place.glob("q*.sql"), key=lambda path: int(re.sub(r"\D", "", path.stem)))
        texts = {path.stem: path.read_text() for path in files}
    else:
        texts = {f"q{n}": line for n, line in enumerate(place.read_text().splitlines())}
    texts = {name: re.sub(r"^--.*$", "", text, flags=re.M).strip() for name, text in texts.items()}
    whole = " ".join(re.sub(r"'[^']*'", "", text) for text in texts.values())
    # Where columns are quoted, other names are those of results.
    quoted = re.findall(r'"(\w+)"', whole)
    names = sorted(set(quoted or re.findall(r"\b[A-Z]+[a-z]\w*|\bUR[LI]\w*|\bOS\b", whole)))
    return {"hits": hits(names, arguments.hits)}, texts


def hits(names: list[str], rows: int) -> pa.Table:
    """Columns by their names, skewed as people's clicks are."""
    random = np.random.default_rng(SEED)

    def skewed(values: int) -> np.ndarray:
        return (values * random.random(rows) ** 3).astype(np.int64)

    columns: dict[str, Any] = {}
    day = np.sort(random.integers(0, 31, rows))
    for name in names:
        if name in TEXTS:
            values = 20_000 if name != "MobilePhoneModel" else 100
            words = [""] + [f"http://www.example{n % 97}.org/{name.lower()}/news?{n}"
                            + ("google" if n % 11 == 0 else "") for n in range(1, values)]
            columns[name] = pa.array(words).take(pa.array(skewed(values)))
        elif name == "EventDate":
            columns[name] = pa.array((DAYS_SINCE_1970 + day).astype(np.int32), pa.date32())
        elif name == "EventTime":
            columns[name] = (DAYS_SINCE_1970 + day) * 86_400 + random.integers(0, 86_400, rows)
        elif name.endswith(("UserID", "WatchID", "Hash", "ClientIP")):
            columns[name] = skewed(rows // 4 + 1) * 1_000_003
        elif name.startswith(("Is", "Dont", "Trafic")):
            columns[name] = (random.random(rows) < 0.1).astype(np.int16)
        else:
            # As the suite has them: SMALLINT, but for some keys.
            width = np.int32 if name.endswith("ID") else np.int16
            values = 2000 if name.endswith(("Width", "RegionID")) else 60
            columns[name] = skewed(values).astype(width)
    # Every query of the suite that counts needs one column at least.
    return pa.table(columns or {"CounterID": skewed(60)})


SUITES: dict[str, Callable[[argparse.Namespace], tuple[Tables, dict[str, str]]]] = {
    "tpch": tpch, "tpcds": tpcds, "db-benchmark": db_benchmark, "clickbench": clickbench,
}


def sorted_rows(answer: pa.Table) -> list[tuple]:
    """The rows, by their values; approximate numbers last, so that they decide nothing. What is not
    a number counts as missing: some engines say so of a correlation without variance."""
    rows = [
        tuple(None if value != value else value for value in row.values())
        for row in answer.to_pylist()
    ]
    return sorted(rows, key=lambda row: [
        (isinstance(value, float), repr(value) if not isinstance(value, float) else value)
        for value in row
    ])


def differs(query: str, sql: str, ours: pa.Table, expected: pa.Table) -> str | None:
    """What is different between two answers."""
    if ours.num_rows != expected.num_rows:
        return f"{ours.num_rows} rows, DuckDB {expected.num_rows}"
    if re.search(r"\blimit\b", sql, re.I) or ours.num_rows > 200_000:
        return None
    try:
        compare(query, sorted_rows(ours), sorted_rows(expected))
    except AssertionError as difference:
        return str(difference)
    return None


def measure(query: str, sql: str, held: dict[str, Engine], runs: int) -> dict:
    """One query: compared first, then in turns."""
    row: dict[str, Any] = {"query": query, "ms": {}, "refused": {}, "different": {}}
    expected = held[Duck.name].ask(sql)
    for name, engine in held.items():
        if query in TOO_LARGE.get(name, ()):
            row["refused"][name] = "left out: takes more than 12 GiB of memory"
            continue
        try:
            found = engine.ask(sql)
        except Exception as error:  # each engine has errors of its own
            row["refused"][name] = str(error).splitlines()[0][:200]
            continue
        if different := differs(query, sql, found, expected):
            row["different"][name] = different
            continue
        row["ms"][name] = []
    for _ in range(runs):
        for name, times in row["ms"].items():
            begun = time.perf_counter()
            held[name].ask(sql)
            times.append((time.perf_counter() - begun) * 1e3)
    return row


def run(suite: str, arguments: argparse.Namespace) -> None:
    """One suite."""
    tables, queries = SUITES[suite](arguments)
    if not queries:
        print(f"{suite}: left out, nothing is given by --{suite}", flush=True)
        return
    held = {engine.name: engine() for engine in engines()}
    for engine in held.values():
        engine.load(tables)
    sizes = {name: table.num_rows for name, table in tables.items()}
    del tables
    rows = []
    for query, sql in queries.items():
        rows.append(measure(query, sql, held, arguments.runs))
        shown = ", ".join(f"{name} {statistics.median(ms):.1f} ms"
                          for name, ms in rows[-1]["ms"].items())
        bad = rows[-1]["refused"] | rows[-1]["different"]
        said = "".join(f"; {name}: {why[:90]}" for name, why in bad.items())
        print(f"{suite}, {query}: {shown}{said}", flush=True)
        if Swing.name in rows[-1]["different"]:
            raise SystemExit(f"SwingDB differs: {rows[-1]['different'][Swing.name]}")
    for engine in held.values():
        engine.close()
    versions = {name: importlib.metadata.version(name)
                for name in ("duckdb", "polars", "datafusion") if installed(name)}
    common.write(f"sql-{suite}", {
        "command": "make bench-sql-suites", "suite": suite, "sizes": sizes, "rows": rows,
        "versions": versions, "scale": arguments.scale,
    })


def own_arguments(parser: argparse.ArgumentParser) -> None:
    """What this benchmark takes beside what all take."""
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--rows", type=int, default=10_000_000, help="of db-benchmark")
    parser.add_argument("--hits", type=int, default=5_000_000, help="rows of clickbench")
    parser.add_argument("--tpcds", type=Path, default=None, help="a folder of tables and queries")
    parser.add_argument("--clickbench", type=Path, default=None, help="a file or folder of queries")
    parser.add_argument("--runs", type=int, default=3)


def main() -> None:
    """Measures and writes."""
    arguments = common.parse(__doc__, own_arguments)
    with common.namespace():
        for suite in arguments.suites.split(","):
            run(suite, arguments)


if __name__ == "__main__":
    main()
