"""Every type, from Python to the database and back."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import swingdb

UTC = dt.timezone.utc

VALUES = [
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    0.0,
    -1.5,
    1e308,
    math.inf,
    -math.inf,
    "",
    "text",
    "ünïcödé 🚕 \0 end",
    "x" * 100_000,
    b"",
    b"\x00\xff" * 10,
    dt.date(1, 1, 1),
    dt.date(1969, 12, 31),
    dt.date(2024, 2, 29),
    dt.date(9999, 12, 31),
    dt.time(0, 0),
    dt.time(23, 59, 59, 999_999),
    dt.datetime(1, 1, 1),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(2024, 2, 29, 12, 30, 1, 5),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),
    dt.datetime(2024, 7, 1, 12, tzinfo=UTC),
    dt.datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Asia/Shanghai")),
    dt.datetime(2024, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30))),
    dt.timedelta(0),
    dt.timedelta(days=-1, microseconds=1),
    dt.timedelta(days=10_000, seconds=5, microseconds=7),
    swingdb.Interval(14, -3, 1_000_000_007),
    Decimal("0"),
    Decimal("1.50"),
    Decimal("-12345678901234567890.123456789"),
    Decimal("1E+5"),
    Decimal("1E-10"),
    Decimal("9" * 38),
    Decimal("9" * 50 + ".5"),
    [1, 2, None],
    ["a", None],
    [[1], [], None, [2, 3]],
    {"a": 1, "b": "x", "c": None},
    {"a": {"b": [1, 2]}, "d": dt.date(2024, 1, 1)},
    [{"a": 1}, {"a": 2, "b": "y"}],
    {1: "one", 2: None},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
def test_a_parameter_comes_back(con, value):
    (result,) = con.execute("SELECT ? AS v", [value]).fetchone()
    if isinstance(value, list) and value and isinstance(value[0], dict):
        value = [{"a": 1, "b": None}, {"a": 2, "b": "y"}]
    assert result == value
    if not isinstance(value, swingdb.Interval):
        assert type(result) is type(value)
    if isinstance(value, dt.datetime):
        assert result.utcoffset() == value.utcoffset()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, math.nan),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        ((1, 2), [1, 2]),
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.5), 0.5),
        (np.float64(2.5), 2.5),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        (np.bytes_(b"x"), b"x"),
        (np.datetime64("2024-01-02"), dt.date(2024, 1, 2)),
        (np.datetime64("2024-01-02T03:04:05.000006"), dt.datetime(2024, 1, 2, 3, 4, 5, 6)),
        (np.datetime64("2024-01-02T03:04:05.000006007"), dt.datetime(2024, 1, 2, 3, 4, 5, 6)),
        (np.timedelta64(5, "s"), dt.timedelta(seconds=5)),
        (np.datetime64("NaT"), None),
        (np.array([1, 2, 3]), [1, 2, 3]),
        (np.array([[1.5], [2.5]]), [[1.5], [2.5]]),
        (pd.Timestamp("2024-01-02 03:04:05"), dt.datetime(2024, 1, 2, 3, 4, 5)),
        (pd.Timedelta(seconds=5), dt.timedelta(seconds=5)),
        (pd.NaT, None),
        (pd.NA, None),
        (10**30, Decimal(10**30)),
    ],
    ids=repr,
)
def test_a_parameter_comes_back_as_the_usual_type(con, value, expected):
    (result,) = con.execute("SELECT ? AS v", [value]).fetchone()
    if isinstance(expected, float) and math.isnan(expected):
        assert math.isnan(result)
    else:
        assert result == expected
        assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (object(), swingdb.InterfaceError),
        (lambda: None, swingdb.InterfaceError),
        ({1, 2}, swingdb.InterfaceError),
        (1j, swingdb.InterfaceError),
        (Decimal("NaN"), swingdb.DataError),
        (Decimal("Infinity"), swingdb.DataError),
        (10**80, swingdb.DataError),
        ([1, "x"], swingdb.DataError),
        ([dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=UTC)], swingdb.DataError),
        ("\ud800", Exception),
    ],
    ids=repr,
)
def test_values_without_a_type_are_refused(con, value, error):
    with pytest.raises(error):
        con.execute("SELECT ?", [value])
    assert con.execute("SELECT 1").fetchone() == (1,)


ARROW_COLUMNS = {
    "null": pa.array([None, None], pa.null()),
    "bool": pa.array([True, None]),
    **{
        f"int{bits}": pa.array([-(2 ** (bits - 1)), None], getattr(pa, f"int{bits}")())
        for bits in (8, 16, 32, 64)
    },
    **{
        f"uint{bits}": pa.array([2**bits - 1, None], getattr(pa, f"uint{bits}")())
        for bits in (8, 16, 32, 64)
    },
    "float16": pa.array([np.float16(0.5), None], pa.float16()),
    "float32": pa.array([0.5, None], pa.float32()),
    "float64": pa.array([-0.0, None], pa.float64()),
    "string": pa.array(["a", None]),
    "large_string": pa.array(["b", None], pa.large_string()),
    "string_view": pa.array(["a string longer than twelve bytes", None], pa.string_view()),
    "binary": pa.array([b"a", None]),
    "large_binary": pa.array([b"a", None], pa.large_binary()),
    "binary_view": pa.array([b"a", None], pa.binary_view()),
    "fixed_binary": pa.array([b"abc", None], pa.binary(3)),
    "decimal128": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
    "decimal256": pa.array([Decimal("1.50"), None], pa.decimal256(60, 2)),
    "date32": pa.array([dt.date(2024, 2, 29), None]),
    "date64": pa.array([dt.date(2024, 2, 29), None], pa.date64()),
    "time32s": pa.array([dt.time(1, 2, 3), None], pa.time32("s")),
    "time32ms": pa.array([dt.time(1, 2, 3, 4000), None], pa.time32("ms")),
    "time64us": pa.array([dt.time(1, 2, 3, 4), None], pa.time64("us")),
    "time64ns": pa.array([dt.time(1, 2, 3, 4), None], pa.time64("ns")),
    **{
        f"timestamp_{unit}": pa.array([dt.datetime(2024, 1, 2, 3, 4, 5), None], pa.timestamp(unit))
        for unit in ("s", "ms", "us", "ns")
    },
    "timestamp_tz": pa.array(
        [dt.datetime(2024, 7, 2, 3, 4, 5, tzinfo=ZoneInfo("Europe/Oslo")), None],
        pa.timestamp("us", "Europe/Oslo"),
    ),
    **{
        f"duration_{unit}": pa.array([dt.timedelta(seconds=-5), None], pa.duration(unit))
        for unit in ("s", "ms", "us", "ns")
    },
    "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "list": pa.array([[1, None], None]),
    "large_list": pa.array([["x"], None], pa.large_list(pa.string())),
    "fixed_list": pa.array([[1, 2], None], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"a": 1, "b": [dt.date(2024, 1, 1)]}, None]),
    "map": pa.array([[("k", 1), ("l", None)], None], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["x", None]).dictionary_encode(),
}


def expected_python(name: str, array: pa.Array) -> list:
    """What a column's values are in Python."""
    if name == "map":
        return [dict(value) if value is not None else None for value in array.to_pylist()]
    if name.startswith("interval"):
        return [tuple(value) if value is not None else None for value in array.to_pylist()]
    return [
        value.to_pydatetime()
        if isinstance(value, pd.Timestamp)
        else value.to_pytimedelta()
        if isinstance(value, pd.Timedelta)
        else value
        for value in array.to_pylist()
    ]


@pytest.mark.parametrize("name", ARROW_COLUMNS)
def test_every_arrow_type_is_stored_and_comes_back(con, name):
    table = pa.table({"v": ARROW_COLUMNS[name], "n": [1, 2]})
    con.register("source", table)
    con.execute("CREATE TABLE t AS SELECT * FROM source")
    assert con.append("t", table) == 2
    rows = con.sql("SELECT v FROM t ORDER BY n").fetchall()
    expected = expected_python(name, ARROW_COLUMNS[name])
    assert [row[0] for row in rows] == [expected[0], expected[0], expected[1], expected[1]]
    # In Arrow: the same values, in the same type but for its physical layout.
    stored = con.table("t").arrow()["v"]
    first = stored.combine_chunks().slice(0, 2)
    if name not in ("dictionary",):
        assert first.to_pylist() == ARROW_COLUMNS[name].to_pylist()


@pytest.mark.parametrize("name", ARROW_COLUMNS)
def test_every_arrow_type_through_numpy_and_pandas(con, name):
    table_ = pa.table({"v": ARROW_COLUMNS[name]})
    rel = con.sql("SELECT v FROM table_")
    frame = rel.df()
    assert len(frame) == 2
    array = rel.fetchnumpy()["v"]
    assert len(array) == 2
    if name != "null":
        assert array.mask.tolist() == [False, True]
    assert table_.num_rows == 2


def test_nulls_in_numpy_are_masked(con):
    values = con.sql("SELECT * FROM (VALUES (1, 'a'), (NULL, NULL)) AS t(n, s)").fetchnumpy()
    assert values["n"].mask.tolist() == [False, True]
    assert values["s"].mask.tolist() == [False, True]
    full = con.sql("SELECT * FROM (VALUES (1, true), (2, false)) AS t(n, b)").fetchnumpy()
    assert type(full["n"]) is np.ndarray
    assert full["b"].dtype == bool
    assert full["b"].tolist() == [True, False]


def test_columns_of_one_name(con):
    source = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "b"])
    rel = con.sql("SELECT l.*, r.b FROM source AS l JOIN source AS r ON l.a = r.a")
    assert [len(values) for values in rel.fetchnumpy().values()] == [1, 1, 1]
    assert source.num_columns == 2


def test_times_outside_python_are_refused_not_changed(con):
    table = pa.table({"d": pa.array([10_000_000], pa.date32())})
    con.register("far", table)
    with pytest.raises(swingdb.DataError):
        con.sql("SELECT d FROM far").fetchall()
    assert con.sql("SELECT d FROM far").arrow()["d"].cast(pa.int32()).to_pylist() == [10_000_000]


def test_timestamps_of_a_zone_that_has_daylight_saving(con):
    oslo = ZoneInfo("Europe/Oslo")
    winter, summer = (
        dt.datetime(2024, 1, 1, 12, tzinfo=oslo),
        dt.datetime(2024, 7, 1, 12, tzinfo=oslo),
    )
    con.register("t", {"at": [winter, summer]})
    rows = con.sql("SELECT at FROM t ORDER BY at").fetchall()
    assert [row[0] for row in rows] == [winter, summer]
    assert [row[0].utcoffset() for row in rows] == [dt.timedelta(hours=1), dt.timedelta(hours=2)]


def test_python_columns_of_any_type(con):
    columns = {
        "i": [1, None, 3],
        "big": [2**64 - 1, 1, None],
        "mixed": [1, 2.5, None],
        "d": [Decimal("1.5"), 2, Decimal("-0.001")],
        "s": ["a", None, "c"],
        "t": [dt.datetime(2024, 1, 1), dt.date(2024, 1, 2), None],
        "l": [[1], None, []],
        "st": [{"a": 1}, None, {"b": "x"}],
        "none": [None, None, None],
    }
    rows = con.sql("SELECT * FROM columns").fetchall()
    assert rows == [
        (
            1,
            2**64 - 1,
            1.0,
            Decimal("1.5"),
            "a",
            dt.datetime(2024, 1, 1),
            [1],
            {"a": 1, "b": None},
            None,
        ),
        (None, 1, 2.5, Decimal(2), None, dt.datetime(2024, 1, 2), None, None, None),
        (3, None, None, Decimal("-0.001"), "c", None, [], {"a": None, "b": "x"}, None),
    ]
    assert len(columns) == 9


def test_numpy_columns(con):
    columns = {
        "i1": np.array([1, -2], np.int8),
        "u8": np.array([1, 2**64 - 1], np.uint64),
        "f2": np.array([0.5, 1.5], np.float16),
        "f4": np.array([0.5, np.nan], np.float32),
        "big_endian": np.array([1, 2], ">i4"),
        "strided": np.arange(4)[::2],
        "b": np.array([True, False]),
        "s": np.array(["a", "bc"]),
        "o": np.array(["a", None], dtype=object),
        "d": np.array(["2024-01-01", "NaT"], "M8[D]"),
        "ns": np.array([1, 2], "M8[ns]"),
        "td": np.array([1, 2], "m8[ms]"),
        "masked": np.ma.masked_array([1, 2], mask=[False, True]),
    }
    first, second = con.sql("SELECT * FROM columns").fetchall()
    epoch = dt.datetime(1970, 1, 1)
    assert first == (
        1,
        1,
        0.5,
        0.5,
        1,
        0,
        True,
        "a",
        "a",
        dt.datetime(2024, 1, 1),
        epoch,
        dt.timedelta(0, 0, 1000),
        1,
    )
    assert second[:3] == (-2, 2**64 - 1, 1.5)
    assert math.isnan(second[3])
    assert second[4:] == (2, 2, False, "bc", None, None, epoch, dt.timedelta(0, 0, 2000), None)
    assert len(columns) == 13


def test_numpy_columns_of_several_dimensions(con):
    columns = {
        "two": np.arange(6).reshape(2, 3),
        "three": np.zeros((2, 1, 2)),
        "masked": np.ma.masked_array([[1, 2], [3, 4]], mask=[[0, 1], [0, 0]]),
        "times": np.arange(4).reshape(2, 2).astype("M8[ns]"),
    }
    epoch = [dt.datetime(1970, 1, 1)] * 2
    assert con.sql("SELECT * FROM columns").fetchall() == [
        ([0, 1, 2], [[0.0, 0.0]], [1, None], epoch),
        ([3, 4, 5], [[0.0, 0.0]], [3, 4], epoch),
    ]
    con.execute("CREATE TABLE t (two BIGINT[])")
    con.append("t", {"two": columns["two"][:, ::2]})
    assert con.execute("SELECT * FROM t").fetchall() == [([0, 2],), ([3, 5],)]
    with pytest.raises(swingdb.InterfaceError, match="without dimensions"):
        con.append("t", {"two": np.array(5)})


def test_numpy_times_of_other_units(con):
    fine = {"x": np.array([86_400_123_456_789_012], "M8[ps]")}
    assert con.sql("SELECT x::VARCHAR FROM fine").fetchall() == [("1970-01-02 00:00:00.123456789",)]
    assert len(fine) == 1
    with pytest.raises(swingdb.InterfaceError, match="no length"):
        con.register("months", {"x": np.array([2], "m8[M]")})
    # NumPy hands out numbers for these.
    for value in [np.timedelta64(2, "M"), np.datetime64("12345-01-01"),
                  np.array(["12345-01-01"], "M8[s]")]:
        with pytest.raises(swingdb.DataError, match="no time"):
            con.execute("SELECT $1", [value])


def test_what_has_no_type_in_pandas_and_polars(con):
    periods = pd.DataFrame({"x": pd.period_range("2020-01", periods=2, freq="M")})
    with pytest.raises(swingdb.DataError, match="periods"):
        con.register("periods", periods)
    pl = pytest.importorskip("polars")
    with pytest.raises(swingdb.InterfaceError, match="objects of Python"):
        con.register("objects", pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)}))
    # Polars panics, with what is no Exception.
    with pytest.raises(swingdb.DataError, match="Polars cannot hold"):
        con.sql("SELECT INTERVAL '1 month' AS i").pl()


def test_uuid_columns_of_arrow(con):
    if not hasattr(pa, "uuid"):
        pytest.skip("this PyArrow has no UUID type")
    value = uuid.uuid4()
    table = pa.table({"u": pa.array([value.bytes, None], pa.uuid())})
    con.register("t", table)
    assert con.sql("SELECT u FROM t").fetchall() == [(value,), (None,)]


def test_maps_whose_keys_cannot_be_dictionary_keys(con):
    rows = con.sql("SELECT MAP {[1, 2]: 3}, MAP {'a': [1]}").fetchall()
    assert rows == [({"key": [[1, 2]], "value": [3]}, {"a": [1]})]


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_numpy_arrays_of_times_as_parameters(con, unit):
    times = np.array(["2024-01-02", "NaT"], dtype=f"datetime64[{unit}]")
    row = con.execute("SELECT $1[1]::TIMESTAMP, $1[2] IS NULL", [times]).fetchone()
    assert row == (dt.datetime(2024, 1, 2), True)
    spans = np.array([86_400_000_000_000], dtype="timedelta64[ns]").astype(f"timedelta64[{unit}]")
    assert con.execute("SELECT $1", [spans]).fetchone() == ([dt.timedelta(days=1)],)


def test_a_time_of_day_with_a_zone_is_refused(con):
    with pytest.raises(swingdb.DataError, match="zone"):
        con.execute("SELECT $1", [dt.time(12, tzinfo=UTC)])


FINE = "2024-01-01 00:00:00.123456789"


@pytest.mark.parametrize("value", [pd.Timestamp(FINE), np.datetime64(FINE), FINE])
def test_nanoseconds_of_points_in_time_are_kept(con, value):
    sql = "SELECT $1::TIMESTAMP_NS::VARCHAR"
    assert con.execute(sql, [value]).fetchone() == (FINE,)
    con.register("frame", pd.DataFrame({"x": pd.Series([value, None], dtype=object)}))
    texts = con.sql("SELECT x::VARCHAR FROM frame").fetchall()
    assert texts == [(FINE,), (None,)]
    if not isinstance(value, str):
        con.register("rows", [{"x": [value, dt.datetime(2024, 1, 1)]}])
        assert con.sql("SELECT x[1]::VARCHAR, typeof(x) FROM rows").fetchone() == (
            FINE, "TIMESTAMP_NS[]"
        )


def test_nanoseconds_with_a_zone_and_of_durations(con):
    value = pd.Timestamp(FINE, tz="Asia/Tokyo")
    text = "2023-12-31 15:00:00.123456789+00"
    assert con.execute("SELECT $1::VARCHAR", [value]).fetchone() == (text,)
    for span in [pd.Timedelta("1 day 1ns"), np.timedelta64(86_400_000_000_001, "ns")]:
        assert con.execute("SELECT $1::VARCHAR", [span]).fetchone() == ("1 day 00:00:00.000000001",)
        frame = pd.DataFrame({"x": pd.Series([span, pd.Timedelta("2s")], dtype=object)})
        con.register("frame", frame)
        assert con.sql("SELECT x::VARCHAR FROM frame").fetchall() == [
            ("1 day 00:00:00.000000001",), ("00:00:02",)
        ]


def test_numpy_arrays_of_nanoseconds(con):
    times = np.array([FINE, "NaT", "2024-01-02"], dtype="datetime64[ns]")
    row = con.execute("SELECT $1[1]::VARCHAR, $1[2], $1[3]::VARCHAR", [times]).fetchone()
    assert row == (FINE, None, "2024-01-02 00:00:00")
    spans = np.array([1, 2_000], dtype="timedelta64[ns]")
    assert con.execute("SELECT $1[1]::VARCHAR", [spans]).fetchone() == ("00:00:00.000000001",)


def test_years_that_nanoseconds_do_not_have_are_refused_beside_them(con):
    with pytest.raises(swingdb.DataError, match="1678 to 2261"):
        con.execute("SELECT $1", [[pd.Timestamp(FINE), dt.datetime(1000, 1, 1)]])


def test_whole_microseconds_stay_timestamps(con):
    for value in [pd.Timestamp("2024-01-01 00:00:00.5"), np.datetime64("2024-01-01", "ns")]:
        assert con.execute("SELECT typeof($1)", [value]).fetchone() == ("TIMESTAMP",)
