"""Dates, times and time zones: the same answers as DuckDB, over random points in time."""

from __future__ import annotations

import datetime
import random

import duckdb
import pytest

import swingdb

ROWS = 400
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
]

# Points in time are `t`, timestamps `l`, days `d`, numbers `n`.
QUERIES = [
    "SELECT n, t::VARCHAR, [t]::VARCHAR, {'t': t}::VARCHAR FROM r ORDER BY n",
    "SELECT n, l::VARCHAR, d::VARCHAR, l::TIME::VARCHAR FROM r ORDER BY n",
    "SELECT n, epoch_us(l::TIMESTAMPTZ), epoch_us(d::TIMESTAMPTZ) FROM r ORDER BY n",
    "SELECT n, epoch_us((l::VARCHAR)::TIMESTAMPTZ), epoch_us((t::VARCHAR)::TIMESTAMPTZ) FROM r "
    "ORDER BY n",
    "SELECT n, epoch_us(t::TIMESTAMP), t::DATE::VARCHAR FROM r ORDER BY n",
    "SELECT n, year(t), month(t), day(t), hour(t), minute(t), second(t), dayofweek(t) FROM r "
    "ORDER BY n",
    "SELECT n, extract(isoyear FROM t), extract(week FROM t), extract(doy FROM t), "
    "extract(quarter FROM t), extract(decade FROM t), extract(century FROM t), "
    "extract(millennium FROM t), yearweek(t) FROM r ORDER BY n",
    "SELECT n, dayname(t), monthname(t), last_day(t)::VARCHAR FROM r ORDER BY n",
    "SELECT n, epoch_us(date_trunc('day', t)), epoch_us(date_trunc('week', t)), "
    "epoch_us(date_trunc('month', t)), epoch_us(date_trunc('year', t)), "
    "epoch_us(date_trunc('second', t)) FROM r ORDER BY n",
    "SELECT n, epoch_us(t + INTERVAL (n % 50 - 25) DAY), epoch_us(t - INTERVAL (n % 50) HOUR), "
    "epoch_us(t + INTERVAL (n % 30 - 15) MONTH) FROM r ORDER BY n",
    "SELECT n, epoch_us(time_bucket(INTERVAL '2 days', t)), "
    "epoch_us(time_bucket(INTERVAL '3 months', t)), "
    "epoch_us(time_bucket(INTERVAL '1 day', t, 'Asia/Dubai')) FROM r ORDER BY n",
    # DuckDB has the day before a skipped midnight begin at one o'clock; Tokyo skipped some until
    # 1951. tests/sql/time_zones/series.slt has these days.
    "SELECT n, epoch_us(time_bucket(INTERVAL '1 day', t, 'Asia/Tokyo')) FROM r "
    "WHERE t >= TIMESTAMPTZ '1952-01-01 00:00:00+00' OR month(t) NOT IN (4, 5, 9) ORDER BY n",
    "SELECT n, epoch_us(time_bucket(INTERVAL '1 day', t, 'America/New_York')), "
    "epoch_us(time_bucket(INTERVAL '2 months', t, 'Europe/Berlin')) FROM r ORDER BY n",
    "SELECT n, epoch_us(t AT TIME ZONE 'America/Los_Angeles'), "
    "epoch_us(l AT TIME ZONE 'America/Los_Angeles'), epoch_us(timezone('Asia/Kolkata', t)) "
    "FROM r ORDER BY n",
    # Where clocks went back at a minute past midnight (St. John's, until 2011) a day begins twice,
    # and DuckDB counts from the second time on: a day less.
    "SELECT n, date_diff('day', t, u), date_diff('month', t, u), date_diff('year', t, u) FROM r "
    "WHERE (date_trunc('day', t) - INTERVAL 1 HOUR)::DATE < t::DATE "
    "AND (date_trunc('day', u) - INTERVAL 1 HOUR)::DATE < u::DATE ORDER BY n",
    "SELECT n, l < t, l = t, d < t, d <= l, t BETWEEN d AND l, t IN (l::TIMESTAMPTZ, u) FROM r "
    "ORDER BY n",
    "SELECT n, epoch_us(coalesce(NULL, l, t)), epoch_us(coalesce(d, l)), "
    "typeof(CASE WHEN n > 0 THEN d ELSE t END), typeof(coalesce(d, l)) FROM r ORDER BY n",
    "SELECT n, strftime(t, '%Y-%m-%d %H:%M:%S.%f %A %j %U %W %V %G %p %I') FROM r ORDER BY n",
    "SELECT n, strftime(l, '%Y-%m-%d %H:%M:%S.%f %a %b %y %-d %u %w %z') FROM r ORDER BY n",
    "SELECT n, epoch_us(strptime(strftime(l, '%Y %j %H:%M:%S'), '%Y %j %H:%M:%S')) FROM r "
    "WHERE year(l) BETWEEN 1 AND 9999 ORDER BY n",
    "SELECT n, to_json(t)::VARCHAR, 'at ' || t, concat('at ', t) FROM r ORDER BY n",
    "SELECT n, epoch_us(l::TIMESTAMP_S::TIMESTAMP), epoch_us(l::TIMESTAMP_MS::TIMESTAMP) FROM r "
    "ORDER BY n",
    "SELECT t::DATE::VARCHAR AS day, count(*), min(epoch_us(t)) FROM r GROUP BY t::DATE "
    "ORDER BY ALL",
    "SELECT extract(timezone_hour FROM t), count(*) FROM r GROUP BY 1 ORDER BY ALL",
]


def rows_of(seed: int) -> list[tuple]:
    """Points in time since 1936, when offsets of these zones had no seconds any more; many of them
    around changes of clocks."""
    chosen = random.Random(seed)
    changes = [
        1711846800,  # 2024-03-31 01:00 UTC, Europe
        1729990800,  # 2024-10-27 01:00 UTC, Europe
        1710054000,  # 2024-03-10 07:00 UTC, New York
        1730613600,  # 2024-11-03 06:00 UTC, New York
        1712415600,  # 2024-04-06 15:00 UTC, Lord Howe
        1728142200,  # 2024-10-05 15:30 UTC, Lord Howe
        7289989200,  # 2201, after all tables of zones
    ]
    rows = []
    for number in range(ROWS):
        points = []
        for _ in range(3):
            if chosen.random() < 0.6:
                seconds = chosen.choice(changes) + chosen.randrange(-100_000, 100_000)
            else:
                seconds = chosen.randrange(-1_050_000_000, 12_000_000_000)
            points.append(seconds * 1_000_000 + chosen.choice([0, 500_000, 123_456, 999_999]))
        rows.append((number, *points, chosen.randrange(-100_000, 150_000)))
    return rows


def fill(con, rows: list[tuple]) -> None:
    con.execute("CREATE TABLE given (n BIGINT, t BIGINT, u BIGINT, l BIGINT, d INTEGER)")
    values = ", ".join(str(row) for row in rows)
    con.execute(f"INSERT INTO given VALUES {values}")
    con.execute("SET TimeZone = 'UTC'")
    con.execute(
        "CREATE TABLE r AS SELECT n, make_timestamp(t)::TIMESTAMPTZ AS t, "
        "make_timestamp(u)::TIMESTAMPTZ AS u, make_timestamp(l) AS l, "
        "(DATE '1970-01-01' + INTERVAL (d) DAY)::DATE AS d "
        "FROM given"
    )


@pytest.mark.parametrize("zone", ZONES)
def test_the_same_answers_in_a_zone(zone: str) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rows = rows_of(seed)
    with swingdb.connect() as ours, duckdb.connect() as theirs:
        for con in (ours, theirs):
            fill(con, rows)
            con.execute(f"SET TimeZone = '{zone}'")
        for query in QUERIES:
            given, expected = ours.execute(query).fetchall(), theirs.execute(query).fetchall()
            assert len(given) == len(expected), query
            for one, other in zip(given, expected):
                assert one == other, f"{zone}: {query}: {rows[one[0]] if query[7] == 'n' else ''}"


def test_values_have_the_zone_of_the_session() -> None:
    with swingdb.connect() as con:
        con.execute("SET TimeZone = 'Asia/Singapore'")
        sql = "SELECT TIMESTAMPTZ '2024-11-01 00:00:00' AS t, [TIMESTAMPTZ '2024-11-01'] AS l"
        value, several = con.sql(sql).fetchone()
        assert value.tzinfo.key == "Asia/Singapore" and value.hour == 0
        assert several[0].astimezone(datetime.timezone.utc).hour == 16
        kind = con.sql(sql).arrow().schema.field("t").type
        assert str(kind) == "timestamp[us, tz=Asia/Singapore]"
        naive = datetime.datetime(2024, 11, 1)
        stored = con.execute("SELECT epoch(?::TIMESTAMPTZ)", [naive]).fetchone()[0]
        assert stored == 1730390400.0
        con.execute("CREATE TABLE t (at TIMESTAMPTZ)")
        con.execute("INSERT INTO t VALUES (?)", [naive])
        con.execute("INSERT INTO t VALUES ('2024-11-01')")
        con.execute("INSERT INTO t SELECT TIMESTAMP '2024-11-01'")
        con.executemany("INSERT INTO t VALUES (?)", [[naive]])
        assert con.execute("SELECT DISTINCT epoch(at) FROM t").fetchall() == [(1730390400.0,)]
        assert con.execute("SHOW timezone").fetchone()[1] == "Asia/Singapore"
        con.execute("RESET timezone")
        assert con.execute("SELECT at::VARCHAR FROM t LIMIT 1").fetchone()[0] == (
            "2024-10-31 16:00:00+00"
        )
        for wrong in ("Nowhere/City", "+02:00", "", "2"):
            with pytest.raises(swingdb.Error):
                con.execute(f"SET TimeZone = '{wrong}'")


@pytest.mark.parametrize("ending", ["csv", "json", "parquet", "arrow"])
def test_files_keep_points_in_time(tmp_path, ending: str) -> None:
    with swingdb.connect() as con:
        con.execute("SET TimeZone = 'America/New_York'")
        con.execute(
            "CREATE TABLE t AS SELECT range AS n, TIMESTAMPTZ '2024-03-10 05:00+00' + "
            "INTERVAL (range * 30) MINUTE AS at, DATE '2024-03-10' AS day FROM range(20)"
        )
        path = tmp_path / f"t.{ending}"
        con.execute(f"COPY t TO '{path}'")
        con.execute("CREATE TABLE u (n BIGINT, at TIMESTAMPTZ, day DATE)")
        con.execute("SET TimeZone = 'Asia/Tokyo'")
        con.execute(f"COPY u FROM '{path}'")
        assert con.execute("SELECT count(*) FROM t JOIN u USING (n, at, day)").fetchone()[0] == 20
        found = con.execute(f"SELECT count(*) FROM '{path}' f JOIN t USING (n, at)").fetchone()
        assert found[0] == 20


def test_files_with_the_clock_of_the_session(tmp_path) -> None:
    with swingdb.connect() as con:
        con.execute("SET TimeZone = 'Europe/Berlin'")
        (tmp_path / "a.csv").write_text("n,at\n1,2024-07-01 12:00:00\n2,2024-01-01 12:00:00+00\n")
        (tmp_path / "a.json").write_text(
            '{"n": 1, "at": "2024-07-01 12:00:00"}\n{"n": 2, "at": "2024-01-01 12:00:00+00"}\n'
        )
        for ending in ("csv", "json"):
            con.execute("CREATE OR REPLACE TABLE t (n INT, at TIMESTAMPTZ)")
            con.execute(f"COPY t FROM '{tmp_path / 'a'}.{ending}'")
            found = con.execute("SELECT epoch(at) FROM t ORDER BY n").fetchall()
            assert found == [(1719828000.0,), (1704110400.0,)], ending
            con.execute(f"COPY t TO '{tmp_path / 'b'}.{ending}'")
            text = (tmp_path / f"b.{ending}").read_text()
            assert "12:00:00+02" in text and "13:00:00+01" in text, text
