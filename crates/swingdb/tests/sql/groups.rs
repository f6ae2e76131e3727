//! What is grouped by what: sets in sets, keys in brackets, HAVING without groups, FILTER without
//! WHERE, and DISTINCT ON. The expected values are DuckDB 2.0's.

use super::common::{Fixture, fixture};

fn with_rows() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE s (i INT, j INT, k INT)");
    f.run("INSERT INTO s VALUES (1, 1, 10), (1, 2, 20), (2, 1, 30), (2, NULL, 40)");
    f
}

#[test]
fn sets_in_sets() {
    let f = with_rows();
    let cases = [
        (
            "i, j, sum(k), grouping(i, j)",
            "GROUPING SETS (ROLLUP (i, j), CUBE (k))",
            "1|1|10|0 1|2|20|0 1|-|30|1 2|1|30|0 2|-|40|0 2|-|70|1 \
             -|-|10|3 -|-|20|3 -|-|30|3 -|-|40|3 -|-|100|3 -|-|100|3",
        ),
        (
            "i, j, sum(k)",
            "GROUPING SETS ((i), GROUPING SETS ((j), (i, j)))",
            "1|1|10 1|2|20 1|-|30 2|1|30 2|-|40 2|-|70 -|1|40 -|2|20 -|-|40",
        ),
        (
            "i, j, count(*)",
            "GROUPING SETS (i, GROUPING SETS ((j), (), GROUPING SETS (())))",
            "1|-|2 2|-|2 -|1|2 -|2|1 -|-|1 -|-|4 -|-|4",
        ),
        (
            "i, j, k, count(*)",
            "ROLLUP ((i, j), k)",
            "1|1|10|1 1|1|-|1 1|2|20|1 1|2|-|1 2|1|30|1 2|1|-|1 2|-|40|1 2|-|-|1 -|-|-|4",
        ),
        ("i, j, count(*)", "(i, j)", "1|1|1 1|2|1 2|1|1 2|-|1"),
        (
            "i, j, count(*)",
            "ROLLUP (i, j, i)",
            "1|1|1 1|1|1 1|2|1 1|2|1 1|-|2 2|1|1 2|1|1 2|-|1 2|-|1 2|-|2 -|-|4",
        ),
        (
            "i, j, grouping(i), grouping(j), count(*)",
            "CUBE (i, (j, i))",
            "1|1|0|0|1 1|1|0|0|1 1|2|0|0|1 1|2|0|0|1 1|-|0|1|2 2|1|0|0|1 2|1|0|0|1 \
             2|-|0|0|1 2|-|0|0|1 2|-|0|1|2 -|-|1|1|4",
        ),
        (
            "i, j, k, count(*)",
            "GROUPING SETS ((i), (j)), GROUPING SETS ((k), ())",
            "1|-|10|1 1|-|20|1 1|-|-|2 2|-|30|1 2|-|40|1 2|-|-|2 -|1|10|1 -|1|30|1 -|1|-|2 \
             -|2|20|1 -|2|-|1 -|-|40|1 -|-|-|1",
        ),
        ("i + 1 AS x, count(*)", "ROLLUP (x)", "2|2 3|2 -|4"),
        ("i, count(*)", "ROLLUP (1)", "1|2 2|2 -|4"),
        ("i, count(*)", "GROUPING SETS (1, ())", "1|2 2|2 -|4"),
        ("i, count(*)", "CUBE (i, i)", "1|2 1|2 1|2 2|2 2|2 2|2 -|4"),
    ];
    for (columns, groups, expected) in cases {
        let sql = format!("SELECT {columns} FROM s GROUP BY {groups} ORDER BY ALL");
        assert_eq!(f.rows(&sql).join(" "), expected, "{sql}");
    }
}

#[test]
fn conditions_of_groups() {
    let f = with_rows();
    assert_eq!(
        f.value("SELECT count(*) FILTER (i = 1), sum(k) FILTER (k > 10 AND (i > 0)) FROM s"),
        "2|90"
    );
    assert_eq!(
        f.value("SELECT sum(k) FILTER (j = 1) + count(*) FILTER (WHERE j > 1) FROM s"),
        "41"
    );
    assert_eq!(f.value("SELECT 42 HAVING 42 > 20"), "42");
    assert_eq!(f.value("SELECT 42 FROM s HAVING 42 > 20"), "42");
    assert!(f.rows("SELECT 42 HAVING 42 > 80").is_empty());
    assert_eq!(f.rows("SELECT i FROM s GROUP BY ALL HAVING i > 1"), ["2"]);
    assert_eq!(f.rows("SELECT i, sum(k) FROM s GROUP BY ALL HAVING sum(j) > 2"), ["1|30"]);
    f.error("SELECT i FROM s HAVING i > 1");
}

#[test]
fn distinct_rows_in_another_order() {
    let f = with_rows();
    let cases = [
        ("(i) i, k FROM s ORDER BY k DESC", "2|40 1|20"),
        ("(i) i, j FROM s ORDER BY j DESC NULLS LAST", "1|2 2|1"),
        ("(i) i, k FROM s ORDER BY k DESC LIMIT 1", "2|40"),
        ("(i) i FROM s ORDER BY k DESC", "2 1"),
        ("(1) i, k FROM s ORDER BY 2 DESC", "2|40 1|20"),
        ("(1) i, k FROM s ORDER BY 1, 2", "1|10 2|30"),
        ("(x) i AS x, k FROM s ORDER BY k DESC", "2|40 1|20"),
        ("(i) i, sum(k) AS n FROM s GROUP BY i, j ORDER BY n DESC", "2|40 1|20"),
        ("(i) * FROM s ORDER BY k DESC", "2|-|40 1|2|20"),
        ("(i, j) k FROM s ORDER BY ALL DESC", "40 30 20 10"),
        ("(i) i, k FROM s ORDER BY i DESC, k", "2|30 1|10"),
    ];
    for (sql, expected) in cases {
        assert_eq!(f.rows(&format!("SELECT DISTINCT ON {sql}")).join(" "), expected, "{sql}");
    }
    assert_eq!(
        f.value("SELECT sum(k) FROM (SELECT DISTINCT ON (i) k FROM s ORDER BY k DESC)"),
        "60"
    );
}
