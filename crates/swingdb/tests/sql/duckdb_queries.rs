//! Queries in DuckDB's own syntax. What is expected is what DuckDB 2.0 answers, but for names of
//! unnamed columns.

use super::common::{Fixture, fixture};

fn tables() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE t (i INT, s VARCHAR)");
    f.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a'), (NULL, NULL)");
    f
}

/// Runs queries and compares their rows, separated by spaces.
fn check(f: &Fixture, queries: &[(&str, &str)]) {
    for (sql, expected) in queries {
        assert_eq!(f.rows(sql).join(" "), *expected, "{sql}");
    }
}

#[test]
fn isnull_is_an_operator() {
    let f = tables();
    check(
        &f,
        &[
            ("SELECT i ISNULL FROM t ORDER BY i", "false false false true"),
            ("SELECT NOT i ISNULL AND true FROM t ORDER BY i", "true true true false"),
            ("SELECT i = 1 ISNULL x FROM t ORDER BY i", "false false false true"),
            (
                "SELECT NULL ISNULL = false, 'a' || NULL ISNULL, i::INT ISNULL FROM t WHERE i = 1",
                "false|true|false",
            ),
            ("SELECT count(*) FROM t WHERE i ISNULL OR s isnull", "1"),
            ("SELECT i AS isnull FROM t WHERE i = 2", "2"),
            ("SELECT i \"isnull\" FROM t WHERE i = 2", "2"),
        ],
    );
}

#[test]
fn from_first_with_other_clauses() {
    let f = tables();
    f.run("CREATE TABLE c AS FROM t WHERE i = 1");
    f.run("CREATE VIEW v AS FROM t WHERE i > 1");
    f.run("PREPARE p AS FROM t WHERE i = ? LIMIT 1");
    check(
        &f,
        &[
            ("FROM t WHERE i = 3", "3|a"),
            ("FROM t ORDER BY i LIMIT 2", "1|a 2|b"),
            ("FROM t ORDER BY i OFFSET 2", "3|a -|-"),
            ("FROM t SELECT s, count(*) GROUP BY s ORDER BY s", "a|2 b|1 -|1"),
            ("FROM t GROUP BY ALL ORDER BY ALL", "1|a 2|b 3|a -|-"),
            ("FROM t QUALIFY row_number() OVER (ORDER BY i) = 1", "1|a"),
            ("FROM t WHERE i = 1 UNION ALL FROM t WHERE i = 2 ORDER BY i", "1|a 2|b"),
            ("(FROM t WHERE i = 3)", "3|a"),
            ("SELECT x.s FROM (FROM t WHERE i = 3) x", "a"),
            ("WITH c AS (FROM t WHERE i = 3) FROM c WHERE i IS NOT NULL", "3|a"),
            ("FROM t x, c WHERE x.i = c.i", "1|a|1|a"),
            ("FROM t WHERE EXISTS (FROM t u WHERE u.i = t.i + 1) ORDER BY i", "1|a 2|b"),
            ("FROM t WHERE i IN (FROM c SELECT i)", "1|a"),
            ("FROM v WHERE s = 'b'", "2|b"),
            ("FROM c", "1|a"),
            ("EXECUTE p(3)", "3|a"),
            ("FROM t WHERE i < 3 AND s IS DISTINCT FROM 'a'", "2|b"),
            ("FROM t WHERE i > 5", ""),
        ],
    );
    f.run("INSERT INTO c FROM t WHERE i = 3");
    f.run("INSERT INTO c (i, s) FROM t WHERE i = 2");
    assert_eq!(f.value("SELECT sum(i) FROM c"), "6");
    // SELECT comes right behind the tables, as in DuckDB.
    f.error("FROM t WHERE i > 1 SELECT i");
}

#[test]
fn fields_of_structs() {
    let f = fixture();
    f.run("CREATE TABLE u (id INT, st STRUCT(a INT, b VARCHAR, \"In\" STRUCT(z INT)))");
    f.run("INSERT INTO u VALUES (1, {'a': 1, 'b': 'x', 'In': {'z': 5}}), (2, NULL)");
    f.run("CREATE VIEW v AS SELECT st.* EXCLUDE (In) FROM u");
    f.run("CREATE TABLE flat AS SELECT id, ST.* FROM U");
    check(
        &f,
        &[
            ("SELECT st.* FROM u ORDER BY id", "1|x|{z: 5} -|-|-"),
            ("SELECT u.st.* EXCLUDE (b, \"In\"), id + 1 FROM u ORDER BY id", "1|2 -|3"),
            ("SELECT x.st.in.* FROM u x ORDER BY id", "5 -"),
            ("FROM v WHERE b = 'x'", "1|x"),
            ("SELECT id, a, b FROM flat ORDER BY id", "1|1|x 2|-|-"),
            ("WITH c AS (SELECT st AS zz FROM u WHERE id = 1) SELECT zz.* FROM c", "1|x|{z: 5}"),
            ("SELECT k.* FROM (SELECT {'n': 7} AS k)", "7"),
            ("SELECT u.* FROM u JOIN flat ON u.id = flat.id WHERE st ISNULL", "2|-"),
            ("SELECT st.* FROM u WHERE false", ""),
        ],
    );
    f.run("CREATE TABLE st (q INT)");
    f.run("INSERT INTO st VALUES (9)");
    assert_eq!(f.rows("SELECT st.* FROM u, st"), ["9", "9"]);
    let schema = f.run("SELECT st.* FROM u").schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["a", "b", "In"]);
    assert!(f.error("SELECT id.* FROM u").to_string().contains("STRUCT"));
    f.error("SELECT nothing.* FROM u");
}
