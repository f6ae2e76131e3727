//! Conversions that lose nothing silently: narrow floating point, maps, structs, parts of lists.

use super::common::fixture;

#[test]
fn numbers_that_do_not_fit_float_are_errors() {
    let f = fixture();
    for cast in [
        "1e300::FLOAT",
        "(-1e300)::FLOAT",
        "[1e300]::FLOAT[]",
        "{'a': 1e300}::STRUCT(a FLOAT)",
        "x::FLOAT FROM (VALUES (1e39)) t(x)",
        "3.4028236e38::FLOAT",
        "'1e300'::FLOAT",
    ] {
        let error = f.error(&format!("SELECT {cast}")).to_string();
        assert!(error.contains("does not fit FLOAT"), "{cast}: {error}");
    }
    for (cast, expected) in [
        ("TRY_CAST(1e300 AS FLOAT)", "-"),
        ("TRY_CAST([1e300, 2] AS FLOAT[])::VARCHAR", "[NULL, 2.0]"),
        ("'inf'::DOUBLE::FLOAT", "inf"),
        ("'-inf'::FLOAT", "-inf"),
        ("'nan'::DOUBLE::FLOAT", "NaN"),
        ("3.4028235e38::FLOAT", "3.4028235e38"),
        ("1e-300::FLOAT", "0.0"),
    ] {
        assert_eq!(f.value(&format!("SELECT {cast}")), expected, "{cast}");
    }
    f.run("CREATE TABLE f (x FLOAT)");
    f.refuses(&[
        ("INSERT INTO f VALUES (1e300)", "row 1: 1e300 does not fit FLOAT"),
        ("INSERT INTO f SELECT 1e300", "1e300 does not fit FLOAT"),
    ]);
    f.run("INSERT INTO f VALUES (1)");
    f.refuses(&[("UPDATE f SET x = 1e300", "does not fit FLOAT")]);
    assert_eq!(f.rows("SELECT x FROM f"), ["1.0"]);
}

#[test]
fn floating_point_text_is_that_of_duckdb() {
    let f = fixture();
    for (value, expected) in [
        ("1e16::DOUBLE", "1e+16"),
        ("1e15::DOUBLE", "1000000000000000.0"),
        ("1e-5::DOUBLE", "1e-05"),
        ("0.0001::DOUBLE", "0.0001"),
        ("-1.5e300::DOUBLE", "-1.5e+300"),
        ("123456790::REAL", "123456790.0"),
        ("1e17::REAL", "1e+17"),
        ("[1e16]", "[1e+16]"),
        ("{'a': 1e-5}", "{'a': 1e-05}"),
    ] {
        assert_eq!(f.value(&format!("SELECT ({value})::VARCHAR")), expected, "{value}");
    }
    assert_eq!(f.value("SELECT 1e16 || 'x'"), "1e+16x");
    f.run("CREATE TABLE s (t VARCHAR)");
    f.run("INSERT INTO s SELECT 1e16");
    assert_eq!(f.value("SELECT t FROM s"), "1e+16");
}

#[test]
fn maps_are_converted_as_their_parts_are() {
    let f = fixture();
    for (cast, expected) in [
        ("map(['k'], [3.7])::MAP(VARCHAR, INT)", "{k=4}"),
        ("map([1.4], ['7'])::MAP(INT, INT)", "{1=7}"),
        ("TRY_CAST(map(['k'], ['x']) AS MAP(VARCHAR, INT))", "{k=NULL}"),
        ("TRY_CAST(map([1.2, 1.3], [1, 2]) AS MAP(INT, INT))", "-"),
        ("[map(['k'], [3.7])]::MAP(VARCHAR, INT)[]", "[{k=4}]"),
    ] {
        assert_eq!(f.value(&format!("SELECT ({cast})::VARCHAR")), expected, "{cast}");
    }
    f.run("CREATE TABLE m (v MAP(INT, INT))");
    f.run("INSERT INTO m VALUES (map(['1', '2'], [2.5, 3.5]))");
    assert_eq!(f.value("SELECT v::VARCHAR FROM m"), "{1=3, 2=4}");
    f.refuses(&[
        ("SELECT map(['1', '01'], [1, 2])::MAP(INT, INT)", "a key is there twice"),
        ("SELECT map([1.2, 1.3], [1, 2])::MAP(INT, INT)", "a key is there twice"),
        ("SELECT {'1': 1, '01': 2}::MAP(INT, INT)", "a key is there twice"),
        ("INSERT INTO m VALUES (map(['1', '01'], [2, 3]))", "MAP(INTEGER, INTEGER)"),
        ("SELECT map(['a', 'a'], [1, 2])", "a key is there twice"),
        ("SELECT MAP {'a': 1, 'a': 2}", "a key is there twice"),
        ("SELECT map([NULL], [1])", "a key is NULL"),
    ]);
}

#[test]
fn maps_of_lists_are_made_row_by_row() {
    let f = fixture();
    f.run("CREATE TABLE kv (k INT[], v INT[])");
    f.run("INSERT INTO kv VALUES ([1, 2], [10]), ([3], [30, 40])");
    f.refuses(&[("SELECT map(k, v) FROM kv", "map of 2 keys and 1 values")]);
    f.run("CREATE OR REPLACE TABLE kv (i INT, k INT[], v INT[])");
    f.run(
        "INSERT INTO kv VALUES (1, [1, 2], [10, NULL]), (2, NULL, [1]), (3, [1], NULL), \
         (4, [], []), (5, [3], [30])",
    );
    assert_eq!(
        f.rows("SELECT map(k, v)::VARCHAR FROM kv ORDER BY i"),
        ["{1=10, 2=NULL}", "-", "-", "{}", "{3=30}"]
    );
    assert_eq!(
        f.rows("SELECT map(k, v)::VARCHAR FROM kv WHERE i > 3 ORDER BY i"),
        ["{}", "{3=30}"]
    );
    assert_eq!(f.value("SELECT map([], [])::VARCHAR"), "{}");
    assert_eq!(f.value("SELECT map(NULL, [1]) IS NULL"), "true");
    assert_eq!(f.value("SELECT MAP {'a': 1, 'b': NULL}::VARCHAR"), "{a=1, b=NULL}");
    assert_eq!(f.value("SELECT map(['a'], [7])['a']"), "7");
}

#[test]
fn structs_have_no_name_twice() {
    let f = fixture();
    f.refuses(&[
        ("SELECT {'p': 3, 'p': 4}", "two fields named \"p\""),
        ("SELECT {'p': 3, 'P': 4}", "two fields named \"P\""),
        ("SELECT struct_pack(p := 3, p := 4)", "two fields named \"p\""),
        ("SELECT named_struct('p', 3, 'p', 4)", "two fields named \"p\""),
    ]);
    assert_eq!(f.value("SELECT {'p': 3, 'q': 4}::VARCHAR"), "{'p': 3, 'q': 4}");
}

#[test]
fn parts_of_lists_are_refused_as_they_are_alone() {
    let f = fixture();
    f.refuses(&[
        ("SELECT 19000::DATE", "cannot be cast to DATE"),
        ("SELECT 19000::INT::DATE", "INTEGER cannot be cast to DATE"),
        ("SELECT [19000]::DATE[]", "cannot be cast to DATE[]"),
        ("SELECT {'a': 5}::STRUCT(a TIMESTAMP)", "cannot be cast"),
        ("SELECT map(['a'], [5])::MAP(VARCHAR, DATE)", "cannot be cast"),
        ("SELECT [5]::BLOB[]", "cannot be cast to BLOB[]"),
        ("SELECT [DATE '2020-01-01']::INT[]", "cannot be cast to INTEGER[]"),
        ("SELECT [5]::TIMESTAMP[]", "cannot be cast"),
        ("SELECT ['boom']::JSON[]", "is no JSON"),
        ("SELECT {'a': 'boom'}::STRUCT(a JSON)", "is no JSON"),
        ("SELECT map(['a'], ['boom'])::MAP(VARCHAR, JSON)", "is no JSON"),
        ("SELECT ['x']::UUID[]", "is no valid UUID"),
    ]);
    for (cast, expected) in [
        ("TRY_CAST(19000 AS DATE)", "-"),
        ("TRY_CAST([19000, NULL] AS DATE[])", "[NULL, NULL]"),
        ("TRY_CAST({'a': 5, 'b': 6} AS STRUCT(a DATE, b INT))", "{'a': NULL, 'b': 6}"),
        ("TRY_CAST(['boom', '1'] AS JSON[])", "[NULL, 1]"),
        ("['1', '[2]']::JSON[]", "[1, '[2]']"),
        ("{'a': 1, 'b': '{}'}::STRUCT(a INT, b JSON)", "{'a': 1, 'b': '{}'}"),
        (
            "['AAAA0000-0000-0000-0000-00000000000F']::UUID[]",
            "[aaaa0000-0000-0000-0000-00000000000f]",
        ),
        ("[DATE '2020-01-01']::TIMESTAMP[]", "['2020-01-01 00:00:00']"),
        ("['2020-01-01']::DATE[]", "[2020-01-01]"),
    ] {
        assert_eq!(f.value(&format!("SELECT ({cast})::VARCHAR")), expected, "{cast}");
    }
}

#[test]
fn list_functions_and_null() {
    let f = fixture();
    for (call, expected) in [
        ("list_intersect([1, NULL], [NULL, 1])", "[1]"),
        ("list_intersect([NULL], [NULL])", "[]"),
        ("list_intersect(NULL, [1])", "-"),
        ("[1, 2] || NULL", "-"),
        ("NULL || [1]", "-"),
        ("[1] || NULL::INT[]", "-"),
        ("NULL::INT[] || [1]", "-"),
        ("[1] || [NULL]", "[1, NULL]"),
        ("[1] || [2]", "[1, 2]"),
        ("flatten([NULL])", "[]"),
        ("flatten([[1], NULL, [2]])", "[1, 2]"),
        ("flatten([[NULL]])", "[NULL]"),
        ("list_string_agg([])", "-"),
        ("list_string_agg([NULL])", "-"),
        ("list_string_agg(['a', NULL, 'b'])", "a,b"),
        ("list_string_agg([''])", ""),
    ] {
        assert_eq!(f.value(&format!("SELECT ({call})::VARCHAR")), expected, "{call}");
    }
    f.run("CREATE TABLE l (i INT, a INT[], b INT[])");
    f.run("INSERT INTO l VALUES (1, [1], NULL), (2, NULL, [2]), (3, [3], [4])");
    assert_eq!(f.rows("SELECT (a || b)::VARCHAR FROM l ORDER BY i"), ["-", "-", "[3, 4]"]);
}

#[test]
fn groups_of_a_pattern_keep_their_numbers() {
    let f = fixture();
    for (call, expected) in [
        (r"regexp_extract('555-1234', '(\d{3}-)?(\d{3})-(\d{4})', 2)", "555"),
        (r"regexp_extract('b', '(\d)?([a-z])', 1)", ""),
        (r"regexp_extract('b', '(\d)?([a-z])', 2)", "b"),
        ("regexp_extract('abc', 'b.')", "bc"),
        ("regexp_extract('abc', 'x')", ""),
        ("regexp_extract('b', '([a-z])', 3)", ""),
        ("regexp_extract('b', '([a-z])', NULL)", ""),
        ("regexp_extract(NULL, 'x')", "-"),
        ("regexp_extract('b', NULL)", "-"),
        ("regexp_extract('aB', 'b', 0, 'i')", "B"),
        ("regexp_extract('a.b', '.b', 0, 'l')", ".b"),
    ] {
        assert_eq!(f.value(&format!("SELECT {call}")), expected, "{call}");
    }
    f.refuses(&[
        ("SELECT regexp_extract('b', '(b)', 10)", "groups from 0 to 9"),
        ("SELECT regexp_extract('b', '(b)', -1)", "groups from 0 to 9"),
        ("SELECT regexp_extract('b', '(b', 0)", "regexp_extract"),
        ("SELECT regexp_extract('b', 'b', 0, 'q')", "options"),
    ]);
}
