"""Functions of SQL that are written in Python; DuckDB's answers where it has the same."""

from __future__ import annotations

import datetime as dt
import decimal
import threading

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import swingdb


def test_a_function_is_called_for_each_row(con):
    def initials(name: str) -> str:
        return "".join(word[0] for word in name.split())

    duck = duckdb.connect()
    for each in (con, duck):
        each.create_function("initials", initials)
        each.execute("CREATE TABLE t (name VARCHAR)")
        each.execute("INSERT INTO t VALUES ('Ada Lovelace'), (NULL), ('Bo')")
    sql = "SELECT initials(name) AS i FROM t WHERE initials(name) IS NOT NULL ORDER BY i"
    assert con.sql(sql).fetchall() == duck.execute(sql).fetchall() == [("AL",), ("B",)]
    assert con.sql("SELECT INITIALS(name) FROM t").fetchall()[1] == (None,)
    assert con.table("t").aggregate("string_agg(initials(name), '' ORDER BY name)").fetchone() == (
        "ALB",
    )
    con.create_function("initials", lambda name: name[:1], ["VARCHAR"], "VARCHAR")
    assert con.sql("SELECT initials('xyz')").fetchone() == ("x",), "it is replaced"
    con.remove_function("INITIALS")
    with pytest.raises(swingdb.Error, match="initials"):
        con.sql("SELECT initials('x')")
    with pytest.raises(swingdb.NotFoundError):
        con.remove_function("initials")


VALUES = [
    ("BOOLEAN", True),
    ("TINYINT", -128),
    ("INTEGER", 7),
    ("BIGINT", 2**63 - 1),
    ("UBIGINT", 2**64 - 1),
    ("REAL", 0.5),
    ("DOUBLE", 0.1),
    ("VARCHAR", "x'y\u00e4"),
    ("BLOB", b"\x00\xff"),
    ("DECIMAL(10, 2)", decimal.Decimal("12345678.25")),
    ("DATE", dt.date(2024, 2, 29)),
    ("TIME", dt.time(1, 2, 3, 4)),
    ("TIMESTAMP", dt.datetime(2024, 2, 29, 1, 2, 3, 4)),
    ("BIGINT[]", [1, None, 3]),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[kind for kind, _ in VALUES])
def test_values_of_each_type(con, kind, value):
    seen = []

    def same(given):
        seen.append(given)
        return given

    con.create_function("same", same, [kind], kind)
    con.execute(f"CREATE TABLE v (v {kind})")
    con.execute("INSERT INTO v VALUES (?), (NULL)", [value])
    rel = con.sql("SELECT same(v) AS w FROM v")
    assert rel.fetchall() == [(value,), (None,)]
    assert rel.types == con.table("v").types
    assert seen == [value]


def test_values_that_do_not_fit_are_refused(con):
    cases = [
        ("TINYINT", 128),
        ("BIGINT", 2.5),
        ("BIGINT", "1"),
        ("VARCHAR", 1),
        ("BOOLEAN", 1),
        ("DATE", "2024-01-01"),
        ("DOUBLE", "x"),
        ("BIGINT", object()),
    ]
    for kind, value in cases:
        con.create_function("f", lambda value=value: value, [], kind)
        with pytest.raises(swingdb.Error, match="the function f"):
            con.sql("SELECT f()").fetchall()


def test_nulls_and_exceptions(con):
    con.create_function(
        "or_zero", lambda x: x or 0, ["BIGINT"], "BIGINT", null_handling="special"
    )
    assert con.sql("SELECT or_zero(NULL), or_zero(5)").fetchone() == (0, 5)

    def inverse(x: float) -> float:
        return 1 / x

    con.execute("CREATE TABLE t AS SELECT range::DOUBLE AS x FROM range(3)")
    con.create_function("inverse", inverse)
    with pytest.raises(swingdb.ExecutionError) as raised:
        con.sql("SELECT inverse(x) FROM t").fetchall()
    assert "the function inverse: ZeroDivisionError" in str(raised.value)
    assert "return 1 / x" in str(raised.value), "the traceback"
    con.create_function("inverse", inverse, exception_handling="return_null")
    assert con.sql("SELECT inverse(x) FROM t ORDER BY x").fetchall() == [(None,), (1.0,), (0.5,)]


def test_arrow_arrays(con):
    calls = []

    def both(name: pa.StringArray, number: pa.Int64Array) -> pa.StringArray:
        calls.append(len(name))
        return pc.binary_join_element_wise(pc.utf8_upper(name), pc.cast(number, "string"), "-")

    con.create_function("both", both, ["VARCHAR", "BIGINT"], "VARCHAR", type="arrow")
    con.execute("CREATE TABLE t AS SELECT 'x' || range AS s, range AS a FROM range(100000)")
    rel = con.sql("SELECT both(s, a) AS b FROM t WHERE a IN (3, 99999) ORDER BY a")
    assert rel.fetchall() == [("X3-3",), ("X99999-99999",)]
    total = con.sql("SELECT count(*), max(length(both(s, a))) FROM t").fetchone()
    assert total == (100000, 12)
    assert len(calls) < 200, "once for each batch"
    con.create_function("one", lambda x: pc.sum(x), ["BIGINT"], "BIGINT", type="arrow")
    assert con.sql("SELECT one(7)").fetchone() == (7,)
    con.create_function("short", lambda x: x[:1], ["BIGINT"], "BIGINT", type="arrow")
    with pytest.raises(swingdb.Error, match="the function short gave 1 values"):
        con.sql("SELECT sum(short(a)) FROM t").fetchall()
    with pytest.raises(swingdb.ProgrammingError, match="sees NULLs itself"):
        con.create_function("g", both, [], "INT", type="arrow", null_handling="special")


def test_side_effects(con):
    counted = iter(range(1000))
    con.create_function("ticket", lambda: next(counted), [], "BIGINT", side_effects=True)
    assert sorted(con.sql("SELECT ticket() FROM range(5)").fetchall()) == [(n,) for n in range(5)]


def test_types_and_names(con):
    def untyped(x):
        return x

    with pytest.raises(swingdb.ProgrammingError, match="the type of 'x' is not known"):
        con.create_function("f", untyped)
    with pytest.raises(swingdb.ProgrammingError, match="the type of the result is not known"):
        con.create_function("f", untyped, [int])
    with pytest.raises(swingdb.ProgrammingError, match="stands for no type of SQL"):
        con.create_function("f", untyped, [complex], int)
    with pytest.raises(swingdb.Error):
        con.create_function("f", untyped, ["NO_SUCH_TYPE"], "INT")
    with pytest.raises(swingdb.ProgrammingError, match="closes nothing"):
        con.create_function("f", untyped, ["INT); DROP TABLE t; --"], "INT")
    for taken in ("sum", "lower", "row_number", "list_sort", "nextval", "struct_pack", "now"):
        with pytest.raises(swingdb.AlreadyExistsError):
            con.create_function(taken, untyped, ["INT"], "INT")
    con.execute("CREATE MACRO m(x) AS x + 1")
    with pytest.raises(swingdb.AlreadyExistsError):
        con.create_function("m", untyped, ["INT"], "INT")

    con.create_function("mine", untyped, ["INT"], "INT")
    with pytest.raises(swingdb.Error):
        con.execute("CREATE TABLE c (a INT CHECK (mine(a) > 0))")
    with pytest.raises(swingdb.Error):
        con.execute("CREATE TABLE c (a INT DEFAULT mine(1))")

    def optional(x: int | None) -> int | None:
        return x

    con.create_function("optional", optional, null_handling="special")
    assert con.sql("SELECT optional(NULL), optional(1::SMALLINT)").fetchone() == (None, 1)
    with pytest.raises(swingdb.Error):
        con.sql("SELECT optional(1, 2)")
    with con.duplicate() as other, pytest.raises(swingdb.Error):
        other.sql("SELECT optional(1)")


def test_threads_and_statements_inside(con):
    con.execute("CREATE TABLE t AS SELECT range AS a FROM range(200000)")
    con.create_function("twice", lambda x: 2 * x, ["BIGINT"], "BIGINT")
    found = []

    def work():
        found.append(con.sql("SELECT sum(twice(a)) FROM t").fetchone())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert found == [(200000 * 199999,)] * 4
    con.execute("CREATE TABLE u AS SELECT twice(a) AS b FROM t WHERE twice(a) % 3 = 0")
    con.execute("UPDATE u SET b = twice(b)")
    assert con.table("u").aggregate("max(b)").fetchone() == (399996 * 2,)


def test_a_function_runs_no_statements(con):
    other = swingdb.connect()
    for statement in (
        lambda: con.sql("SELECT 1").fetchone()[0],
        lambda: con.execute("CREATE TABLE made (a INT)"),
        lambda: other.sql("SELECT 1").fetchone()[0],
    ):
        con.create_function("inside", lambda x, s=statement: s(), ["BIGINT"], "BIGINT")
        for sql in ("SELECT inside(1)", "SELECT inside(range) FROM range(3)"):
            with pytest.raises(swingdb.ExecutionError, match="cannot run statements itself"):
                con.sql(sql).fetchall()
    assert con.tables() == []
    rows = dict(con.sql("SELECT range, range * 10 FROM range(5)").fetchall())
    con.create_function("looked_up", rows.get, ["BIGINT"], "BIGINT")
    assert con.sql("SELECT looked_up(3), looked_up(9)").fetchone() == (30, None)


def test_readers_that_hold_the_interpreter_s_lock(con):
    con.execute("CREATE TABLE t AS SELECT range AS a FROM range(300000)")
    con.create_function("twice", lambda x: 2 * x, ["BIGINT"], "BIGINT")
    sql = "SELECT twice(a) AS b FROM t"
    assert pl.DataFrame(con.sql(sql).reader())["b"].sum() == 300000 * 299999
    assert pa.RecordBatchReader.from_stream(con.sql(sql).reader()).read_all().num_rows == 300000
    cursor = con.execute(sql)
    assert sum(len(batch) for batch in pa.RecordBatchReader.from_stream(cursor)) == 300000
    assert con.sql(sql).fetchmany(1) == [(0,)], "what is not read ends"
    con.sql(sql)


def test_a_macro_of_the_same_name_goes_first_and_is_never_hidden_behind(con):
    con.create_function("f", lambda x: x + 100, ["BIGINT"], "BIGINT")
    con.execute("CREATE MACRO f(x) AS x + 1; CREATE MACRO g(x) AS x + 2")
    assert con.sql("SELECT f(1), g(1)").fetchone() == (2, 3)
    for name in ("f", "g", "F"):
        with pytest.raises(swingdb.AlreadyExistsError, match=f"(?i){name}"):
            con.create_function(name, lambda x: x + 1000, ["BIGINT"], "BIGINT")
    con.execute("DROP MACRO f")
    assert con.sql("SELECT f(1)").fetchone() == (101,)


@pytest.mark.parametrize(
    ("kind", "value", "stored"),
    [
        ("INT[2]", [1, None], [1, None]),
        ("INT[][]", [[1], None, []], [[1], None, []]),
        ("STRUCT(a INT, b VARCHAR)", {"b": "x", "a": 1}, {"a": 1, "b": "x"}),
        ("STRUCT(a INT, b INT)", {"b": 2}, {"a": None, "b": 2}),
        ("STRUCT(m MAP(VARCHAR, TINYINT)[])", {"m": [{"k": 1}, None]}, {"m": [{"k": 1}, None]}),
        ("MAP(VARCHAR, INT)", {"a": None, "b": 2}, {"a": None, "b": 2}),
        ("MAP(INT, DOUBLE)", {1: 2, 3: 0.5}, {1: 2.0, 3: 0.5}),
        ("DOUBLE[]", [1, 2], [1.0, 2.0]),
        ("DECIMAL(5, 2)[]", [1, decimal.Decimal("1.5")], [1, decimal.Decimal("1.50")]),
        ("INTERVAL", dt.timedelta(days=1, seconds=2), dt.timedelta(days=1, seconds=2)),
    ],
)
def test_nested_values_have_the_declared_type(con, kind, value, stored):
    con.create_function("give", lambda n: value if n else None, ["INT"], kind)
    (rows, types) = ([row[0] for row in con.sql(f"SELECT give({n})").fetchall()] for n in (1, 0))
    if kind == "INTERVAL":
        assert con.sql("SELECT give(1) = INTERVAL '1 day 2 seconds'").fetchone() == (True,)
    else:
        assert rows == [stored]
    assert types == [None]
    assert con.sql("SELECT typeof(give(1))").fetchone() == con.sql(
        f"SELECT typeof(NULL::{kind})"
    ).fetchone()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INT[]", [1.5]),
        ("INT[][]", [[1], [1.5]]),
        ("INT[]", "12"),
        ("INT[]", ["12"]),
        ("INT[2]", [1, 2, 3]),
        ("TINYINT[]", [300]),
        ("DATE[]", [dt.datetime(2024, 1, 1, 5)]),
        ("STRUCT(a INT)", {"a": 1.5}),
        ("STRUCT(a INT, b INT)", {"b": 2, "c": 3}),
        ("STRUCT(a INT, b INT)", {"a": 2, "b": 3, "c": 4}),
        ("STRUCT(a INT)", [1]),
        ("MAP(INT, INT)", {1: 2.5}),
        ("MAP(INT, INT)", [1]),
    ],
)
def test_nested_values_that_do_not_fit_are_an_error(con, kind, value):
    con.create_function("give", lambda _: value, ["INT"], kind)
    with pytest.raises(swingdb.Error, match="function give: .*(declared|does not fit)"):
        con.sql("SELECT give(1)").fetchall()
    if kind in ("INT[]", "INT[][]", "STRUCT(a INT)"):
        arrow = pa.array([value])
        con.create_function("give", lambda _: arrow, ["INT"], kind, type="arrow")
        with pytest.raises(swingdb.Error, match="function give: .*declared"):
            con.sql("SELECT give(1)").fetchall()
