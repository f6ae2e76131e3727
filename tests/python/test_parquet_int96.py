"""Timestamps of 96 bits, as Impala and older versions of Spark write them."""

import datetime

import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
duckdb = pytest.importorskip("duckdb")

import swingdb  # noqa: E402

#: Also what nanoseconds of 64 bits do not reach.
TIMES = [
    datetime.datetime(2024, 1, 2, 3, 4, 5, 678901),
    None,
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(1, 1, 1),
    datetime.datetime(1582, 10, 15),
    datetime.datetime(1677, 9, 21),
    datetime.datetime(2262, 4, 12),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
]


@pytest.fixture
def path(tmp_path):
    times = pa.array(TIMES, pa.timestamp("us"))
    number = pa.array(range(len(TIMES)))
    nested = pa.array([None if time is None else [time] for time in TIMES])
    path = tmp_path / "int96.parquet"
    table = pa.table({"n": number, "t": times, "l": nested})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=3)
    assert str(pq.ParquetFile(path).schema.column(1).physical_type) == "INT96"
    return path


QUERIES = [
    "SELECT n, t FROM '{}' ORDER BY n",
    "SELECT n, l FROM '{}' ORDER BY n",
    "SELECT min(t), max(t), count(t) FROM '{}'",
    "SELECT n FROM '{}' WHERE t > TIMESTAMP '2262-01-01 00:00:00' ORDER BY n",
    "SELECT n FROM '{}' WHERE t < TIMESTAMP '1600-01-01 00:00:00' ORDER BY n",
    "SELECT n FROM '{}' WHERE t = TIMESTAMP '1969-12-31 23:59:59.999999'",
]


@pytest.mark.parametrize("query", QUERIES)
def test_queries_answer_as_in_duckdb(path, query):
    sql = query.format(path)
    with swingdb.connect() as con:
        assert con.execute(sql).fetchall() == duckdb.sql(sql).fetchall()


def test_an_import_keeps_them(path):
    with swingdb.connect() as con:
        con.execute(f"CREATE TABLE t AS SELECT * FROM '{path}'")
        con.execute(f"COPY t FROM '{path}'")
        rows = con.execute("SELECT t FROM t WHERE t IS NOT NULL ORDER BY t").fetchall()
        expected = sorted(time for time in TIMES if time is not None)
        assert [row[0] for row in rows] == [time for time in expected for _ in range(2)]
        kind = con.execute("SELECT typeof(t), typeof(l) FROM t LIMIT 1").fetchall()
        assert kind == [("TIMESTAMP", "TIMESTAMP[]")]
