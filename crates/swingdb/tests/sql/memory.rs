//! Results that are much larger than what they are made of: an error, before the memory is taken.

use super::common::fixture;
use swingdb::Error;

#[test]
fn a_result_that_does_not_fit_is_refused_before_it_is_made() {
    let f = fixture();
    f.run("CREATE TABLE n AS SELECT range AS v FROM range(3000)");
    f.run("SET memory_limit = '100MB'");
    for (sql, needed) in [
        ("SELECT len(range(10000000000))", 80_000_000_000),
        ("SELECT len(range(0, v + 10000000000, 2)) FROM n WHERE v = 0", 40_000_000_000),
        ("SELECT len(generate_series(1, 1000000000))", 8_000_000_000),
        ("SELECT len(range(TIMESTAMP '2001-01-01', TIMESTAMP '2003-01-01', INTERVAL '1 s'))", 0),
        ("SELECT len(array_resize([1], 100000000, 7))", 800_000_000),
        ("SELECT len(list_resize([1], 100000000))", 800_000_000),
        ("SELECT len(array_repeat(1, 100000000))", 1_600_000_000),
        ("SELECT len(list_repeat([1, 2], 100000000))", 0),
        ("SELECT length(repeat('xy', 200000000))", 400_000_000),
        ("SELECT sum(length(repeat('xy', 100000 + v))) FROM n", 0),
        ("SELECT length(lpad('x', 200000000, 'ab'))", 200_000_000),
        ("SELECT length(rpad('x', 200000000))", 200_000_000),
        ("SELECT length(replace(repeat('x', 100000), 'x', repeat('y', 100000)))", 0),
        ("SELECT length(regexp_replace(repeat('x', 100000), 'x', repeat('y', 100000), 'g'))", 0),
        ("SELECT length(repeat('x', 60000000) || repeat('y', 60000000))", 120_000_000),
        ("SELECT length(array_to_string(range(100000), repeat('y', 100000)))", 0),
        ("SELECT sum(len(list_transform(range(100000), x -> range(v + 5000)))) FROM n", 0),
        ("INSERT INTO n SELECT len(range(10000000000))", 80_000_000_000),
    ] {
        let error = f.error(sql);
        let Error::OutOfMemory { needed: asked, free, file_system: None } = &error else {
            panic!("{sql}: {error:?}")
        };
        assert!(*free <= 100_000_000 && asked > free, "{sql}: {error:?}");
        assert!(needed == 0 || asked.abs_diff(needed) <= 20_000, "{sql}: {error:?}");
    }
    assert_eq!(f.value("SELECT count(*) FROM n"), "3000");
}

#[test]
fn what_fits_is_computed() {
    let f = fixture();
    f.run("CREATE TABLE n AS SELECT range AS v, range::VARCHAR AS s FROM range(3000)");
    f.run("SET memory_limit = '100MB'");
    for (sql, value) in [
        ("SELECT len(range(1000000))", "1000000"),
        // Long constants beside rows: batches of few rows.
        ("SELECT sum(length(v || repeat('y', 50000) || repeat('z', 50000))) FROM n", "300010890"),
        ("SELECT sum(length(concat(repeat('y', 100000), v))) FROM n", "300010890"),
        ("SELECT sum(len(list_append(range(100000), v))) FROM n", "300003000"),
        ("SELECT sum(len([range(100000), range(v)])) FROM n", "6000"),
        ("SELECT sum(length(repeat(s, 100))) FROM n", "1089000"),
        ("SELECT sum(length(lpad(s, v, '*'))) FROM n", "4498500"),
        ("SELECT sum(length(replace(s, '1', 'one'))) FROM n", "14690"),
        ("SELECT length(replace(repeat('x', 100000), 'y', repeat('y', 100000)))", "100000"),
        ("SELECT length(regexp_replace(repeat('x', 100000), 'x', repeat('y', 100000)))", "199999"),
        (
            "SELECT length(regexp_replace(repeat('x', 100000), 'y', repeat('y', 100000), 'g'))",
            "100000",
        ),
        ("SELECT sum(length(s || s || '-' || NULL)) IS NULL FROM n", "true"),
        ("SELECT sum(length(s || '-' || s)) FROM n", "24780"),
        ("SELECT sum(len(array_append(range(100), v))) FROM n", "303000"),
        ("SELECT count(*) FROM n WHERE list_contains(range(100000), v)", "3000"),
        ("SELECT len(range(0, 10, 0 - 1)) + length(repeat('x', -5))", "0"),
        ("SELECT length(repeat(NULL, 1000000000)) IS NULL", "true"),
        ("SELECT len(range(DATE '2001-01-01', DATE '2003-01-01', INTERVAL '1 day'))", "730"),
    ] {
        assert_eq!(f.value(sql), value, "{sql}");
    }
}

#[test]
fn more_text_than_one_array_holds_is_an_error() {
    let f = fixture();
    f.run("CREATE TABLE n AS SELECT range AS v FROM range(3000)");
    f.run("SET memory_limit = '1TB'");
    for sql in
        ["SELECT sum(length(repeat('x', 1000000 + v))) FROM n", "SELECT len(range(3000000000))"]
    {
        let error = f.error(sql);
        assert!(matches!(&error, Error::Execution { .. }), "{sql}: {error:?}");
    }
}
