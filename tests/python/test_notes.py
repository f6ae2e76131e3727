"""Comments and indexes go where their objects go: snapshots, copies, clones, stores."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import swingdb

NOTES = (
    "SELECT comment FROM duckdb_tables() WHERE table_name = 't'",
    "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 't' ORDER BY ALL",
    "SELECT comment FROM duckdb_views() WHERE view_name = 'v'",
    "SELECT comment FROM duckdb_sequences()",
    "SELECT comment FROM duckdb_functions() WHERE function_name = 'twice'",
    "SELECT index_name, is_unique, sql, comment FROM duckdb_indexes() ORDER BY ALL",
    "SELECT table_oid FROM duckdb_tables() WHERE table_name = 't'",
)


def fill(con: swingdb.Connection) -> None:
    con.execute("CREATE TABLE t (a INT, b VARCHAR, c INT)")
    con.execute("INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20)")
    con.execute("CREATE UNIQUE INDEX by_a ON t (a); CREATE INDEX by_b ON t (lower(b))")
    con.execute("CREATE VIEW v AS SELECT a FROM t; CREATE SEQUENCE numbers")
    con.execute("CREATE MACRO twice(x) AS 2 * x")
    for what in ("TABLE t", "COLUMN t.b", "VIEW v", "SEQUENCE numbers", "MACRO twice",
                 "INDEX by_a"):
        con.execute(f"COMMENT ON {what} IS 'on {what.lower()}'")


def notes(con: swingdb.Connection) -> list:
    return [con.execute(sql).fetchall() for sql in NOTES]


def check(con: swingdb.Connection, expected: list) -> None:
    """The same notes, and a unique index that is enforced."""
    assert notes(con) == expected
    with pytest.raises(swingdb.ConstraintError):
        con.execute("INSERT INTO t VALUES (1, 'again', 0)")


def test_snapshots_and_what_is_made_of_them(home: Path) -> None:
    with swingdb.connect("shop") as con:
        fill(con)
        expected = notes(con)
        assert expected[0] == [("on table t",)]
        assert expected[5] == [
            ("by_a", True, "CREATE UNIQUE INDEX by_a ON t(a);", "on index by_a"),
            ("by_b", False, "CREATE INDEX by_b ON t((lower(b)));", None),
        ]
        con.share()
        with swingdb.snapshot("shop") as snapshot:
            con.execute("DROP INDEX by_a; COMMENT ON TABLE t IS NULL; DROP VIEW v")
            check(snapshot, expected)
            snapshot.execute("COMMENT ON TABLE t IS 'mine'")
            assert snapshot.execute(NOTES[0]).fetchall() == [("mine",)]
        program = (
            "import swingdb\n"
            f"NOTES = {NOTES!r}\n"
            "with swingdb.snapshot('shop') as con:\n"
            "    print(repr([con.execute(sql).fetchall() for sql in NOTES]))\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert told.stdout.strip() == repr(expected)


def test_a_clone_has_the_comments_and_the_keys(home: Path) -> None:
    """Names of indexes are not taken twice."""
    with swingdb.connect() as con:
        fill(con)
        con.execute("CREATE TABLE u CLONE t")
        assert con.execute(
            "SELECT comment FROM duckdb_tables() WHERE table_name = 'u'"
        ).fetchall() == [("on table t",)]
        assert con.execute(
            "SELECT index_name FROM duckdb_indexes() WHERE table_name = 'u'"
        ).fetchall() == []
        with pytest.raises(swingdb.ConstraintError):
            con.execute("INSERT INTO u VALUES (1, 'again', 0)")
        con.execute("CREATE INDEX by_c ON u (c)")
        con.execute("DROP TABLE t")
        assert con.execute("SELECT index_name FROM duckdb_indexes()").fetchall() == [("by_c",)]


def test_a_store_keeps_them(tmp_path: Path, reboot) -> None:
    with swingdb.connect("shop", store=tmp_path / "store") as con:
        fill(con)
        expected = notes(con)
    reboot()
    with swingdb.connect("shop", store=tmp_path / "store") as con:
        check(con, expected)
        con.execute("DROP INDEX by_a; COMMENT ON COLUMN t.b IS NULL")
        changed = notes(con)
        con.execute("INSERT INTO t VALUES (1, 'again', 0)")
    reboot()
    with swingdb.connect("shop", store=tmp_path / "store") as con:
        assert notes(con) == changed


def test_temporary_tables_have_them(home: Path) -> None:
    with swingdb.connect() as con:
        con.execute("CREATE TEMP TABLE x (a INT)")
        con.execute("COMMENT ON TABLE x IS 'for now'; CREATE UNIQUE INDEX by_x ON x (a)")
        told = "SELECT database_name, temporary, comment FROM duckdb_tables()"
        assert con.execute(told).fetchall() == [("temp", True, "for now")]
        con.execute("INSERT INTO x VALUES (1)")
        with pytest.raises(swingdb.ConstraintError):
            con.execute("INSERT INTO x VALUES (1)")
        con.execute("ANALYZE x")


def test_listings_show_what_the_program_has(home: Path) -> None:
    """Variables of the program are views, as in DuckDB; attached databases are listed."""
    import pyarrow as pa

    with swingdb.connect("other") as other:
        other.execute("CREATE TABLE far (a INT)")
        other.share()
        with swingdb.connect() as con:
            con.register("given", pa.table({"n": [1, 2]}))
            con.execute("ATTACH 'other' AS o")
            assert con.execute(
                "SELECT view_name, temporary, column_count FROM duckdb_views()"
            ).fetchall() == [("given", True, 1)]
            assert con.execute(
                "SELECT database_name, table_name FROM duckdb_tables()"
            ).fetchall() == [("o", "far")]
            assert con.execute(
                "SELECT database_name, readonly FROM duckdb_databases() ORDER BY 1"
            ).fetchall() == [("o", True), ("swingdb", False)]
            assert con.execute("SELECT relname FROM pg_class").fetchall() == [("given",)]
