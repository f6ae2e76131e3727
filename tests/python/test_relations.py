"""Relations: what DuckDB's users compose, with DuckDB's answers; and that nothing is captured."""

from __future__ import annotations

import gzip
import io
import random

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import swingdb

SETUP = (
    "CREATE TABLE t AS SELECT range AS a, range % 3 AS b, 'x' || range AS s FROM range(10)",
    "CREATE TABLE u (b BIGINT, name VARCHAR)",
    "INSERT INTO u VALUES (0, 'zero'), (1, 'one'), (1, 'uno'), (7, 'seven')",
    "CREATE TABLE d (b BIGINT)",
    "INSERT INTO d VALUES (1), (1), (1), (2), (NULL), (NULL)",
)


@pytest.fixture
def duck():
    connection = duckdb.connect()
    for statement in SETUP:
        connection.execute(statement)
    return connection


@pytest.fixture
def ours(con):
    for statement in SETUP:
        con.execute(statement)
    return con


def joined(con, how):
    return con.table("t").join(con.table("u"), "t.b = u.b", how)


SAME = {
    "filter": lambda con: con.table("t").filter("a > 3").filter("b = 1 OR b = 2"),
    "filter by or": lambda con: con.table("t").filter("a = 1 OR a = 2").filter("b = 2"),
    "alias": lambda con: con.table("t").set_alias("q").filter("q.a > 3").select("q.b"),
    "select": lambda con: con.table("t").select("a + 1 AS c, s").filter("c < 4"),
    "project": lambda con: con.table("t").project("s, a"),
    "aggregate": lambda con: con.table("t").aggregate("b, sum(a) AS s").order("b"),
    "aggregate by": lambda con: con.table("t").aggregate("sum(a) AS s", "b").order("s"),
    "aggregate of nothing": lambda con: con.table("t").filter("a < 0").aggregate("count(*) AS n"),
    "order": lambda con: con.table("t").order("b DESC, a").limit(4, 2),
    "order, filter": lambda con: con.table("t").order("a DESC").filter("b = 1").limit(2),
    "order, select": lambda con: con.table("t").order("a DESC").select("b AS a").limit(3),
    "order, limit, order": lambda con: con.table("t").order("a DESC").limit(3).order("a"),
    "sort": lambda con: con.table("t").sort("b", "a").select("a"),
    "distinct": lambda con: con.table("t").select("b").distinct().order("b"),
    "unique": lambda con: con.table("t").unique("b").order("b"),
    "union": lambda con: con.table("d").union(con.table("d").filter("b = 2")).order("b"),
    "except": lambda con: con.table("d").except_(con.table("d").limit(2)).order("b"),
    "intersect": lambda con: con.table("d").intersect(con.table("d").filter("b < 3")).order("b"),
    "join": lambda con: joined(con, "inner").select("t.a, u.name").order("a, name"),
    "left": lambda con: joined(con, "left").select("t.a, u.name").order("a, name"),
    "right": lambda con: joined(con, "right").select("t.a, u.name").order("a, name"),
    "outer": lambda con: joined(con, "outer").select("t.a, u.name").order("a, name"),
    "semi": lambda con: joined(con, "semi").order("a"),
    "anti": lambda con: joined(con, "anti").order("a"),
    "using": lambda con: con.table("t").join(con.table("u"), "b").order("a, name"),
    "filter a join": lambda con: joined(con, "inner").filter("t.b = u.b AND u.name = 'uno'"),
    "cross": lambda con: con.table("u").cross(con.table("d")).order("name, 3").limit(5),
    "join of joins": lambda con: (
        con.table("t")
        .join(con.table("u"), "t.b = u.b")
        .join(con.sql("SELECT 2 AS k").set_alias("k"), "k.k = t.a - 2")
        .select("t.a, u.name, k.k")
        .order("name")
    ),
    "query": lambda con: con.table("t").query("z", "SELECT count(*) AS n FROM z WHERE a > 2"),
    "sql": lambda con: con.sql("SELECT a FROM t ORDER BY a DESC; ").filter("a % 2 = 0"),
    "with": lambda con: con.sql("WITH t AS (SELECT 5 AS a) SELECT a FROM t").filter("a = 5"),
    "same names": lambda con: con.sql("SELECT 1 AS a, 2 AS a").filter("a_1 = 2"),
    "describe": lambda con: con.table("t").describe(),
    "values": lambda con: con.values((1, "x"), (2, "y")).filter("col0 = 2"),
}


@pytest.mark.parametrize("case", SAME)
def test_the_answers_are_those_of_duckdb(ours, duck, case):
    found, expected = SAME[case](ours), SAME[case](duck)
    assert [column.lower() for column in found.columns] == expected.columns
    assert found.fetchall() == [tuple(row) for row in expected.fetchall()]
    assert found.shape == expected.shape


def test_single_aggregates(ours, duck):
    for name in ("count", "sum", "min", "max", "mean", "median"):
        found = getattr(ours.table("t"), name)("a", "b", projected_columns="b").fetchall()
        expected = getattr(duck.table("t"), name)("a", "b", projected_columns="b").fetchall()
        assert sorted(found) == sorted(tuple(row) for row in expected), name
    assert ours.table("t").count("*").fetchone() == (10,)
    with pytest.raises(swingdb.ProgrammingError, match="closes nothing"):
        ours.table("t").sum("a), (a")


def test_an_order_outlives_conditions_and_selections(con):
    con.execute("CREATE TABLE big AS SELECT range AS a, range % 7 AS b FROM range(400000)")
    ordered = con.table("big").order("b DESC, a DESC")
    expected = sorted(((a % 7, a) for a in range(400000) if a % 2 == 0), reverse=True)
    kept = ordered.filter("a % 2 = 0").select("b, a")
    assert kept.fetchall() == expected
    assert kept.filter("a >= 0").limit(3, 1).fetchall() == expected[1:4]


def test_forms(ours):
    rel = ours.table("t").filter("a < 3").select("a, s")
    assert rel.df().equals(pd.DataFrame({"a": [0, 1, 2], "s": ["x0", "x1", "x2"]}))
    assert rel.pl().equals(pl.DataFrame({"a": [0, 1, 2], "s": ["x0", "x1", "x2"]}))
    assert rel.arrow() == rel.to_arrow_table() == pa.table(rel.arrow())
    assert rel.fetchnumpy()["a"].tolist() == [0, 1, 2]
    assert [rel.fetchone(), *rel.fetchmany(5), rel.fetchone()] == [
        (0, "x0"),
        (1, "x1"),
        (2, "x2"),
        None,
    ]
    assert (rel.columns, rel.types, rel.shape) == (["a", "s"], ["BIGINT", "VARCHAR"], (3, 2))
    assert [column[0] for column in rel.description] == ["a", "s"]
    assert list(rel) == rel.fetchall()
    reader = pa.RecordBatchReader.from_stream(ours.table("t").filter("a < 3").reader())
    assert reader.read_all().num_rows == 3


def test_nothing_runs_before_rows_are_asked_for(ours):
    rel = ours.table("t").filter("1 / (a - 5) > 7")
    with pytest.raises(swingdb.ExecutionError):
        rel.fetchall()
    later = ours.table("t").filter("a > 8")
    ours.execute("INSERT INTO t VALUES (10, 0, 'new')")
    assert later.shape == (2, 3)
    ours.execute("DELETE FROM t")
    assert later.shape == (2, 3), "rows that were asked for stay"


def test_mistakes_are_found_where_they_are_made(ours):
    rel = ours.table("t")
    with pytest.raises(swingdb.NotFoundError) as raised:
        rel.filter("aa > 1")
    assert (raised.value.kind, raised.value.name) == ("column", "aa")
    with pytest.raises(swingdb.NotFoundError):
        rel.filter("a IN (SELECT a FROM nowhere)")
    with pytest.raises(swingdb.PlanError):
        rel.aggregate("nonsense(a)")
    with pytest.raises(swingdb.ProgrammingError, match="set_alias"):
        rel.join(rel, "a")
    with pytest.raises(swingdb.ProgrammingError, match="no join 'sideways'; there are inner"):
        rel.join(ours.table("u"), "b", "sideways")
    with pytest.raises(swingdb.ProgrammingError, match="no column 'c' in both"):
        rel.join(ours.table("u"), ["c"])
    with pytest.raises(swingdb.ProgrammingError, match="as many columns, not 3 and 2"):
        rel.union(ours.table("u"))
    with pytest.raises(swingdb.ProgrammingError, match="limit must be a number of rows"):
        rel.limit(-1)
    with pytest.raises(swingdb.ProgrammingError, match="expected a relation, not str"):
        rel.join("u", "b")
    with pytest.raises(swingdb.ProgrammingError, match="no rows to go on with"):
        ours.sql("CREATE TABLE n (a INT)").filter("true")
    with pytest.raises(swingdb.PlanError, match="parameters"):
        rel.filter("a > ?")
    with pytest.raises(swingdb.ProgrammingError, match="the parameters are not those"):
        rel.filter("a > ?", [1, 2])
    with pytest.raises(swingdb.ProgrammingError, match="one SELECT"):
        rel.query("z", "DELETE FROM z")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a > 1) OR (1 = 1", "closes nothing"),
        ("a > 1) --", "closes nothing"),
        ("(a > 1", "is missing"),
        ("a > [1}", "closes nothing"),
        ("a > 1; DROP TABLE t", "more than one statement"),
        ("a > 'x", "is not closed"),
        ('"a > 1', "is not closed"),
        ("a > 1 /* /* */", "a comment is not closed"),
        ("a > 1 ORDER BY a", "ORDER does not belong"),
        ("a > 1 UNION SELECT 1, 2, 'x'", "UNION does not belong"),
        ("a > 1 LIMIT 1", "LIMIT does not belong"),
        ("a > 1 OFFSET 3", "OFFSET does not belong"),
        (" -- nothing", "is empty"),
    ],
)
def test_a_piece_stays_in_its_place(ours, text, why):
    rel = ours.table("t")
    for method in (rel.filter, rel.select, rel.aggregate, rel.order, rel.sort, rel.unique):
        with pytest.raises(swingdb.ProgrammingError, match=why):
            method(text)
    assert rel.shape == ours.table("t").shape == (10, 3)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a = 1 -- the comment ends with the line", 1),
        ("a = 1 /* ) ; */ OR s = ')' OR s = ';' OR s = E'\\')' OR s = $$)$$", 1),
        ("a IS NOT DISTINCT FROM 3", 1),
        ("a IN (SELECT max(a) FROM t GROUP BY b ORDER BY b LIMIT 2)", 2),
        ("EXISTS (FROM u WHERE u.b = t.b)", 7),
        ("extract(year FROM DATE '2024-01-01') = 2024 AND a < 2", 2),
    ],
)
def test_a_piece_may_be_any_expression(ours, text, rows):
    assert ours.table("t").filter(text).shape == (rows, 3)


def test_words_of_clauses_may_be_names(con):
    con.execute('CREATE TABLE w ("offset" INT, "window" INT, "a from b" INT)')
    con.execute("INSERT INTO w VALUES (1, 2, 3)")
    rel = con.table("w")
    assert rel.select('"offset" AS offset, "a from b"').fetchall() == [(1, 3)]
    assert rel.select("* EXCLUDE (window)").columns == ["offset", "a from b"]


@pytest.mark.parametrize(
    "name", ["plain", "Order", "select", 'a"b', "a b", "a;b", "a.b", "ä", "$1", "?", "--", "a'b"]
)
def test_any_name_is_safe(con, name):
    quoted = '"' + name.replace('"', '""') + '"'
    con.execute(f"CREATE TABLE s AS SELECT 1 AS {quoted}, 2 AS other")
    rel = con.table("s").set_alias(name).filter("other = 2")
    assert rel.columns == [name, "other"]
    assert rel.filter(f"{quoted} = 1").select(quoted).distinct().limit(1).fetchall() == [(1,)]
    both = rel.join(con.table("s"), [name])
    assert both.columns == [name, "other", "other"]
    assert both.describe().columns == ["aggr", name, "other", "other_1"]
    rel.create(quoted)
    assert con.table(quoted).fetchall() == [(1, 2)]


def test_parameters_survive(ours):
    first = ours.sql("SELECT a, ? AS p, s FROM t WHERE a < ?", [10, 4]).set_alias("l")
    second = ours.sql("SELECT $x + 1 AS a, '$x ?' AS q, $x AS x", {"x": 1}).set_alias("r")
    both = first.filter("l.a > $1 AND l.a >= $1", [0]).join(second, "l.a = r.a")
    assert both.select("l.a, p + ? AS p, q, x", params=[5]).fetchall() == [(2, 15, "$x ?", 1)]
    assert first.aggregate("sum(a * $k)", params={"k": 10}).fetchone() == (60,)
    assert first.query("v", "SELECT p FROM v WHERE a = ?", [3]).fetchall() == [(10,)]
    both.create("kept")
    assert ours.table("kept").shape == (1, 6)
    evil = ours.sql("SELECT ? AS v", ["x'; DROP TABLE t; --"])
    assert evil.filter("v LIKE '%DROP%'").fetchone() == ("x'; DROP TABLE t; --",)


def test_a_name_is_captured_where_it_stands_alone(ours):
    data = {"a": [1, 2]}
    first = ours.sql("SELECT * FROM data")
    data = {"a": [2, 3]}
    second = ours.sql("SELECT * FROM data")
    both = first.set_alias("x").join(second.set_alias("y"), "a")
    assert both.fetchall() == [(2,)]
    assert first.union(second).order("a").fetchall() == [(1,), (2,), (2,), (3,)]
    # A table that comes later is not what the text meant.
    ours.execute("CREATE TABLE data AS SELECT 9 AS a")
    assert first.filter("a > 0").fetchall() == [(1,), (2,)]
    assert ours.sql("SELECT * FROM data").filter("a > 0").fetchall() == [(9,)]
    # A variable of a condition is none of what stands before it.
    t = {"a": [0]}
    frame = pd.DataFrame({"a": [3]})
    assert ours.table("t").filter("a IN (SELECT a FROM frame)").shape == (1, 3)
    assert ours.table("t").filter("a IN (SELECT a FROM t)").shape == (10, 3)
    assert (len(t), len(frame)) == (1, 1)
    assert {"t", "u", "d", "data"} == set(ours.tables()), "nothing stays registered"


def test_data_is_read_once(con):
    stream = pa.table({"a": [1, 2, 3]}).to_reader()
    rel = con.from_arrow(stream)
    assert rel.filter("a > 1").filter("a < 3").fetchall() == [(2,)]
    assert rel.shape == (3, 1)
    with pytest.raises(swingdb.InterfaceError, match="the data is a stream that was read"):
        con.from_arrow(stream)
    frame = pd.DataFrame({"a": [1, 2], "s": ["x", None]})
    assert con.from_df(frame).filter("s IS NULL").fetchall() == [(2, None)]
    assert con.from_df(pl.DataFrame({"a": [5]})).select("a + 1").fetchone() == (6,)


def test_statements_that_are_no_queries_go_on_with_their_rows(ours):
    inserted = ours.sql("INSERT INTO d VALUES (5), (6) RETURNING b")
    assert inserted.filter("b > 5").fetchall() == [(6,)]
    assert inserted.aggregate("count(*)").fetchone() == (2,)
    assert ours.table("d").shape == (8, 1), "inserted once"
    assert ours.sql("SELECT 1 AS a; SELECT 2 AS a").filter("a > 0").fetchall() == [(2,)]
    assert ours.sql("SHOW TABLES").filter("name = 'u'").select("rows").fetchall() == [(4,)]


def test_tables_and_views(ours):
    rel = ours.table("t").filter("a < 3")
    rel.to_table("small")
    rel.insert_into("small")
    assert ours.table("small").shape == (6, 3)
    with pytest.raises(swingdb.AlreadyExistsError):
        rel.create("small")
    view = rel.create_view("v")
    assert view.filter("a > 1").fetchall() == ours.table("v").filter("a > 1").fetchall()
    ours.execute("DELETE FROM t WHERE a = 1")
    assert ours.view("v").order("a").select("a").fetchall() == [(0,), (2,)]
    with pytest.raises(swingdb.AlreadyExistsError):
        rel.create_view("v", replace=False)
    with pytest.raises(swingdb.ProgrammingError, match="cannot hold parameters"):
        rel.filter("a > ?", [1]).create_view("w")
    with pytest.raises(swingdb.ProgrammingError, match="cannot hold rows of the program"):
        ours.from_arrow({"a": [1]}).create_view("w")
    ours.register("reg", {"a": [4]})
    assert ours.table("reg").filter("a = 4").shape == (1, 1)
    with pytest.raises(swingdb.NotFoundError):
        ours.table("nowhere")
    with pytest.raises(swingdb.NotFoundError):
        ours.view("nowhere")
    assert ours.table("main.t").filter("t.a = 0").shape == (1, 3)


def test_files(ours, tmp_path):
    rel = ours.table("t").filter("a < ?", [4])
    rel.to_parquet(tmp_path / "a.parquet", compression="zstd")
    rel.write_csv(tmp_path / "it's.csv", sep="|", header=True, na_rep="none")
    ours.export("t", tmp_path / "a.json")
    expected = rel.fetchall()
    assert ours.read_parquet(tmp_path / "a.parquet").filter("a >= 0").fetchall() == expected
    assert ours.read_parquet([str(tmp_path / "a.parquet")] * 2).shape == (8, 3)
    assert ours.read_csv(tmp_path / "it's.csv", delimiter="|").fetchall() == expected
    columns = {"a": "VARCHAR", "b": "INT", "s": "VARCHAR"}
    typed = ours.read_csv(tmp_path / "it's.csv", delimiter="|", columns=columns)
    assert typed.types == ["VARCHAR", "INTEGER", "VARCHAR"]
    assert ours.read_json(tmp_path / "a.json").filter("a < 4").fetchall() == expected
    assert swingdb.read_parquet(tmp_path / "a.parquet").aggregate("sum(a)").fetchone() == (6,)
    with pytest.raises(swingdb.PlanError, match='no option "nonsense"'):
        ours.read_csv(tmp_path / "a.csv", nonsense=1)
    duck = duckdb.connect()
    assert duck.read_parquet(str(tmp_path / "a.parquet")).fetchall() == expected


def test_file_objects(con, tmp_path):
    text = "a;b\n1;1,5\n-;2\n"
    options = {"sep": ";", "decimal": ",", "na_values": "-", "dtype": {"a": "INTEGER"}}
    expected = [(1, 1.5), (None, 2.0)]
    rel = con.read_csv(io.StringIO(text), **options)
    assert rel.fetchall() == rel.filter("b > 0").fetchall() == expected
    assert rel.types == ["INTEGER", "DOUBLE"]
    packed = io.BytesIO(gzip.compress(text.encode()))
    assert con.read_csv(packed, **options).fetchall() == expected
    (tmp_path / "a.csv").write_text(text)
    with (tmp_path / "a.csv").open() as file:
        assert con.read_csv([file, tmp_path / "a.csv"], **options).fetchall() == expected * 2
    assert con.read_csv(io.StringIO("x\n1\n'2'\n"), quotechar="'", skiprows=1).shape == (2, 1)
    assert con.read_json(io.StringIO('{"a": 1}')).fetchall() == [(1,)]
    written = io.BytesIO()
    pl.DataFrame({"a": [1, 2]}).write_parquet(written)
    written.seek(0)
    assert swingdb.read_parquet(written).aggregate("sum(a)").fetchone() == (3,)


def test_rows_that_are_kept(ours):
    rel = ours.table("t").filter("a < 2")
    assert rel.execute() is rel
    kept = rel.kept()
    ours.execute("DELETE FROM t")
    assert kept.filter("a > 0").fetchall() == [(1, 1, "x1")]
    assert ours.table("t").count().fetchone() == (0,)


def test_forms_of_other_packages(ours, duck):
    assert ours.table("u").value_counts("b").fetchall() == [(1, 2), (0, 1), (7, 1)]
    assert ours.table("t").count().fetchall() == duck.table("t").count("*").fetchall()
    assert ours.table("t").dtypes == ours.table("t").types
    lazy = ours.table("t").pl(lazy=True)
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.filter(pl.col("a") > 7).collect()["a"].to_list() == [8, 9]
    reader = ours.table("t").fetch_record_batch()
    assert isinstance(reader, pa.RecordBatchReader)
    assert sum(batch.num_rows for batch in reader) == 10


def test_relations_of_other_connections_are_their_rows(ours):
    other = swingdb.connect()
    theirs = other.sql("SELECT 1 AS b, 'theirs' AS name")
    rel = ours.table("t").join(theirs.set_alias("o"), "t.b = o.b").select("t.a, o.name")
    assert rel.order("a").fetchall() == [(1, "theirs"), (4, "theirs"), (7, "theirs")]


def test_a_closed_connection(ours):
    rel, asked = ours.table("t").filter("a > 1"), ours.table("t").filter("a = 1")
    assert asked.shape == (1, 3)
    ours.close()
    assert asked.fetchall() == [(1, 1, "x1")]
    for use in (rel.fetchall, lambda: rel.filter("true"), lambda: asked.filter("true")):
        with pytest.raises(swingdb.ClosedError):
            use()


def test_a_relation_keeps_its_connection():
    rel = swingdb.connect().sql("SELECT range AS a FROM range(5)").filter("a > 2")
    assert rel.aggregate("sum(a)").fetchone() == (7,)


def test_the_snapshot_of_a_transaction(ours):
    ours.begin()
    ours.execute("INSERT INTO d VALUES (100)")
    assert ours.table("d").filter("b = 100").shape == (1, 1)
    ours.rollback()
    assert ours.table("d").filter("b = 100").shape == (0, 1)


def test_showing_and_explaining(ours):
    rel = ours.table("t").filter("a < 2")
    assert "2 rows" in repr(rel)
    html = rel._repr_html_()
    assert "<small>bigint</small>" in html and "<small>2 rows</small>" in html
    assert "t" in rel.explain() and "FilterExec" in rel.explain() or "DataSource" in rel.explain()
    assert ours.sql(rel.sql_query()).fetchall() == rel.fetchall()
    assert "output_rows=2" in rel.explain(analyze=True)


def test_a_plan_is_shown_in_lines(ours):
    plan = ours.sql("EXPLAIN SELECT sum(a) FROM t WHERE a < 2")
    lines = repr(plan).splitlines()
    assert lines[0] == "logical_plan" and any("DataSourceExec: table=main.t" in x for x in lines)
    assert "…" not in repr(plan) and "\\n" not in repr(plan)
    html = plan._repr_html_()
    assert html.startswith("<pre") and "&lt;" in html and "\n" in html


def test_random_chains_agree_with_duckdb(ours, duck, rng: random.Random):
    def step(choice, rel, con, number):
        return {
            0: lambda: rel.filter(f"a % {number + 2} <> 1"),
            1: lambda: rel.select("a + 1 AS a, b"),
            2: lambda: rel.order("a DESC, b").limit(number + 4),
            3: lambda: rel.distinct(),
            4: lambda: rel.union(con.sql(f"SELECT {number} AS a, 0 AS b")),
            5: lambda: rel.except_(con.sql("SELECT a, b FROM t WHERE a = 2")),
            6: lambda: rel.aggregate("b, max(a) AS a").select("a, b"),
            7: lambda: rel.set_alias("l").join(con.table("d").distinct(), "b").select("a, b"),
        }[choice]()

    for _ in range(30):
        steps = [(rng.randrange(8), rng.randrange(5)) for _ in range(rng.randint(1, 6))]
        results = []
        for con in (ours, duck):
            rel = con.sql("SELECT a, b FROM t")
            for choice, number in steps:
                rel = step(choice, rel, con, number)
            results.append([tuple(row) for row in rel.order("a, b").fetchall()])
        assert results[0] == results[1], steps


def test_the_last_result_of_a_connection(con):
    with pytest.raises(swingdb.ProgrammingError):
        con.fetchall()
    assert con.description is None and con.rowcount == -1
    con.execute("SELECT range AS a FROM range(6)")
    assert [column[0] for column in con.description] == ["a"]
    assert (con.fetchone(), con.fetchmany(2)) == ((0,), [(1,), (2,)])
    assert con.df()["a"].tolist() == [3, 4, 5]
    for form in ("arrow", "pl"):
        con.execute("SELECT 1 AS a")
        assert getattr(con, form)()["a"].to_pylist() == [1] if form == "arrow" else True
    con.execute("SELECT 1 AS a")
    assert con.fetchnumpy()["a"].tolist() == [1]
    con.execute("CREATE TABLE k (a INT)")
    assert con.execute("INSERT INTO k VALUES (1), (2)").rowcount == con.rowcount == 2
    with pytest.raises(swingdb.ProgrammingError, match="no rows to fetch"):
        con.fetchall()
    con.execute("SELECT 1")
    with pytest.raises(swingdb.Error):
        con.execute("nonsense")
    with pytest.raises(swingdb.ProgrammingError):
        con.fetchone()
    cursor = con.execute("SELECT range FROM range(3)")
    assert (cursor.fetchone(), con.fetchone(), cursor.fetchone()) == ((0,), (1,), (2,))
    con.close()
    with pytest.raises(swingdb.ClosedError):
        con.fetchall()
