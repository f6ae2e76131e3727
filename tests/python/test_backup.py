"""EXPORT DATABASE and IMPORT DATABASE beside DuckDB's: each imports what the other exports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

import swingdb

SCHEMA = """
CREATE SCHEMA geo;
CREATE SEQUENCE s START 5 INCREMENT 2;
CREATE SEQUENCE fresh;
CREATE SEQUENCE geo.turning MINVALUE 1 MAXVALUE 4 CYCLE;
CREATE TABLE t (
    id INTEGER PRIMARY KEY DEFAULT nextval('s'), v VARCHAR DEFAULT 'x' NOT NULL,
    d DECIMAL(10, 2), h DECIMAL(38, 0), l INTEGER[], ll VARCHAR[][], fl INTEGER[3],
    st STRUCT(a INTEGER, "B c" VARCHAR), m MAP(VARCHAR, INTEGER), iv INTERVAL, u UUID,
    b BLOB, da DATE, tm TIME, ts TIMESTAMP, tz TIMESTAMPTZ, s1 TIMESTAMP_S,
    s2 TIMESTAMP_MS, s3 TIMESTAMP_NS, f FLOAT, g DOUBLE, ti TINYINT, ut UTINYINT, us USMALLINT,
    ui UINTEGER, ub UBIGINT, bo BOOLEAN, CHECK (d > 1), UNIQUE (v, d)
);
CREATE TABLE geo."We""ird/t" ("a b" INTEGER, e VARCHAR, PRIMARY KEY ("a b"));
CREATE TABLE geo."empty" (a INTEGER CHECK (a > 0), b VARCHAR);
INSERT INTO t (
    v, d, h, l, ll, fl, st, m, iv, u, b, da, tm, ts, tz, s1, s2, s3, f, g, ti, ut, us, ui, ub,
    bo
) VALUES (
    'a', 2, 12345678901234567890123456789, [1, NULL], [['a'], [], NULL], [1, 2, 3],
    {'a': 1, 'B c': 'q'}, MAP {'k': 1}, INTERVAL '1 month 3 days 1.001 seconds',
    '123e4567-e89b-12d3-a456-426614174000', '\\x00\\xFFab'::BLOB,
    '1969-12-31', '12:34:56.000001', '2020-01-01 00:00:01.5', '2020-06-01 12:00:00+00',
    '2020-01-01 00:00:01', '2020-01-01 00:00:01.5', '2020-01-01 00:00:01.123456789', 1.5,
    -2.5e300, -128, 255, 65535, 4294967295, 18446744073709551615, true
);
INSERT INTO t (v, d) VALUES ('', 3);
INSERT INTO geo."We""ird/t" VALUES (1, ''), (2, NULL), (3, 'x,"y" ');
CREATE MACRO add1(x, y := 2) AS x + y;
CREATE MACRO geo.of(z) AS TABLE SELECT * FROM geo."We""ird/t" WHERE "a b" = z;
CREATE VIEW z AS SELECT * FROM t;
CREATE VIEW a (x) AS SELECT id FROM z;
CREATE VIEW geo."v w" AS SELECT add1("a b") AS q FROM geo."We""ird/t"
"""

TAKEN = ["SELECT nextval('s')", "SELECT nextval('geo.turning')", "SELECT nextval('geo.turning')"]

QUERIES = [
    "SELECT * EXCLUDE (iv, u, tz, fl, s3) FROM t ORDER BY id",
    "SELECT iv::VARCHAR, u::VARCHAR, tz::VARCHAR, fl::VARCHAR, s3::VARCHAR FROM t ORDER BY id",
    'SELECT * FROM geo."We""ird/t" ORDER BY "a b"',
    'SELECT * FROM geo."empty"',
    "SELECT x FROM a ORDER BY x",
    'SELECT * FROM geo."v w" ORDER BY q',
    "SELECT add1(1), add1(1, 5)",
    "SELECT * FROM geo.of(3)",
    "SELECT nextval('s')",
    "SELECT nextval('fresh')",
    "SELECT nextval('geo.turning')",
    "SELECT nextval('geo.turning')",
    "SELECT nextval('geo.turning')",
]

REFUSED = [
    "INSERT INTO t (id, v, d) VALUES (5, 'again', 9)",
    "INSERT INTO t (v, d) VALUES ('small', 0)",
    "INSERT INTO t (id, v, d) VALUES (100, NULL, 9)",
    "INSERT INTO t (id, v, d) VALUES (100, 'a', 2)",
    'INSERT INTO geo."empty" VALUES (0, NULL)',
]


def answers(con: swingdb.Connection | duckdb.DuckDBPyConnection) -> list[str]:
    """What the queries give, and that the wrong rows are refused."""
    found = [repr(con.execute(query).fetchall()) for query in QUERIES]
    for statement in REFUSED:
        with pytest.raises((swingdb.Error, duckdb.Error)):
            con.execute(statement)
    return found


def filled(con: swingdb.Connection | duckdb.DuckDBPyConnection) -> None:
    """Makes the schema and takes some numbers."""
    for statement in [SCHEMA, *TAKEN]:
        con.execute(statement)


def duck() -> duckdb.DuckDBPyConnection:
    """A DuckDB database whose clock is that of a new session here."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    return con


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_duckdb_imports_our_export(con: swingdb.Connection, tmp_path: Path, form: str) -> None:
    """Rows, keys, checks, defaults, views, macros and sequences are the same there."""
    filled(con)
    if form == "csv":
        # Maps are JSON in our CSV, which DuckDB does not read as maps.
        con.execute("ALTER TABLE t DROP COLUMN m")
    con.execute(f"EXPORT DATABASE '{tmp_path}/out' (FORMAT {form})")
    other = duck()
    other.execute(f"IMPORT DATABASE '{tmp_path}/out'")
    assert answers(other) == answers(con)


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_we_import_an_export_of_duckdb(
    con: swingdb.Connection, tmp_path: Path, form: str
) -> None:
    """The other way round; DuckDB writes views in the order of their names."""
    other = duck()
    filled(other)
    other.execute(f"EXPORT DATABASE '{tmp_path}/out' (FORMAT {form})")
    con.execute(f"IMPORT DATABASE '{tmp_path}/out'")
    assert answers(con) == answers(other)


def test_what_duckdb_has_and_we_have_not(con: swingdb.Connection, tmp_path: Path) -> None:
    """Is an error that names the script, and nothing is there afterwards."""
    for name, statement in {
        "enums in lists": "CREATE TYPE mood AS ENUM ('a', 'b'); CREATE TABLE u (m mood[])",
        "bits": "CREATE TABLE u (m BIT)",
    }.items():
        other = duck()
        other.execute(statement)
        other.execute(f"EXPORT DATABASE '{tmp_path}/{name}'")
        with pytest.raises(swingdb.Error, match=r"schema\.sql"):
            con.execute(f"IMPORT DATABASE '{tmp_path}/{name}'")
        assert con.execute("SHOW TABLES").fetchall() == []


def test_types_generated_columns_and_foreign_keys_travel_both_ways(
    con: swingdb.Connection, tmp_path: Path
) -> None:
    """Names of types come first, and parents before their children, also where names say not."""

    def fill(on) -> None:
        on.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        on.execute("CREATE TABLE z (id INT PRIMARY KEY, m mood)")
        on.execute("CREATE TABLE a (z INT REFERENCES z(id), twice INT AS (z * 2))")
        on.execute("INSERT INTO z VALUES (1, 'ok'), (2, 'sad')")
        on.execute("INSERT INTO a VALUES (1), (NULL)")

    def seen(on):
        rows = on.execute("SELECT id, m::VARCHAR FROM z ORDER BY m").fetchall()
        return rows, on.execute("SELECT z, twice FROM a ORDER BY z").fetchall()

    fill(con)
    expected = [(2, "sad"), (1, "ok")], [(1, 2), (None, None)]
    assert seen(con) == expected
    con.execute(f"EXPORT DATABASE '{tmp_path}/ours'")
    other = duck()
    other.execute(f"IMPORT DATABASE '{tmp_path}/ours'")
    assert seen(other) == expected
    other.execute(f"EXPORT DATABASE '{tmp_path}/theirs'")
    for folder in ("ours", "theirs"):
        again = swingdb.connect()
        again.execute(f"IMPORT DATABASE '{tmp_path}/{folder}'")
        assert seen(again) == expected
        assert again.execute("SELECT typeof('ok'::mood)").fetchone() == ("ENUM('sad', 'ok')",)
        with pytest.raises(swingdb.Error, match="FOREIGN KEY"):
            again.execute("DELETE FROM z WHERE id = 1")
        again.execute("INSERT INTO a VALUES (2)")
        assert again.execute("SELECT max(twice) FROM a").fetchone() == (4,)


def test_indexes_and_comments_travel_both_ways(con: swingdb.Connection, tmp_path: Path) -> None:
    """Those of tables, columns, views, indexes, sequences and macros."""
    notes = (
        "SELECT table_name, comment FROM duckdb_tables() WHERE NOT internal ORDER BY ALL",
        "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'u' ORDER BY ALL",
        "SELECT view_name, comment FROM duckdb_views() WHERE view_name = 'v'",
        "SELECT index_name, is_unique, expressions, sql, comment FROM duckdb_indexes() "
        "ORDER BY ALL",
        "SELECT sequence_name, comment FROM duckdb_sequences()",
    )
    other = duck()
    for one in (con, other):
        one.execute("CREATE TABLE u (a INT, b VARCHAR, c INT)")
        one.execute("INSERT INTO u VALUES (1, 'x', 3), (2, 'y', 4)")
        one.execute("CREATE UNIQUE INDEX by_a ON u (a)")
        one.execute("CREATE INDEX by_c ON u (c)")
        one.execute("CREATE VIEW v AS SELECT a FROM u")
        one.execute("CREATE SEQUENCE numbers")
        one.execute("COMMENT ON TABLE u IS 'it''s a table'")
        one.execute("COMMENT ON COLUMN u.b IS 'text'")
        one.execute("COMMENT ON VIEW v IS 'a view'")
        one.execute("COMMENT ON SEQUENCE numbers IS 'numbers'")
    assert [con.execute(sql).fetchall() for sql in notes] == [
        other.execute(sql).fetchall() for sql in notes
    ]
    con.execute("COMMENT ON INDEX by_c IS 'an index'")
    con.execute("CREATE MACRO twice(x) AS 2 * x")
    con.execute("COMMENT ON MACRO twice IS 'a macro'")
    expected = [con.execute(sql).fetchall() for sql in notes]
    con.execute(f"EXPORT DATABASE '{tmp_path}/ours'")
    with swingdb.connect() as again:
        again.execute(f"IMPORT DATABASE '{tmp_path}/ours'")
        assert [again.execute(sql).fetchall() for sql in notes] == expected
        with pytest.raises(swingdb.ConstraintError):
            again.execute("INSERT INTO u VALUES (1, 'z', 9)")
        macros = "SELECT comment FROM duckdb_functions() WHERE function_name = 'twice'"
        assert again.execute(macros).fetchall() == [("a macro",)]
    theirs = duck()
    theirs.execute(f"IMPORT DATABASE '{tmp_path}/ours'")
    assert theirs.execute(notes[0]).fetchall() == expected[0]
    other.execute(f"EXPORT DATABASE '{tmp_path}/theirs'")
    with swingdb.connect() as again:
        again.execute(f"IMPORT DATABASE '{tmp_path}/theirs'")
        with pytest.raises(swingdb.ConstraintError):
            again.execute("INSERT INTO u VALUES (1, 'z', 9)")


def test_interrupts_leave_nothing(con: swingdb.Connection, tmp_path: Path, interrupting) -> None:
    """Neither a folder nor tables."""
    con.execute("CREATE TABLE t AS SELECT range AS a, 'row ' || range AS b FROM range(3000000)")
    con.execute(f"EXPORT DATABASE '{tmp_path}/whole'")
    other = swingdb.connect()
    for connection, statement in [
        (con, f"EXPORT DATABASE '{tmp_path}/half' (FORMAT csv, COMPRESSION gzip)"),
        (other, f"IMPORT DATABASE '{tmp_path}/whole'"),
    ]:
        with (
            interrupting(connection.interrupt, after=0.01),
            pytest.raises(swingdb.QueryInterruptedError),
        ):
            connection.execute(statement)
    assert os.listdir(tmp_path) == ["whole"]
    assert other.execute("SHOW TABLES").fetchall() == []
    other.execute(f"IMPORT DATABASE '{tmp_path}/whole'")
    assert other.execute("SELECT count(*) FROM t").fetchall() == [(3_000_000,)]


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """On a file system of one megabyte, mounted where only the program sees it."""
    source = (
        "import os, sys, swingdb\n"
        "con = swingdb.connect()\n"
        "con.execute(\"CREATE TABLE t AS SELECT range AS a, uuid() AS b FROM range(200000)\")\n"
        "con.execute('CREATE TABLE u AS SELECT 1 AS a')\n"
        "os.mkdir(sys.argv[1] + '/empty')\n"
        "for name in ['new', 'empty']:\n"
        "    try:\n"
        "        con.execute(f\"EXPORT DATABASE '{sys.argv[1]}/{name}'\")\n"
        "    except swingdb.Error as error:\n"
        "        print(type(error).__name__, os.listdir(sys.argv[1] + '/empty'))\n"
        "print(os.listdir(sys.argv[1]))\n"
        "con.execute('DROP TABLE t')\n"
        "con.execute(f\"EXPORT DATABASE '{sys.argv[1]}/new'\")\n"
        "print(sorted(os.listdir(sys.argv[1])))\n"
    )
    mount = 'mount -t tmpfs -o size=1m none "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, source]
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", str(tmp_path)]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("no mounts in namespaces here")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    expected = ["FileError []", "FileError []", "['empty']", "['empty', 'new']"]
    assert done.stdout.splitlines() == expected, done


def test_a_killed_export_is_cleared_away(tmp_path: Path) -> None:
    """What a killed process has written is no export, and goes with the next one."""
    source = (
        "import sys, swingdb\n"
        "con = swingdb.connect()\n"
        "con.execute(\"CREATE TABLE t AS SELECT range AS a, uuid() AS b FROM range(1000000)\")\n"
        "con.execute('CREATE TABLE u AS SELECT 1 AS a')\n"
        "print('ready', flush=True)\n"
        "con.execute(f\"EXPORT DATABASE '{sys.argv[1]}' (FORMAT csv, COMPRESSION gzip)\")\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout.readline() == "ready\n"
        end = time.monotonic() + 60
        while not os.listdir(tmp_path) and time.monotonic() < end:
            time.sleep(0.001)
        program.kill()
    assert "out" not in os.listdir(tmp_path)
    assert len(os.listdir(tmp_path)) == 1
    con = swingdb.connect()
    con.execute("CREATE TABLE t AS SELECT 1 AS a")
    con.execute(f"EXPORT DATABASE '{tmp_path}/out'")
    assert os.listdir(tmp_path) == ["out"]


def test_intervals_inside_of_lists(con: swingdb.Connection, tmp_path: Path) -> None:
    """DuckDB reads ours; theirs lose their months in Parquet's type, and are refused."""
    make = "CREATE TABLE t AS SELECT [INTERVAL '-1 month 2 days', NULL] AS l"
    con.execute(make)
    con.execute(f"EXPORT DATABASE '{tmp_path}/ours'")
    other = duck()
    other.execute(f"IMPORT DATABASE '{tmp_path}/ours'")
    text = "SELECT l::VARCHAR FROM t"
    assert other.execute(text).fetchall() == con.execute(text).fetchall()
    other.execute("UPDATE t SET l = [INTERVAL '1 month', NULL]")
    other.execute(f"EXPORT DATABASE '{tmp_path}/theirs' (FORMAT parquet)")
    empty = swingdb.connect()
    with pytest.raises(swingdb.FileImportError, match="write it as a text"):
        empty.execute(f"IMPORT DATABASE '{tmp_path}/theirs'")
    assert empty.execute("SHOW TABLES").fetchall() == []
