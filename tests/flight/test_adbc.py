"""Flight SQL with the driver of ADBC, the client that most programs have.

Needs `adbc-driver-flightsql`, and the server of `make flight`, which $SWINGDB_FLIGHT names.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import swingdb

pa = pytest.importorskip("pyarrow")
flight = pytest.importorskip("adbc_driver_flightsql.dbapi")
SERVER = os.environ.get("SWINGDB_FLIGHT")
if SERVER is None:
    pytest.skip("$SWINGDB_FLIGHT names no server", allow_module_level=True)

ROWS = (
    "SELECT i::BIGINT AS id, 'n' || i AS name, i / 4.0::DOUBLE AS x,"
    " DATE '2024-01-01' + i::INTEGER AS day, i::DECIMAL(10, 2) AS price FROM range(100000) r(i)"
)


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[swingdb.Connection]:
    home = Path(tempfile.mkdtemp(prefix="swingdb-test-", dir="/dev/shm"))
    monkeypatch.setenv("SWINGDB_HOME", str(home))
    with swingdb.connect("served") as connection:
        connection.execute(f"CREATE TABLE t AS {ROWS}")
        connection.share()
        yield connection
    shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def served(*options: str) -> Iterator[str]:
    command = [str(SERVER), "served", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[3]
    finally:
        process.terminate()
        assert process.wait(20) == 0
        process.stdout.close()


@pytest.fixture
def address(writer: swingdb.Connection) -> Iterator[str]:
    with served() as address:
        yield address


def test_answers_are_arrow(writer: swingdb.Connection, address: str) -> None:
    with flight.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        for sql in [
            "SELECT * FROM t ORDER BY id",
            "SELECT name, sum(x) AS total FROM t WHERE id < 10 GROUP BY name ORDER BY name",
            "SELECT [1, 2] AS l, {'a': 1} AS s, NULL::INTEGER AS n, 'x'::BLOB AS b, true AS t",
        ]:
            cursor.execute(sql)
            got, own = cursor.fetch_arrow_table(), writer.execute(sql).arrow()
            assert got.to_pylist() == pa.table(own).to_pylist(), sql
        cursor.execute("SELECT id, day, price FROM t WHERE id = 3")
        assert cursor.fetchall() == [(3, datetime.date(2024, 1, 4), Decimal("3.00"))]
        assert [column[0] for column in cursor.description] == ["id", "day", "price"]


def test_parameters(address: str) -> None:
    with flight.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT name FROM t WHERE id = ? OR name = ?", (7, "n9"))
        assert sorted(cursor.fetchall()) == [("n7",), ("n9",)]
        for value in range(3):
            cursor.execute("SELECT count(*) FROM t WHERE id <= $1", (value,))
            assert cursor.fetchone() == (value + 1,)
        schema = cursor.adbc_prepare("SELECT id FROM t WHERE day > ?")
        assert schema.types == [pa.date32()]
        assert cursor.adbc_execute_schema("SELECT id, name FROM t").names == ["id", "name"]


def test_sessions_see_the_newest_state_and_transactions_one(
    writer: swingdb.Connection, address: str
) -> None:
    def write() -> None:
        writer.execute("INSERT INTO t (id) VALUES (-1)")
        writer.share()

    def count(connection: object) -> int:
        with connection.cursor() as cursor:  # type: ignore[attr-defined]
            cursor.execute("SELECT count(*) FROM t")
            return int(cursor.fetchone()[0])

    with flight.connect(address, autocommit=True) as connection:
        assert count(connection) == 100_000
        write()
        assert count(connection) == 100_001
    # The way of Python's databases: a transaction from the first statement on.
    with flight.connect(address) as connection:
        assert count(connection) == 100_001
        write()
        assert count(connection) == 100_001
        connection.commit()
        assert count(connection) == 100_002
        connection.rollback()


def test_what_there_is(address: str) -> None:
    with flight.connect(address, autocommit=True) as connection:
        assert connection.adbc_get_info()["vendor_name"] == "SwingDB"
        found = connection.adbc_get_objects(depth="columns", db_schema_filter="main").read_all()
        schemas = found["catalog_db_schemas"].to_pylist()
        tables = [table for every in schemas for one in every for table in one["db_schema_tables"]]
        [table] = [table for table in tables if table["table_name"] == "t"]
        names = [column["column_name"] for column in table["table_columns"]]
        assert names == ["id", "name", "x", "day", "price"]
        assert "BASE TABLE" in connection.adbc_get_table_types()
        schema = connection.adbc_get_table_schema("t", db_schema_filter="main")
        assert schema.field("day").type == pa.date32()


def test_errors(address: str) -> None:
    with flight.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        with pytest.raises(flight.Error, match="nosuch"):
            cursor.execute("SELECT * FROM nosuch")
        with pytest.raises(flight.Error, match="serves snapshots"):
            cursor.execute("DELETE FROM t")
        with pytest.raises(flight.Error):
            cursor.execute("SELECT (id / (id - 50000))::TINYINT FROM t")
            cursor.fetchall()
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_a_token_and_a_given_up_statement(writer: swingdb.Connection, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("0123456789abcdef\n")
    with served("--token-file", str(secret)) as address:
        with pytest.raises(flight.Error, match="token"):
            flight.connect(address, autocommit=True).cursor().execute("SELECT 1")
        for options in (
            {"adbc.flight.sql.authorization_header": "Bearer 0123456789abcdef"},
            {"username": "anybody", "password": "0123456789abcdef"},
        ):
            with (
                flight.connect(address, db_kwargs=options, autocommit=True) as connection,
                connection.cursor() as cursor,
            ):
                cursor.execute("SELECT count(*) FROM t")
                assert cursor.fetchone() == (100_000,)
        with flight.connect(address, db_kwargs=options, autocommit=True) as connection:
            cursor = connection.cursor()
            timeout = "adbc.flight.sql.rpc.timeout_seconds.fetch"
            cursor.adbc_statement.set_options(**{timeout: "1"})
            began = time.monotonic()
            with pytest.raises(flight.Error):
                cursor.execute("SELECT count(*) FROM t a JOIN t b ON a.id * b.id % 7 < b.id - a.id")
                cursor.fetchall()
            assert time.monotonic() - began < 15
            cursor.close()


def test_ingestion_makes_temporary_tables(address: str) -> None:
    rows = pa.table({"n": pa.array(range(100_000)), "s": [f"row {i}" for i in range(100_000)]})
    with flight.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        assert cursor.adbc_ingest("mine", rows, temporary=True) == 100_000
        assert cursor.adbc_ingest("mine", rows.slice(0, 10), mode="append", temporary=True) == 10
        cursor.execute("SELECT count(*), sum(n), min(s) FROM mine")
        assert cursor.fetchone() == (100_010, 4_999_950_045, "row 0")
        with pytest.raises(flight.ProgrammingError, match="already"):
            cursor.adbc_ingest("mine", rows, temporary=True)
        cursor.adbc_ingest("mine", rows.slice(7, 1), mode="replace", temporary=True)
        cursor.execute("SELECT n, s FROM mine")
        assert cursor.fetchall() == [(7, "row 7")]
        with pytest.raises(flight.Error, match="temporary"):
            cursor.adbc_ingest("lasting", rows)
