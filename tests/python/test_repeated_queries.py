"""Queries whose text comes again: they are planned from what was kept of them, and still mean what
they mean at the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import swingdb

POINT = "SELECT * FROM t WHERE id = ?"
TIMES = 4


@pytest.fixture
def con() -> Iterator[swingdb.Connection]:
    with swingdb.connect() as con:
        con.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, a DOUBLE, s VARCHAR)")
        con.execute("INSERT INTO t SELECT range, range * 0.5, 'x' || range FROM range(1000)")
        yield con


def point(con: swingdb.Connection, value: object) -> list[tuple]:
    """The row of a key, asked for several times."""
    found = [con.execute(POINT, [value]).fetchall() for _ in range(TIMES)]
    assert all(rows == found[0] for rows in found)
    return found[0]


def test_values_are_those_of_the_call(con: swingdb.Connection) -> None:
    for key in range(TIMES):
        assert point(con, key) == [(key, key * 0.5, f"x{key}")]
    # Of other types.
    assert point(con, "5") == [(5, 2.5, "x5")]
    assert point(con, 7.0) == [(7, 3.5, "x7")]
    assert point(con, None) == []
    assert point(con, 8) == [(8, 4.0, "x8")]
    for limit in range(1, TIMES):
        text = "SELECT id FROM t ORDER BY id LIMIT $n OFFSET $skip"
        rows = con.execute(text, {"skip": 2, "n": limit}).fetchall()
        assert rows == [(2,), (3,), (4,)][:limit]
    with pytest.raises(swingdb.Error, match="number of parameters is 1"):
        con.execute(POINT, [1, 2])
    with pytest.raises(swingdb.Error, match="number of parameters is 1"):
        con.execute(POINT)


def test_rows_are_those_of_the_moment(con: swingdb.Connection) -> None:
    assert point(con, 3) == [(3, 1.5, "x3")]
    con.execute("UPDATE t SET a = -1 WHERE id = 3")
    assert point(con, 3) == [(3, -1.0, "x3")]
    con.execute("DELETE FROM t WHERE id = 3")
    assert point(con, 3) == []
    con.execute("BEGIN")
    con.execute("INSERT INTO t VALUES (3, 0, 'again')")
    assert point(con, 3) == [(3, 0.0, "again")]
    con.execute("ROLLBACK")
    assert point(con, 3) == []


def test_names_mean_what_they_mean_at_the_moment(con: swingdb.Connection) -> None:
    assert point(con, 5) == [(5, 2.5, "x5")]
    con.execute("BEGIN")
    con.execute("ALTER TABLE t ADD COLUMN z INTEGER DEFAULT 9")
    assert point(con, 5) == [(5, 2.5, "x5", 9)]
    con.execute("ROLLBACK")
    assert point(con, 5) == [(5, 2.5, "x5")]
    con.execute("CREATE TEMP TABLE t (id BIGINT, b INTEGER)")
    con.execute("INSERT INTO temp.t VALUES (5, 50)")
    assert point(con, 5) == [(5, 50)]
    con.execute("DROP TABLE temp.t")
    assert point(con, 5) == [(5, 2.5, "x5")]
    con.execute("ALTER TABLE t RENAME COLUMN s TO text")
    assert [column[0] for column in con.execute(POINT, [5]).description] == ["id", "a", "text"]
    con.execute("DROP TABLE t")
    with pytest.raises(swingdb.Error, match="does not exist"):
        con.execute(POINT, [5])
    con.execute("CREATE TABLE t (id VARCHAR)")
    con.execute("INSERT INTO t VALUES ('5')")
    assert point(con, "5") == [("5",)]


def test_views_and_macros_that_are_replaced(con: swingdb.Connection) -> None:
    def count() -> int:
        return {con.execute("SELECT count(*) FROM v").fetchone()[0] for _ in range(TIMES)}.pop()

    con.execute("CREATE VIEW v AS SELECT id FROM t")
    assert count() == 1000
    con.execute("CREATE OR REPLACE VIEW v AS SELECT id FROM t WHERE id < 10")
    assert count() == 10
    con.execute("CREATE MACRO f(x) AS x + 1")
    for _ in range(TIMES):
        assert con.execute("SELECT f(id) FROM v WHERE id = 1").fetchall() == [(2,)]
    con.execute("CREATE OR REPLACE MACRO f(x) AS x + 2")
    assert con.execute("SELECT f(id) FROM v WHERE id = 1").fetchall() == [(3,)]


def test_settings_and_functions_of_the_moment(con: swingdb.Connection) -> None:
    query = "SELECT CAST('2024-01-01 00:00:00+00'::TIMESTAMPTZ AS VARCHAR), count(*) FROM t"
    for zone, text in [("UTC", "2024-01-01 00"), ("America/New_York", "2023-12-31 19")] * 2:
        con.execute(f"SET TimeZone = '{zone}'")
        for _ in range(TIMES):
            assert con.execute(query).fetchone()[0].startswith(text)
    for step in (1, 2):
        con.create_function("stepped", lambda x, by=step: x + by, ["BIGINT"], "BIGINT")
        for _ in range(TIMES):
            assert con.execute("SELECT stepped(id) FROM t WHERE id = 1").fetchone() == (1 + step,)
        con.remove_function("stepped")


def test_what_differs_each_time_does(con: swingdb.Connection) -> None:
    for query in ("SELECT random() FROM t LIMIT 1", "SELECT now() FROM t LIMIT 1"):
        assert len({con.execute(query).fetchone()[0] for _ in range(TIMES)}) == TIMES
    con.execute("CREATE TABLE p (k VARCHAR, v BIGINT)")
    for columns in range(1, TIMES):
        con.execute("INSERT INTO p VALUES (?, 1)", [f"c{columns}"])
        assert len(con.execute("PIVOT p ON k USING sum(v)").description) == columns


def test_prepared_statements(con: swingdb.Connection) -> None:
    con.execute("PREPARE p AS SELECT s FROM t WHERE id = $1 OR s = $2")
    for key in range(TIMES):
        assert con.execute(f"EXECUTE p({key}, 'x9')").fetchall() == [(f"x{key}",), ("x9",)]
    assert con.execute("EXECUTE p(NULL, 'x9')").fetchall() == [("x9",)]
    con.execute("UPDATE t SET s = 'new' WHERE id = 1")
    assert con.execute("EXECUTE p(1, NULL)").fetchall() == [("new",)]
    con.execute("PREPARE p AS SELECT id FROM t WHERE id = $1")
    for key in range(TIMES):
        assert con.execute(f"EXECUTE p({key})").fetchall() == [(key,)]
    with pytest.raises(swingdb.Error, match="number of parameters is 1"):
        con.execute("EXECUTE p(1, 2)")


def test_a_kept_plan_holds_no_rows(home: Path) -> None:
    with swingdb.connect("kept") as con:
        for _ in range(8):
            con.execute(
                "CREATE OR REPLACE TABLE t AS SELECT range AS id, random() AS x FROM range(2000000)"
            )
            for _ in range(TIMES):
                assert con.execute("SELECT count(*), min(id) FROM t").fetchone() == (2_000_000, 0)
        taken = sum(file.stat().st_blocks * 512 for file in home.rglob("*") if file.is_file())
        # 32 MB of rows at a time; what was replaced went free, or was used again.
        assert taken < 120 << 20
