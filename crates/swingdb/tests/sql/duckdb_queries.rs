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
