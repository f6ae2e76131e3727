"""Arrow, pandas and Polars, in and out, and what is not copied on the way."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import swingdb

ROWS = 300_000


def arrow_table(rows: int = 1000) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "x": pa.array(np.arange(rows) / 7),
            "s": pa.array([f"row {i}" if i % 5 else None for i in range(rows)]),
            "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta(i % 366) for i in range(rows)]),
        }
    )


def create(con: swingdb.Connection) -> None:
    con.execute("CREATE TABLE t (id BIGINT, x DOUBLE, s VARCHAR, day DATE)")


class OnlyAStream:
    """Exports the Arrow PyCapsule interface and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


class OnlyAnArray:
    """Exports one record batch by the Arrow PyCapsule interface."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self.batch.__arrow_c_array__(requested_schema)


FORMS = {
    "arrow": lambda t: t,
    "batch": lambda t: t.combine_chunks().to_batches()[0],
    "reader": lambda t: t.to_reader(),
    "dataset": lambda t: pa.dataset.dataset(t),
    "scanner": lambda t: pa.dataset.dataset(t).scanner(),
    "pandas": lambda t: t.to_pandas(),
    "pandas_numpy": lambda t: t.to_pandas().astype({"s": object}),
    "polars": lambda t: pl.from_arrow(t),
    "polars_lazy": lambda t: pl.from_arrow(t).lazy(),
    "dict_of_lists": lambda t: t.to_pydict(),
    "dict_of_arrays": lambda t: {name: t[name] for name in t.column_names},
    "dict_of_series": lambda t: {name: t.to_pandas()[name] for name in t.column_names},
    "records": lambda t: t.to_pylist(),
    "stream_capsule": OnlyAStream,
    "array_capsule": lambda t: OnlyAnArray(t.combine_chunks().to_batches()[0]),
    "relation": lambda t: swingdb.connect().sql("SELECT * FROM t"),
}


@pytest.mark.parametrize("form", FORMS)
def test_append_takes_every_form(con, form):
    table = arrow_table()
    create(con)
    assert con.append("t", FORMS[form](table)) == 1000
    assert con.sql("SELECT * FROM t ORDER BY id").fetchall() == [
        tuple(row.values()) for row in table.to_pylist()
    ]


@pytest.mark.parametrize("form", FORMS)
def test_variables_of_every_form_are_queried_by_name(con, form):
    table = arrow_table(10)
    data = FORMS[form](table)
    assert con.sql("SELECT count(*), sum(id), max(s) FROM data").fetchall() == [(10, 45, "row 9")]
    assert data is not None


def test_append_matches_columns_by_name(con):
    create(con)
    con.append("t", arrow_table(3).select(["s", "id", "day", "x"]))
    assert con.sql("SELECT id, s FROM t ORDER BY id").fetchall() == [
        (0, None),
        (1, "row 1"),
        (2, "row 2"),
    ]


def test_append_converts_types_that_fit_and_refuses_values_that_do_not(con):
    con.execute("CREATE TABLE t (a SMALLINT, s VARCHAR)")
    con.append(
        "t", pa.table({"a": pa.array([1], pa.int64()), "s": pa.array(["x"], pa.large_utf8())})
    )
    con.append("t", pl.DataFrame({"a": [2], "s": ["y"]}))
    con.append("t", pd.DataFrame({"a": [3], "s": pd.Categorical(["z"])}))
    with pytest.raises(swingdb.DataError):
        con.append("t", {"a": [4, 70_000], "s": ["v", "w"]})
    with pytest.raises(swingdb.Error):
        con.append("t", {"a": ["not a number"], "s": ["v"]})
    assert con.sql("SELECT * FROM t ORDER BY a").fetchall() == [(1, "x"), (2, "y"), (3, "z")]


def test_append_refuses_what_is_no_table(con):
    create(con)
    for data in (5, "text", None, [1, 2], object(), pa.array([1, 2]), {"id": 5}):
        with pytest.raises((swingdb.Error, TypeError)):
            con.append("t", data)
    with pytest.raises(swingdb.Error):
        con.append("no_such_table", {"a": [1]})
    with pytest.raises(swingdb.InterfaceError, match="values"):
        con.append("t", {"id": [1], "x": [1.0, 2.0], "s": ["a"], "day": [None]})
    assert len(con.table("t")) == 0


def test_an_error_in_the_callers_stream_comes_out_as_it_was(con):
    def batches():
        yield pa.record_batch({"a": [1]})
        raise KeyError("out of batches")

    con.execute("CREATE TABLE t (a BIGINT)")
    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    with pytest.raises(Exception, match="out of batches"):
        con.append("t", reader)
    assert len(con.table("t")) == 0


def test_results_in_every_form(con):
    table = arrow_table()
    rel = con.sql("SELECT * FROM table_ ORDER BY id") if (table_ := table) else None
    assert rel.arrow().to_pydict() == table.to_pydict()
    assert rel.pl().to_dict(as_series=False) == table.to_pydict()
    frame = rel.df()
    assert frame["id"].tolist() == table["id"].to_pylist()
    assert frame["s"].isna().sum() == 200
    arrays = rel.fetchnumpy()
    assert arrays["x"].tolist() == table["x"].to_pylist()
    assert arrays["day"].dtype == np.dtype("M8[D]")
    assert rel.fetchall() == [tuple(row.values()) for row in table.to_pylist()]
    assert pa.table(rel).equals(rel.arrow(views=True))
    assert rel.arrow().schema.field("s").type == pa.string()
    assert pl.DataFrame(rel).height == 1000
    assert pa.schema(rel).names == table.column_names
    assert table_ is table


def test_cursors_give_the_same_forms(con):
    sql = "SELECT * FROM generate_series(1, 5) AS t(a)"
    assert con.execute(sql).arrow()["a"].to_pylist() == [1, 2, 3, 4, 5]
    assert con.execute(sql).pl()["a"].to_list() == [1, 2, 3, 4, 5]
    assert con.execute(sql).df()["a"].tolist() == [1, 2, 3, 4, 5]
    assert con.execute(sql).fetchnumpy()["a"].tolist() == [1, 2, 3, 4, 5]
    cur = con.execute(sql)
    assert cur.fetchmany(2) == [(1,), (2,)]
    assert cur.arrow()["a"].to_pylist() == [3, 4, 5]
    assert pa.table(con.execute(sql))["a"].to_pylist() == [1, 2, 3, 4, 5]


def test_a_reader_streams_once(con):
    rel = con.sql("SELECT * FROM generate_series(1, 100000) AS t(a)")
    reader = pa.RecordBatchReader.from_stream(rel.reader())
    assert sum(batch.num_rows for batch in reader) == 100_000
    with pytest.raises(ValueError):
        rel.reader()
    with pytest.raises(ValueError):
        rel.fetchall()


def test_a_requested_schema_is_honoured(con):
    rel = con.sql("SELECT 1 AS a")
    wanted = pa.schema({"a": pa.int32()})
    assert pa.table(rel, schema=wanted)["a"].type == pa.int32()


def test_relations_show_themselves(con, capsys):
    rel = con.sql("SELECT * FROM generate_series(1, 100) AS t(a)")
    text = repr(rel)
    assert "bigint" in text
    assert "20 shown" in text
    assert rel.shape == (100, 1)
    assert "100 rows (first 20 shown)" in repr(rel)
    rel.show(limit=3)
    assert "(first 3 shown)" in capsys.readouterr().out
    html = con.sql("SELECT '<b>' AS tag")._repr_html_()
    assert "&lt;b&gt;" in html
    con.execute("CREATE TABLE t (a INT)")
    assert "1 row changed" in repr(con.sql("INSERT INTO t VALUES (1)"))
    for index, row in enumerate(rel, 1):
        assert row == (index,)
    assert rel.fetchone() == (1,)
    assert rel.fetchmany(2) == [(2,), (3,)]


# What is not copied -----------------------------------------------------------------------------


def address(column: pa.ChunkedArray, buffer: int = 1) -> list[int]:
    return [chunk.buffers()[buffer].address for chunk in column.chunks]


def mapped_file(at: int) -> str:
    """The file that the memory at an address belongs to."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)", line)
        if match and int(match[1], 16) <= at < int(match[2], 16):
            return match[4]
    return ""


@pytest.fixture
def taxi(home) -> swingdb.Connection:
    con = swingdb.connect("taxi")
    con.execute("CREATE TABLE trips (id BIGINT, x DOUBLE, s VARCHAR, day DATE)")
    con.append("trips", arrow_table(ROWS))
    con.share()
    yield con
    con.close()


def test_tables_are_zero_copy(taxi, home):
    first, second = taxi.table("trips").arrow(), taxi.table("trips").arrow()
    for name in ("id", "x", "day"):
        assert address(first[name]) == address(second[name])
        for at in address(first[name]):
            # The memory file of the database itself, not a copy on this process's heap.
            assert str(home) in mapped_file(at)
    assert first["id"].to_pylist() == list(range(ROWS))


def test_snapshots_are_zero_copy(taxi, home):
    snap = swingdb.snapshot("taxi")
    arrow = snap.table("trips").arrow(views=True)
    for at in address(arrow["x"]) + address(arrow["s"]):
        assert str(home) in mapped_file(at)
    again = snap.table("trips").arrow()
    assert address(arrow["x"]) == address(again["x"])


def test_polars_and_numpy_share_the_memory(taxi):
    arrow = taxi.table("trips").arrow()
    frame = taxi.table("trips").pl()
    chunks = frame["x"].get_chunks()
    assert [c.to_numpy(allow_copy=False).ctypes.data for c in chunks] == address(arrow["x"])
    one = swingdb.connect()
    one.execute("CREATE TABLE small AS SELECT * FROM generate_series(1, 1000) AS t(a)")
    array = one.table("small").fetchnumpy()["a"]
    assert array.ctypes.data == address(one.table("small").arrow()["a"])[0]
    assert not array.flags.writeable


def test_a_clone_shares_the_memory(taxi):
    mine = swingdb.connect("mine")
    snap = swingdb.snapshot("taxi")
    mine.attach(snap, "taxi")
    mine.execute("CREATE TABLE trips CLONE taxi.trips")
    mine.execute("CREATE TABLE trips2 CLONE trips")
    assert len(mine.table("trips")) == ROWS
    assert address(mine.table("trips").arrow()["x"]) == address(mine.table("trips2").arrow()["x"])
    mine.close()


def test_results_are_handed_over_without_copying(con):
    rel = con.sql("SELECT * FROM generate_series(1, 100000) AS t(a)")
    assert address(rel.arrow()["a"]) == address(rel.arrow()["a"])
    assert address(pa.table(rel)["a"]) == address(rel.arrow()["a"])


def test_what_pandas_cannot_hold_is_an_error(con):
    rel = con.sql("SELECT DATE '9999-12-31' + INTERVAL '2 day' AS d")
    with pytest.raises(swingdb.DataError, match="year 10000 is out of range; ask for .arrow()"):
        rel.df()
    assert len(rel.arrow()) == 1


@pytest.mark.parametrize("values", [[1, "x"], ["x", 1], [1, dt.date(2024, 1, 1)]])
def test_mixed_columns_of_pandas_are_an_error(con, values):
    mixed = pd.DataFrame({"plain": [1, 2], "mixed": pd.Series(values, dtype=object)})
    with pytest.raises(swingdb.DataError, match="a table of this pandas frame: .*mixed"):
        con.sql("SELECT * FROM mixed")
    with pytest.raises(swingdb.DataError, match="mixed"):
        con.register("m", mixed)


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        (
            [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 5)],
            "TIMESTAMP",
            ["2024-01-01 00:00:00", "2024-01-01 05:00:00"],
        ),
        (
            [dt.datetime(2024, 1, 1, 5), None, dt.date(2024, 1, 1)],
            "TIMESTAMP",
            ["2024-01-01 05:00:00", None, "2024-01-01 00:00:00"],
        ),
        (
            [[dt.date(2024, 1, 1)], [dt.datetime(2024, 1, 1, 5)]],
            "TIMESTAMP[]",
            ["['2024-01-01 00:00:00']", "['2024-01-01 05:00:00']"],
        ),
        ([np.datetime64("2024-01-01"), pd.NaT], "DATE", ["2024-01-01", None]),
        ([2**70, 1], "DECIMAL(22,0)", ["1180591620717411303424", "1"]),
    ],
)
def test_objects_of_several_classes_in_columns_of_pandas(con, values, kind, texts):
    frame = pd.DataFrame({"n": range(len(values)), "v": pd.Series(values, dtype=object)})
    found = con.execute("SELECT typeof(v), v::VARCHAR FROM frame ORDER BY n").fetchall()
    assert found == [(kind, text) for text in texts]
    alone = frame[["v"]]
    assert len(con.sql("SELECT * FROM alone").fetchall()) == len(values)


@pytest.mark.parametrize(
    "values",
    [
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)],
        [dt.time(1), dt.time(1, tzinfo=dt.timezone.utc)],
        [dt.timedelta(1), 5],
        ["x", b"x"],
        [1 + 2j],
    ],
)
def test_objects_that_do_not_go_together_are_an_error(con, values):
    mixed = pd.DataFrame({"plain": range(len(values)), "mixed": pd.Series(values, dtype=object)})
    with pytest.raises(swingdb.DataError, match="a table of this pandas frame: .*mixed"):
        con.sql("SELECT * FROM mixed").fetchall()
    numbers = pd.DataFrame({"c": np.array([1 + 2j])})
    with pytest.raises(swingdb.DataError, match="a table of this pandas frame: .*complex"):
        con.sql("SELECT * FROM numbers")


def test_notes_of_pandas_are_about_the_columns_of_a_frame(con):
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None, 3], dtype="Int8"),
            "b": pd.array([True, None, False], dtype="boolean"),
            "s": pd.array(["x", None, "z"], dtype="string"),
            "c": pd.Categorical(["x", "y", None]),
            "l": pd.array([[1], None, [2]], dtype=pd.ArrowDtype(pa.list_(pa.int8()))),
        }
    )
    same = con.sql("SELECT a, b, s, c FROM frame").df()
    assert same.dtypes.to_dict() == frame.dtypes[:4].to_dict()
    # Names stay, types do not.
    other = con.sql("SELECT a::VARCHAR AS a, a * 100 AS b, b::INT AS c, a AS s FROM frame").df()
    assert other["a"].tolist()[::2] == ["1", "3"]
    assert other["b"].tolist()[::2] == [100, 300]
    assert other["c"].tolist()[::2] == [1, 0]
    assert con.sql("SELECT a / 2.0::DOUBLE AS a FROM frame").df()["a"].tolist()[::2] == [0.5, 1.5]
    assert con.sql("SELECT l FROM frame").df()["l"].tolist()[0].tolist() == [1]
    total = con.sql("SELECT sum(a) * 1000 AS a FROM frame").df()
    assert total["a"].tolist() == [4000]


def test_categories_that_functions_make(con):
    frame = pd.DataFrame({"c": pd.Categorical(["x", "X", None, "y"])})
    lower = con.sql("SELECT lower(c) AS c FROM frame").df()["c"]
    assert lower.astype(object).where(lower.notna(), None).tolist() == ["x", "x", None, "y"]
    lengths = con.sql("SELECT length(c) AS c FROM frame").df()["c"]
    assert lengths.dropna().tolist() == [1, 1, 1]
    con.execute("CREATE TABLE kept AS SELECT length(c) AS n, lower(c) AS c FROM frame")
    assert con.sql("SELECT sum(n) FROM kept").fetchone() == (3,)
    assert len(con.sql("FROM kept").df()) == 4


def test_dictionaries_without_values(con):
    keys, texts = pa.array([None, None], pa.int32()), pa.array([], pa.string())
    nothing = pa.DictionaryArray.from_arrays(keys, texts)
    data = pa.table({"a": nothing, "b": pa.array(["x", None]).dictionary_encode()})
    assert con.sql("SELECT a FROM data").fetchall() == [(None,), (None,)]
    assert con.sql("SELECT list(a) FROM data").fetchall() == [([None, None],)]
    # A NULL is a group of its own.
    groups = con.sql("SELECT b, count(*) FROM data GROUP BY b ORDER BY b").fetchall()
    assert groups == [("x", 1), (None, 1)]
    assert con.sql("SELECT DISTINCT a FROM data").fetchall() == [(None,)]
    frame = pd.DataFrame({"c": pd.Categorical([None, "q", None])})
    groups = con.sql("SELECT c, count(*) FROM frame GROUP BY c").fetchall()
    assert sorted(groups, key=str) == [("q", 1), (None, 2)]


def damaged() -> dict[str, pa.Array]:
    """Arrays that others made without looking: offsets and keys outside of what they refer to."""
    ints = lambda *values: pa.py_buffer(np.array(values, np.int32).tobytes())  # noqa: E731
    text = pa.py_buffer(b"abcdef")
    build = pa.Array.from_buffers
    return {
        "text behind its end": build(pa.string(), 2, [None, ints(0, 900, 6), text]),
        "text backwards": build(pa.string(), 3, [None, ints(0, 5, 3, 6), text]),
        "text that is no UTF-8": build(
            pa.string(), 1, [None, ints(0, 2), pa.py_buffer(b"\xff\xfe")]
        ),
        "lists behind their end": build(
            pa.list_(pa.int8()), 2, [None, ints(0, 50, 2)], children=[pa.array([1, 2], pa.int8())]
        ),
        "keys of no value": pa.DictionaryArray.from_arrays(
            pa.array([0, 7], pa.int32()), pa.array(["only"]), safe=False
        ),
    }


@pytest.mark.parametrize("what", damaged())
def test_damaged_arrays_are_refused(con, what, capfd):
    data = pa.table({"v": damaged()[what]})
    con.execute("CREATE TABLE kept (v VARCHAR)")
    with pytest.raises(swingdb.Error, match='"v"'):
        con.append("kept", data)
    with pytest.raises(swingdb.Error, match='"v"'):
        con.sql("SELECT * FROM data").fetchall()
    with pytest.raises(swingdb.Error, match='"v"'):
        con.register("named", data)
    assert con.sql("SELECT count(*) FROM kept").fetchone() == (0,)
    assert capfd.readouterr().err == ""


def test_fields_of_structs_that_are_null(con):
    fields = [pa.array([7, 8]), pa.array(["x", "y"])]
    structs = pa.StructArray.from_arrays(fields, names=["a", "b"], mask=pa.array([True, False]))
    data = pa.table({"s": structs, "l": pa.array([[None], [None]], pa.list_(structs.type))})
    con.register("given", data)
    con.execute("CREATE TABLE t (s STRUCT(a BIGINT, b VARCHAR), l STRUCT(a BIGINT, b VARCHAR)[])")
    con.append("t", data)
    for table in ("given", "t"):
        rows = con.sql(f"SELECT s, s.a, s.b, s.a IS NULL, l[1].a FROM {table}").fetchall()
        assert rows == [(None, None, None, True, None), ({"a": 8, "b": "y"}, 8, "y", False, None)]


def test_whole_numbers_in_frames_stay_whole_beside_null(con):
    large = 2**53 + 1
    frame = con.sql(
        f"SELECT * FROM (VALUES (1, {large}, 1::TINYINT, {large}::UBIGINT, [{large}], "
        f"{{'a': {large}}}, 1.5::DOUBLE), (2, NULL, NULL, NULL, [NULL], NULL, NULL)) "
        "v(i, n, t, u, l, s, x) ORDER BY i"
    ).df()
    assert [str(kind) for kind in frame.dtypes] == [
        "int64", "Int64", "Int8", "UInt64", "object", "object", "float64",
    ]
    assert frame.n[0] == large and frame.u[0] == large and frame.t[0] == 1
    assert frame.n.isna().tolist() == [False, True]
    assert frame.l[0].tolist() == [large] and frame.l[1].tolist() == [None]
    assert frame.s[0] == {"a": large} and frame.s[1] is None
    # Two columns of one name, and a frame of nothing else.
    pair = con.sql("SELECT NULL::INTEGER AS a, 5 AS a").df()
    assert [str(kind) for kind in pair.dtypes] == ["Int32", "int64"] and pair.iloc[0, 1] == 5
    # What comes back is the same.
    con.execute("CREATE TABLE kept (n BIGINT, u UBIGINT)")
    con.append("kept", frame[["n", "u"]])
    assert con.sql("SELECT n, u FROM kept WHERE n IS NOT NULL").fetchall() == [(large, large)]


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"x": [None, None]}),
        pl.DataFrame({"x": [None, None]}).lazy(),
        pl.Series("x", [None, None]),
        pl.DataFrame({"x": [[], None]}),
        pl.DataFrame({"x": [{"a": None}, None], "y": [1, 2]}),
    ],
)
def test_polars_columns_of_nothing(con, frame):
    con.register("nothing", frame)
    assert con.sql("SELECT count(*) FROM nothing").fetchone() == (2,)
    assert con.sql("SELECT x FROM nothing LIMIT 1 OFFSET 1").fetchone()[0] in (None, {"a": None})


@pytest.mark.parametrize("form", ["arrow", "batch", "reader"])
def test_truth_values_of_a_byte_each_are_boolean(form: str) -> None:
    """As Arrow's extension type `arrow.bool8` has them: 0 is false, all else true."""
    stored = pa.array([0, 1, None, -7], pa.int8())
    given = pa.table({"b": pa.ExtensionArray.from_storage(pa.bool8(), stored), "i": [1, 2, 3, 4]})
    with swingdb.connect() as con:
        con.register("given", FORMS[form](given))
        con.execute("CREATE TABLE t AS SELECT * FROM given")
        assert con.execute("SELECT * FROM t").fetchall() == [
            (False, 1), (True, 2), (None, 3), (True, 4)
        ]
        con.append("t", FORMS[form](given))
        assert con.execute("SELECT i FROM t WHERE b").fetchall() == [(2,), (4,), (2,), (4,)]


def test_null_among_the_values_of_a_dictionary(con, tmp_path):
    keys = pa.array([0, 1, None], pa.int8())
    con.register("d", pa.table({"x": pa.DictionaryArray.from_arrays(keys, pa.array(["x", None]))}))
    assert con.sql("SELECT x::VARCHAR, coalesce(lower(x), '-') FROM d").fetchall() == [
        ("x", "x"), (None, "-"), (None, "-")
    ]
    con.execute(f"COPY d TO '{tmp_path}/d.json'")
    assert (tmp_path / "d.json").read_text() == '{"x":"x"}\n{"x":null}\n{"x":null}\n'


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([1, None], pa.timestamp("us")), ["1970-01-01 00:00:00.000001", None]),
        (pa.array([1e16, None]), ["1e+16", None]),
        (pa.array([b"\xff", None]), ["\\xFF", None]),
        (pa.array([[2, None], None]), ["[2, NULL]", None]),
    ],
)
def test_dictionaries_of_all_types_as_text(con, values, texts):
    keys = pa.array([0, 1, 0], pa.int32())
    con.register("d", pa.table({"x": pa.DictionaryArray.from_arrays(keys, values)}))
    wanted = [(text,) for text in [*texts, texts[0]]]
    assert con.sql("SELECT x::VARCHAR FROM d").fetchall() == wanted
    assert con.sql("SELECT count(*) FROM (SELECT DISTINCT x FROM d)").fetchone() == (2,)


def test_categories_that_no_row_has_are_not_cast(con):
    frame = pd.DataFrame({"x": pd.Categorical(["7", "8"], categories=["none", "8", "7"])})
    con.register("frame", frame)
    assert con.sql("SELECT x::INT FROM frame").fetchall() == [(7,), (8,)]


def test_run_end_encoded_columns(con, tmp_path):
    ends = pa.array([2, 3, 5], pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array([1, None, 3]))
    con.register("r", pa.table({"x": runs.slice(1)}))
    assert con.sql("SELECT x, lag(x) OVER () FROM r").fetchall() == [
        (1, None), (None, 1), (3, None), (3, 3)
    ]
    assert con.sql("SELECT min(x), max(x), count(x) FROM r").fetchone() == (1, 3, 3)
    con.execute(f"COPY r TO '{tmp_path}/r.csv'")
    assert (tmp_path / "r.csv").read_text() == "x\n1\n\n3\n3\n"


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_unions_as_text_and_as_numbers(con, tmp_path, kind):
    kinds = pa.array([0, 1, 0], pa.int8())
    if kind == "sparse":
        children = [pa.array([1, None, 3]), pa.array(["a", "2", "c"])]
        union = pa.UnionArray.from_sparse(kinds, children)
    else:
        offsets = pa.array([0, 0, 1], pa.int32())
        union = pa.UnionArray.from_dense(kinds, offsets, [pa.array([1, 3]), pa.array(["2"])])
    con.register("u", pa.table({"x": union}))
    assert con.sql("SELECT x::VARCHAR, x::INT FROM u").fetchall() == [("1", 1), ("2", 2), ("3", 3)]
    with pytest.raises(swingdb.NotSupportedError, match="CAST it to VARCHAR"):
        con.execute(f"COPY u TO '{tmp_path}/u.parquet'")
