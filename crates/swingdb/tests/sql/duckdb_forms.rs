//! Forms that people who know DuckDB try on the first day. What is expected is what DuckDB 2.0
//! answers, but for names of unnamed columns.

use swingdb::Error;

use super::common::{Fixture, fixture};

fn tables() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE t (a INT, b VARCHAR, ab DOUBLE)");
    f.run("INSERT INTO t VALUES (1, 'x', 2.5), (3, 'y', 4.5)");
    f
}

fn names(f: &Fixture, sql: &str) -> String {
    let schema = f.run(sql).schema();
    schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(" ")
}

/// Queries of one row, each with the names of its columns.
fn one_row(f: &Fixture, cases: &[(&str, &str, &str)]) {
    for (sql, columns, row) in cases {
        assert_eq!(names(f, sql), *columns, "{sql}");
        assert_eq!(f.rows(sql), [*row], "{sql}");
    }
}

#[test]
fn integer_division() {
    let f = tables();
    assert_eq!(f.value("SELECT 7 // 2, -7 // 2, 7 // -2, 2 + 7 // 2 * 3"), "3|-3|-3|11");
    assert_eq!(f.rows("SELECT a // 2, (a + 1) // a FROM t ORDER BY 1"), ["0|2", "1|1"]);
    assert_eq!(
        f.value("SELECT typeof(a // 2), typeof(7::TINYINT // 2::TINYINT) FROM t LIMIT 1"),
        "BIGINT|TINYINT"
    );
    f.error("SELECT 7 // 0");
}

#[test]
fn columns_by_pattern_and_list() {
    let f = tables();
    for (sql, columns, first) in [
        ("SELECT COLUMNS('a.*') FROM t", "a ab", "1|2.5"),
        ("SELECT COLUMNS(*) FROM t", "a b ab", "1|x|2.5"),
        ("SELECT max(COLUMNS(*)) FROM t", "a b ab", "3|y|4.5"),
        ("SELECT COLUMNS('a.*') + 1 FROM t", "a ab", "2|3.5"),
        ("SELECT COLUMNS('a.*') + columns('a.*') FROM t", "a ab", "2|5.0"),
        ("SELECT COLUMNS(* EXCLUDE (b)) FROM t", "a ab", "1|2.5"),
        ("SELECT COLUMNS(['B', 'a']) FROM t", "b a", "x|1"),
        (
            "SELECT COLUMNS(u.*) FROM t JOIN (SELECT a, a * 2 AS d FROM t) u ON t.a = u.a",
            "a d",
            "1|2",
        ),
        ("SELECT COLUMNS(*)::VARCHAR FROM t", "a b ab", "1|x|2.5"),
        ("WITH c AS (SELECT a AS k FROM t) SELECT COLUMNS('k') * 10, 7 AS s FROM c", "k s", "10|7"),
        (
            "SELECT count(*) FROM (SELECT COLUMNS('^a$') FROM t WHERE COLUMNS('^a') > 2)",
            "count(*)",
            "1",
        ),
        ("SELECT a FROM t WHERE a IN (SELECT COLUMNS('d') FROM (SELECT 1 AS d))", "a", "1"),
    ] {
        assert_eq!(names(&f, sql), columns, "{sql}");
        assert_eq!(f.rows(&format!("SELECT * FROM ({sql}) ORDER BY 1"))[0], first, "{sql}");
    }
    assert_eq!(names(&f, "SELECT sum(COLUMNS('a.*')) AS s FROM t GROUP BY b"), "s s_1");
    f.run("CREATE TABLE wide AS SELECT COLUMNS('a.*') * 2 FROM t");
    assert_eq!(f.value("SELECT sum(a), sum(ab) FROM wide"), "8|14.0");
    f.refuses(&[
        ("SELECT COLUMNS('zz') FROM t", "none of the columns a, b, ab"),
        ("SELECT COLUMNS('(') FROM t", "no regular expression"),
        ("SELECT COLUMNS(['c']) FROM t", "\"c\""),
        ("SELECT COLUMNS(a) FROM t", "COLUMNS takes"),
        ("SELECT COLUMNS('a') + COLUMNS('b') FROM t", "different COLUMNS"),
    ]);
}

#[test]
fn columns_whose_names_fit() {
    let f = fixture();
    f.run("CREATE TABLE w (id INT, km INT, \"Kmh\" INT, \"K_x\" INT)");
    f.run("INSERT INTO w VALUES (1, 2, 3, 4)");
    one_row(
        &f,
        &[
            ("SELECT * LIKE 'k%' FROM w", "km", "2"),
            ("SELECT * ILIKE 'k%' FROM w", "km Kmh K_x", "2|3|4"),
            ("SELECT * NOT LIKE 'k%' FROM w", "id Kmh K_x", "1|3|4"),
            ("SELECT * NOT ILIKE 'k%', id FROM w", "id id_1", "1|1"),
            ("SELECT * SIMILAR TO 'k.*' FROM w", "km", "2"),
            ("SELECT * GLOB 'K*' FROM w", "Kmh K_x", "3|4"),
            ("SELECT * ILIKE 'k$_%' ESCAPE '$' FROM w", "K_x", "4"),
            ("SELECT * EXCLUDE (km) ILIKE 'k%' FROM w", "Kmh K_x", "3|4"),
            ("SELECT a.* LIKE 'i%', b.* LIKE 'k%' FROM w a, w b", "id km", "1|2"),
            ("SELECT * LIKE 'id' FROM w JOIN w AS v USING (id)", "id", "1"),
            ("FROM w SELECT * LIKE 'k%' AS z", "z", "2"),
            ("SELECT COLUMNS(lambda c: c ILIKE 'k%') + 1 FROM w", "km Kmh K_x", "3|4|5"),
            ("SELECT max(COLUMNS(* ILIKE 'k%')) FROM w", "km Kmh K_x", "2|3|4"),
            ("SELECT id FROM w WHERE COLUMNS(lambda c: length(c) = 3) > 2", "id", "1"),
        ],
    );
    f.run("CREATE VIEW fits AS SELECT * ILIKE 'k%' FROM w");
    assert_eq!(names(&f, "FROM fits"), "km Kmh K_x");
    f.refuses(&[
        ("SELECT * LIKE 'zzz' FROM w", "none of the columns id, km, Kmh, K_x"),
        ("SELECT COLUMNS(lambda c: random() > 0.5) FROM w", "no constant"),
        ("SELECT COLUMNS(*, 'k') FROM w", "COLUMNS takes"),
    ]);
}

#[test]
fn columns_are_replaced_and_renamed() {
    let f = fixture();
    f.run("CREATE TABLE w (id INT, km INT, \"Kmh\" INT)");
    f.run("INSERT INTO w VALUES (1, 2, 3)");
    one_row(
        &f,
        &[
            ("SELECT * REPLACE (km + 1 AS km) FROM w", "id km Kmh", "1|3|3"),
            ("SELECT * REPLACE (km + 1 AS KM) FROM w", "id KM Kmh", "1|3|3"),
            ("SELECT * REPLACE (km + 1 AS \"KMH\", 7 AS ID) FROM w", "ID km KMH", "7|2|3"),
            ("SELECT w.* REPLACE (7 AS \"Id\") FROM w, w v", "Id km Kmh", "7|2|3"),
            ("SELECT * RENAME (KM AS kilo) FROM w", "id kilo Kmh", "1|2|3"),
            ("SELECT * EXCLUDE km REPLACE (9 AS ID) RENAME (kmh AS v) FROM w", "ID v", "9|3"),
            ("SELECT COLUMNS(* REPLACE (km + 1 AS km)) FROM w", "id km Kmh", "1|3|3"),
            ("SELECT COLUMNS(* REPLACE (km + 1 AS KM)) * 2 FROM w", "id KM Kmh", "2|6|6"),
            ("SELECT COLUMNS(* EXCLUDE (kmh) RENAME (km AS k)) FROM w", "id k", "1|2"),
            (
                "SELECT * REPLACE (7 AS \"ID\") FROM w FULL JOIN w v USING (id)",
                "ID km Kmh km Kmh",
                "7|2|3|2|3",
            ),
        ],
    );
    f.refuses(&[
        ("SELECT * REPLACE (1 AS nope) FROM w", "\"nope\""),
        ("SELECT w.* REPLACE (1 AS nope) FROM w", "\"nope\""),
        ("SELECT COLUMNS(* RENAME (nope AS k)) FROM w", "\"nope\""),
        ("SELECT * REPLACE (1 AS km, 2 AS km) FROM w", "twice"),
        ("SELECT * EXCLUDE (km) REPLACE (1 AS km) FROM w", "\"km\""),
        ("SELECT * REPLACE (7 AS \"ID\") FROM w, w v", "several relations"),
    ]);
}

#[test]
fn columns_of_several_relations_are_excluded() {
    let f = fixture();
    f.run("CREATE TABLE a (id INT, x INT); CREATE TABLE b (\"ID\" INT, y INT)");
    f.run("INSERT INTO a VALUES (1, 2); INSERT INTO b VALUES (1, 3)");
    one_row(
        &f,
        &[
            ("SELECT * EXCLUDE (id) FROM a JOIN b ON a.id = b.id", "x y", "2|3"),
            ("SELECT * EXCLUDE (ID) FROM a, b", "x y", "2|3"),
            ("SELECT * EXCLUDE (a.id) FROM a JOIN b ON a.id = b.id", "x ID y", "2|1|3"),
            ("SELECT * EXCLUDE (B.Id) FROM a JOIN b ON a.id = b.id", "id x y", "1|2|3"),
            ("SELECT v.* EXCLUDE (Id), b.y FROM a v JOIN b ON v.id = b.id", "x y", "2|3"),
            ("SELECT * EXCLUDE id FROM a JOIN b USING (id)", "x y", "2|3"),
            ("SELECT * EXCLUDE (ID) FROM a", "x", "2"),
            ("SELECT * EXCLUDE (id) REPLACE (9 AS X) FROM a, b", "X y", "9|3"),
            ("SELECT * EXCLUDE (id) RENAME (x AS z) FROM a, b", "z y", "2|3"),
            ("SELECT max(COLUMNS(* EXCLUDE (id))) FROM a, b", "x y", "2|3"),
            ("WITH w AS (FROM a) SELECT * EXCLUDE (id) FROM w, b", "x y", "2|3"),
            ("SELECT (SELECT max(y) FROM (SELECT * EXCLUDE (id) FROM a, b)) AS m", "m", "3"),
        ],
    );
    f.refuses(&[
        ("SELECT * EXCLUDE (ix) FROM a, b", "\"ix\""),
        ("SELECT * EXCLUDE (b.x) FROM a, b", "\"b.x\""),
        ("SELECT * EXCLUDE (id, x) FROM a", "leaves no column"),
    ]);
}

/// `x.f(y)` is `f(x, y)`.
#[test]
fn functions_behind_values() {
    let f = fixture();
    f.run("CREATE TABLE t (x VARCHAR, l INT[], st STRUCT(a VARCHAR)); CREATE SCHEMA sch");
    f.run("INSERT INTO t VALUES ('abc', [3, 1, 2], {'a': 'q'})");
    for (sql, row) in [
        ("'abc'.upper()", "ABC"),
        ("('a' || 'b').upper().reverse()", "BA"),
        ("[3, 1, 2].list_sort()[1]", "1"),
        ("x.upper() FROM t", "ABC"),
        ("t.x.upper().left(2).lower() FROM t", "ab"),
        ("t.l.list_sort().list_reverse() FROM t", "[3, 2, 1]"),
        ("l.list_transform(lambda e: e + 1) FROM t", "[4, 2, 3]"),
        ("st.a.upper() FROM t", "Q"),
        ("x.concat('d', x.upper()) FROM t", "abcdABC"),
        ("l.len().max() FROM t", "3"),
        ("(2.5::DECIMAL(3, 1)).round() + 1", "4"),
        ("count(*) FROM t WHERE x.starts_with('a') GROUP BY x.length()", "1"),
    ] {
        assert_eq!(f.rows(&format!("SELECT {sql}")), [row], "{sql}");
    }
    f.run("CREATE MACRO twice(s) AS s || s; CREATE MACRO sch.thrice(s) AS s.twice() || s");
    assert_eq!(f.value("SELECT 'a'.twice(), sch.thrice('b'), x.twice() FROM t"), "aa|bbb|abcabc");
    f.run("CREATE MACRO loud(s) AS TABLE SELECT s.upper() AS u, x.lower() AS l FROM t");
    assert_eq!(f.value("SELECT * FROM loud('y')"), "Y|abc");
    f.run("CREATE VIEW v AS SELECT x.upper() AS u FROM t");
    assert_eq!(f.value("FROM v"), "ABC");
    assert!(f.error("SELECT x.nosuch() FROM t").to_string().contains("nosuch"));
}

#[test]
fn members_of_json() {
    let f = tables();
    let text = r#"'{"a": {"b":   2, "c":[1,2,{"z":null}]}, "s": "te\"xt"}'"#;
    for (path, expected) in [
        ("-> 'a'", r#"{"b":2,"c":[1,2,{"z":null}]}"#),
        ("->> 'a'", r#"{"b":2,"c":[1,2,{"z":null}]}"#),
        ("-> '$.a.c[2].z'", "null"),
        ("->> '$.a.c[2].z'", "-"),
        ("->> 's'", "te\"xt"),
        ("-> 's'", "\"te\\\"xt\""),
        ("-> 'a' -> 'c' -> -2", "2"),
        ("-> 'a' ->> 'b'", "2"),
        ("-> 'nothing'", "-"),
    ] {
        assert_eq!(f.value(&format!("SELECT {text} {path}")), expected, "{path}");
    }
    f.run("CREATE TABLE j (id INT, doc JSON, path VARCHAR)");
    f.run(
        r#"INSERT INTO j VALUES (1, '{"n": 5, "tags": ["x", "y"]}', '$.n'),
           (2, '{"n": 7, "tags": []}', 'tags'), (3, NULL, 'n'), (4, '[10, 20]', '$[1]')"#,
    );
    for (sql, expected) in [
        ("SELECT id FROM j WHERE doc ->> 'n' = '5'", "1"),
        ("SELECT sum((doc ->> 'n')::INT) + 1 FROM j", "13"),
        ("SELECT doc -> path FROM j ORDER BY id", "5 [] - 20"),
        ("SELECT json_extract(doc, path) FROM j ORDER BY id", "5 [] - 20"),
        ("SELECT doc -> 0 FROM j ORDER BY id", "- - - 10"),
        ("SELECT doc ->> 'n' || '!' FROM j WHERE id = 2", "7!"),
        ("SELECT json_extract_string(doc, '$.tags[#-1]') FROM j ORDER BY id", "y - - -"),
        ("SELECT json_array_length(doc, 'tags') FROM j ORDER BY id", "2 0 - -"),
        ("SELECT json_type(doc) FROM j ORDER BY id", "OBJECT OBJECT - ARRAY"),
        ("SELECT json_exists(doc, '$.n') FROM j ORDER BY id", "true true - false"),
        ("SELECT json_valid(path) FROM j ORDER BY id LIMIT 1", "false"),
        ("SELECT j.doc -> 'n' FROM j WHERE j.doc -> 'n' IS NOT NULL ORDER BY id", "5 7"),
        ("SELECT list_transform([1, 2], x -> x + 1)", "[2, 3]"),
        ("SELECT id FROM j WHERE (doc -> path) = '20'", "4"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
    let error = f.error("SELECT path -> 'a' FROM j");
    assert!(matches!(&error, Error::Conversion { .. }), "{error:?}");
    assert!(error.to_string().contains("no JSON"), "{error}");
    let error = f.error("SELECT doc -> '$x' FROM j");
    assert!(error.to_string().contains("no path in JSON"), "{error}");
    f.error("SELECT id -> 'a' FROM j");
}

#[test]
fn several_files_as_one_table() {
    let f = fixture();
    let path = |name: &str| f.home.path().join(name).display().to_string();
    for (name, text) in [("1.csv", "a,b\n1,x\n"), ("2.csv", "a,b\n2,y\n3,z\n")] {
        std::fs::write(path(name), text).unwrap();
    }
    std::fs::write(path("1.json"), "{\"a\": 1}\n").unwrap();
    std::fs::write(path("2.json"), "{\"a\": 2}\n").unwrap();
    f.run(&format!("COPY (SELECT 1 AS a) TO '{}'", path("1.parquet")));
    f.run(&format!("COPY (SELECT 2 AS a UNION ALL SELECT 3) TO '{}'", path("2.parquet")));
    for (kind, sum) in [("csv", "6"), ("json", "3"), ("parquet", "6")] {
        let (one, two) = (path(&format!("1.{kind}")), path(&format!("2.{kind}")));
        let all = path(&format!("*.{kind}"));
        for from in [
            format!("'{all}'"),
            format!("read_{kind}('{all}')"),
            format!("read_{kind}(['{one}', '{two}'])"),
            format!("read_{kind}(['{all}'])"),
        ] {
            assert_eq!(f.value(&format!("SELECT sum(a) FROM {from}")), sum, "{from}");
        }
        let both = format!("SELECT count(*) FROM read_{kind}(['{two}', '{one}'])");
        assert_eq!(f.value(&both), if kind == "json" { "2" } else { "3" });
    }
    let sql = format!(
        "SELECT a FROM read_csv(['{}', '{}'], header = true) ORDER BY a DESC",
        path("1.csv"),
        path("2.csv")
    );
    assert_eq!(f.rows(&sql), ["3", "2", "1"]);
    // As in DuckDB, a file is read as often as it is named, in whatever way.
    let name = f.home.path().file_name().unwrap().to_str().unwrap();
    for (kind, rows, sum) in [("csv", 2, 5), ("json", 1, 2), ("parquet", 2, 5)] {
        let (two, all) = (path(&format!("2.{kind}")), path(&format!("*.{kind}")));
        let roundabout = path(&format!("../{name}/2.{kind}"));
        for (list, times) in
            [(format!("'{two}', '{two}'"), 2), (format!("'{all}', '{two}', '{roundabout}'"), 3)]
        {
            let from = format!("FROM read_{kind}([{list}]) WHERE a > 1");
            let found = f.value(&format!("SELECT count(*), sum(a) {from}"));
            assert_eq!(found, format!("{}|{}", times * rows, times * sum), "{from}");
            let distinct = f.value(&format!("SELECT count(DISTINCT a) {from}"));
            assert_eq!(distinct, rows.to_string(), "{from}");
        }
    }
    let again = vec![format!("'{}'", path("1.parquet")); 65].join(", ");
    let count = |list: &str| f.value(&format!("SELECT count(*) FROM read_parquet([{list}])"));
    let one: usize = count(&format!("'{}'", path("1.parquet"))).parse().unwrap();
    assert_eq!(count(&again), (65 * one).to_string());
    let error = f.error(&format!("SELECT * FROM read_csv(['{}', 'none.csv'])", path("1.csv")));
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
    f.error("SELECT * FROM read_csv([])");
    f.error("SELECT * FROM read_csv([1])");
}

#[test]
fn views_are_renamed() {
    let f = tables();
    f.run("CREATE VIEW v (one) AS SELECT a FROM t");
    f.run("ALTER VIEW v RENAME TO w");
    assert_eq!(f.rows("SELECT one FROM w ORDER BY 1"), ["1", "3"]);
    f.error("SELECT * FROM v");
    let taken = f.error("ALTER VIEW w RENAME TO t");
    assert!(matches!(taken, Error::AlreadyExists { .. }), "{taken:?}");
    f.run("ALTER VIEW IF EXISTS nothing RENAME TO x");
    assert!(matches!(f.error("ALTER VIEW nothing RENAME TO x"), Error::NotFound { .. }));
    f.run("CREATE SCHEMA s; CREATE VIEW s.v AS SELECT 1 AS a");
    f.run("ALTER VIEW s.v RENAME TO s.u");
    assert_eq!(f.value("SELECT a FROM s.u"), "1");
    f.run("BEGIN; ALTER VIEW w RENAME TO x; ROLLBACK");
    assert_eq!(f.rows("SELECT one FROM w ORDER BY 1"), ["1", "3"]);
}

#[test]
fn what_would_not_be_kept_is_refused() {
    let f = tables();
    for (sql, expected) in [
        ("CREATE TABLE x (id INT REFERENCES t (a) ON DELETE SET NULL)", "SET NULL"),
        ("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES t (a)", "CREATE TABLE"),
        ("ALTER TABLE t ADD COLUMN z INT GENERATED ALWAYS AS (a + 1)", "CREATE TABLE"),
        ("CREATE TABLE x (a INT, b INT GENERATED ALWAYS AS IDENTITY)", "SEQUENCE"),
    ] {
        let error = f.error(sql);
        assert!(matches!(error, Error::Unsupported { .. }), "{sql}: {error:?}");
        assert!(error.to_string().contains(expected), "{sql}: {error}");
    }
}
