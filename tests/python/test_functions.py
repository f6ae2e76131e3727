"""Functions that DuckDB has, too, over random rows: the same answers."""

from __future__ import annotations

import math
import random

import duckdb
import pytest

import swingdb

ROWS = 3000

QUERIES = [
    "SELECT g, mode(x), histogram(x % 5), entropy(y) FROM r GROUP BY g ORDER BY g",
    "SELECT histogram(y), entropy(x % 7), entropy(z > 5) FROM r",
    "SELECT histogram(DISTINCT x % 3), product(DISTINCT x % 3 + 1), skewness(DISTINCT x) FROM r",
    "SELECT g, skewness(z), kurtosis(z), kurtosis_pop(z), mad(z) FROM r GROUP BY g ORDER BY g",
    "SELECT skewness(x), kurtosis(x), mad(x) FROM r WHERE x > 90",
    "SELECT product(1 + x / 1000.0), geomean(x + 1), fsum(z), favg(x), sem(z) FROM r",
    "SELECT weighted_avg(z, x), kahan_sum(z) FROM r",
    "SELECT g, max(x, 3), min(z, 2) FROM r GROUP BY g ORDER BY g",
    "SELECT arg_max(y, n, 3), min_by(x, n, 2) FROM r",
    "SELECT n, bit_count(x), hex(x), bin(x), to_base(x, 7), xor(x, n), even(z) FROM r ORDER BY n",
    "SELECT n, ~x + 1, ~n * 2, x ** 2 FROM r ORDER BY n",
    "SELECT n, format_bytes(big), formatReadableDecimalSize(big) FROM r ORDER BY n",
    "SELECT n, printf('%5d|%-6s|%08.3f', x, y, z), printf('%,d %e', big, z) FROM r ORDER BY n",
    "SELECT n, format('{:>6}|{:,}|{:.2f}|{:+e}', x, big, z, z) FROM r ORDER BY n",
    "SELECT n, format('{1}-{0}', y, x), format('{:g} {:^9}', z, y) FROM r ORDER BY n",
    "SELECT n, regexp_extract_all(y, '[0-9]'), regexp_split_to_array(y, '1') FROM r ORDER BY n",
    "SELECT n, jaccard(y, 's12'), jaro_similarity(y, 's12'), damerau_levenshtein(y, 's21') "
    "FROM r ORDER BY n",
    "SELECT n, url_encode(y || ' &'), url_decode('%20' || y) FROM r ORDER BY n",
    "SELECT n, date_sub('month', d, e), date_sub('year', d, e), date_sub('week', d, e), "
    "date_sub('day', d, e), date_sub('hour', d, e) FROM r ORDER BY n",
    *(
        f"SELECT n, date_diff('{unit}', d, e), date_diff('{unit}', d, date_trunc('second', d)), "
        f"date_sub('{unit}', e, d), date_diff('{unit}', d::DATE, e::DATE) FROM r ORDER BY n"
        for unit in (
            ["millennium", "centuries", "decade", "year", "quarter", "month", "weeks", "days"]
            + ["hour", "minute", "second", "milliseconds", "ms", "microsecond"]
        )
    ),
    "SELECT n, date_diff(u, d, e), datesub(u, d, e) FROM r, (VALUES ('week'), ('us')) t(u) "
    "ORDER BY ALL",
    "SELECT n, date_diff('isoyear', d, e) FROM r ORDER BY n",
    "SELECT n, epoch_ms(d), epoch_us(d), epoch_ns(d), epoch_ms(d::TIME), epoch_us(e - d), "
    "epoch_ms(epoch_ms(d)) FROM r ORDER BY n",
    "SELECT n, date_part('centuries', d), extract(decade FROM d), date_part('weekday', d), "
    "date_part('dayofyear', d), extract('week' FROM d), julian(d::DATE) FROM r ORDER BY n",
    "SELECT n, date_trunc('decade', d), date_trunc('century', d), date_trunc('mil', d), "
    "date_trunc('weeks', d), date_trunc('doy', d::DATE), date_trunc('ms', d) FROM r ORDER BY n",
    "SELECT n, date_trunc(u, d), date_trunc(u, e::DATE), date_trunc(u, d - INTERVAL 900 YEAR) "
    "FROM r, (VALUES ('isoyear'), ('decades'), ('quarter'), ('yearweek'), ('h'), ('us')) t(u) "
    "ORDER BY ALL",
    "SELECT n, u, epoch_us(date_trunc(u, to_months(x * 7 - 300) + to_days(n) + to_minutes(n - 9))) "
    "FROM r, "
    "(VALUES ('century'), ('isoyear'), ('quarter'), ('weeks'), ('day'), ('hour'), ('s')) t(u) "
    "ORDER BY ALL",
    *(
        f"SELECT n, time_bucket({width}, d), time_bucket({width}, e::DATE), "
        f"time_bucket({width}, d, e), time_bucket({width}, d::DATE, e), "
        f"time_bucket({width}, d::DATE, e::DATE), time_bucket({width}, d, to_days(x - 50)), "
        f"time_bucket({width}, d - INTERVAL 900 YEAR, to_months(x - 50) + to_hours(n - 1000)) "
        "FROM r ORDER BY n"
        for width in (
            ["INTERVAL '15 minutes'", "INTERVAL '5 days'", "INTERVAL '1 day 7 hours'"]
            + ["INTERVAL '1 month'", "INTERVAL '15 months'", "to_hours(x + 1)", "to_months(x + 1)"]
        )
    ),
    *(
        f"SELECT n, ({interval})::VARCHAR, [{interval}]::VARCHAR, {{'i': {interval}}}::VARCHAR, "
        f"'of ' || ({interval}), concat({interval}, y), "
        f"(({interval})::VARCHAR)::INTERVAL = ({interval}) FROM r ORDER BY n"
        for interval in (
            ["to_months(x * 7 - 300) + to_days(x - 50) + to_minutes(n - 900) + to_seconds(x - 50)"]
            + ["to_months(x - 50)", "to_days(x % 5 - 2)", "to_milliseconds(n * 977 - 40000)"]
        )
    ),
    "SELECT n, (d - e)::VARCHAR, (e - d)::VARCHAR FROM r ORDER BY n",
    "SELECT n, quarter(to_months(x - 50)), century(to_years(x * 9 - 450)) FROM r ORDER BY n",
    *(
        f"SELECT n, strftime(d, '{format}'), strptime(strftime(d, '{format}'), '{format}') "
        "FROM r ORDER BY n"
        for format in (
            ["%Y-%m-%d %H:%M:%S.%f", "%d/%m/%y %I%p", "%Y-%m", "%H:%M", "%j %Y", "%c", "%x", "%X"]
            + ["%b %d, %Y", "%A %-d %B %Y %-H:%M", "%Y%m%d%H%M%S", "%y", "%I:%M %p", "%m", "%d. %Y"]
        )
    ),
    "SELECT n, try_strptime(y, 's%y'), try_strptime(y, 's%d'), "
    "try_strptime(y, ['s1%d', 's%y']) FROM r ORDER BY n",
    "SELECT n, substring(y, x % 9 - 4), substring('abc' || y, x % 13 - 6, n % 11 - 5), "
    "substr(y, -2), substring(y FROM -3 FOR 2), y[-2:] FROM r ORDER BY n",
    "SELECT n, list_has_any(l, [x % 50, 3]), list_has_all(l, [l[1], l[2]]), "
    "list_has_all(l, CASE WHEN x > 50 THEN [1] END) FROM r ORDER BY n",
    "SELECT n, century(d), decade(d), millennium(e), isoyear(d), yearweek(e) FROM r ORDER BY n",
    "SELECT n, to_json({'x': x, 'y': y, 'z': z, 'd': d, 'l': l}), json_array(n, y, l, [d]) "
    "FROM r ORDER BY n",
    "SELECT n, json_object('a', y, 'b', json_object(y || '\"', x + 0.25, 'l', l)) FROM r "
    "WHERE y IS NOT NULL ORDER BY n",
    "SELECT g, json_group_array(n), json_group_object(n, y) FROM (SELECT * FROM r ORDER BY n) "
    "GROUP BY g ORDER BY g",
    "SELECT n, json_keys(to_json({'x': l, 'y': {'z': n}})), "
    "json_pretty(json_array(l, y, {'k': []})) FROM r ORDER BY n",
    "SELECT g, sem(z) FILTER (WHERE x > 50), max(x, 3) FILTER (WHERE x < 50), "
    "max_by(y, n, 2) FILTER (WHERE n > 100 AND y IS NOT NULL), favg(x) FILTER (WHERE g > 0), "
    "count_if(x > 3) FILTER (WHERE n < 1000) FROM r GROUP BY g ORDER BY g",
    "SELECT n, sem(z) OVER (PARTITION BY g ORDER BY n), favg(x) OVER (ORDER BY n), "
    "geomean(x + 1) OVER (PARTITION BY g) FROM r ORDER BY n",
    "SELECT favg(DISTINCT x), fsum(DISTINCT x), string_agg(y ORDER BY n) FROM r",
    "SELECT n, list_sum(l), list_median(l), list_mode([x, x, n]), list_var_pop(l), list_bit_or(l) "
    "FROM r ORDER BY n",
]


def make_rows(rng: random.Random) -> str:
    def some(text: str) -> str:
        return "NULL" if rng.random() < 0.1 else text

    def day() -> str:
        year, minutes, micros = rng.randint(1950, 2050), rng.randrange(10**7), rng.randrange(10**9)
        return (
            f"TIMESTAMP '{year}-01-01' + INTERVAL {minutes} MINUTE + INTERVAL {micros} MICROSECOND"
        )

    def row(n: int) -> str:
        elements = ", ".join(some(str(rng.randrange(50))) for _ in range(rng.randint(1, 5)))
        numbers = (n, rng.randrange(3), rng.randrange(100), rng.randrange(2**40))
        word = "s" + str(min(rng.randrange(25), rng.randrange(25)))
        double = f"{rng.gauss(5, 3):.4f}::DOUBLE"
        texts = (some(f"'{word}'"), some(double), day(), day(), f"[{elements}]::INT[]")
        return "(" + ", ".join([*map(str, numbers), *texts]) + ")"

    return ", ".join(row(n) for n in range(ROWS))


def is_same(ours: object, theirs: object) -> bool:
    if isinstance(ours, dict | list | tuple):
        ours = list(ours.items()) if isinstance(ours, dict) else list(ours)
        theirs = list(theirs.items()) if isinstance(theirs, dict) else list(theirs)
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return ours == theirs


@pytest.fixture(scope="module")
def both():
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rows = make_rows(random.Random(seed))
    connections = swingdb.connect(), duckdb.connect()
    for connection in connections:
        connection.execute(
            "CREATE TABLE r (n INT, g INT, x INT, big BIGINT, y VARCHAR, z DOUBLE, "
            "d TIMESTAMP, e TIMESTAMP, l INT[])"
        )
        connection.execute(f"INSERT INTO r VALUES {rows}")
    return connections


@pytest.mark.parametrize("query", QUERIES)
def test_functions_answer_as_duckdb_does(both, query):
    ours, theirs = (connection.execute(query).fetchall() for connection in both)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert is_same(mine, other), (mine, other)
