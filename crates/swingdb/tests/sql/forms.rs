//! Forms of SQL that people know from DuckDB, PostgreSQL and SQLite; the answers are DuckDB's.

use swingdb::{Error, Value};

use super::common::{Fixture, fixture, rows};

fn tables() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE t (id INT, a INT, s VARCHAR)");
    f.run("INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y'), (3, 30, 'x'), (4, NULL, NULL)");
    f.run("CREATE TABLE u (id INT, v VARCHAR)");
    f.run("INSERT INTO u VALUES (1, 'one'), (3, 'three'), (5, 'five')");
    f
}

#[test]
fn merged_columns_of_outer_joins() {
    let f = tables();
    for (sql, expected) in [
        ("SELECT id FROM t FULL JOIN u USING (id) ORDER BY id", "1 2 3 4 5"),
        ("SELECT id FROM t RIGHT JOIN u USING (id) ORDER BY id DESC", "5 3 1"),
        (
            "SELECT * FROM t RIGHT JOIN u USING (id) ORDER BY id",
            "1|10|x|one 3|30|x|three 5|-|-|five",
        ),
        (
            "SELECT id, count(*) FROM t FULL JOIN u USING (ID) GROUP BY id HAVING id > 3 \
             ORDER BY 1",
            "4|1 5|1",
        ),
        ("SELECT v FROM main.t FULL JOIN main.u USING (id) WHERE id = 5", "five"),
        ("SELECT max(id) FROM t x FULL JOIN (SELECT * FROM u) y USING (id)", "5"),
        ("SELECT id FROM t SEMI JOIN u USING (id) ORDER BY id", "1 3"),
        ("SELECT id FROM t ANTI JOIN u ON t.id = u.id ORDER BY id", "2 4"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
    f.run("CREATE VIEW both AS SELECT * FROM t FULL JOIN u USING (id)");
    assert_eq!(f.rows("SELECT id FROM both ORDER BY id").join(" "), "1 2 3 4 5");
    // Whose `id` it is cannot be told.
    let either = "SELECT * FROM t JOIN u ON t.id = u.id FULL JOIN t AS w USING (id)";
    assert!(matches!(f.error(either), Error::Unsupported { .. }));
}

#[test]
fn merged_columns_of_several_outer_joins() {
    let f = tables();
    f.run("CREATE TABLE w (id INT, w INT)");
    f.run("INSERT INTO w VALUES (1, 100), (5, 500), (6, 600)");
    for (joins, expected) in [
        (
            "FULL JOIN u USING (id) FULL JOIN w USING (id)",
            "1|10|one|100 2|20|-|- 3|30|three|- 4|-|-|- 5|-|five|500 6|-|-|600",
        ),
        (
            "FULL JOIN u USING (id) LEFT JOIN w USING (id)",
            "1|10|one|100 2|20|-|- 3|30|three|- 4|-|-|- 5|-|five|500",
        ),
        ("FULL JOIN u USING (id) JOIN w USING (id)", "1|10|one|100 5|-|five|500"),
        ("LEFT JOIN u USING (id) RIGHT JOIN w USING (id)", "1|10|one|100 5|-|-|500 6|-|-|600"),
        (
            "RIGHT JOIN u USING (id) LEFT JOIN w USING (id)",
            "1|10|one|100 3|30|three|- 5|-|five|500",
        ),
        (
            "NATURAL RIGHT JOIN u NATURAL FULL JOIN w",
            "1|10|one|100 3|30|three|- 5|-|five|500 6|-|-|600",
        ),
    ] {
        let sql = format!("SELECT * FROM (SELECT id, a FROM t) {joins} ORDER BY id");
        assert_eq!(f.rows(&sql).join(" "), expected, "{sql}");
        let counted = format!("SELECT count(*) FROM t {joins} WHERE id > 0");
        assert_eq!(f.value(&counted), expected.split(' ').count().to_string(), "{counted}");
    }
    let beside = "SELECT * FROM w, t FULL JOIN u USING (id) WHERE w.w = 100 AND t.id IS NULL";
    assert_eq!(f.rows(beside), ["1|100|5|-|-|five"]);
    assert_eq!(f.run(beside).schema().field(2).name(), "id_1");
    let both = "SELECT id FROM w, t FULL JOIN u USING (id)";
    assert!(f.error(both).to_string().contains("mbiguous"));
}

#[test]
fn a_natural_join_needs_a_common_column() {
    let f = tables();
    f.run("CREATE TABLE z (zz INT)");
    for join in ["NATURAL JOIN", "NATURAL LEFT JOIN", "NATURAL FULL JOIN"] {
        for right in ["z", "(SELECT 1 AS one)", "range(3)"] {
            let error = f.error(&format!("SELECT * FROM t {join} {right}")).to_string();
            assert!(error.contains("without a common column"), "{error}");
        }
    }
}

#[test]
fn merged_columns_whose_names_differ_in_case() {
    let f = tables();
    f.run("CREATE TABLE c (\"ID\" INT, c INT)");
    f.run("INSERT INTO c VALUES (3, 33), (7, 77)");
    for (sql, expected) in [
        ("SELECT * FROM c JOIN u USING (id)", "3|33|three"),
        ("SELECT * FROM u JOIN c USING (ID)", "3|three|33"),
        ("SELECT * FROM c NATURAL JOIN u", "3|33|three"),
        (
            "SELECT ID, c.id, u.id FROM c FULL JOIN u USING (Id) WHERE id > 4 ORDER BY id",
            "5|-|5 7|7|-",
        ),
        (
            "SELECT id, count(*) FROM c FULL JOIN u USING (id) GROUP BY id ORDER BY id",
            "1|1 3|1 5|1 7|1",
        ),
        (
            "SELECT * EXCLUDE (id) FROM c FULL JOIN u USING (id) ORDER BY id",
            "-|one 33|three -|five 77|-",
        ),
        ("WITH q AS (SELECT c.id, c FROM c) SELECT c FROM q JOIN u USING (id)", "33"),
        ("SELECT v FROM t JOIN u USING (id) JOIN c USING (id)", "three"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
    let names = f.run("SELECT id, Id, c.id, u.id FROM c JOIN u USING (id)");
    let names =
        names.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    assert_eq!(names, ["id", "Id", "ID", "id_1"]);
}

#[test]
fn a_series_is_a_column_of_its_name() {
    let f = fixture();
    for (sql, name, expected) in [
        ("SELECT * FROM range(3)", "range", "0 1 2"),
        ("SELECT * FROM generate_series(1, 2)", "generate_series", "1 2"),
        ("FROM range(2) AS i", "i", "0 1"),
        ("SELECT * FROM range(2) AS t(i)", "i", "0 1"),
        ("SELECT range.range FROM range(4) WHERE range > 2", "range", "3"),
    ] {
        let result = f.run(sql);
        assert_eq!(result.schema().field(0).name(), name, "{sql}");
        assert_eq!(rows(result).unwrap().join(" "), expected, "{sql}");
    }
}

#[test]
fn intervals_times_numbers() {
    let f = fixture();
    f.run("CREATE TABLE n AS SELECT i, i / 2.0 AS d FROM range(3) AS i");
    for (sql, expected) in [
        ("SELECT INTERVAL '1 month' * 1.5 = INTERVAL '1 month 15 days'", "true"),
        ("SELECT 2 * INTERVAL '1 day 3 hours' = INTERVAL '2 days 6 hours'", "true"),
        ("SELECT INTERVAL '1 month 3 days' / 2 = INTERVAL '16 days 12 hours'", "true"),
        ("SELECT epoch(INTERVAL '10 seconds' / 3)", "3.333333"),
        ("SELECT INTERVAL '1 day' * NULL IS NULL", "true"),
        (
            "SELECT DATE '2020-01-30' + INTERVAL '1 month' * i FROM n WHERE i = 1",
            "2020-02-29T00:00:00",
        ),
        ("SELECT i FROM n WHERE INTERVAL '1 day' * d > INTERVAL '12 hours'", "2"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
    for wrong in ["INTERVAL '1 day' / 0", "INTERVAL '1 day' * 3000000000", "2 / INTERVAL '1 day'"] {
        f.error(&format!("SELECT {wrong}"));
    }
}

#[test]
fn characters_of_texts_and_open_slices() {
    let f = tables();
    for (sql, expected) in [
        ("SELECT 'äbc'[1], 'abc'[-1], 'abc'[0], 'abc'[-4], 'abc'[9]", "ä|c|||"),
        ("SELECT 'abcd'[2:3], 'abcd'[-3:-2], 'abcd'[3:2], 'abcd'[0:2]", "bc|bc||ab"),
        ("SELECT 'abcd'[2:99], 'abcd'[-99:2], 'abcd'[2:], 'abcd'[:2]", "bcd|ab|bcd|ab"),
        ("SELECT [1, 2, 3][2:], [1, 2, 3][:2]", "[2, 3]|[1, 2]"),
        ("SELECT string_agg(s[1], '' ORDER BY id) FROM t", "xyx"),
    ] {
        assert_eq!(f.value(sql), expected, "{sql}");
    }
}

#[test]
fn patterns_with_another_escape_character() {
    let f = fixture();
    for (condition, expected) in [
        ("'a%c' LIKE 'a$%c' ESCAPE '$'", "true"),
        ("'abc' NOT LIKE 'a$%c' ESCAPE '$'", "true"),
        ("'a$c' LIKE 'a$$_' ESCAPE '$'", "true"),
        (r"'a\c' LIKE 'a\c' ESCAPE '$'", "true"),
        ("'A%' ILIKE 'a!%' ESCAPE '!'", "true"),
        ("'abc' ^@ 'ab'", "true"),
    ] {
        assert_eq!(f.value(&format!("SELECT {condition}")), expected, "{condition}");
    }
}

#[test]
fn a_table_is_a_query() {
    let f = tables();
    for (sql, expected) in [
        ("TABLE u", "1|one 3|three 5|five"),
        ("SELECT count(*) FROM (TABLE u)", "3"),
        ("TABLE u UNION ALL TABLE main.u ORDER BY id LIMIT 3", "1|one 1|one 3|three"),
        ("WITH q AS (TABLE u) TABLE q ORDER BY id", "1|one 3|three 5|five"),
        ("SELECT id AS table FROM u WHERE id = 1", "1"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
    f.run("CREATE TABLE copied AS TABLE u");
    assert_eq!(f.value("SELECT count(*) FROM copied"), "3");
}

#[test]
fn merged_columns_are_the_left_ones() {
    let f = tables();
    // The right table comes first in the alphabet.
    f.run("CREATE TABLE a (id INT, w VARCHAR)");
    f.run("INSERT INTO a VALUES (1, 'p'), (9, 'q')");
    for (sql, expected) in [
        ("SELECT * FROM u JOIN a USING (id)", "1|one|p"),
        ("SELECT * FROM u LEFT JOIN a USING (id) ORDER BY id", "1|one|p 3|three|- 5|five|-"),
        ("SELECT id, w FROM u LEFT JOIN a USING (id) WHERE id > 1 ORDER BY id", "3|- 5|-"),
        ("SELECT v FROM u JOIN a USING (id) WHERE id = 1", "one"),
        ("SELECT sum(id) FROM u LEFT JOIN a USING (ID) WHERE id IN (SELECT id FROM t)", "4"),
        ("SELECT * FROM u LEFT JOIN a USING (id) JOIN t USING (id) WHERE id = 3", "3|three|-|30|x"),
        (
            "SELECT id, count(w) FROM u LEFT JOIN a USING (id) GROUP BY id ORDER BY id",
            "1|1 3|0 5|0",
        ),
        (
            "SELECT * FROM u LEFT JOIN a USING (id) CROSS JOIN (SELECT 7) s WHERE id = 5",
            "5|five|-|7",
        ),
        ("SELECT id FROM u SEMI JOIN a USING (id) WHERE id > 0", "1"),
        ("SELECT * FROM u ANTI JOIN a USING (id) ORDER BY id", "3|three 5|five"),
        ("SELECT max(COLUMNS(*)) FROM u LEFT JOIN a USING (id)", "5|three|p"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
    f.run("CREATE TABLE n AS SELECT * FROM u LEFT JOIN a USING (id)");
    assert_eq!(f.rows("SELECT id FROM n ORDER BY id").join(" "), "1 3 5");
}

#[test]
fn similar_to_means_the_whole_text() {
    let f = tables();
    for (condition, expected) in [
        ("'abc' SIMILAR TO 'b'", "false"),
        ("'abc' SIMILAR TO 'a|abc'", "true"),
        ("'abc' NOT SIMILAR TO '[a-b]+'", "true"),
        ("NULL SIMILAR TO 'a'", "-"),
    ] {
        assert_eq!(f.value(&format!("SELECT {condition}")), expected, "{condition}");
    }
}

#[test]
fn comparisons_with_all_elements_of_a_subquery() {
    let f = tables();
    for (condition, expected) in [
        ("a > ANY (SELECT id * 10 FROM u)", "2 3"),
        ("a >= ALL (SELECT a FROM t WHERE a IS NOT NULL)", "3"),
        ("id = ANY (SELECT id FROM u)", "1 3"),
        ("id <> ALL (SELECT id FROM u)", "2 4"),
        ("a < ALL (SELECT a FROM t WHERE id > 100)", "1 2 3 4"),
        ("a > ANY (SELECT a FROM t WHERE id > 100)", ""),
        // An element that is NULL makes it unknown.
        ("a >= ALL (SELECT a FROM t)", ""),
        ("NOT (a < ANY (SELECT a FROM t))", ""),
    ] {
        let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY id");
        assert_eq!(f.rows(&sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn samples_are_samples() {
    let f = fixture();
    f.run("CREATE TABLE n AS SELECT range AS i FROM range(100000)");
    let count = |sql: &str| f.value(sql).parse::<u64>().unwrap();
    let tenth = count("SELECT count(*) FROM n TABLESAMPLE 10 PERCENT");
    assert!((8_000..12_000).contains(&tenth), "{tenth}");
    assert_eq!(count("SELECT count(i) FROM n TABLESAMPLE RESERVOIR(50)"), 50);
    assert_eq!(count("SELECT count(m.i) FROM n AS m TABLESAMPLE (7 ROWS)"), 7);
    assert_eq!(count("SELECT count(*) FROM n TABLESAMPLE BERNOULLI (0)"), 0);
    assert_eq!(count("SELECT count(*) FROM n TABLESAMPLE (5 ROWS)"), 5);
    let tenth = count("SELECT count(*) FROM n TABLESAMPLE 10%");
    assert!((8_000..12_000).contains(&tenth), "{tenth}");
    // The sample is of the table: WHERE sees nothing else.
    assert_eq!(count("SELECT count(*) FROM n AS m WHERE m.i >= 0 USING SAMPLE 7"), 7);
    assert_eq!(count("SELECT count(*) FROM n WHERE i < 0 USING SAMPLE reservoir(7 ROWS)"), 0);
    assert_eq!(count("FROM (FROM n USING SAMPLE 9) AS x SELECT count(*) WHERE i >= 0"), 9);
    assert_eq!(
        count("SELECT count(*) FROM n USING SAMPLE 100% (bernoulli)"),
        count("SELECT count(*) FROM n")
    );
    let repeated = "SELECT count(*), sum(i) FROM n TABLESAMPLE (10 PERCENT) REPEATABLE (1)";
    assert_eq!(f.rows(repeated), f.rows(repeated));
    f.error("SELECT a.i FROM n AS a, n AS b USING SAMPLE 10%");
}

#[test]
fn names_of_a_select_list_are_used_again() {
    let f = tables();
    for (sql, expected) in [
        (
            "SELECT a * 2 AS x, x + 1 AS y, y * y FROM t WHERE x > 30 ORDER BY y",
            "40|41|1681 60|61|3721",
        ),
        // A column wins.
        ("SELECT a + 1 AS id, id FROM t WHERE id = 2", "21|2"),
        ("SELECT x, x + 1 AS z FROM (SELECT id + 1 AS x FROM t) q ORDER BY x LIMIT 1", "2|3"),
        ("SELECT 'x' AS a, 'y' AS a", "x|y"),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
    let result = f.run("SELECT a AS x, x + 1 FROM t");
    assert_eq!(result.schema().field(1).name(), "x + 1");
}

#[test]
fn short_forms() {
    let f = tables();
    for (sql, expected) in [
        ("TABLE u", "1|one 3|three 5|five"),
        ("SELECT s, sum(a) FROM t GROUP BY ALL ORDER BY ALL", "x|40 y|20 -|-"),
        ("SELECT 1_000 + 1, 2 * 3 ^ 2, -2 ^ 2, 1e3", "1001|18.0|4.0|1000.0"),
        ("SELECT 1e300 > 1e299", "true"),
        ("SELECT id FROM t ORDER BY id OFFSET 1 FETCH FIRST 2 ROWS ONLY", "2 3"),
        (
            "SELECT list_transform([1, 2], x -> x * 10), list_filter([1, 2, 3], lambda x: x > 1)",
            "[10, 20]|[2, 3]",
        ),
        ("WITH a AS MATERIALIZED (SELECT 1 AS x) SELECT x FROM a", "1"),
        ("SELECT CAST(INTERVAL (1 + 2) DAY AS VARCHAR) = CAST(to_days(3) AS VARCHAR)", "true"),
        (
            "SELECT DATE '2024-01-31' + INTERVAL (id) MONTH FROM t WHERE id = 1",
            "2024-02-29T00:00:00",
        ),
        (
            "SELECT typeof(1), typeof('x'), typeof(1.5), typeof([1])",
            "BIGINT|VARCHAR|DECIMAL(2,1)|BIGINT[]",
        ),
        (
            "SELECT iif(true, 1, 2), sign(-3), strlen('äö'), to_base64('a'), isfinite(1.0::DOUBLE)",
            "1|-1|4|YQ==|true",
        ),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn casts_round_and_timestamps_read_back() {
    let f = fixture();
    for (expression, expected) in [
        ("3.7::INT", "4"),
        ("2.5::INT", "3"),
        ("(-2.5)::INT", "-3"),
        ("2.5::DOUBLE::INT", "2"),
        ("(-3.5)::REAL::SMALLINT", "-4"),
        ("TRY_CAST(127.5 AS TINYINT)", "-"),
        ("CAST(TIMESTAMP '2024-01-02 03:04:05' AS VARCHAR)", "2024-01-02 03:04:05"),
        ("'at ' || TIMESTAMP '2024-01-02 03:04:05.5'", "at 2024-01-02 03:04:05.5"),
        (
            "CAST(CAST(TIMESTAMP '2024-01-02 03:04:05.25' AS VARCHAR) AS TIMESTAMP) = \
             TIMESTAMP '2024-01-02 03:04:05.25'",
            "true",
        ),
    ] {
        assert_eq!(f.value(&format!("SELECT {expression}")), expected, "{expression}");
    }
    f.run("CREATE TABLE t AS SELECT range / 10.0 AS d FROM range(30)");
    assert_eq!(f.value("SELECT sum(CAST(d AS INT)), count(DISTINCT d::INT) FROM t"), "45|4");
    assert_eq!(
        f.rows("SELECT d::INT AS i, count(*) FROM t GROUP BY i ORDER BY i").join(" "),
        "0|5 1|10 2|10 3|5"
    );
}

#[test]
fn prepared_statements() {
    let f = tables();
    f.run("PREPARE find AS SELECT s FROM t WHERE id = $1 OR id = $2 ORDER BY id");
    assert_eq!(f.rows("EXECUTE find(1, 1 + 1)").join(" "), "x y");
    f.run("PREPARE add AS INSERT INTO u VALUES (?, upper(?))");
    let result = f.con.execute("EXECUTE add(?, ?)", &[Value::from(7), Value::from("seven")]);
    assert_eq!(result.unwrap().rows_changed(), Some(1));
    assert_eq!(f.value("SELECT v FROM u WHERE id = 7"), "SEVEN");
    f.run("PREPARE named AS SELECT $x + $y * $x");
    assert_eq!(f.value("EXECUTE named(2, 5)"), "12");
    assert!(matches!(f.error("EXECUTE find(1)"), Error::Plan { .. }));
    assert!(matches!(f.error("EXECUTE fnd(1, 2)"),
        Error::NotFound { suggestion: Some(s), .. } if s == "find"));
    // Names mean what they mean when it runs.
    f.run("DROP TABLE t; CREATE TABLE t AS SELECT 1 AS id, 'new' AS s");
    assert_eq!(f.value("EXECUTE find(1, 9)"), "new");
    // Another session has its own.
    assert!(f.database.connect().query("EXECUTE find(1, 2)").is_err());
    f.run("DEALLOCATE find");
    f.error("EXECUTE find(1, 2)");
    f.run("DEALLOCATE ALL");
    assert!(f.error("EXECUTE add(1, 'x')").to_string().contains("prepared statement"));
}

#[test]
fn lateral_joins_with_equality() {
    let f = tables();
    let sql = "SELECT t.id, l.v FROM t, LATERAL (SELECT v FROM u WHERE u.id = t.id) l ORDER BY 1";
    assert_eq!(f.rows(sql).join(" "), "1|one 3|three");
}

#[test]
fn statements_of_others_say_what_to_do() {
    let f = tables();
    for (sql, hint) in [
        ("PIVOT t", "USING"),
        ("UNPIVOT t", "INTO NAME"),
        ("PRAGMA foreign_key_list('t')", "DESCRIBE"),
        ("CHECKPOINT", "no store on a disk"),
        ("CHECKPOINT shop", "CHECKPOINT alone"),
        ("VACUUM FULL", "by itself"),
        ("CREATE TABLE x (id INT REFERENCES t (id) ON DELETE CASCADE)", "CASCADE"),
        ("CREATE INDEX i ON t (id) WHERE id > 1", "WHERE"),
        ("CREATE UNIQUE INDEX i ON t ((id + 1))", "expression"),
        ("USE other", "other.table"),
        ("COMMENT ON SCHEMA main IS 'x'", "tables, columns"),
    ] {
        let error = f.error(sql);
        assert!(matches!(error, Error::Unsupported { .. }), "{sql}: {error:?}");
        assert!(error.to_string().contains(hint), "{sql}: {error}");
    }
}

#[test]
fn files_with_named_options() {
    let f = fixture();
    let file = f.home.path().join("a.txt");
    std::fs::write(&file, "a;b\n1;x\n").unwrap();
    let path = file.display();
    let sql = format!("SELECT * FROM read_csv('{path}', delim = ';', header := true)");
    assert_eq!(f.rows(&sql), ["1|x"]);
    let sql = format!(
        "SELECT typeof(a) FROM read_csv('{path}', delim = ';', \
         columns = {{'a': 'VARCHAR', 'b': 'VARCHAR'}})"
    );
    assert_eq!(f.rows(&sql), ["VARCHAR"]);
    let error = f.error(&format!("SELECT * FROM read_csv('{path}', delimm = ';')"));
    assert!(error.to_string().contains("delim"), "{error}");
}

#[test]
fn what_describes_tables_uses_sql() {
    let f = fixture();
    f.run(
        "CREATE TABLE t (id INT PRIMARY KEY, price DECIMAL(10, 2) DEFAULT 1.5 CHECK (price > 0), \
         \"At\" TIMESTAMP, CONSTRAINT early CHECK (id < 100))",
    );
    let columns = "SELECT column_name, data_type, column_default, numeric_scale \
                   FROM information_schema.columns WHERE table_name = 't' \
                   ORDER BY ordinal_position";
    assert_eq!(
        f.rows(columns),
        ["id|INTEGER|-|-", "price|DECIMAL(10,2)|1.5|2", "At|TIMESTAMP|-|-"]
    );
    let made = f.value("SHOW CREATE TABLE t");
    assert_eq!(
        made,
        "CREATE TABLE t (\n    \"id\" INTEGER NOT NULL,\n    price DECIMAL(10,2) DEFAULT 1.5,\n    \
         \"At\" TIMESTAMP,\n    PRIMARY KEY (\"id\"),\n    CHECK (price > 0),\n    \
         CONSTRAINT early CHECK (id < 100)\n)"
    );
    f.run("DROP TABLE t");
    f.run(&made);
    assert_eq!(f.value("SHOW CREATE TABLE t"), made);
    f.run("CREATE VIEW v (a) AS SELECT 1 + 1");
    assert!(f.value("SHOW CREATE VIEW v").starts_with("CREATE VIEW v (a) AS SELECT 1 + 1"));
    let summary = f.rows("SUMMARIZE t");
    assert_eq!(summary.len(), 3);
    let doubles = f.database.connect();
    doubles.query("CREATE TABLE d AS SELECT range / 4.0::DOUBLE AS x FROM range(8)").unwrap();
    let summary = rows(doubles.query("SUMMARIZE d").unwrap()).unwrap();
    assert_eq!(summary, ["x|DOUBLE|0.0|1.75|8|0.875|0.6123724356957945|0.375|0.875|1.375|8|0"]);
}

#[test]
fn merged_columns_are_shown_as_in_duckdb() {
    let f = fixture();
    f.run("CREATE TABLE a AS SELECT * FROM (VALUES (1, 10, 5), (2, 20, 6)) AS s (k, j, p)");
    f.run("CREATE TABLE b AS SELECT * FROM (VALUES (1, 7), (3, 8)) AS s (k, q)");
    f.run("CREATE TABLE c AS SELECT * FROM (VALUES (10, 70), (20, 80)) AS s (j, r)");
    f.run("CREATE TABLE z AS SELECT * FROM (VALUES (2, 9, 1), (1, 3, 2)) AS s (k, v, j)");
    for (sql, columns, rows) in [
        ("* EXCLUDE (k) FROM a JOIN b USING (k)", "j p q", "10|5|7"),
        ("* EXCLUDE (k) FROM z LEFT JOIN a USING (k)", "v j j p", "3|2|10|5 9|1|20|6"),
        ("* REPLACE (k + 1 AS k) FROM z LEFT JOIN b USING (k)", "k v j q", "2|3|2|7 3|9|1|-"),
        ("* EXCLUDE (q) FROM b RIGHT JOIN a USING (k)", "k j p", "1|10|5 2|20|6"),
        (
            "* REPLACE (k * 2 AS k) FROM a FULL JOIN b USING (k)",
            "k j p q",
            "2|10|5|7 4|20|6|- 6|-|-|8",
        ),
        ("* RENAME (k AS kk) FROM a JOIN b USING (k)", "kk j p q", "1|10|5|7"),
        ("* FROM a NATURAL JOIN b", "k j p q", "1|10|5|7"),
        ("* FROM z NATURAL LEFT JOIN a", "k v j p", "1|3|2|- 2|9|1|-"),
        ("* FROM a NATURAL FULL JOIN b", "k j p q", "1|10|5|7 2|20|6|- 3|-|-|8"),
        ("* FROM b NATURAL RIGHT JOIN a", "k q j p", "1|7|10|5 2|-|20|6"),
        ("* FROM a NATURAL JOIN b NATURAL JOIN c", "k j p q r", "1|10|5|7|70"),
        ("count(*) AS n FROM a NATURAL JOIN b WHERE k = 1 GROUP BY k", "n", "1"),
        ("k, j, r FROM a JOIN b USING (k) JOIN c USING (j) WHERE j > 1", "k j r", "1|10|70"),
        ("* FROM z JOIN b USING (k) LEFT JOIN c USING (j)", "k v j q r", "1|3|2|7|-"),
        ("* EXCLUDE (j) FROM a JOIN b USING (k) JOIN c USING (j)", "k p q r", "1|5|7|70"),
        ("* FROM (SELECT * FROM a) NATURAL JOIN b", "k j p q", "1|10|5|7"),
        ("* FROM a AS x JOIN (SELECT k, q FROM b) AS y USING (k)", "k j p q", "1|10|5|7"),
    ] {
        let sql = format!("SELECT {sql} ORDER BY ALL");
        let schema = f.run(&sql).schema();
        let names = schema.fields().iter().map(|field| field.name().as_str());
        assert_eq!(names.collect::<Vec<_>>().join(" "), columns, "{sql}");
        assert_eq!(f.rows(&sql).join(" "), rows, "{sql}");
    }
    let with = "WITH m AS (SELECT k, q AS j FROM b) SELECT";
    assert_eq!(f.rows(&format!("{with} * FROM a NATURAL JOIN m")), Vec::<String>::new());
    let error = f.error("SELECT * EXCLUDE (nosuch) FROM a JOIN b USING (k)");
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
}

/// Which columns a relation has is asked for while the queries of a WITH clause are rewritten.
#[test]
fn rewrites_that_need_columns_work_in_with_clauses() {
    let f = tables();
    for (sql, expected) in [
        (
            "WITH x AS (SELECT * FROM t JOIN u USING (id)) SELECT * FROM x ORDER BY id",
            "1|10|x|one 3|30|x|three",
        ),
        (
            "WITH t AS (SELECT * FROM t NATURAL JOIN u) SELECT id, v FROM t ORDER BY id",
            "1|one 3|three",
        ),
        (
            "WITH x AS (SELECT max(COLUMNS(*)) FROM u), y AS (SELECT COLUMNS('^i') FROM x) FROM y",
            "5",
        ),
        (
            "WITH x AS (SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u AS t WHERE t.id = a / 10)) \
             SELECT * FROM x ORDER BY id",
            "1 3",
        ),
        (
            "WITH RECURSIVE n AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM n WHERE id < 4), \
             m AS (SELECT * FROM n JOIN u USING (id)) SELECT count(*), max(v) FROM m",
            "2|three",
        ),
    ] {
        assert_eq!(f.rows(sql).join(" "), expected, "{sql}");
    }
    // Each asks for the columns of all before it, but only once.
    let mut long = "WITH x0 AS (SELECT id FROM t)".to_owned();
    for i in 1..24 {
        let before = i - 1;
        let from = format!("x{before} JOIN (SELECT id FROM t) AS t USING (id)");
        long += &format!(", x{i} AS (SELECT COLUMNS(*) FROM {from})");
    }
    assert_eq!(f.rows(&format!("{long} SELECT count(DISTINCT id) FROM x23")), ["4"]);
}
