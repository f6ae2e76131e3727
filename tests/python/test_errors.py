"""Errors: their classes, their attributes, and that the connection is fine afterwards."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys

import pytest

import swingdb
from swingdb.heap import ObjectHeap


@pytest.fixture(autouse=True)
def unharmed(con):
    yield
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_syntax_errors_have_a_position(con):
    with pytest.raises(swingdb.ParseError) as caught:
        con.execute("SELECT 1;\nSELEC 2")
    assert isinstance(caught.value, swingdb.ProgrammingError)
    assert caught.value.line == 2
    assert caught.value.column == 1


@pytest.mark.parametrize(
    ("sql", "line", "column"),
    [
        ("SELECT 1;\n  SELEC 2", "  SELEC 2", 3),
        ("SELECT 1 +", "SELECT 1 +", 11),
        ("SELECT speed,\n  '東京', speeed FROM trips", "  '東京', speeed FROM trips", 9),
        ("SELECT * FROM tripps", "SELECT * FROM tripps", 15),
        ("SELECT nofunction(speed) FROM trips", "SELECT nofunction(speed) FROM trips", 8),
        ("UPDATE trips SET nope = 1", "UPDATE trips SET nope = 1", 18),
        ("INSERT INTO trips (nope) VALUES (1)", "INSERT INTO trips (nope) VALUES (1)", 20),
        ("CREATE TABLE trips (a INT)", "CREATE TABLE trips (a INT)", 14),
    ],
)
def test_errors_point_at_their_place(con, sql, line, column):
    con.execute("CREATE TABLE trips (speed DOUBLE)")
    with pytest.raises(swingdb.Error) as caught:
        con.execute(sql)
    (note,) = caught.value.__notes__
    # A wide character takes two places on the screen.
    wide = 2 if "東" in line else 0
    assert note == f"  {line}\n  {' ' * (column - 1 + wide)}^"
    assert pickle.loads(pickle.dumps(caught.value)).__notes__ == [note]


def test_no_place_is_better_than_a_wrong_one(con):
    for sql in ("SELECT nope FROM range(1) WHERE nope", "SELECT 1 / 0", "SELECT '\"nope\"'::INT"):
        with pytest.raises(swingdb.Error) as caught:
            con.execute(sql).fetchall()
        assert not hasattr(caught.value, "__notes__"), sql


def test_long_lines_are_cut_around_the_place(con):
    with pytest.raises(swingdb.Error) as caught:
        con.execute(f"SELECT {'1, ' * 300}nope{', 2' * 300}")
    line, caret = caught.value.__notes__[0].split("\n")
    assert len(line) < 130 and line.index("nope") == caret.index("^")


def test_unknown_names_have_suggestions(con):
    con.execute("CREATE TABLE trips (speed DOUBLE)")
    with pytest.raises(swingdb.NotFoundError) as caught:
        con.execute("SELECT * FROM trps")
    error = caught.value
    assert (error.kind, error.name, error.suggestion) == ("table", "trps", "trips")
    assert "trips" in str(error)
    with pytest.raises(swingdb.NotFoundError) as caught:
        con.execute("SELECT sped FROM trips")
    assert caught.value.kind == "column"
    with pytest.raises(swingdb.ProgrammingError):
        con.execute("SELECT no_such_function(speed) FROM trips").fetchall()


def test_existing_names(con):
    con.execute("CREATE TABLE t (a INT)")
    with pytest.raises(swingdb.AlreadyExistsError) as caught:
        con.execute("CREATE TABLE t (a INT)")
    assert (caught.value.kind, caught.value.name) == ("table", "t")


def test_constraints(con):
    con.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR NOT NULL)")
    con.execute("INSERT INTO t VALUES (1, 'x')")
    with pytest.raises(swingdb.ConstraintError) as caught:
        con.execute("INSERT INTO t VALUES (2, 'y'), (1, 'z')")
    error = caught.value
    assert isinstance(error, swingdb.IntegrityError)
    assert (error.table, error.kind) == ("t", "PRIMARY KEY")
    assert error.columns == ["a"]
    assert error.constraint == "PRIMARY KEY (a)"
    with pytest.raises(swingdb.IntegrityError) as caught:
        con.execute("INSERT INTO t VALUES (3, NULL)")
    assert caught.value.kind == "NOT NULL"
    assert con.execute("SELECT count(*) FROM t").fetchone() == (1,)
    con.execute("ALTER TABLE t ADD CONSTRAINT short CHECK (length(b) < 3)")
    with pytest.raises(swingdb.IntegrityError) as caught:
        con.append("t", {"a": [2], "b": ["long"]})
    assert (caught.value.kind, caught.value.columns) == ("CHECK", ["b"])
    assert "short" in caught.value.detail


def test_conversions(con):
    con.execute("CREATE TABLE t (a SMALLINT)")
    with pytest.raises(swingdb.DataError):
        con.execute("INSERT INTO t VALUES (100000)")
    with pytest.raises(swingdb.DataError):
        con.execute("INSERT INTO t VALUES (?)", ["not a number"])
    with pytest.raises(swingdb.DataError):
        con.execute("SELECT 1 / 0").fetchall()
    with pytest.raises(swingdb.Error):
        con.execute("SELECT CAST('x' AS INT)").fetchall()


def test_databases_that_do_not_exist(con):
    with pytest.raises(swingdb.NotFoundError) as caught:
        swingdb.snapshot("no_such_database")
    assert caught.value.name == "no_such_database"
    with pytest.raises(swingdb.Error):
        swingdb.drop("no_such_database")
    with pytest.raises(swingdb.Error):
        swingdb.discard_snapshot("no_such_database")
    with pytest.raises(swingdb.Error):
        swingdb.get_snapshot("no_such_database", "mine")
    swingdb.connect("not_shared").close()
    with pytest.raises(swingdb.Error):
        swingdb.snapshot("not_shared")


@pytest.mark.parametrize("name", ["", "x" * 1000])
def test_impossible_names(name, con):
    with pytest.raises((swingdb.Error, ValueError)):
        swingdb.connect(name)


@pytest.mark.parametrize(
    "name", ["with space", "slash/../dots", "ünïcödé 🚕", ".", "..", "%41", "a\nb", "a\0b"]
)
def test_odd_names(name, con):
    with swingdb.connect(name) as odd:
        odd.execute("CREATE TABLE t AS SELECT 1 AS a")
        odd.share()
    assert swingdb.snapshot(name).sql("SELECT a FROM t").fetchone() == (1,)
    assert [item.name for item in swingdb.list()] == [name]
    swingdb.drop(name)


def test_a_second_writer_hears_who_the_first_is(con, run, home):
    program = run(
        "import swingdb, sys\ncon = swingdb.connect('taxi')\nprint('ready')\nsys.stdin.readline()\n"
    )
    assert program.line() == "ready"
    with pytest.raises(swingdb.BusyError) as caught:
        swingdb.connect("taxi")
    assert caught.value.pid == program.pid
    assert caught.value.name == "taxi"
    assert "python" in caught.value.command
    assert "snapshot" in str(caught.value)
    with pytest.raises(swingdb.BusyError):
        swingdb.drop("taxi")
    program.kill()
    swingdb.connect("taxi").close()


def test_a_database_that_was_never_shared(home):
    with swingdb.connect("shy") as shy:
        shy.execute("CREATE TABLE t AS SELECT 1 AS a")
        with pytest.raises(swingdb.NotSharedError) as caught:
            swingdb.snapshot("shy")
        assert isinstance(caught.value, swingdb.OperationalError)
        assert caught.value.name == "shy"
        assert "share" in str(caught.value)
        shy.share()
        assert swingdb.snapshot("shy").execute("SELECT a FROM t").fetchone() == (1,)
    swingdb.drop("shy")


MAKE = """
import swingdb
with swingdb.connect("brief") as con:
    con.execute("CREATE TABLE t AS SELECT 1 AS a")
    con.share()
"""


def test_memory_that_went_with_its_last_process(home):
    memfds = {**os.environ, "SWINGDB_BACKING": "memfd"}
    subprocess.run([sys.executable, "-c", MAKE], env=memfds, check=True)
    for use in (swingdb.snapshot, swingdb.connect):
        with pytest.raises(swingdb.MemoryGoneError) as caught:
            use("brief")
        assert isinstance(caught.value, swingdb.OperationalError)
        assert caught.value.name == "brief"
        assert caught.value.path.startswith(str(home))
        assert "doctor" in str(caught.value)
    swingdb.drop("brief")
    with swingdb.connect("brief") as again:
        assert again.execute("SELECT count(*) FROM information_schema.tables").fetchone()


def test_files(con, tmp_path):
    with pytest.raises(swingdb.Error) as caught:
        con.import_file(tmp_path / "missing.csv", "t")
    assert "missing.csv" in str(caught.value)
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n3,x\n")
    con.execute("CREATE TABLE t (a INT, b INT)")
    with pytest.raises(swingdb.DataError) as caught:
        con.import_file(bad, "t")
    assert caught.value.line == 3
    assert len(con.table("t")) == 0
    with pytest.raises(swingdb.ProgrammingError):
        con.import_file(bad, "t", format="xls")
    with pytest.raises(swingdb.ProgrammingError):
        con.import_file(bad, "t", delimiter="::::::")


def test_transactions(con):
    with pytest.raises(swingdb.Error):
        con.begin().begin()
    con.rollback()


def test_errors_travel_by_pickle(con):
    with pytest.raises(swingdb.NotFoundError) as caught:
        con.execute("SELECT * FROM nowhere")
    other = pickle.loads(pickle.dumps(caught.value))
    assert type(other) is swingdb.NotFoundError
    assert str(other) == str(caught.value)
    assert (other.kind, other.name) == ("table", "nowhere")
    assert other.line is None


def test_what_belongs_to_a_process_says_so_when_it_is_pickled_or_copied(con, tmp_path):
    heap = ObjectHeap(tmp_path)
    relation = con.sql("SELECT 1 AS a")
    for what in (con, con.cursor(), relation, heap, con.execute):
        for send in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="belongs to its process.*; .*other process"):
                send(what)
    assert relation.fetchall() == [(1,)]
    heap.close()


def test_results_survive_errors(con):
    cur = con.execute("SELECT * FROM generate_series(1, 100000) AS t(a)")
    cur.fetchmany(10)
    with pytest.raises(swingdb.Error):
        con.execute("SELECT * FROM nowhere")
    assert len(cur.fetchall()) == 99_990


@pytest.mark.parametrize(
    ("script", "kind", "line"),
    [
        ("SELECT 1;\n\nSELECT nowhere FROM\n  t;\nSELECT 2", "NotFoundError", 3),
        ("CREATE TABLE t (a INT);\n\nINSERT INTO t VALUES ('x')", "ConversionError", 3),
        ("SELECT 1;\nSELECT 1 / a FROM (VALUES (0)) t(a);\nSELECT 3", "ExecutionError", 2),
        ("SELECT 1;\n  SELECT 2; SELECT 1 + [2]", "PlanError", 2),
    ],
)
def test_the_error_of_a_statement_of_several_names_its_line(script, kind, line):
    """The line in which the statement begins, in the message and as an attribute."""
    con = swingdb.connect()
    with pytest.raises(getattr(swingdb, kind)) as caught:
        con.execute(script).fetchall()
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}: ")


def test_the_error_of_one_statement_has_no_line():
    """There is nothing to tell apart."""
    with pytest.raises(swingdb.NotFoundError) as caught:
        swingdb.connect().execute("\n\nSELECT nowhere")
    assert caught.value.line is None
    assert "line" not in str(caught.value)


def test_an_error_while_rows_are_read_names_the_line():
    """The last statement of a script computes while its rows are read."""
    con = swingdb.connect()
    script = "CREATE TABLE t AS SELECT range AS a FROM range(300000);\n"
    script += "SELECT 1 / (a - 299999) FROM t"
    with pytest.raises(swingdb.ExecutionError) as caught:
        con.execute(script).fetchall()
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        ("CREATE TABLE c (a INT REFERENCES p ON DELETE CASCADE)", "in one transaction"),
        ("CREATE TABLE c (a INT REFERENCES p ON UPDATE SET NULL)", "in one transaction"),
        ("CREATE TABLE c (a INT REFERENCES p DEFERRABLE)", "by each statement"),
        ("SELECT try(a / 0) FROM p", "CASE"),
        ("CREATE UNIQUE INDEX i ON p (a + 1)", "add a column"),
        ("SELECT sum(a) OVER (ORDER BY a ROWS 1 PRECEDING EXCLUDE CURRENT ROW) FROM p", "- x"),
        ("SELECT '-infinity'::DATE", "9999-12-31"),
        ("SELECT 'inf'::TIMESTAMP", "NULL"),
        ("SELECT * FROM read_csv('a.csv', rejects_table = 'r')", "csv_rejects('file'"),
        ("SELECT * FROM sqlite_scan('t.db', 't')", "COPY"),
        ("SELECT * FROM 's3://b/a.parquet'", "aws s3 cp"),
        ("COPY p TO 's3://b/a.parquet'", "aws s3 cp --recursive"),
        ("EXPORT DATABASE 'gs://b/a'", "gcloud storage cp -r"),
        ("COPY p TO 'ftp://b/a.csv'", "and copy that"),
        ("CREATE SECRET (TYPE s3)", "swingdb-remote"),
    ],
)
def test_what_is_refused_has_something_instead(con, sql, instead):
    con.execute("CREATE TABLE p (a INT PRIMARY KEY)")
    with pytest.raises(swingdb.Error) as caught:
        con.execute(sql).fetchall()
    assert instead in str(caught.value)


@pytest.mark.parametrize("name", ["/tmp/s.x", "./shop", "../shop", "~/shop", "shop.db", "A.DuckDB"])
def test_a_database_is_no_file(name):
    with pytest.raises(swingdb.PlanError, match=r"looks like a file.*store") as refused:
        swingdb.connect(name)
    assert name in str(refused.value)
    assert [found.name for found in swingdb.list()] == []
    # Nobody takes these for files.
    for other in ("shop/2026", "v1.2", "a.b.c"):
        swingdb.connect(other).close()


def test_a_named_database_with_a_store_may_be_called_as_one_likes(tmp_path):
    with swingdb.connect("shop.db", store=str(tmp_path / "shop.db")) as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
        con.share()
    with swingdb.connect("shop.db", read_only=True) as con:
        assert con.execute("FROM t").fetchall() == [(1,)]
    # It is there.
    swingdb.connect("shop.db").close()


@pytest.mark.parametrize("value", [1, 2.5, "text", b"bytes", None])
def test_a_column_is_no_single_value(con, value):
    with pytest.raises(swingdb.InterfaceError, match="column 'a' is a .*list of one value"):
        con.append("trips", {"a": value})
