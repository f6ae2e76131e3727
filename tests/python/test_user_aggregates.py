"""Aggregates and functions of tables that are written in Python."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import statistics
import threading
import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import swingdb


class Product:
    """Without `merge`: one object gets all rows of a group."""

    def __init__(self):
        self.value = 1

    def step(self, x: int):
        self.value *= x

    def finish(self) -> int:
        return self.value


@pytest.fixture
def numbers(con):
    con.execute("CREATE TABLE t AS SELECT range % 7 AS g, range AS x FROM range(100000)")
    con.execute("INSERT INTO t VALUES (3, NULL), (NULL, 5), (8, NULL)")
    return con


def merging():
    class Total:
        instances = 0
        merged = 0

        def __init__(self):
            type(self).instances += 1
            self.sum, self.seen = 0, collections.Counter()

        def step(self, x: int):
            self.sum += x
            self.seen[x % 3] += 1

        def merge(self, other):
            type(self).merged += 1
            assert type(other) is type(self)
            self.sum += other.sum
            self.seen.update(other.seen)

        def finish(self) -> int:
            assert sum(self.seen.values()) >= 0
            return self.sum

    return Total


def test_a_class_gets_each_row(numbers):
    numbers.create_aggregate("times_all", Product)
    values = "VALUES (1, 2), (1, 3), (2, 7), (3, NULL)"
    sql = f"SELECT g, times_all(x) FROM ({values}) AS v(g, x) GROUP BY g"
    assert sorted(numbers.sql(sql).fetchall()) == [(1, 6), (2, 7), (3, 1)]
    assert numbers.sql("SELECT times_all(x) FROM t WHERE false").fetchone() == (1,)
    assert numbers.sql("SELECT TIMES_ALL(x) FILTER (x > 0) FROM t WHERE x < 5").fetchone() == (24,)


def test_groups_of_all_threads_are_merged(numbers):
    total = merging()
    numbers.create_aggregate("total", total)
    for sql in (
        "SELECT g, {}(x) FROM t GROUP BY g ORDER BY g",
        "SELECT {}(x) FROM t",
        "SELECT x % 30000 AS h, {}(x) FROM t GROUP BY h ORDER BY h LIMIT 100",
        "SELECT g, {}(x) FROM t GROUP BY ROLLUP (g) ORDER BY g, 2",
    ):
        found = numbers.sql(sql.format("total")).fetchall()
        wanted = numbers.sql(sql.format("coalesce(sum(x), 0)").replace(
            "coalesce(sum(x), 0)(x)", "coalesce(sum(x), 0)"
        )).fetchall()
        assert found == [tuple(row) for row in wanted], sql
    threads = numbers.sql("SELECT current_setting('threads')").fetchone()[0]
    assert total.merged > 0 or int(threads) == 1


def test_a_function_gets_the_values_of_a_group(numbers):
    def middle(values: list[float]) -> float:
        return statistics.median(values)

    numbers.create_aggregate("middle", middle)
    found = numbers.sql("SELECT g, middle(x) FROM t WHERE g < 7 GROUP BY g ORDER BY g").fetchall()
    wanted = numbers.sql("SELECT g, median(x) FROM t WHERE g < 7 GROUP BY g ORDER BY g").fetchall()
    assert found == wanted
    assert numbers.sql("SELECT middle(x) FROM t WHERE false").fetchone() == (None,)
    numbers.create_aggregate("how_many", len, ["BIGINT"], "INT", null_handling="special")
    assert numbers.sql("SELECT how_many(x) FROM t WHERE g = 3 AND x IS NULL").fetchone() == (1,)
    assert numbers.sql("SELECT how_many(x) FROM t WHERE false").fetchone() == (0,)
    numbers.create_aggregate("first_text", lambda a, b: f"{a[0]}{b[0]}", ["INT", "TEXT"], "TEXT")
    assert numbers.sql("SELECT first_text(1, 'x')").fetchone() == ("1x",)


def test_a_function_gets_arrow_arrays_of_a_group(numbers):
    seen = []

    def spread(x):
        seen.append(x.type)
        return pc.subtract(pc.max(x), pc.min(x))

    numbers.create_aggregate("spread", spread, ["BIGINT"], "BIGINT", type="arrow")
    sql = "SELECT g, spread(x) FROM t WHERE g < 7 GROUP BY g ORDER BY g"
    wanted = numbers.sql(sql.replace("spread(x)", "max(x) - min(x)")).fetchall()
    assert numbers.sql(sql).fetchall() == wanted
    assert set(seen) == {pa.int64()}
    assert numbers.sql("SELECT spread(x) FROM t WHERE false").fetchone() == (None,)
    numbers.create_aggregate(
        "joined", lambda s: "-".join(s.to_pylist()), ["VARCHAR"], "VARCHAR", type="arrow"
    )
    sql = "SELECT joined(s ORDER BY s DESC) FROM (VALUES ('a'), (NULL), ('b')) AS v(s)"
    assert numbers.sql(sql).fetchone() == ("b-a",)
    numbers.create_aggregate("none", lambda s: len(s), ["INT"], "INT", type="arrow",
                             null_handling="special")
    assert numbers.sql("SELECT none(1) FROM t WHERE false").fetchone() == (0,)

    class Rows:
        calls = 0

        def __init__(self):
            self.count = 0

        def step(self, x):
            type(self).calls += 1
            self.count += len(x)

        def finish(self):
            return pa.scalar(self.count, pa.int32())

    numbers.create_aggregate("many", Rows, ["BIGINT"], "BIGINT", type="arrow")
    assert numbers.sql("SELECT many(x) FROM t").fetchone() == (100001,)
    assert Rows.calls < 1000


def test_order_distinct_and_windows(numbers):
    numbers.create_aggregate("all_of", list, ["BIGINT"], "BIGINT[]")
    for merge in (False, True):
        class Last:
            def __init__(self):
                self.value = None

            def step(self, x: int):
                self.value = x

            def finish(self) -> int:
                return self.value

        if merge:
            Last.merge = lambda self, other: self.step(other.value)
        numbers.create_aggregate("latest", Last)
        rows = "SELECT range AS x, range % 5 AS y FROM range(50000)"
        numbers.execute(f"CREATE OR REPLACE TABLE u AS {rows}")
        found = numbers.sql("SELECT latest(x ORDER BY y, x DESC), latest(x ORDER BY x) FROM u")
        assert found.fetchone() == (4, 49999)
        frame = "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
        sql = f"SELECT x, latest(x) OVER (ORDER BY x {frame}) FROM u"
        assert numbers.sql(f"{sql} ORDER BY x LIMIT 3").fetchall() == [(0, 1), (1, 2), (2, 3)]
        running = numbers.sql("SELECT latest(x) OVER (ORDER BY x) AS l FROM u ORDER BY x")
        assert running.fetchall() == [(x,) for x in range(50000)]
    assert numbers.sql("SELECT all_of(DISTINCT y ORDER BY y DESC) FROM u").fetchone() == (
        [4, 3, 2, 1, 0],
    )
    assert sorted(numbers.sql("SELECT all_of(DISTINCT y), max(x) FROM u").fetchone()[0]) == [
        0, 1, 2, 3, 4,
    ]
    with pytest.raises(swingdb.Error, match="can only be ordered by"):
        numbers.sql("SELECT all_of(DISTINCT y ORDER BY x), all_of(x) FROM u").fetchall()
    frames = numbers.sql(
        "SELECT all_of(x) OVER (ORDER BY x ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a "
        "FROM (VALUES (1), (2), (NULL), (4), (5)) AS v(x) ORDER BY x NULLS FIRST"
    ).fetchall()
    assert frames[-1] == ([2, 4, 5],)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BOOLEAN", True),
        ("UBIGINT", 2**64 - 1),
        ("DOUBLE", 0.1),
        ("VARCHAR", "x'y\u00e4"),
        ("BLOB", b"\x00\xff"),
        ("DECIMAL(10, 2)", decimal.Decimal("12345678.25")),
        ("DATE", dt.date(2024, 2, 29)),
        ("TIMESTAMP", dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
        ("BIGINT[]", [1, None, 3]),
    ],
)
def test_values_of_each_type(con, kind, value):
    class Last:
        def __init__(self):
            self.value = None

        def step(self, x):
            self.value = x

        def merge(self, other):
            self.value = other.value if other.value is not None else self.value

        def finish(self):
            return self.value

    con.create_aggregate("latest", Last, [kind], kind)
    con.create_aggregate("only", lambda values: values[0], [kind], kind)
    con.execute(f"CREATE TABLE v (v {kind})")
    con.execute("INSERT INTO v VALUES (?), (NULL)", [value])
    rel = con.sql("SELECT latest(v) AS a, only(v) AS b FROM v")
    assert rel.fetchall() == [(value, value)]
    assert rel.types == con.table("v").types * 2


def test_errors_of_aggregates(numbers):
    class Bad(Product):
        def step(self, x: int):
            raise KeyError("broken step")

    numbers.create_aggregate("bad", Bad)
    with pytest.raises(swingdb.ExecutionError) as raised:
        numbers.sql("SELECT bad(x) FROM t").fetchall()
    assert "the function bad: KeyError" in str(raised.value)
    assert 'raise KeyError("broken step")' in str(raised.value), "the traceback"
    assert numbers.sql("SELECT count(*) FROM t").fetchone() == (100003,)

    class Unpicklable(Product):
        def __init__(self):
            self.function = lambda: 1

        def step(self, x: int):
            pass

        def merge(self, other):
            pass

    numbers.create_aggregate("unpicklable", Unpicklable, ["BIGINT"], "BIGINT")
    numbers.execute("CREATE TABLE w AS SELECT range AS x FROM range(500000)")
    try:
        numbers.sql("SELECT x % 10, unpicklable(x) FROM w GROUP BY 1").fetchall()
    except swingdb.ExecutionError as error:
        assert "unpicklable" in str(error)
    numbers.create_aggregate("text", lambda v: "x", ["BIGINT"], "BIGINT")
    with pytest.raises(swingdb.ExecutionError, match="the function text: .*was declared"):
        numbers.sql("SELECT text(x) FROM t").fetchall()
    with pytest.raises(swingdb.ProgrammingError, match=r"has no finish\(\)"):
        numbers.create_aggregate("f", type("Half", (), {"step": print}), ["INT"], "INT")
    with pytest.raises(swingdb.ProgrammingError, match="the type of 'values' is not known"):
        numbers.create_aggregate("f", lambda values: 1)
    with pytest.raises(swingdb.ProgrammingError, match=r"annotate list\[...\]"):
        def wrong(x: int) -> int:
            return x

        numbers.create_aggregate("f", wrong)
    with pytest.raises(swingdb.PlanError, match="one argument at least"):
        numbers.create_aggregate("f", lambda: 1, [], "INT")
    for taken in ("sum", "lower", "row_number"):
        with pytest.raises(swingdb.AlreadyExistsError):
            numbers.create_aggregate(taken, Product)
    with pytest.raises(swingdb.ProgrammingError):
        numbers.create_aggregate("f", Product, type="other")


def test_names_belong_to_all_kinds(con):
    con.create_aggregate("f", len, ["INT"], "INT")
    assert con.sql("SELECT f(x) FROM (VALUES (1), (2)) AS v(x)").fetchone() == (2,)
    con.create_function("f", lambda x: x + 1, ["INT"], "INT")
    assert con.sql("SELECT f(1)").fetchone() == (2,)
    con.create_table_function("f", lambda: {"a": [1]}, columns={"a": int})
    assert con.sql("SELECT a FROM f()").fetchone() == (1,)
    with pytest.raises(swingdb.Error):
        con.sql("SELECT f(1)")
    con.remove_function("f")
    with pytest.raises(swingdb.Error):
        con.sql("SELECT * FROM f()")
    with pytest.raises(swingdb.NotFoundError):
        con.remove_function("f")


def test_a_function_is_a_table(con):
    calls = []

    def squares(n: int, step: int | None):
        calls.append((n, step))
        for start in range(0, n, 10):
            part = list(range(start, min(start + 10, n)))
            yield {"x": part, "y": [x * x * (step or 1) for x in part]}

    con.create_table_function("squares", squares, columns={"x": int, "y": "DOUBLE"})
    rel = con.sql("SELECT * FROM squares(25, NULL)")
    assert rel.columns == ["x", "y"]
    assert rel.types == ["BIGINT", "DOUBLE"]
    assert rel.fetchall() == [(x, float(x * x)) for x in range(25)]
    assert con.sql("SELECT sum(y) FROM squares(3, 2)").fetchone() == (10.0,)
    assert con.sql("SELECT y FROM SQUARES(?, 1) WHERE x = 3", [20]).fetchone() == (9.0,)
    assert con.sql("SELECT count(*) FROM squares(1 + 6, '1'::INT)").fetchone() == (7,)
    joined = "SELECT count(*) FROM squares(12, 1) AS a JOIN squares(5, 1) AS b USING (x)"
    assert con.sql(joined).fetchone() == (5,)
    assert calls[0] == (25, None)
    con.execute("CREATE TABLE kept AS SELECT * FROM squares(4, 1)")
    assert con.table("kept").shape == (4, 2)


def test_pieces_of_every_kind(con):
    pl = pytest.importorskip("polars")
    pieces = [
        pa.table({"a": [1], "b": ["x"]}),
        pa.record_batch({"b": ["y"], "a": [2]}),
        pl.DataFrame({"A": [3], "B": ["z"]}),
        {"a": [4], "b": [None]},
        [{"a": 5, "b": "w"}],
        {"other": [6], "names": ["v"]},
        {"a": [], "b": []},
    ]
    con.create_table_function("pieces", lambda: pieces, columns={"a": "SMALLINT", "b": str})
    found = con.sql("SELECT * FROM pieces()").fetchall()
    assert found == [(1, "x"), (2, "y"), (3, "z"), (4, None), (5, "w"), (6, "v")]
    con.create_table_function("one", lambda: pieces[0], columns={"a": int, "b": str})
    assert con.sql("SELECT b, a FROM one()").fetchall() == [("x", 1)]
    con.create_table_function("empty", lambda: [], columns={"a": int})
    assert con.sql("SELECT * FROM empty()").fetchall() == []
    assert con.sql("SELECT count(*) FROM empty()").fetchone() == (0,)


def test_errors_of_table_functions(con):
    def broken(n: int):
        yield {"a": [1]}
        raise ValueError("in the middle")

    con.create_table_function("broken", broken, columns={"a": int})
    with pytest.raises(swingdb.ExecutionError) as raised:
        con.sql("SELECT * FROM broken(1)").fetchall()
    assert "the function broken: ValueError: in the middle" in str(raised.value)
    assert 'raise ValueError("in the middle")' in str(raised.value)
    for piece, message in (
        ({"a": ["text"]}, "'text'|text"),
        ({"a": [2**40]}, "row 1"),
        ({"a": [1], "b": [2]}, "gave 2 columns, and has 1 declared"),
        ("text", "cannot make a table"),
        (7, "cannot make a table"),
    ):
        con.create_table_function("wrong", lambda piece=piece: iter([piece]), [], {"a": "INT"})
        with pytest.raises(swingdb.Error, match=message):
            con.sql("SELECT * FROM wrong()").fetchall()
    con.create_table_function("wrong", lambda: 5, columns={"a": "INT"})
    with pytest.raises(swingdb.ExecutionError, match="not iterable"):
        con.sql("SELECT * FROM wrong()").fetchall()
    with pytest.raises(swingdb.Error, match="takes 1 argument, and has 0 here"):
        con.sql("SELECT * FROM broken()")
    with pytest.raises(swingdb.Error):
        con.sql("SELECT * FROM broken('x')")
    with pytest.raises(swingdb.Error):
        con.sql("SELECT * FROM range(3) AS r, broken(r.range)")
    with pytest.raises(swingdb.ProgrammingError, match="are declared"):
        con.create_table_function("f", broken)
    for taken in ("range", "read_csv", "generate_series", "duckdb_tables"):
        with pytest.raises(swingdb.AlreadyExistsError):
            con.create_table_function(taken, broken, columns={"a": int})
    con.create_table_function("nested", lambda: con.sql("SELECT 1 AS a"), [], {"a": int})
    with pytest.raises(swingdb.ExecutionError, match="cannot run statements itself"):
        con.sql("SELECT * FROM nested()").fetchall()


def test_a_generator_is_closed_when_no_more_is_wanted(con):
    closed = threading.Event()
    given = []

    def endless():
        try:
            number = 0
            while True:
                given.append(number)
                yield {"a": list(range(number, number + 1000))}
                number += 1000
        finally:
            closed.set()

    con.create_table_function("endless", endless, columns={"a": int})
    assert con.sql("SELECT a FROM endless() LIMIT 1500").fetchall()[-1] == (1499,)
    assert closed.wait(30)
    assert len(given) < 1000


def test_interrupts_end_what_python_computes(con, interrupting):
    def endless():
        while True:
            yield {"a": list(range(1000))}

    class Slow(Product):
        def step(self, x: int):
            time.sleep(0.001)

    con.create_table_function("endless", endless, columns={"a": int})
    con.create_aggregate("slow", Slow)
    for sql in (
        "SELECT count(*) FROM endless()",
        "SELECT slow(range) FROM range(10000000)",
        "SELECT range % 100, slow(range) FROM range(10000000) GROUP BY 1",
    ):
        begun = time.monotonic()
        with interrupting(con.interrupt), pytest.raises(swingdb.QueryInterruptedError):
            con.sql(sql).fetchall()
        assert time.monotonic() - begun < 60
    assert con.sql("SELECT 1").fetchone() == (1,)


def test_statements_of_several_threads(numbers):
    numbers.create_aggregate("total", merging())
    numbers.create_table_function(
        "rows", lambda n: ({"x": [i]} for i in range(n)), ["BIGINT"], {"x": int}
    )
    found = []

    def work():
        found.append(numbers.sql("SELECT total(x) FROM rows(500)").fetchone())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == [(500 * 499 // 2,)] * 4
