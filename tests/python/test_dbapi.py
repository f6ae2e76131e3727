"""PEP 249, item by item."""

from __future__ import annotations

import datetime
import threading
from decimal import Decimal

import pytest

import swingdb


def test_module_globals():
    assert swingdb.apilevel == "2.0"
    assert swingdb.threadsafety == 2
    assert swingdb.paramstyle == "qmark"


def test_exception_tree():
    assert issubclass(swingdb.Warning, Exception)
    assert issubclass(swingdb.Error, Exception)
    assert issubclass(swingdb.InterfaceError, swingdb.Error)
    assert issubclass(swingdb.DatabaseError, swingdb.Error)
    for name in (
        "DataError",
        "OperationalError",
        "IntegrityError",
        "InternalError",
        "ProgrammingError",
        "NotSupportedError",
    ):
        assert issubclass(getattr(swingdb, name), swingdb.DatabaseError)
        assert getattr(swingdb.Connection, name) is getattr(swingdb, name)


def test_description_names_types_and_sizes(con):
    cur = con.cursor()
    assert cur.description is None
    cur.execute(
        "SELECT 1 AS n, 'x' AS s, CAST(1.5 AS DECIMAL(10, 2)) AS d, DATE '2024-01-02' AS day, "
        "TIMESTAMP '2024-01-02 03:04:05' AS t, X'00ff' AS b, true AS flag, 1.5e0 AS f"
    )
    assert [column[0] for column in cur.description] == [
        "n",
        "s",
        "d",
        "day",
        "t",
        "b",
        "flag",
        "f",
    ]
    assert all(len(column) == 7 for column in cur.description)
    codes = [column[1] for column in cur.description]
    expected = ["NUMBER", "STRING", "NUMBER", "DATETIME", "DATETIME", "BINARY", "NUMBER", "NUMBER"]
    for code, family in zip(codes, expected, strict=True):
        assert code == getattr(swingdb, family)
        assert getattr(swingdb, family) == code
        others = {"NUMBER", "STRING", "DATETIME", "BINARY", "ROWID"} - {family}
        assert not any(code == getattr(swingdb, other) for other in others)
        assert all(code != getattr(swingdb, other) for other in others)
    assert str(codes[0]) == "BIGINT"
    assert cur.description[2][4:6] == (10, 2)


def test_rowcount(con):
    cur = con.cursor()
    assert cur.rowcount == -1
    cur.execute("CREATE TABLE t (a INT)")
    cur.execute("INSERT INTO t VALUES (1), (2), (3)")
    assert cur.rowcount == 3
    assert cur.description is None
    cur.execute("UPDATE t SET a = a + 1 WHERE a > 1")
    assert cur.rowcount == 2
    cur.execute("DELETE FROM t WHERE a = 1")
    assert cur.rowcount == 1
    cur.execute("SELECT * FROM t")
    assert cur.rowcount == -1


def test_fetching(con):
    cur = con.execute("SELECT * FROM generate_series(1, 10) AS t(a) ORDER BY a")
    assert cur.fetchone() == (1,)
    assert cur.rownumber == 1
    assert cur.fetchmany() == [(2,)]
    cur.arraysize = 3
    assert cur.fetchmany() == [(3,), (4,), (5,)]
    assert cur.fetchmany(2) == [(6,), (7,)]
    assert next(cur) == (8,)
    assert cur.fetchall() == [(9,), (10,)]
    assert cur.fetchone() is None
    assert cur.fetchmany(5) == []
    assert cur.fetchall() == []
    for fetch in (con.execute("SELECT 1").fetchmany, con.sql("SELECT 1").fetchmany):
        with pytest.raises(swingdb.ProgrammingError, match="cannot fetch -1 rows"):
            fetch(-1)
        assert fetch(0) == []
    with pytest.raises(StopIteration):
        next(cur)


def test_fetching_across_batches(con):
    cur = con.execute("SELECT * FROM generate_series(0, 99999) AS t(a) ORDER BY a")
    rows = []
    while some := cur.fetchmany(7777):
        rows += some
    assert rows == [(a,) for a in range(100_000)]
    assert [a for (a,) in con.execute("SELECT * FROM generate_series(1, 5) AS t(a)")] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_fetching_without_rows(con):
    cur = con.cursor()
    with pytest.raises(swingdb.ProgrammingError):
        cur.fetchone()
    cur.execute("CREATE TABLE t (a INT)")
    for fetch in (cur.fetchone, cur.fetchmany, cur.fetchall):
        with pytest.raises(swingdb.Error):
            fetch()


def test_an_empty_result_has_a_description(con):
    cur = con.execute("SELECT 1 AS a WHERE false")
    assert [column[0] for column in cur.description] == ["a"]
    assert cur.fetchall() == []


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT ?, ?", (1, "x")),
        ("SELECT ?, ?", [1, "x"]),
        ("SELECT $1, $2", (1, "x")),
        ("SELECT $a, $b", {"a": 1, "b": "x"}),
    ],
)
def test_parameter_styles(con, sql, params):
    assert con.execute(sql, params).fetchall() == [(1, "x")]


def test_parameters_are_values_not_text(con):
    nasty = "'; DROP TABLE t; --"
    con.execute("CREATE TABLE t (s VARCHAR)")
    con.execute("INSERT INTO t VALUES (?)", [nasty])
    assert con.execute("SELECT s FROM t WHERE s = ?", [nasty]).fetchall() == [(nasty,)]
    assert con.execute("SELECT '?', ?", [1]).fetchall() == [("?", 1)]


@pytest.mark.parametrize("params", [[], [1], None])
def test_missing_parameters(con, params):
    with pytest.raises(swingdb.ProgrammingError):
        con.execute("SELECT ?, ?", params).fetchall()


@pytest.mark.parametrize("params", ["text", b"bytes", 5])
def test_parameters_of_the_wrong_kind(con, params):
    with pytest.raises(swingdb.ProgrammingError):
        con.execute("SELECT ?", params)


def test_executemany_inserts_in_bulk(con):
    con.execute("CREATE TABLE t (a INT, b VARCHAR, c DOUBLE DEFAULT 7)")
    cur = con.cursor()
    cur.executemany("INSERT INTO t (a, b) VALUES (?, ?)", [(i, f"n{i}") for i in range(50_000)])
    assert cur.rowcount == 50_000
    assert con.execute("SELECT count(*), sum(a), min(c), max(b) FROM t").fetchone() == (
        50_000,
        sum(range(50_000)),
        7.0,
        "n9999",
    )


def test_executemany_of_any_statement(con):
    con.execute("CREATE TABLE t (a INT, b VARCHAR)")
    con.executemany("INSERT INTO t VALUES (? + 1, upper(?))", [(1, "a"), (2, "b")])
    assert con.execute("SELECT * FROM t ORDER BY a").fetchall() == [(2, "A"), (3, "B")]
    assert con.executemany("UPDATE t SET b = ? WHERE a = ?", [("x", 2), ("y", 9)]).rowcount == 1
    named = [{"a": 10, "b": "n"}, {"a": 11, "b": "m"}]
    assert con.executemany("INSERT INTO t VALUES ($a, $b)", named).rowcount == 2
    assert con.executemany("INSERT INTO t VALUES (?, ?)", []).rowcount == 0
    assert con.executemany("INSERT INTO t VALUES (?, ?)", iter([(20, None)])).rowcount == 1
    assert con.execute("SELECT count(*) FROM t").fetchone() == (5,)


def test_executemany_is_all_or_nothing(con):
    con.execute("CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR)")
    con.execute("INSERT INTO t VALUES (3, 'old')")
    for sql in ("INSERT INTO t VALUES (?, ?)", "INSERT INTO t VALUES (?, lower(?))"):
        with pytest.raises(swingdb.IntegrityError):
            con.executemany(sql, [(1, "x"), (2, "y"), (3, "z")])
        assert con.execute("SELECT * FROM t").fetchall() == [(3, "old")]


def test_executemany_mixed_types_and_widths(con):
    con.execute("CREATE TABLE t (a VARCHAR)")
    con.executemany("INSERT INTO t VALUES (?)", [(1,), ("x",), (None,), (2.5,)])
    rows = con.execute("SELECT a FROM t").fetchall()
    assert sorted(row[0] or "" for row in rows) == ["", "1", "2.5", "x"]
    with pytest.raises(swingdb.Error):
        con.executemany("INSERT INTO t VALUES (?)", [(1,), (1, 2)])
    with pytest.raises(swingdb.ProgrammingError):
        con.executemany("SELECT ?", [(1,), (2,)])


def test_constructors():
    assert swingdb.Date(2024, 2, 29) == datetime.date(2024, 2, 29)
    assert swingdb.Time(1, 2, 3) == datetime.time(1, 2, 3)
    assert swingdb.Timestamp(2024, 2, 29, 1, 2, 3) == datetime.datetime(2024, 2, 29, 1, 2, 3)
    ticks = datetime.datetime(2024, 2, 29, 1, 2, 3).timestamp()
    assert swingdb.DateFromTicks(ticks) == datetime.date(2024, 2, 29)
    assert swingdb.TimeFromTicks(ticks) == datetime.time(1, 2, 3)
    assert swingdb.TimestampFromTicks(ticks) == datetime.datetime(2024, 2, 29, 1, 2, 3)
    assert swingdb.Binary(b"ab") == b"ab"


def test_closing(con):
    cur = con.execute("SELECT 1")
    cur.close()
    cur.close()
    with pytest.raises(swingdb.Error):
        cur.execute("SELECT 1")
    with pytest.raises(swingdb.Error):
        cur.fetchall()
    with con.cursor() as inner:
        inner.execute("SELECT 1")
    with pytest.raises(swingdb.ClosedError):
        inner.fetchone()
    other = swingdb.connect()
    late = other.cursor()
    other.close()
    other.close()
    assert other.closed
    for call in (other.cursor, other.commit, other.begin, lambda: late.execute("SELECT 1")):
        with pytest.raises(swingdb.Error):
            call()


def test_commit_and_rollback_without_a_transaction(con):
    con.commit()
    con.rollback()
    assert not con.in_transaction


def test_optional_methods(con):
    cur = con.cursor()
    cur.setinputsizes([1])
    cur.setoutputsize(1, 2)
    assert cur.nextset() is None
    assert cur.lastrowid is None
    assert cur.connection is con


def test_cursors_share_the_transaction(con):
    con.execute("CREATE TABLE t (a INT)")
    con.begin()
    con.cursor().execute("INSERT INTO t VALUES (1)")
    assert con.cursor().execute("SELECT count(*) FROM t").fetchone() == (1,)
    con.rollback()
    assert con.cursor().execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_several_statements_at_once(con):
    cur = con.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); SELECT sum(a) FROM t")
    assert cur.fetchall() == [(3,)]


def test_threads_share_a_connection(con):
    con.execute("CREATE TABLE t (a BIGINT)")
    failures = []

    def work(number):
        try:
            for step in range(20):
                con.execute("INSERT INTO t VALUES (?)", [number * 100 + step])
                assert con.execute("SELECT count(*) FROM t").fetchone()[0] > 0
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert con.execute("SELECT count(*), count(DISTINCT a) FROM t").fetchone() == (80, 80)


def test_sessions_of_one_database_have_their_own_transactions():
    one = swingdb.connect("shared_in_process")
    two = swingdb.connect("shared_in_process")
    three = one.duplicate()
    one.execute("CREATE TABLE t AS SELECT 1 AS a")
    one.begin()
    one.execute("INSERT INTO t VALUES (2)")
    assert two.execute("SELECT count(*) FROM t").fetchone() == (1,)
    one.commit()
    assert three.execute("SELECT count(*) FROM t").fetchone() == (2,)
    one.close()
    assert two.execute("SELECT count(*) FROM t").fetchone() == (2,)
    two.close()
    three.close()
    again = swingdb.connect("shared_in_process")
    assert again.execute("SELECT count(*) FROM t").fetchone() == (2,)
    again.close()


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("DECIMAL(38, 2)", [2**53 + 1, 0.5]),
        ("BIGINT", [2**53 + 1, 2.0]),
        ("VARCHAR", [1, 2.5]),
        ("VARCHAR", [Decimal("1.10"), Decimal("2.345")]),
        ("VARCHAR", [Decimal("1.10"), Decimal("12.34")]),
        ("VARCHAR", [10, Decimal("0.5")]),
        ("VARCHAR", [datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1, 8)]),
        ("VARCHAR", [True, 1, None]),
        ("DOUBLE", [1, 0.5, None]),
        ("DOUBLE", [2**53 + 1, 0.5]),
        ("UBIGINT", [2**64 - 1, 0]),
        ("HUGEINT", [2**100, -1]),
        ("BIGINT[]", [[1], [2.0]]),
    ],
)
def test_executemany_stores_what_execute_stores(con, kind, values):
    con.execute(f"CREATE TABLE a (v {kind}); CREATE TABLE b (v {kind})")
    try:
        for value in values:
            con.execute("INSERT INTO a VALUES (?)", [value])
    except swingdb.Error as error:
        with pytest.raises(type(error)):
            con.executemany("INSERT INTO b VALUES (?)", [(value,) for value in values])
        assert con.table("b").fetchall() == []
        return
    con.executemany("INSERT INTO b (v) VALUES (?)", [(value,) for value in values])
    assert con.table("b").fetchall() == con.table("a").fetchall()


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ("s IN ?", ["a", "z"], [1]),
        ("s NOT IN ?", ["a", "z"], [2]),
        ("s NOT IN ?", ["a", None], []),
        ("s IN ? OR n = 2", ("a",), [1, 2]),
        ("n IN ? AND s IS NOT NULL", [1, 3], [1]),
        ("n IN [2, 3]", None, [2, 3]),
        ("NOT n IN ?", [2], [1, 3]),
    ],
)
def test_in_a_list(con, condition, values, expected):
    con.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (3, NULL)) v(n, s)")
    given = [] if values is None else [values]
    found = con.execute(f"SELECT n FROM t WHERE {condition} ORDER BY n", given).fetchall()
    assert [row[0] for row in found] == expected


def test_memory_is_the_name_of_private_databases():
    with swingdb.connect(":memory:") as one, swingdb.connect(":memory:") as other:
        one.execute("CREATE TABLE t (a INT)")
        assert (one.name, other.tables()) == (None, [])
        assert [info.name for info in swingdb.list() if info.name == ":memory:"] == []
        with pytest.raises(swingdb.Error, match="private"):
            swingdb.get_snapshot("none", ":memory:")
