"""The back end of Ibis; skipped where Ibis is not installed."""

from __future__ import annotations

import os

import pytest

import swingdb

ibis = pytest.importorskip("ibis")
pa = pytest.importorskip("pyarrow")

import swingdb.ibis  # noqa: E402 - needs Ibis


@pytest.fixture
def back_end():
    con = swingdb.ibis.connect()
    yield con
    con.disconnect()


@pytest.fixture
def sales(back_end):
    rows = {"shop": ["a", "a", "b", None], "price": [1, -7, 4, None], "paid": [0.5, 1.5, None, 2.0]}
    return back_end.create_table("sales", pa.table(rows))


def test_tables(back_end, sales):
    assert sales.schema() == ibis.schema({"shop": "string", "price": "int64", "paid": "float64"})
    assert back_end.list_tables() == ["sales"]
    made = back_end.create_table("made", schema={"a": "!int32", "b": "decimal(10, 2)"})
    assert made.schema()["a"].nullable is False
    back_end.insert("made", [(1, 2)])
    assert made.count().execute() == 1
    again = back_end.create_table("made", made.mutate(c=made.a + 1), overwrite=True)
    assert again.columns == ("a", "b", "c")
    assert back_end.create_table("t", pa.table({"x": [1]}), temp=True).x.sum().execute() == 1
    view = back_end.create_view("v", sales.filter(sales.price > 0))
    assert view.count().execute() == 2
    assert back_end.list_tables() == ["made", "sales", "t", "v"]
    back_end.drop_view("v")
    back_end.rename_table("made", "renamed")
    back_end.drop_table("renamed")
    back_end.drop_table("renamed", force=True)
    assert back_end.list_tables() == ["sales", "t"]
    with pytest.raises(ibis.common.exceptions.TableNotFound):
        back_end.table("nothing")
    with pytest.raises(ibis.common.exceptions.IbisTypeError):
        back_end.create_table("n", schema={"a": "null"})


def test_a_table_that_cannot_be_filled_is_not_made(back_end, sales):
    with pytest.raises(swingdb.Error):
        back_end.create_table("bad", sales.mutate(x=sales.shop.cast("int64")))
    assert back_end.list_tables() == ["sales"]
    with pytest.raises(swingdb.Error):
        back_end.create_table("sales", sales.mutate(x=sales.shop.cast("int64")), overwrite=True)
    assert sales.count().execute() == 4


def test_schemas(back_end):
    back_end.create_database("other")
    back_end.create_table("t", pa.table({"x": [1, 2]}), database="other")
    assert back_end.list_databases() == ["main", "other"]
    assert back_end.list_tables(database="other") == ["t"]
    assert back_end.table("t", database="other").x.max().execute() == 2
    back_end.drop_table("t", database="other")
    back_end.drop_database("other")
    assert back_end.list_databases() == ["main"]
    assert back_end.list_catalogs() == [back_end.current_catalog] == ["swingdb"]


def test_expressions(back_end, sales):
    grouped = sales.group_by("shop").agg(n=sales.count(), top=sales.price.max()).order_by("shop")
    assert back_end.to_pyarrow(grouped).to_pylist() == [
        {"shop": "a", "n": 2, "top": 1},
        {"shop": "b", "n": 1, "top": 4},
        {"shop": None, "n": 1, "top": None},
    ]
    shops = ibis.memtable({"shop": ["a", "b"], "city": ["Oslo", "Bern"]})
    joined = sales.join(shops, "shop").order_by("price").select("city", "price")
    assert joined.to_pyarrow().to_pydict() == {
        "city": ["Oslo", "Oslo", "Bern"],
        "price": [-7, 1, 4],
    }
    assert back_end.list_tables() == ["sales"], "tables of Python are not listed"
    frame = sales.order_by("price").execute()
    assert frame["shop"].tolist()[:3] == ["a", "a", "b"]
    batches = back_end.to_pyarrow_batches(sales.select("paid"), chunk_size=2)
    assert batches.read_all().num_rows == 4
    assert sales.price.sum().to_pyarrow().as_py() == -2
    ranked = sales.mutate(r=ibis.row_number().over(order_by=sales.price)).order_by("r")
    assert ranked.r.execute().tolist() == [0, 1, 2, 3]


def test_whole_numbers_are_divided_as_ibis_says(sales):
    row = sales.filter(sales.price == -7)
    assert (row.price / 2).execute().tolist() == [-3.5]
    assert (row.price // 2).execute().tolist() == [-4]
    assert (row.price % 4).execute().tolist() == [-3]
    assert (1 / (row.price + 3)).execute().tolist() == [-0.25]
    assert (16 // (row.price + 9 - 0)).execute().tolist() == [8]


def test_sql_files_and_functions(back_end, sales, tmp_path):
    back_end.con.sql("SELECT * FROM sales").to_parquet(str(tmp_path / "s.parquet"))
    assert back_end.read_parquet(tmp_path / "s.parquet").count().execute() == 4
    back_end.con.sql("SELECT * FROM sales").to_csv(str(tmp_path / "s.csv"))
    assert back_end.read_csv(str(tmp_path / "*.csv"), table_name="c").price.min().execute() == -7
    found = back_end.sql("SELECT shop, price + 1 AS p FROM sales WHERE price > 0")
    assert found.p.max().execute() == 5

    @ibis.udf.scalar.python
    def doubled(x: int) -> int:
        return 2 * x

    assert sales.mutate(d=doubled(sales.price)).d.max().execute() == 8


def test_snapshots_and_connections_that_are_there():
    name = f"ibis_{os.getpid()}"
    with swingdb.connect(name) as owner:
        owner.execute("CREATE TABLE t AS SELECT range AS a FROM range(10)")
        owner.share()
        snapshot = swingdb.ibis.connect(name, snapshot=True)
        owner.execute("DELETE FROM t")
        assert snapshot.table("t").count().execute() == 10
        snapshot.disconnect()
        assert swingdb.ibis.Backend.from_connection(owner).table("t").count().execute() == 0
    swingdb.drop(name)
