//! JSON that functions make. The expected values are DuckDB 2.0's.

use super::common::fixture;

#[test]
fn values_become_json() {
    let f = fixture();
    for (sql, expected) in [
        ("to_json(1)", "1"),
        ("to_json(1.5)", "1.5"),
        ("to_json(1.0::DOUBLE)", "1.0"),
        ("to_json(18446744073709551615::UBIGINT)", "18446744073709551615"),
        ("to_json(TRUE)", "true"),
        ("to_json('a\"b\\ü' || chr(10))", r#""a\"b\\ü\n""#),
        ("to_json(DATE '2020-01-02')", r#""2020-01-02""#),
        ("to_json(TIMESTAMP '2020-01-02 03:04:05.5')", r#""2020-01-02 03:04:05.5""#),
        ("to_json(TIME '01:02:03')", r#""01:02:03""#),
        ("to_json([1, NULL, 3])", "[1,null,3]"),
        ("to_json({'a': 1, 'b': NULL, 'c': [{'d': 'x'}]})", r#"{"a":1,"b":null,"c":[{"d":"x"}]}"#),
        ("to_json(MAP {'a': 1, 'b': NULL})", r#"{"a":1,"b":null}"#),
        ("to_json([MAP {1: 2.5, 3: NULL}])", r#"[{"1":2.5,"3":null}]"#),
        ("to_json(NULL)", "-"),
        ("json_quote('a')", r#""a""#),
        ("row_to_json({'a': 1})", r#"{"a":1}"#),
        ("array_to_json([1, 2])", "[1,2]"),
        ("json_object()", "{}"),
        ("json_object('a', 1, 'b', NULL)", r#"{"a":1,"b":null}"#),
        ("json_array()", "[]"),
        ("json_array(1, 'a', NULL, [1], {'q': 1})", r#"[1,"a",null,[1],{"q":1}]"#),
        ("json_keys('{\"a\": 1, \"b\\u0041\": {\"c\": 2}}')", "[a, bA]"),
        ("json_keys('{\"a\": 1, \"b\": {\"c\": 2}}', 'b')", "[c]"),
        ("json_keys('[1]')", "[]"),
        ("json_keys('{}', '$.z')", "-"),
        ("json_keys(NULL)", "-"),
        (
            "json_pretty('{\"a\":[1,{\"b\":[]}],\"c\":{}}')",
            "{\n    \"a\": [\n        1,\n        {\n            \"b\": []\n        }\n    ],\n    \
             \"c\": {}\n}",
        ),
    ] {
        assert_eq!(f.value(&format!("SELECT {sql}")), expected, "{sql}");
    }
}

/// DuckDB writes numbers that are no JSON, and what it has written cannot be read by others.
#[test]
fn what_is_made_is_json() {
    let f = fixture();
    for (sql, expected) in [
        ("to_json('nan'::DOUBLE)", r#""NaN""#),
        ("to_json([1.5::FLOAT, '-inf'::FLOAT, NULL])", r#"[1.5,"-Infinity",null]"#),
        ("to_json({'x': 'inf'::DOUBLE})", r#"{"x":"Infinity"}"#),
        ("to_json(unhex('ff'))", r#""ff""#),
    ] {
        assert_eq!(f.value(&format!("SELECT {sql}")), expected, "{sql}");
        assert_eq!(f.value(&format!("SELECT json_valid({sql})")), "true", "{sql}");
    }
}

#[test]
fn json_in_json_stays_as_it_is() {
    let f = fixture();
    f.run("CREATE TABLE j (id INT, doc JSON)");
    f.run(r#"INSERT INTO j VALUES (1, '{"n": [5, 6]}'), (2, NULL)"#);
    for (sql, expected) in [
        ("SELECT json_object('a', json_array(1, 2), 'b', '[1]')", r#"{"a":[1,2],"b":"[1]"}"#),
        ("SELECT json_array(doc -> 'n', doc ->> 'n') FROM j WHERE id = 1", r#"[[5,6],"[5,6]"]"#),
        ("SELECT to_json(n) FROM (SELECT doc -> 'n' AS n FROM j) WHERE n IS NOT NULL", "[5,6]"),
        (
            "WITH x AS (SELECT id, json_object('id', id) AS o FROM j)
             SELECT json_group_array(o) FROM (SELECT o FROM x ORDER BY id)",
            r#"[{"id":1},{"id":2}]"#,
        ),
        (
            "SELECT json_object('all', json_group_array(id ORDER BY id DESC)) FROM j",
            r#"{"all":[2,1]}"#,
        ),
        ("SELECT json_group_array(id) FILTER (WHERE id > 1) FROM j", "[2]"),
        ("SELECT json_group_array(doc -> 'n' ORDER BY id) FROM j", "[[5,6],null]"),
        ("SELECT json_group_array(id) FROM j WHERE id > 5", "-"),
        ("SELECT json_object(to_json(5), 1, to_json('x'), 2)", r#"{"5":1,"\"x\"":2}"#),
        (
            "SELECT json_group_array(v ORDER BY v)
             FROM (SELECT to_json(1) AS v UNION ALL SELECT 'x')",
            r#"[1,"x"]"#,
        ),
        ("SELECT json_group_object(id, doc -> 'n' ORDER BY id) FROM j", r#"{"1":[5,6],"2":null}"#),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
}

/// What texts of JSON are marked with is nobody's business but that of the functions.
#[test]
fn json_is_text_everywhere_else() {
    let f = fixture();
    f.run("CREATE TABLE made AS SELECT range AS i, json_object('i', range % 2) AS o FROM range(4)");
    f.run("INSERT INTO made SELECT 9, to_json('x')");
    f.run("INSERT INTO made VALUES (10, 'plain')");
    f.run("UPDATE made SET o = json_array(i) WHERE i = 3");
    for (sql, expected) in [
        ("SELECT o FROM made WHERE i = 3", "[3]"),
        ("SELECT o, count(*) FROM made GROUP BY o HAVING count(*) > 1", r#"{"i":0}|2"#),
        ("SELECT to_json(i) FROM made WHERE i = 0 UNION ALL SELECT 'b' ORDER BY 1", "0 b"),
        ("SELECT 'b' UNION SELECT to_json(1) ORDER BY 1", "1 b"),
        ("SELECT CASE WHEN i > 3 THEN o ELSE to_json(i) END FROM made WHERE i = 9", "\"x\""),
        ("SELECT max(to_json(i)), min(to_json(o)) FROM made WHERE i < 2", r#"1|"{\"i\":0}""#),
        ("SELECT a.o FROM made a JOIN (SELECT to_json(i) AS k FROM made) b ON a.o = b.k", ""),
        ("SELECT DISTINCT typeof(to_json(i)) FROM made", "VARCHAR"),
        ("SELECT first_value(to_json(i)) OVER (ORDER BY i) FROM made WHERE i > 8", "9 9"),
        ("SELECT unnest([to_json(1), 'a'])", "1 a"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn json_is_walked_by_recursive_queries() {
    let f = fixture();
    f.run("CREATE TABLE j AS SELECT '{\"a\": {\"a\": {\"b\": 1}}}' AS doc");
    for (sql, expected) in [
        (
            "WITH RECURSIVE r AS (SELECT doc AS t FROM j UNION ALL \
             SELECT t -> 'a' FROM r WHERE t IS NOT NULL) \
             SELECT length(t) FROM r ORDER BY 1 DESC NULLS LAST",
            "22 13 7 -",
        ),
        (
            "WITH RECURSIVE r(t) AS (SELECT doc -> 'a' FROM j UNION ALL \
             SELECT t -> 'a' FROM r WHERE t IS NOT NULL) \
             SELECT to_json(t) FROM r ORDER BY length(t) DESC NULLS LAST",
            r#"{"a":{"b":1}} {"b":1} -"#,
        ),
        (
            "WITH RECURSIVE r AS (SELECT to_json(1) AS t, 1 AS n UNION ALL \
             SELECT CAST(n + 1 AS VARCHAR), n + 1 FROM r WHERE n < 3) \
             SELECT json_array(t) FROM r ORDER BY n",
            "[1] [2] [3]",
        ),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
    let error = f.error(
        "WITH RECURSIVE r AS (SELECT to_json(1) AS t, 1 AS n UNION ALL \
         SELECT 'x', n + 1 FROM r WHERE n < 3) SELECT t FROM r",
    );
    assert!(error.to_string().contains("no JSON"), "{error}");
}

#[test]
fn what_cannot_become_json_is_said() {
    let f = fixture();
    for (sql, expected) in [
        ("json_object('a', 1, 'b')", "a key too many"),
        ("json_object(1, 2)", "keys of json_object are text"),
        ("json_object(NULLIF('a', 'a'), 2)", "a key of json_object is NULL"),
        ("row_to_json(1)", "takes a STRUCT"),
        ("array_to_json(1)", "takes a list"),
        ("json_keys('{')", "no JSON"),
        ("json_pretty(5)", "as text"),
    ] {
        let error = f.error(&format!("SELECT {sql}")).to_string();
        assert!(error.contains(expected), "{sql}: {error}");
    }
}

#[test]
fn casts_to_json_are_checked() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, '[1, 2, 42]'), (2, '{x'), (3, NULL)) t(id, s)",
    );
    for (sql, expected) in [
        ("SELECT '[1, 2]'::JSON, JSON '{}', NULL::JSON", "[1, 2]|{}|-"),
        ("SELECT TRY_CAST('{{x' AS JSON), json_valid('{{x')", "-|false"),
        (
            "SELECT 1::JSON, [1, NULL]::JSON, {'a': 'x'}::JSON, true::JSON",
            "1|[1,null]|{\"a\":\"x\"}|true",
        ),
        (
            "SELECT json_object('duck', '{\"goose\": [1, \"a b\"]}'::JSON)",
            "{\"duck\":{\"goose\":[1,\"a b\"]}}",
        ),
        ("SELECT ('[1, 2, 42]'::JSON)[2], ('[1, 2, 42]'::JSON)[-1], ('[1]'::JSON)[5]", "42|42|-"),
        ("SELECT ('{\"a\": {\"b\": 7}}'::JSON)['a']['b'], ('{\"a\": 1}'::JSON).a", "7|1"),
        ("SELECT 'text'[2]", "e"),
        ("SELECT count(TRY_CAST(s AS JSON)), count(s) FROM t", "1|2"),
        ("SELECT (s::JSON)[id] FROM t WHERE id = 1", "2"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
    for wrong in ["SELECT CAST('{{x' AS JSON)", "SELECT JSON ''", "SELECT count(s::JSON) FROM t"] {
        let error = f.error(wrong);
        assert!(matches!(error, swingdb::Error::Conversion { .. }), "{wrong}: {error}");
    }
}

#[test]
fn json_as_nested_values() {
    let f = fixture();
    f.run(
        "CREATE TABLE t AS SELECT '{\"a\": ' || range || ', \"b\": [\"x\\ny\"]}' AS s \
         FROM range(3)",
    );
    f.run("INSERT INTO t VALUES (NULL), ('[]')");
    let of = "STRUCT(a INT, b VARCHAR[])";
    assert_eq!(f.value(&format!("SELECT max(((s::JSON)::{of}).a) FROM t WHERE s LIKE '{{%'")), "2");
    assert_eq!(
        f.value(&format!("SELECT count(TRY_CAST(s::JSON AS {of})), count(*) FROM t")),
        "4|5",
        "what is no object is a STRUCT of NULLs, as in DuckDB"
    );
    assert_eq!(f.value("SELECT ('[\"a\\tb\", null]'::JSON)::VARCHAR[]"), "[a\tb, -]");
    for (json, to, expected) in [
        ("[1.5, 2.5, -1e2, \"7\"]", "INT[]", "[2, 2, -100, 7]"),
        ("[\"x\", 1, {\"a\": 2}, null, true]", "VARCHAR[]", "[x, 1, {\"a\":2}, -, true]"),
        ("{\"a\": [1], \"b\": null}", "MAP(VARCHAR, INT[])", "{a: [1], b: -}"),
        (
            "[{\"a\": {\"b\": [1, null]}}, null]",
            "STRUCT(a STRUCT(b INT[]))[]",
            "[{a: {b: [1, -]}}, -]",
        ),
        ("[\"2020-01-01 10:00:00\"]", "TIMESTAMP[]", "[2020-01-01T10:00:00]"),
        ("null", "INT[]", "-"),
    ] {
        assert_eq!(f.value(&format!("SELECT '{json}'::JSON::{to}")), expected, "{json}");
    }
    for (json, to, tried) in [
        ("[\"x\", 1]", "INT[]", "[-, 1]"),
        ("{\"a\": 1, \"c\": 2}", "STRUCT(a INT, b INT)", "{a: 1, b: -}"),
        ("[1]", "STRUCT(a INT)", "{a: -}"),
        ("[1]", "INT[2]", "-"),
        ("{\"a\": 1, \"a\": 2}", "MAP(VARCHAR, INT)", "-"),
    ] {
        let error = f.error(&format!("SELECT '{json}'::JSON::{to}"));
        assert!(matches!(error, swingdb::Error::Conversion { .. }), "{json}: {error}");
        let sql = format!("SELECT TRY_CAST('{json}'::JSON AS {to})");
        assert_eq!(f.value(&sql), tried, "{json}");
    }
    assert_eq!(f.value("SELECT json_extract('{\"k\": [1, 2]}', 'k')::INT[]"), "[1, 2]");
    f.error(&format!("SELECT count((s::JSON)::{of}) FROM t"));
}

#[test]
fn patches_parts_and_structure() {
    let f = fixture();
    f.run("CREATE TABLE t (j VARCHAR)");
    f.run("INSERT INTO t VALUES ('{\"a\": 1, \"b\": {\"c\": [1, 2]}}'), (NULL)");
    for (call, expected) in [
        (
            "json_merge_patch(j, '{\"a\": null, \"b\": {\"d\": \"x\"}}')",
            "{\"b\":{\"c\":[1,2],\"d\":\"x\"}}",
        ),
        ("json_contains(j, '2')", "true"),
        ("json_contains(j, '{\"c\": [2]}')", "true"),
        ("json_contains(j, '{\"c\": [3]}')", "false"),
        ("json_structure(j)", "{\"a\":\"UBIGINT\",\"b\":{\"c\":[\"UBIGINT\"]}}"),
        ("json_value(j, '$.a')", "1"),
        ("json_value(j, '$.b')", "-"),
        ("json_value('[null]', '$[0]')", "-"),
        ("json_structure('[{}]')", "[\"JSON\"]"),
        ("json_merge_patch(j, '{\"b\": null}', '{\"a\": 2}')", "{\"a\":2}"),
        ("json_merge_patch(NULL, '{\"b\": null}')", "{\"b\":null}"),
    ] {
        let found = f.rows(&format!("SELECT {call} FROM t WHERE j IS NOT NULL"));
        assert_eq!(found, [expected], "{call}");
    }
    assert_eq!(
        f.value("SELECT json_structure(j), json_contains(j, '1') FROM t WHERE j IS NULL"),
        "-|-"
    );
    assert_eq!(f.value("SELECT json_merge_patch(j, NULL) FROM t WHERE j IS NULL"), "-");
    assert!(matches!(f.error("SELECT json_structure('{')"), swingdb::Error::Conversion { .. }));
}

/// Functions that go into all of the JSON refuse what would not fit on the stack.
#[test]
fn levels_are_limited() {
    let f = fixture();
    for (levels, fits) in [(1_000, true), (1_001, false), (1_000_000, false)] {
        let json = format!("repeat('[', {levels}) || repeat(']', {levels})");
        for call in ["json_structure(j)", "json_pretty(j)", "json_contains(j, '7')"] {
            let sql = format!("SELECT length({call}::VARCHAR) > 0 FROM (SELECT {json} AS j)");
            match fits {
                true => assert_eq!(f.value(&sql), "true", "{sql}"),
                false => assert!(f.error(&sql).to_string().contains("1000 levels"), "{sql}"),
            }
        }
        let patch = format!("SELECT length(json_merge_patch('{{}}', {json})) FROM range(1)");
        assert_eq!(f.con.query(&patch).and_then(|found| found.collect()).is_ok(), fits, "{levels}");
        assert_eq!(f.value(&format!("SELECT ({json})::JSON IS NULL")), "false", "{levels}");
    }
}
