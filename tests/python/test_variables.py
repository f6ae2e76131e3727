"""Variables of the caller, queried by name."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import swingdb

everywhere = pa.table({"a": [100]})


def test_locals_before_globals(con):
    assert con.sql("SELECT a FROM everywhere").fetchall() == [(100,)]
    everywhere = {"a": [1]}
    assert con.sql("SELECT a FROM everywhere").fetchall() == [(1,)]
    assert everywhere["a"] == [1]


def test_tables_before_variables(con):
    shadowed = {"a": [1]}
    con.execute("CREATE TABLE shadowed AS SELECT 2 AS a")
    assert con.sql("SELECT a FROM shadowed").fetchall() == [(2,)]
    con.execute("DROP TABLE shadowed")
    assert con.sql("SELECT a FROM shadowed").fetchall() == [(1,)]
    assert shadowed["a"] == [1]


def test_names_with_upper_case(con):
    MyFrame = pd.DataFrame({"a": [1]})
    assert con.sql("SELECT a FROM MyFrame").fetchall() == [(1,)]
    assert con.sql('SELECT a FROM "MyFrame"').fetchall() == [(1,)]
    assert len(MyFrame) == 1


def test_several_variables_in_one_query(con):
    left = pl.DataFrame({"k": [1, 2], "x": ["a", "b"]})
    right = pd.DataFrame({"k": [2, 3], "y": ["c", "d"]})
    sql = "WITH w AS (SELECT * FROM left_) SELECT x, y FROM w JOIN right_ USING (k)"
    left_, right_ = left, right
    assert con.sql(sql).fetchall() == [("b", "c")]
    assert len(left_) == len(right_)


def test_in_subqueries_and_statements(con):
    ids = {"id": [1, 3]}
    con.execute("CREATE TABLE t AS SELECT * FROM generate_series(1, 4) AS g(id)")
    con.execute("DELETE FROM t WHERE id IN (SELECT id FROM ids)")
    assert con.sql("SELECT id FROM t ORDER BY id").fetchall() == [(2,), (4,)]
    con.execute("INSERT INTO t SELECT id FROM ids")
    assert con.sql("SELECT count(*) FROM t").fetchone() == (4,)
    con.execute("CREATE TABLE copy AS SELECT * FROM ids")
    assert con.table("copy").fetchall() == [(1,), (3,)]
    con.execute("CREATE TABLE made AS SELECT 5 AS id; INSERT INTO made SELECT id FROM ids")
    assert con.sql("SELECT sum(id) FROM made").fetchone() == (9,)
    assert ids["id"] == [1, 3]


def test_in_what_tells_about_queries(con):
    ids = pa.table({"id": [1, 3]})
    summary = con.sql("SUMMARIZE ids").fetchall()
    assert [row[:4] for row in summary] == [("id", "BIGINT", "1", "3")]
    assert con.execute("SUMMARIZE SELECT id FROM ids WHERE id > ?", [1]).fetchall()[0][2] == "3"
    assert con.sql('SELECT "count" FROM (SUMMARIZE ids)').fetchone() == (2,)
    assert con.sql("SELECT column_name FROM (DESCRIBE ids)").fetchone() == ("id",)
    con.execute("PREPARE above AS SELECT count(*) FROM ids WHERE id > ?")
    assert con.execute("EXECUTE above(2)").fetchone() == (1,)
    for what in ("VIEW v AS", "TEMP VIEW v AS", "MACRO m() AS TABLE"):
        with pytest.raises(swingdb.NotFoundError, match="ids"):
            con.execute(f"CREATE {what} SELECT * FROM ids")
    assert ids.num_rows == 2


def test_through_cursor_and_executemany(con):
    data = {"a": [1, 2]}
    assert con.cursor().execute("SELECT sum(a) FROM data WHERE a > ?", [1]).fetchone() == (2,)
    con.execute("CREATE TABLE t (a INT)")
    con.executemany("INSERT INTO t SELECT a + ? FROM data", [(10,), (20,)])
    assert con.sql("SELECT sum(a) FROM t").fetchone() == (66,)
    assert data["a"] == [1, 2]


def test_only_the_callers_own_variables(con):
    def inner():
        return con.sql("SELECT * FROM hidden_here")

    hidden_here = {"a": [1]}
    with pytest.raises(swingdb.NotFoundError):
        inner()
    assert hidden_here


def test_what_is_no_table_is_not_found(con):
    number, nothing, text = 5, None, "text"
    for name in ("number", "nothing", "text", "con", "no_such_variable"):
        with pytest.raises(swingdb.NotFoundError) as caught:
            con.sql(f"SELECT * FROM {name}")
        assert caught.value.name == name
    assert (number, nothing, text) == (5, None, "text")


def test_changes_are_seen_by_the_next_query(con):
    data = {"a": [1]}
    assert con.sql("SELECT sum(a) FROM data").fetchone() == (1,)
    data["a"].append(5)
    assert con.sql("SELECT sum(a) FROM data").fetchone() == (6,)


def test_results_outlive_the_variable(con):
    data = pa.table({"a": range(100_000)})
    rel = con.sql("SELECT a FROM data")
    del data
    assert rel.arrow()["a"].to_pylist() == list(range(100_000))
    with pytest.raises(swingdb.NotFoundError):
        con.sql("SELECT a FROM data")


def test_register_and_unregister(con):
    con.register("known", {"a": [1, 2]})
    assert con.sql("SELECT sum(a) FROM known").fetchone() == (3,)
    assert con.duplicate().name is None
    con.register("known", {"a": [5]})
    assert con.sql("SELECT sum(a) FROM known").fetchone() == (5,)
    con.unregister("known")
    con.unregister("known")
    with pytest.raises(swingdb.NotFoundError):
        con.sql("SELECT * FROM known")


def test_pandas_indexes(con):
    plain = pd.DataFrame({"a": [1, 2]}, index=[10, 20])
    named = pd.DataFrame({"a": [1, 2]}, index=pd.Index([10, 20], name="k"))
    series = pd.Series([1, 2], name="v")
    numbered = pd.DataFrame([[1, 2]])
    assert con.sql("SELECT * FROM plain").columns == ["a"]
    assert con.sql("SELECT * FROM named").fetchall() == [(10, 1), (20, 2)]
    assert con.sql("SELECT * FROM series").columns == ["v"]
    assert con.sql('SELECT "0" + "1" FROM numbered').fetchall() == [(3,)]
    assert len(plain) == len(named) == len(series) == 2
    assert len(numbered) == 1


def test_a_query_without_a_connection():
    source = """
import os, swingdb
numbers = {"a": [1, 2]}
assert swingdb.sql("SELECT sum(a) FROM numbers").fetchall() == [(3,)]
swingdb.sql("CREATE TABLE t AS SELECT a FROM numbers WHERE a > ?", [1])
assert swingdb.sql("FROM t").fetchall() == [(2,)]
pid = os.fork()
if pid == 0:
    status = 1
    try:
        assert swingdb.sql("SELECT sum(a) FROM numbers").fetchall() == [(3,)]
        status = 0
    finally:
        os._exit(status)
assert os.waitpid(pid, 0)[1] == 0
assert swingdb.sql("FROM t").fetchall() == [(2,)]
"""
    subprocess.run([sys.executable, "-c", source], check=True, timeout=120)


def test_pandas_under_the_name_of_others(con):
    assert con.execute("SELECT 1 AS a").fetchdf().equals(con.sql("SELECT 1 AS a").fetchdf())


def test_in_comprehensions(con):
    inside = {"a": [1, 2]}
    ask = "SELECT sum(a) FROM inside"
    assert [con.sql(ask).fetchone()[0] for _ in range(2)] == [3, 3]
    assert list(con.sql(ask).fetchone()[0] for _ in range(2)) == [3, 3]
    assert {con.sql(ask).fetchone()[0] for _ in range(2)} == {3}
    assert {n: con.sql(ask).fetchone()[0] for n in range(1)} == {0: 3}
    assert [[con.sql(ask).fetchone()[0] for _ in range(1)] for _ in range(1)] == [[3]]
    assert inside["a"] == [1, 2]


def test_a_generator_does_not_see_who_asks_it(con):
    def asked(items):
        of_the_asker = {"a": [1]}
        return of_the_asker and next(items)

    with pytest.raises(swingdb.NotFoundError):
        asked(con.sql("SELECT * FROM of_the_asker").fetchall() for _ in range(1))


STREAM = pa.table({"k": [1, 2, 3], "v": ["a", "b", "c"]})


def test_a_stream_is_read_once_and_says_so(con):
    reader = STREAM.to_reader()
    ask = "SELECT count(*) FROM reader"
    assert con.sql(f"{ask} a JOIN reader b USING (k)").fetchone() == (3,)
    with pytest.raises(swingdb.InterfaceError, match="'reader' is a stream .* read to its end"):
        con.sql(ask)
    reader = STREAM.to_reader()
    assert con.sql(ask).fetchone() == (3,)
    con.execute("CREATE TABLE t (k BIGINT, v VARCHAR)")
    with pytest.raises(swingdb.InterfaceError, match="read to its end"):
        con.append("t", reader)
    with pytest.raises(swingdb.InterfaceError, match="read to its end"):
        con.register("kept", reader)
    assert con.tables() == ["t"]


def test_streams_without_rows_and_tables_are_read_again(con):
    empty = pa.RecordBatchReader.from_batches(STREAM.schema, [])
    whole, nothing = STREAM, STREAM.slice(0, 0)
    for _ in range(2):
        assert con.sql("SELECT count(*) FROM empty").fetchone() == (0,)
        assert con.sql("SELECT count(*) FROM whole").fetchone() == (3,)
        assert con.sql("SELECT count(*) FROM nothing").fetchone() == (0,)
    assert empty is not None and whole.num_rows + nothing.num_rows == 3


def test_whole_numbers_beside_fractions_are_exact_or_refused(con):
    big = 2**53 + 1
    fine = {"v": [2**53, 0.5, None]}
    assert con.sql("SELECT v FROM fine").fetchall() == [(2.0**53,), (0.5,), (None,)]
    for wrong in ({"v": [big, 0.5]}, [{"v": big}, {"v": 0.5}], {"v": [[big], [0.5]]}):
        with pytest.raises(swingdb.DataError, match=str(big)):
            con.sql("SELECT v FROM wrong")
    assert fine["v"][1] == 0.5
