"""The ADBC driver, through Arrow's driver manager, pandas and Polars.

SWINGDB_ADBC names another library than the package's own, such as `libadbc_driver_swingdb.so`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import os
import threading
import time

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import swingdb
import swingdb.adbc

adbc_driver_manager = pytest.importorskip("adbc_driver_manager")
dbapi = pytest.importorskip("adbc_driver_manager.dbapi")


def connect(**options):
    kwargs = {"autocommit": True} | options.pop("connect", {})
    return dbapi.connect(
        driver=os.environ.get("SWINGDB_ADBC", swingdb.adbc.driver()),
        entrypoint=swingdb.adbc.ENTRY_POINT,
        db_kwargs=options,
        **kwargs,
    )


@pytest.fixture
def adbc():
    with connect() as connection:
        yield connection


def rows(connection, sql, params=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()


def test_statements_and_types(adbc):
    kinds = {
        "BOOLEAN": True,
        "TINYINT": -128,
        "UBIGINT": 2**63 - 1,
        "DOUBLE": 0.5,
        "VARCHAR": "x'y\u00e4",
        "BLOB": b"\x00\xff",
        "DECIMAL(10, 2)": decimal.Decimal("12345678.25"),
        "DATE": dt.date(2024, 2, 29),
        "TIME": dt.time(1, 2, 3, 4),
        "TIMESTAMP": dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        "BIGINT[]": [1, None, 3],
        "VARCHAR[]": ["a", None],
    }
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds))
    values = list(kinds.values())
    with adbc.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t ({columns})")
        marks = ", ".join("?" for _ in kinds)
        cursor.execute(f"INSERT INTO t VALUES ({marks})", values)
        assert cursor.rowcount in (-1, 1)
        cursor.execute("SELECT * FROM t")
        table = cursor.fetch_arrow_table()
    assert list(table.to_pylist()[0].values()) == values
    assert table.schema.field("c4").type == pa.string(), "no views"
    assert table.schema.field("c11").type == pa.list_(pa.string())
    assert rows(adbc, "SELECT count(*) FROM t WHERE c4 = $1", ["x'y\u00e4"]) == [(1,)]
    assert rows(adbc, "SELECT NULL AS n, 1 AS one") == [(None, 1)]


def test_parameters_run_a_statement_for_each_row(adbc):
    rows(adbc, "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR)")
    with adbc.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), (2, None), (3, "z")])
        with pytest.raises(adbc_driver_manager.IntegrityError):
            cursor.executemany("INSERT INTO t VALUES (?, ?)", [(4, "w"), (1, "again")])
    assert rows(adbc, "SELECT * FROM t ORDER BY a") == [(1, "x"), (2, None), (3, "z")]
    with adbc.cursor() as cursor:
        cursor.execute("SELECT a FROM t WHERE a = ?", parameters=[2])
        assert cursor.fetchall() == [(2,)]
        cursor.adbc_prepare("SELECT a, b FROM t WHERE a > $1 AND b = $2")
        schema = cursor.adbc_statement.get_parameter_schema() if hasattr(
            cursor.adbc_statement, "get_parameter_schema"
        ) else None
        assert schema is None or len(pa.schema(schema)) == 2
        assert cursor.adbc_execute_schema("SELECT a, b FROM t").names == ["a", "b"]


@pytest.mark.parametrize("temporary", [False, True])
def test_ingestion(adbc, temporary):
    words = pa.array(["p", "q", "p"]).dictionary_encode()
    data = pa.table({"a": [1, 2, None], "b": ["x", "y", None], "c": words})
    with adbc.cursor() as cursor:

        def ingest(mode, data=data):
            return cursor.adbc_ingest("t", data, mode=mode, temporary=temporary)

        assert ingest("create") == 3
        with pytest.raises(adbc_driver_manager.ProgrammingError) as raised:
            ingest("create")
        assert raised.value.sqlstate == "42P07"
        assert ingest("append") == 3
        assert ingest("create_append") == 3
        assert rows(adbc, "SELECT count(*), count(a), min(c) FROM t") == [(9, 6, "p")]
        assert ingest("replace", data.slice(0, 2)) == 2
        assert rows(adbc, "SELECT * FROM t ORDER BY a") == [(1, "x", "p"), (2, "y", "q")]
        assert ingest("append", data.slice(0, 1).to_reader()) == 1
        with pytest.raises(adbc_driver_manager.Error):
            ingest("append", pa.table({"a": ["no number"], "b": ["x"], "c": ["y"]}))
    assert rows(adbc, "SELECT count(*) FROM t") == [(3,)]


def test_ingestion_into_a_schema(adbc):
    rows(adbc, 'CREATE SCHEMA "other one"')
    with adbc.cursor() as cursor:
        cursor.adbc_ingest('odd "name"', pa.table({"a": [1]}), db_schema_name="other one")
    assert rows(adbc, 'SELECT a FROM "other one"."odd ""name"""') == [(1,)]


def test_objects(adbc):
    for sql in (
        "CREATE TABLE p (a INT PRIMARY KEY, b VARCHAR DEFAULT 'x')",
        "CREATE TABLE t (x INT REFERENCES p (a), y INT CHECK (y > 0), UNIQUE (x, y))",
        "CREATE VIEW v AS SELECT a FROM p",
        "CREATE TEMP TABLE tt (a INT)",
        "CREATE SCHEMA s2",
        "CREATE TABLE s2.k (z INT)",
    ):
        rows(adbc, sql)
    found = adbc.adbc_get_objects().read_all().to_pylist()
    by_name = {catalog["catalog_name"]: catalog["catalog_db_schemas"] for catalog in found}
    assert set(by_name) == {"swingdb", "temp"}
    schemas = {each["db_schema_name"]: each["db_schema_tables"] for each in by_name["swingdb"]}
    tables = {table["table_name"]: table for table in schemas["main"]}
    assert set(tables) == {"p", "t", "v"}
    assert tables["v"]["table_type"] == "VIEW"
    columns = tables["p"]["table_columns"]
    assert [(c["column_name"], c["ordinal_position"]) for c in columns] == [("a", 1), ("b", 2)]
    assert columns[0]["xdbc_is_nullable"] == "NO"
    assert columns[1]["xdbc_column_def"] == "'x'"
    constraints = {c["constraint_type"]: c for c in tables["t"]["table_constraints"]}
    assert constraints["UNIQUE"]["constraint_column_names"] == ["x", "y"]
    usage = constraints["FOREIGN KEY"]["constraint_column_usage"]
    assert [(u["fk_table"], u["fk_column_name"]) for u in usage] == [("p", "a")]
    assert constraints["CHECK"]["constraint_column_names"] == ["y"]
    assert {t["table_name"] for t in schemas["s2"]} == {"k"}

    def names(**kwargs):
        objects = adbc.adbc_get_objects(**kwargs).read_all().to_pylist()
        return sorted(
            table["table_name"]
            for catalog in objects
            for schema in catalog["catalog_db_schemas"] or []
            for table in schema["db_schema_tables"] or []
        )

    assert names(depth="tables", table_name_filter="t%") == ["t", "tt"]
    assert names(depth="tables", db_schema_filter="s2") == ["k"]
    assert names(depth="tables", table_types_filter=["VIEW"]) == ["v"]
    assert names(depth="tables", catalog_filter="nothing") == []
    assert names(depth="db_schemas") == []
    assert adbc.adbc_get_objects(depth="catalogs").read_all().column_names == [
        "catalog_name",
        "catalog_db_schemas",
    ]
    assert adbc.adbc_get_table_types() == ["BASE TABLE", "LOCAL TEMPORARY", "VIEW"]
    assert adbc.adbc_get_table_schema("p").names == ["a", "b"]
    assert adbc.adbc_get_table_schema("k", db_schema_filter="s2").types == [pa.int32()]
    with pytest.raises(adbc_driver_manager.ProgrammingError):
        adbc.adbc_get_table_schema("nothing")


def test_information_and_options(adbc):
    info = adbc.adbc_get_info()
    assert info["vendor_name"] == "SwingDB"
    assert info["vendor_version"] == swingdb.__version__
    assert info["driver_adbc_version"] == 1001000
    assert adbc.adbc_current_catalog == "swingdb"
    assert adbc.adbc_current_db_schema == "main"
    adbc.adbc_current_db_schema = "main"
    rows(adbc, "CREATE SCHEMA s")
    with pytest.raises(adbc_driver_manager.NotSupportedError, match="write"):
        adbc.adbc_current_db_schema = "s"
    with pytest.raises(adbc_driver_manager.Error):
        adbc.adbc_connection.set_options(**{"no.such.option": "1"})
    with pytest.raises(adbc_driver_manager.Error):
        connect(**{"no.such.option": "1"})


def test_transactions():
    with connect(connect={"autocommit": False}) as connection:
        rows(connection, "CREATE TABLE t (a INT)")
        connection.rollback()
        with pytest.raises(adbc_driver_manager.Error):
            rows(connection, "SELECT * FROM t")
        connection.rollback()
        rows(connection, "CREATE TABLE t AS SELECT 1 AS a")
        connection.commit()
        rows(connection, "INSERT INTO t VALUES (2)")
        assert rows(connection, "SELECT count(*) FROM t") == [(2,)]
        connection.rollback()
        assert rows(connection, "SELECT count(*) FROM t") == [(1,)]
        connection.commit()
        connection.commit()


@pytest.mark.parametrize(
    ("sql", "error", "sqlstate"),
    [
        ("SELEC 1", "ProgrammingError", "42601"),
        ("SELECT * FROM nothing", "ProgrammingError", "42P01"),
        ("SELECT nothing FROM t", "ProgrammingError", "42703"),
        ("INSERT INTO t VALUES (NULL)", "IntegrityError", "23502"),
        ("INSERT INTO t VALUES (1)", "IntegrityError", "23505"),
        ("CREATE TABLE t (b INT)", "ProgrammingError", "42P07"),
        ("INSERT INTO t VALUES ('x')", "DataError", "22P02"),
        ("SELECT (a || 'x')::INT FROM t", "DataError", "22P02"),
    ],
)
def test_errors_have_a_sqlstate(adbc, sql, error, sqlstate):
    rows(adbc, "CREATE TABLE t (a INT PRIMARY KEY)")
    rows(adbc, "INSERT INTO t VALUES (1)")
    with pytest.raises(getattr(adbc_driver_manager, error)) as raised:
        rows(adbc, sql)
    assert raised.value.sqlstate == sqlstate
    assert rows(adbc, "SELECT * FROM t") == [(1,)]


def test_the_package_s_own_door():
    name = f"adbc_door_{os.getpid()}"
    with swingdb.adbc.connect(name, autocommit=True) as connection:
        rows(connection, "CREATE TABLE t AS SELECT 7 AS a")
        with pytest.raises(swingdb.BusyError):
            swingdb.connect(name)
    with swingdb.connect(name) as owner:
        owner.share()
        with swingdb.adbc.connect(name, snapshot=True) as snapshot:
            assert rows(snapshot, "SELECT a FROM t") == [(7,)]
    swingdb.drop(name)


def test_a_named_database_and_its_snapshots():
    name = f"adbc_{os.getpid()}"
    with swingdb.connect(name) as owner:
        owner.execute("CREATE TABLE t AS SELECT range AS a FROM range(1000)")
        owner.share()
        options = {"uri": name, "swingdb.snapshot": "true"}
        with connect(**options) as snapshot:
            assert rows(snapshot, "SELECT sum(a) FROM t") == [(499500,)]
            owner.execute("DELETE FROM t")
            owner.share()
            assert rows(snapshot, "SELECT count(*) FROM t") == [(1000,)]
    swingdb.drop(name)
    with pytest.raises(adbc_driver_manager.Error):
        connect(uri="no_such_database", **{"swingdb.snapshot": "true"})


def test_read_only(adbc):
    rows(adbc, "CREATE TABLE t (a INT)")
    adbc.adbc_connection.set_options(**{"adbc.connection.readonly": "true"})
    with pytest.raises(adbc_driver_manager.Error, match="adbc.connection.readonly"):
        rows(adbc, "INSERT INTO t VALUES (1)")


def test_cancel(adbc, interrupting):
    with adbc.cursor() as cursor:
        begun = time.monotonic()
        # What fails while rows are read is Arrow's error.
        ends = pytest.raises((adbc_driver_manager.Error, pa.ArrowException))
        with interrupting(cursor.adbc_cancel), ends:
            cursor.execute("SELECT count(*) FROM range(10000000) a, range(10000000) b")
            cursor.fetchall()
        assert time.monotonic() - begun < 60
    assert rows(adbc, "SELECT 1") == [(1,)]


def test_cancel_reaches_its_own_statement_alone(adbc, interrupting):
    endless = "SELECT count(*) FROM range(10000000) a, range(10000000) b"
    failures = (adbc_driver_manager.Error, pa.ArrowException)
    with adbc.cursor() as read, adbc.cursor() as running, adbc.cursor() as waiting:
        read.execute("SELECT range FROM range(300000)")
        assert read.fetchone() == (0,)
        failed = []

        def run():
            try:
                running.execute(endless)
                running.fetchall()
            except failures as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.3)
        with interrupting(waiting.adbc_cancel), pytest.raises(failures):
            waiting.execute(endless)
            waiting.fetchall()
        assert thread.is_alive() and not failed
        while thread.is_alive():
            running.adbc_cancel()
            thread.join(0.1)
        assert len(failed) == 1
        assert sum(1 for _ in read.fetchall()) == 299999
        # The same statement runs again; what was cancelled before does not matter.
        running.execute("SELECT 1")
        assert running.fetchall() == [(1,)]


def test_pandas_and_polars(adbc):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert frame.to_sql("t", adbc, index=False) == 2
    assert frame.to_sql("t", adbc, index=False, if_exists="append") == 2
    read = pd.read_sql("SELECT * FROM t ORDER BY a", adbc)
    assert read["a"].tolist() == [1, 1, 2, 2]
    assert pd.read_sql_table("t", adbc).shape == (4, 2)
    found = pl.read_database("SELECT a, b FROM t ORDER BY a DESC", adbc)
    assert found.rows() == [(2, None), (2, None), (1, "x"), (1, "x")]
    pl.DataFrame({"k": [1, 2, 3]}).write_database("p", adbc, engine="adbc")
    assert rows(adbc, "SELECT sum(k) FROM p") == [(6,)]
