//! Dates, times, intervals, and the time zone of the session.

use super::common::{Fixture, fixture};

fn in_zone(zone: &str) -> Fixture {
    let f = fixture();
    f.run(&format!("SET TimeZone = '{zone}'"));
    f
}

fn answers(f: &Fixture, cases: &[(&str, &str)]) {
    for (sql, expected) in cases {
        assert_eq!(f.value(&format!("SELECT {sql}")), *expected, "{sql}");
    }
}

#[test]
fn intervals_have_all_units() {
    let f = fixture();
    for (interval, text) in [
        ("INTERVAL 2 decades", "20 years"),
        ("INTERVAL 2 centuries", "200 years"),
        ("INTERVAL 2 millennia", "2000 years"),
        ("INTERVAL 3 quarters", "9 months"),
        ("INTERVAL 2 mon", "2 months"),
        ("INTERVAL 2 yr", "2 years"),
        ("INTERVAL 2 weeks", "14 days"),
        ("INTERVAL 2 mins", "00:02:00"),
        ("INTERVAL 2 hrs", "02:00:00"),
        ("INTERVAL 2 secs", "00:00:02"),
        ("INTERVAL 2 ms", "00:00:00.002"),
        ("INTERVAL 2 us", "00:00:00.000002"),
        ("INTERVAL '2' decades", "20 years"),
        ("INTERVAL '2' mins", "00:02:00"),
        ("INTERVAL -5 days", "-5 days"),
        ("INTERVAL 1.5 days", "1 day 12:00:00"),
        ("-INTERVAL 1 day", "-1 day"),
        ("-INTERVAL 90 mins", "-01:30:00"),
        ("-INTERVAL '1 year 2 days 3 hours'", "-1 year -2 days -03:00:00"),
        ("- -INTERVAL '2 days' + -INTERVAL 1 month", "-1 month 2 days"),
        ("INTERVAL (1 + 2) quarters", "9 months"),
        ("INTERVAL (3) hrs", "03:00:00"),
        ("INTERVAL '1 millennium 2 quarters 3 mons'", "1000 years 9 months"),
        ("INTERVAL '1 day ago'", "-1 day"),
        ("'2 decades 3 yrs'::INTERVAL", "23 years"),
        ("INTERVAL '5'", "00:00:05"),
        ("INTERVAL '5 days' foos", "5 days"),
    ] {
        let (interval, alias) = match interval.split_once(" foos") {
            Some((interval, _)) => (interval, " foos"),
            None => (interval, ""),
        };
        let sql = format!("SELECT CAST(foos AS VARCHAR) FROM (SELECT {interval}{alias}) t(foos)");
        assert_eq!(f.value(&sql), text, "{interval}");
    }
    answers(
        &f,
        &[
            ("DATE '2024-01-01' + INTERVAL 2 decades", "2044-01-01"),
            ("DATE '2024-01-01' + INTERVAL 2 quarters", "2024-07-01"),
            ("DATE '2024-01-05' + -INTERVAL 1 DAY", "2024-01-04"),
            ("DATE '2024-01-05' - -INTERVAL 1 DAY", "2024-01-06"),
        ],
    );
    f.refuses(&[
        ("SELECT INTERVAL 5 foos", "no unit of time"),
        ("SELECT INTERVAL '5' foos", "no unit of time"),
        ("SELECT INTERVAL (5) foos", "no unit of time"),
        ("SELECT INTERVAL 5", "has no unit"),
        ("SELECT INTERVAL '5 days' day", "units already"),
        ("SELECT INTERVAL '1 fortnight'", ""),
        ("SELECT INTERVAL 1 year TO month", "write INTERVAL"),
    ]);
    f.run("CREATE TABLE t (\"interval\" INT, n INT)");
    f.run("INSERT INTO t VALUES (7, 2)");
    assert_eq!(f.value("SELECT \"interval\" - 5 FROM t"), "2");
    assert_eq!(f.value("SELECT (INTERVAL (n) decades)::VARCHAR FROM t"), "20 years");
}

#[test]
fn coarser_timestamps_are_rounded() {
    let f = fixture();
    f.run("CREATE TABLE t (s TIMESTAMP(0), m TIMESTAMP_MS)");
    f.run("INSERT INTO t VALUES ('2024-05-05 11:06:33.9', '2024-05-05 11:06:33.9995')");
    f.run("INSERT INTO t SELECT x, x FROM (SELECT TIMESTAMP '1969-12-31 23:59:59.8465') q(x)");
    assert_eq!(
        f.rows("SELECT s::VARCHAR, m::VARCHAR FROM t"),
        ["2024-05-05 11:06:34|2024-05-05 11:06:34", "1970-01-01 00:00:00|1969-12-31 23:59:59.846"]
    );
    answers(
        &f,
        &[
            ("TIMESTAMP '1969-12-31 23:59:59.846'::TIMESTAMP_S::VARCHAR", "1970-01-01 00:00:00"),
            ("TIMESTAMP '1969-12-31 23:59:59.5'::TIMESTAMP_S::VARCHAR", "1969-12-31 23:59:59"),
            ("TIMESTAMP '2000-12-31 23:59:58.5'::TIMESTAMP_S::VARCHAR", "2000-12-31 23:59:59"),
            (
                "'2024-01-01 00:00:00.1234565'::TIMESTAMP_NS::TIMESTAMP::VARCHAR",
                "2024-01-01 00:00:00.123457",
            ),
            ("[TIMESTAMP '2024-01-01 00:00:00.5']::TIMESTAMP_S[]", "[2024-01-01T00:00:01]"),
            ("count(*) FROM t WHERE s = '2024-05-05 11:06:34'::TIMESTAMP", "1"),
        ],
    );
}

#[test]
fn text_forms() {
    let f = in_zone("America/St_Johns");
    answers(
        &f,
        &[
            ("TIME '20:08:10.33'::VARCHAR", "20:08:10.33"),
            ("TIMESTAMPTZ '2024-03-01 12:00:00+00'::VARCHAR", "2024-03-01 08:30:00-03:30"),
            ("TIMESTAMP '-0044-03-15 10:00:00'::VARCHAR", "0045-03-15 (BC) 10:00:00"),
            ("DATE '0045-03-15 (BC)'::VARCHAR", "0045-03-15 (BC)"),
            ("DATE '12024-03-15'::VARCHAR", "12024-03-15"),
            ("TIMESTAMP '2025-02-03 08:00:00+08'::VARCHAR", "2025-02-03 08:00:00"),
            ("TIMESTAMP '2020-01-01 24:00:00'::VARCHAR", "2020-01-02 00:00:00"),
            ("TIMESTAMPTZ '2025-02-03 08:00:00 Asia/Tokyo'::VARCHAR", "2025-02-02 19:30:00-03:30"),
            ("to_json(TIMESTAMPTZ '2024-03-01 12:00+00')", "\"2024-03-01 08:30:00-03:30\""),
            ("TRY_CAST('23:59:60' AS TIME) IS NULL", "true"),
        ],
    );
    f.refuses(&[
        ("SELECT TIME '23:59:60'", "is no valid TIME"),
        ("SELECT TIMESTAMP '2025-02-03 08:00:00 Nowhere'", "is no valid TIMESTAMP"),
        ("SELECT TIMESTAMPTZ '2025-02-03 08:00:00+99'", "is no valid TIMESTAMP"),
        ("SELECT DATE '2024-02-30'", "is no valid DATE"),
    ]);
}

#[test]
fn the_clock_of_the_session() {
    let f = in_zone("America/New_York");
    answers(
        &f,
        &[
            ("epoch(TIMESTAMPTZ '2024-03-01 12:00:00')", "1709312400.0"),
            ("epoch(TIMESTAMP '2024-03-01 12:00:00'::TIMESTAMPTZ)", "1709312400.0"),
            ("epoch(DATE '2024-03-01'::TIMESTAMPTZ)", "1709269200.0"),
            ("TIMESTAMPTZ '2024-03-01 02:00+00'::DATE", "2024-02-29"),
            ("TIMESTAMPTZ '2024-03-01 02:00+00'::TIME", "21:00:00"),
            ("TIMESTAMPTZ '2024-03-01 02:00+00'::TIMESTAMP", "2024-02-29T21:00:00"),
            ("hour(TIMESTAMPTZ '2024-03-01 02:00+00')", "21"),
            ("dayname(TIMESTAMPTZ '2024-03-01 02:00+00')", "Thursday"),
            ("extract(timezone_hour FROM TIMESTAMPTZ '2024-03-01 02:00+00')", "-5"),
            ("epoch(date_trunc('day', TIMESTAMPTZ '2024-03-01 02:00+00'))", "1709182800.0"),
            ("epoch(TIMESTAMPTZ '2024-03-09 12:00' + INTERVAL 1 DAY)", "1710086400.0"),
            ("epoch(TIMESTAMPTZ '2024-03-09 12:00' + INTERVAL 24 HOUR)", "1710090000.0"),
            ("TIMESTAMP '2024-03-01 12:00' = TIMESTAMPTZ '2024-03-01 17:00+00'", "true"),
            ("DATE '2024-03-01' = TIMESTAMPTZ '2024-03-01 05:00+00'", "true"),
            ("epoch(TIMESTAMPTZ '2024-03-01 17:00+00' - TIMESTAMP '2024-03-01 12:00')", "0.0"),
            ("TIMESTAMPTZ '2024-03-01 17:00+00' AT TIME ZONE 'Asia/Tokyo'", "2024-03-02T02:00:00"),
            ("epoch(TIMESTAMP '2024-03-01 12:00' AT TIME ZONE 'Asia/Tokyo')", "1709262000.0"),
            (
                "strftime(TIMESTAMPTZ '2024-03-01 02:00+00', '%Y-%m-%d %H:%M %z %Z')",
                "2024-02-29 21:00 -05 America/New_York",
            ),
            (
                "time_bucket(INTERVAL '1 day', TIMESTAMPTZ '2024-03-10 12:00+00', \
                 'Europe/Berlin')::VARCHAR",
                "2024-03-09 18:00:00-05",
            ),
            ("typeof(TIMESTAMPTZ '2024-03-01 02:00+00')", "TIMESTAMP WITH TIME ZONE"),
        ],
    );
    f.run("CREATE TABLE t (at TIMESTAMPTZ DEFAULT '2024-03-01', l TIMESTAMP, n INT)");
    f.run("INSERT INTO t (l, n) VALUES ('2024-03-01 05:00+00', 1)");
    f.run("INSERT INTO t SELECT TIMESTAMP '2024-03-01', NULL, 2");
    f.run("UPDATE t SET l = at WHERE n = 2");
    assert_eq!(
        f.rows("SELECT epoch(at), l FROM t ORDER BY n"),
        ["1709269200.0|2024-03-01T05:00:00", "1709269200.0|2024-03-01T00:00:00"]
    );
    assert_eq!(f.value("SELECT count(*) FROM t WHERE at = '2024-03-01'"), "2");
    f.run("ALTER TABLE t ALTER COLUMN l TYPE TIMESTAMPTZ");
    f.run("RESET TimeZone");
    assert_eq!(
        f.rows("SELECT l::VARCHAR FROM t ORDER BY n"),
        ["2024-03-01 10:00:00+00", "2024-03-01 05:00:00+00"]
    );
}

#[test]
fn days_that_begin_at_one() {
    // The clock went from 2018-11-03 24:00 to 01:00.
    let f = in_zone("America/Sao_Paulo");
    answers(
        &f,
        &[
            ("epoch(date_trunc('day', TIMESTAMPTZ '2018-11-04 15:00:00'))", "1541300400.0"),
            (
                "date_trunc('day', TIMESTAMPTZ '2018-11-04 15:00')::VARCHAR",
                "2018-11-04 01:00:00-02",
            ),
        ],
    );
}

#[test]
fn zones_must_exist() {
    let f = fixture();
    assert_eq!(f.value("SHOW TimeZone"), "timezone|UTC");
    for (given, shown) in [
        ("europe/berlin", "Europe/Berlin"),
        ("America/New_York", "America/New_York"),
        ("EST", "EST"),
        ("utc", "UTC"),
    ] {
        f.run(&format!("SET TIME ZONE '{given}'"));
        assert_eq!(f.value("SHOW TimeZone"), format!("timezone|{shown}"));
    }
    f.refuses(&[
        ("SET TimeZone = 'Nowhere/City'", "there is no time zone"),
        ("SET TimeZone = '+02:00'", "there is no time zone"),
        ("SET datafusion.execution.time_zone = 'x'", "there is no time zone"),
        ("SELECT TIMESTAMP '2024-01-01' AT TIME ZONE 'x'", "there is no time zone"),
    ]);
}

#[test]
fn types_of_the_clock() {
    let f = fixture();
    answers(
        &f,
        &[
            ("typeof(now())", "TIMESTAMP WITH TIME ZONE"),
            ("typeof(current_timestamp)", "TIMESTAMP WITH TIME ZONE"),
            ("typeof(to_timestamp(0))", "TIMESTAMP WITH TIME ZONE"),
            ("typeof(localtimestamp), typeof(current_date)", "TIMESTAMP|DATE"),
            ("typeof(current_time), typeof(today())", "TIME|DATE"),
            ("to_timestamp(1.5)::VARCHAR", "1970-01-01 00:00:01.5+00"),
            ("to_timestamp(1e12)::VARCHAR", "33658-09-27 01:46:40+00"),
            ("typeof(coalesce(DATE '2024-01-01', TIMESTAMP '2024-01-01'))", "TIMESTAMP"),
            (
                "typeof(CASE WHEN true THEN DATE '2024-01-01' ELSE now() END)",
                "TIMESTAMP WITH TIME ZONE",
            ),
            ("DATE '9999-12-31' = TIMESTAMP '9999-12-31'", "true"),
            (
                "DATE '9999-12-31' > now(), DATE '9999-12-31' > '2024-01-01'::TIMESTAMP_S",
                "true|true",
            ),
            ("DATE '9999-01-01' + TIME '10:00:00'", "9999-01-01T10:00:00"),
            ("(TIMESTAMP '9999-01-01' - DATE '0001-01-01')::VARCHAR", "3651694 days"),
            ("abs(epoch(now()) - epoch(localtimestamp::TIMESTAMPTZ)) < 1", "true"),
        ],
    );
    f.run("CREATE TABLE t (d DATE)");
    f.run("INSERT INTO t VALUES ('9999-12-31'), ('0001-01-01')");
    assert_eq!(f.rows("SELECT d FROM t WHERE d > now()"), ["9999-12-31"]);
    assert_eq!(
        f.rows(
            "SELECT * FROM (SELECT d FROM t UNION ALL SELECT TIMESTAMP '2024-01-01') ORDER BY d"
        ),
        ["0001-01-01T00:00:00", "2024-01-01T00:00:00", "9999-12-31T00:00:00"]
    );
}

#[test]
fn texts_in_formats() {
    let f = in_zone("Europe/Berlin");
    answers(
        &f,
        &[
            (
                "strptime('2024-01-02 04:05:06+00', '%Y-%m-%d %H:%M:%S%z')::VARCHAR",
                "2024-01-02 05:05:06+01",
            ),
            (
                "strptime('2024-01-02 03:04 America/New_York', '%Y-%m-%d %H:%M %Z')::VARCHAR",
                "2024-01-02 09:04:00+01",
            ),
            ("strptime('Mon 2024-01-02', '%a %Y-%m-%d')", "2024-01-02T00:00:00"),
            ("strptime('2024 5', '%Y %U')", "2024-02-04T00:00:00"),
            ("strptime('2024 5 3', '%G %V %u')", "2024-01-31T00:00:00"),
            ("try_strptime('18:05 PM', '%H:%M %p') IS NULL", "true"),
            ("try_strptime('04:05:60', '%H:%M:%S') IS NULL", "true"),
            ("typeof(strptime('5.123456789', '%S.%n'))", "TIMESTAMP_NS"),
        ],
    );
    f.refuses(&[
        ("SELECT strptime('04:05:60', '%H:%M:%S')", "is not in the format"),
        ("SELECT strptime('2024-02-30', '%Y-%m-%d')", "is not in the format"),
        ("SELECT strptime('2024', '%Q')", "does not read %Q"),
    ]);
}
