//! Which rows a query gives, and a statement deletes: limits, orders, joins that take NULLs for
//! equal, correlated subqueries, groups of no rows. The answers are DuckDB's.

use super::common::{Fixture, fixture};

fn numbers(f: &Fixture) {
    f.run("CREATE TABLE s (n INT); INSERT INTO s VALUES (2), (3), (1)");
    f.run("CREATE TABLE t AS SELECT range AS n FROM range(1, 10)");
}

fn joined(f: &Fixture, sql: &str) -> String {
    f.rows(sql).join(" ")
}

// ---- limits -------------------------------------------------------------------------------------

#[test]
fn a_join_leaves_the_rows_of_a_limit_alone() {
    let f = fixture();
    f.run("CREATE TABLE orders (id INT PRIMARY KEY, who INT)");
    f.run("INSERT INTO orders SELECT range, range FROM range(1000)");
    f.run("CREATE TABLE vip (who INT); INSERT INTO vip VALUES (990), (995)");
    for first in [
        "SELECT who FROM orders LIMIT 100",
        "SELECT who FROM orders ORDER BY id LIMIT 100",
        "SELECT who FROM (SELECT * FROM orders LIMIT 100) AS o JOIN (SELECT 1 AS x) ON true",
        "SELECT who FROM (SELECT who, row_number() OVER () FROM orders LIMIT 100) AS o",
        "SELECT who FROM (SELECT who FROM orders UNION ALL SELECT who FROM orders LIMIT 100) AS o",
        "SELECT DISTINCT who FROM (SELECT who FROM orders LIMIT 100) AS o",
    ] {
        let count = |filter: &str| f.value(&format!("SELECT count(*) FROM vip WHERE {filter}"));
        assert_eq!(count(&format!("who IN ({first})")), "0", "{first}");
        assert_eq!(count(&format!("who NOT IN ({first})")), "2", "{first}");
        let found = f.rows(&format!(
            "SELECT vip.who, q.who FROM vip LEFT JOIN ({first}) AS q USING (who) ORDER BY 1"
        ));
        assert_eq!(found, ["990|-", "995|-"], "{first}");
        f.run(&format!("DELETE FROM vip WHERE who IN ({first})"));
        assert_eq!(f.value("SELECT count(*) FROM vip"), "2", "{first}");
    }
    let largest = "SELECT max(id) FROM (SELECT id FROM orders LIMIT 100) AS q";
    assert_eq!(f.value(largest), "99");
}

#[test]
fn a_sort_stays_above_a_limit() {
    let f = fixture();
    numbers(&f);
    for (from, wanted) in [
        ("SELECT unnest([4, 8, 6, 9, 7]) AS n LIMIT 3 OFFSET 1", "6 8 9"),
        ("SELECT n FROM t LIMIT 3 OFFSET 1", "2 3 4"),
        ("SELECT n FROM t OFFSET 6", "7 8 9"),
        (
            "SELECT n FROM (SELECT n FROM t GROUP BY n ORDER BY n LIMIT 4) AS g
             OFFSET 2",
            "3 4",
        ),
        ("SELECT DISTINCT n FROM t ORDER BY n DESC LIMIT 3 OFFSET 1", "6 7 8"),
        ("SELECT n FROM t UNION ALL SELECT 0 LIMIT 3 OFFSET 1", "2 3 4"),
        ("SELECT column1 AS n FROM (VALUES (4), (8), (6), (9)) LIMIT 2 OFFSET 1", "6 8"),
        ("SELECT t.n FROM t JOIN s ON t.n = s.n ORDER BY t.n DESC LIMIT 2 OFFSET 1", "1 2"),
        (
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)
             SELECT n FROM c LIMIT 5",
            "1 2 3 4 5",
        ),
    ] {
        let sql = format!("SELECT n FROM ({from}) AS q ORDER BY n");
        assert_eq!(joined(&f, &sql), wanted, "{sql}");
        let sql = format!("SELECT n FROM ({from}) AS q ORDER BY n DESC");
        let mut reversed: Vec<&str> = wanted.split(' ').collect();
        reversed.reverse();
        assert_eq!(joined(&f, &sql), reversed.join(" "), "{sql}");
    }
    let first = "SELECT n FROM (SELECT unnest([4, 8, 6, 9, 7]) AS n LIMIT 2) ORDER BY n DESC";
    assert_eq!(joined(&f, first), "8 4");
    let numbered = "SELECT n, row_number() OVER (ORDER BY n DESC) FROM
        (SELECT n FROM t ORDER BY n LIMIT 3) AS q ORDER BY n";
    assert_eq!(f.rows(numbered), ["1|3", "2|2", "3|1"]);
}

#[test]
fn an_order_says_which_rows_an_offset_leaves_out() {
    let f = fixture();
    f.run("CREATE TABLE p (g VARCHAR, k INT); INSERT INTO p VALUES ('late', 2), ('early', 1)");
    for sql in [
        "SELECT DISTINCT g FROM (SELECT g, k FROM p ORDER BY k OFFSET 1)",
        "SELECT g FROM (SELECT g, k FROM p ORDER BY k OFFSET 1) GROUP BY g",
        "SELECT g FROM (SELECT g, k FROM p ORDER BY k OFFSET 1) WHERE k > 0",
        "SELECT max(g) FROM (SELECT g, k FROM p ORDER BY k OFFSET 1)",
        "SELECT g FROM p WHERE k IN (SELECT k FROM p ORDER BY k OFFSET 1)",
    ] {
        assert_eq!(joined(&f, sql), "late", "{sql}");
    }
    f.run("DELETE FROM p WHERE k IN (SELECT k FROM p ORDER BY k OFFSET 1)");
    assert_eq!(joined(&f, "SELECT g FROM p"), "early");
}

// ---- the order of rows --------------------------------------------------------------------------

#[test]
fn the_order_of_a_subquery_is_seen() {
    let f = fixture();
    numbers(&f);
    f.run("CREATE VIEW down AS SELECT n FROM s ORDER BY n DESC");
    let subquery = "(SELECT n FROM s ORDER BY n DESC) AS q";
    for from in [subquery, "down", "(SELECT n FROM (SELECT n FROM s ORDER BY n DESC) AS r) AS q"] {
        assert_eq!(f.value(&format!("SELECT list(n) FROM {from}")), "[3, 2, 1]", "{from}");
        let texts = format!("SELECT string_agg(n::VARCHAR, '') FROM {from} WHERE n <> 2");
        assert_eq!(f.value(&texts), "31", "{from}");
        assert_eq!(f.value(&format!("SELECT first(n) FROM {from}")), "3", "{from}");
        assert_eq!(f.value(&format!("SELECT last(n) FROM {from}")), "1", "{from}");
        assert_eq!(f.value(&format!("SELECT n FROM {from} LIMIT 1")), "3", "{from}");
        assert_eq!(joined(&f, &format!("SELECT n FROM {from}")), "3 2 1", "{from}");
        let numbered = format!("SELECT n, row_number() OVER () FROM {from}");
        assert_eq!(f.rows(&numbered), ["3|1", "2|2", "1|3"], "{from}");
        f.run(&format!("CREATE OR REPLACE TABLE made AS SELECT n FROM {from}"));
        assert_eq!(joined(&f, "SELECT n FROM made"), "3 2 1", "{from}");
    }
    let named = "WITH q AS (SELECT n FROM s ORDER BY n DESC) SELECT list(n) FROM q";
    assert_eq!(f.value(named), "[3, 2, 1]");
    let groups = "SELECT n % 2 AS g, list(n) FROM (SELECT n FROM t ORDER BY n DESC) AS q
        GROUP BY g ORDER BY g";
    assert_eq!(f.rows(groups), ["0|[8, 6, 4, 2]", "1|[9, 7, 5, 3, 1]"]);
}

#[test]
fn lists_are_in_the_order_of_insertion() {
    let f = fixture();
    let letters = "SELECT 'a' AS s UNION ALL SELECT 'b' UNION ALL SELECT 'c'";
    for _ in 0..20 {
        assert_eq!(f.value(&format!("SELECT string_agg(s, '') FROM ({letters})")), "abc");
        assert_eq!(f.value(&format!("SELECT first(s) FROM ({letters})")), "a");
        assert_eq!(joined(&f, "SELECT (SELECT 1) UNION ALL SELECT 2"), "1 2");
    }
    // Several segments, and batches of each.
    f.run("CREATE TABLE many AS SELECT range AS i, range % 7 AS g FROM range(300000)");
    f.run("INSERT INTO many SELECT 300000 + range, range % 7 FROM range(50000)");
    assert_eq!(f.value("SELECT list(i) = (SELECT list(i ORDER BY i) FROM many) FROM many"), "true");
    let groups = "SELECT count(*) FROM (SELECT g, list(i) AS l FROM many GROUP BY g) AS a
        JOIN (SELECT g, list(i ORDER BY i) AS l FROM many GROUP BY g) AS b
        ON a.g = b.g AND a.l = b.l";
    assert_eq!(f.value(groups), "7");
    let ends = "SELECT g, first(i), last(i) FROM many WHERE i > 99 GROUP BY g ORDER BY g LIMIT 2";
    let wanted = "SELECT g, min(i), max(i) FROM many WHERE i > 99 GROUP BY g ORDER BY g LIMIT 2";
    assert_eq!(f.rows(ends), f.rows(wanted));
}

// ---- joins --------------------------------------------------------------------------------------

#[test]
fn nulls_are_equal_only_where_it_says_so() {
    let f = fixture();
    f.run("CREATE TABLE l (x INT, y INT); INSERT INTO l VALUES (1, NULL), (3, 3)");
    f.run("CREATE TABLE r (u INT, v INT); INSERT INTO r VALUES (1, NULL), (3, 3)");
    for sql in [
        "SELECT x FROM l JOIN r ON x IS NOT DISTINCT FROM u WHERE y = v",
        "SELECT x FROM l JOIN r ON x IS NOT DISTINCT FROM u AND y = v",
        "SELECT x FROM l SEMI JOIN r ON x IS NOT DISTINCT FROM u AND y = v",
        "SELECT x FROM l WHERE y = (SELECT v FROM r WHERE u = l.x LIMIT 1)",
        "SELECT x FROM l, LATERAL (SELECT v FROM r WHERE u = l.x LIMIT 1) AS q WHERE y = q.v",
        "SELECT x FROM l CROSS JOIN LATERAL (SELECT v FROM r WHERE u = l.x LIMIT 1) AS q
         JOIN r AS o ON o.v = q.v WHERE y = o.v",
        "SELECT x FROM l WHERE y IN (SELECT v FROM r WHERE u = l.x LIMIT 5)",
    ] {
        assert_eq!(joined(&f, sql), "3", "{sql}");
    }
    f.run("DELETE FROM l WHERE y = (SELECT v FROM r WHERE u = l.x LIMIT 1)");
    assert_eq!(f.rows("SELECT * FROM l"), ["1|-"]);
    let left = "SELECT x, u FROM l LEFT JOIN r ON x IS NOT DISTINCT FROM u AND y = v";
    assert_eq!(f.rows(left), ["1|-"]);
}

#[test]
fn columns_of_one_name_tie_a_subquery() {
    let f = fixture();
    f.run("CREATE TABLE o (p INT, q INT); INSERT INTO o VALUES (1, 2)");
    f.run("CREATE TABLE k (c INT, v INT); INSERT INTO k VALUES (1, 10), (2, 20)");
    f.run("CREATE TABLE m (c INT, v INT); INSERT INTO m VALUES (1, 10), (2, 20)");
    for from in ["k a, k b", "k a, m b", "k a JOIN m b ON a.v <= b.v"] {
        let tied = format!("FROM {from} WHERE a.c = o.p AND b.c = o.q");
        assert_eq!(f.rows(&format!("SELECT (SELECT sum(a.v) {tied}) FROM o")), ["10"], "{from}");
        assert_eq!(f.rows(&format!("SELECT p FROM o WHERE EXISTS (SELECT * {tied})")), ["1"]);
        assert!(f.rows(&format!("SELECT p FROM o WHERE NOT EXISTS (SELECT * {tied})")).is_empty());
        assert_eq!(f.rows(&format!("SELECT p FROM o WHERE 20 IN (SELECT b.v {tied})")), ["1"]);
        assert!(f.rows(&format!("SELECT p FROM o WHERE 10 NOT IN (SELECT a.v {tied})")).is_empty());
        let lateral = format!("SELECT p, x FROM o, LATERAL (SELECT a.v + b.v AS x {tied}) AS z");
        assert_eq!(f.rows(&lateral), ["1|30"], "{from}");
        f.run(&format!("DELETE FROM o WHERE NOT EXISTS (SELECT 1 {tied})"));
        assert_eq!(f.value("SELECT count(*) FROM o"), "1", "{from}");
    }
    // One of them is the value itself, or has its name.
    let element = "SELECT p FROM o WHERE p IN (SELECT a.c FROM k a, k b WHERE b.c = o.q)";
    assert_eq!(f.rows(element), ["1"]);
    let named = "SELECT (SELECT max(a.v) AS c FROM k a WHERE a.c = o.q) FROM o";
    assert_eq!(f.rows(named), ["20"]);
    let inner = "SELECT (SELECT max(z.c) FROM (SELECT v AS c FROM k WHERE c = o.p) AS z) FROM o";
    assert_eq!(f.rows(inner), ["10"]);
    let all = "SELECT p FROM o WHERE EXISTS (SELECT * FROM k a, k b WHERE b.c = o.q AND a.c = 1)";
    assert_eq!(f.rows(all), ["1"]);
}

// ---- groups -------------------------------------------------------------------------------------

#[test]
fn grouping_sets_of_no_rows_have_a_total() {
    let f = fixture();
    let per_row = |groups: &str| {
        f.rows(&format!(
            "SELECT x, c FROM (VALUES (7), (8)) k(x), LATERAL (SELECT count(*) AS c FROM
             (SELECT 1 AS a, 2 AS b WHERE x = 7) AS z GROUP BY {groups}) AS q ORDER BY x, c"
        ))
    };
    assert_eq!(per_row("ROLLUP (a)"), ["7|1", "7|1", "8|0"]);
    assert_eq!(per_row("CUBE (a, b)"), ["7|1", "7|1", "7|1", "7|1", "8|0"]);
    assert_eq!(per_row("GROUPING SETS ((a), ())"), ["7|1", "7|1", "8|0"]);
    assert_eq!(per_row("GROUPING SETS ((a), (b))"), ["7|1", "7|1"]);
    assert_eq!(per_row("a"), ["7|1"]);
    let values = "SELECT x, (SELECT sum(v) FROM (SELECT x AS v, 1 AS a WHERE x = 7) AS z
        GROUP BY ROLLUP (a) ORDER BY a LIMIT 1) AS s FROM (VALUES (7), (8)) k(x) ORDER BY x";
    assert_eq!(f.rows(values), ["7|7", "8|-"]);
    let marked = "SELECT x, g, a FROM (VALUES (7), (8)) k(x), LATERAL (SELECT grouping(a) AS g, a
        FROM (SELECT 1 AS a WHERE x = 7) AS z GROUP BY ROLLUP (a)) AS q ORDER BY x, g";
    assert_eq!(f.rows(marked), ["7|0|1", "7|1|-", "8|1|-"]);
    f.run("CREATE TABLE e (a INT, v INT)");
    let empty = "SELECT a, sum(v), count(*) FROM e GROUP BY ROLLUP (a)";
    assert_eq!(f.rows(empty), ["-|-|0"]);
    assert_eq!(f.rows("SELECT count(*) FROM e GROUP BY GROUPING SETS ((), (), (a))"), ["0", "0"]);
    assert!(f.rows("SELECT count(*) FROM e GROUP BY GROUPING SETS ((a))").is_empty());
}

#[test]
fn aggregates_of_the_rows_outside_are_refused() {
    let f = fixture();
    f.run("CREATE TABLE vip (who INT); INSERT INTO vip VALUES (990), (995)");
    f.run("CREATE TABLE u (i INT); INSERT INTO u VALUES (1), (2)");
    let refused = "an aggregate of the rows outside";
    f.refuses(&[
        ("SELECT (SELECT max(vip.who)) FROM vip", refused),
        ("SELECT (SELECT max(vip.who) FROM u) FROM vip", refused),
        ("SELECT 995 IN (SELECT max(who)) FROM vip", refused),
        ("SELECT m FROM vip, LATERAL (SELECT max(vip.who) AS m) AS q", refused),
        ("SELECT who FROM vip WHERE EXISTS (SELECT count(vip.who) FROM u)", refused),
    ]);
    let mixed = "SELECT (SELECT max(vip.who + i) FROM u) FROM vip ORDER BY 1";
    assert_eq!(f.rows(mixed), ["992", "997"]);
    let list = "SELECT array(SELECT who FROM u) FROM vip ORDER BY 1";
    assert_eq!(f.rows(list), ["[990, 990]", "[995, 995]"]);
}

#[test]
fn groups_of_a_cross_join() {
    let f = fixture();
    f.run("CREATE TABLE d (k INT PRIMARY KEY, a INT); INSERT INTO d VALUES (1, 5), (2, 6)");
    f.run("CREATE TABLE e (k INT PRIMARY KEY, b INT); INSERT INTO e VALUES (1, 7), (2, 8)");
    let one = "SELECT d.k, sum(e.b) FROM d CROSS JOIN e GROUP BY d.k ORDER BY 1";
    assert_eq!(f.rows(one), ["1|15", "2|15"]);
    let both = "SELECT d.k, e.k, count(*) FROM d CROSS JOIN e GROUP BY d.k, e.k ORDER BY 1, 2";
    assert_eq!(f.rows(both), ["1|1|1", "1|2|1", "2|1|1", "2|2|1"]);
    let all = "SELECT d.k, d.a, e.b, count(*) FROM d, e GROUP BY ALL ORDER BY 1, 3";
    assert_eq!(f.rows(all), ["1|5|7|1", "1|5|8|1", "2|6|7|1", "2|6|8|1"]);
}

// ---- windows and recursion ----------------------------------------------------------------------

#[test]
fn windows_begin_with_the_one_they_name() {
    let f = fixture();
    f.run("CREATE TABLE v (g INT, x INT); INSERT INTO v VALUES (1, 10), (1, 20), (2, 5)");
    let sums = |over: &str, window: &str| {
        joined(&f, &format!("SELECT sum(x) OVER {over} FROM v WINDOW {window} ORDER BY g, x"))
    };
    assert_eq!(sums("(p ORDER BY x)", "p AS (PARTITION BY g)"), "10 30 5");
    assert_eq!(sums("(P)", "p AS (PARTITION BY g)"), "30 30 5");
    assert_eq!(sums("b", "a AS (PARTITION BY g), b AS (a ORDER BY x)"), "10 30 5");
    assert_eq!(sums("(o ROWS 1 PRECEDING)", "o AS (ORDER BY x)"), "15 30 5");
    let order = "SELECT g, x FROM v WINDOW p AS (PARTITION BY g)
        QUALIFY row_number() OVER (p ORDER BY x DESC) = 1 ORDER BY sum(x) OVER p";
    assert_eq!(f.rows(order), ["2|5", "1|20"]);
    f.refuses(&[
        ("SELECT sum(x) OVER (nowhere) FROM v", "there is no window nowhere"),
        ("SELECT sum(x) OVER nowhere FROM v", "there is no window nowhere"),
        ("SELECT sum(x) OVER (p PARTITION BY x) FROM v WINDOW p AS (PARTITION BY g)", "PARTITION"),
    ]);
}

#[test]
fn neighbours_that_are_not_null() {
    let f = fixture();
    f.run(
        "CREATE TABLE r (id INT, v INT);
         INSERT INTO r VALUES (0, 5), (1, NULL), (2, 6), (3, NULL), (4, NULL), (5, 7), (6, NULL)",
    );
    let window = |call: &str| {
        joined(&f, &format!("SELECT {call} IGNORE NULLS OVER (ORDER BY id) FROM r ORDER BY id"))
    };
    assert_eq!(window("lead(v)"), "6 6 7 7 7 - -");
    assert_eq!(window("lead(v, 2)"), "7 7 - - - - -");
    assert_eq!(window("lag(v)"), "- 5 5 6 6 6 7");
    assert_eq!(window("lag(v, -1, -1)"), "6 6 7 7 7 -1 -1");
    assert_eq!(window("lag(v, 2, -1)"), "-1 -1 -1 5 5 5 6");
    let first = "SELECT lead(v) IGNORE NULLS OVER (ORDER BY id) FROM r ORDER BY id LIMIT 4";
    assert_eq!(joined(&f, first), "6 6 7 7");
    let ahead = "SELECT lag(v, -2) OVER (ORDER BY id) FROM r ORDER BY id LIMIT 4";
    assert_eq!(joined(&f, ahead), "6 - - 7");
}

#[test]
fn recursive_queries_are_neither_ordered_nor_cut() {
    let f = fixture();
    for end in ["LIMIT 5", "OFFSET 2", "ORDER BY 1", "LIMIT 2 OFFSET 1"] {
        let sql = format!(
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 9 {end})
             SELECT * FROM c"
        );
        f.refuses(&[(&sql, "of the recursive query")]);
    }
    let cut = "WITH RECURSIVE c AS (SELECT 3 AS x UNION ALL SELECT 2 UNION ALL SELECT 1
        ORDER BY x LIMIT 2) SELECT x FROM c";
    assert_eq!(joined(&f, cut), "1 2");
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
        SELECT * FROM (SELECT x FROM c LIMIT 5) AS q ORDER BY x DESC";
    assert_eq!(joined(&f, endless), "5 4 3 2 1");
}

// ---- random numbers -----------------------------------------------------------------------------

#[test]
fn one_number_is_drawn_for_one_operand() {
    let f = fixture();
    let count = |condition: &str| {
        f.value(&format!("SELECT count(*) FROM range(3000) AS r(n) WHERE {condition}"))
    };
    assert_eq!(count("random() BETWEEN 0.9 AND 0.1"), "0");
    assert_eq!(count("random() NOT BETWEEN 0 AND 1"), "0");
    assert_eq!(count("floor(random() * 3) IN (0, 1, 2)"), "3000");
    assert_eq!(count("floor(random() * 2) NOT IN (0, 1)"), "0");
    assert_eq!(count("floor(random() * 2) IN (SELECT unnest([0, 1]))"), "3000");
    assert_eq!(count("coalesce(nullif(floor(random() * 2), 0), 5) IS NULL"), "0");
    assert_eq!(
        count("CASE floor(random() * 3) WHEN 0 THEN 1 WHEN 1 THEN 1 WHEN 2 THEN 1 END IS NULL"),
        "0"
    );
    assert_eq!(count("length(lpad('', CAST(floor(random() * 9) - 4 AS INT), 'x')) > 4"), "0");
    let column = "SELECT count(*) FROM (SELECT floor(random() * 3) IN (0, 1, 2) AS c
        FROM range(3000)) AS q WHERE c";
    assert_eq!(f.value(column), "3000");
    let group = "SELECT random() BETWEEN 2 AND 3 AS c, count(*) FROM range(100) GROUP BY 1";
    assert_eq!(f.rows(group), ["false|100"]);
    let order = "SELECT n FROM range(3) AS r(n) ORDER BY random() BETWEEN 2 AND 3, n";
    assert_eq!(joined(&f, order), "0 1 2");
    let join = "SELECT count(*) FROM range(60) AS a(x) JOIN range(50) AS b(y)
        ON floor(random() * 3) IN (0, 1, 2)";
    assert_eq!(f.value(join), "3000");
}

#[test]
fn equal_calls_over_windows_draw_for_themselves() {
    let f = fixture();
    let sql = "SELECT count(*) FROM (SELECT any_value(uuid()) OVER (PARTITION BY i) AS a,
        any_value(uuid()) OVER (PARTITION BY i) AS b FROM range(9) AS t(i)) AS q WHERE a = b";
    assert_eq!(f.value(sql), "0");
    let same = "SELECT count(DISTINCT a) FROM (SELECT any_value(uuid()) OVER () AS a
        FROM range(9)) AS q";
    assert_eq!(f.value(same), "1");
}

// ---- keys ---------------------------------------------------------------------------------------

#[test]
fn a_key_is_none_of_the_elements_of_a_list() {
    let f = fixture();
    f.run("CREATE TABLE p (i INT PRIMARY KEY, name VARCHAR, l INT[])");
    f.run("INSERT INTO p VALUES (0, 'a', [3, 1, 2]), (3, 'b', [5, 4, 4]), (4, 'b', [])");
    f.run("INSERT INTO p VALUES (5, 'c', NULL)");
    let elements = "(SELECT i, name, unnest(l) AS x FROM p)";
    for (select, wanted) in [
        ("DISTINCT i FROM @ ORDER BY i", "0 3"),
        ("i, x FROM @ ORDER BY i, x", "0|1 0|2 0|3 3|4 3|4 3|5"),
        ("i, x FROM @ ORDER BY i DESC, x DESC", "3|5 3|4 3|4 0|3 0|2 0|1"),
        ("i, count(*) FROM @ GROUP BY i ORDER BY i", "0|3 3|3"),
        ("i, x, count(*) FROM @ GROUP BY i, x ORDER BY i, x", "0|1|1 0|2|1 0|3|1 3|4|2 3|5|1"),
        ("i, max(x) FROM @ GROUP BY i, x ORDER BY ALL", "0|1 0|2 0|3 3|4 3|5"),
        ("i, name, sum(x) FROM @ GROUP BY i ORDER BY i", "0|a|6 3|b|13"),
    ] {
        assert_eq!(joined(&f, &format!("SELECT {}", select.replace('@', elements))), wanted);
    }
    let error = f.error(&format!("SELECT i, x FROM {elements} GROUP BY i")).to_string();
    assert!(error.contains("must appear in the GROUP BY clause"), "{error}");
}

#[test]
fn a_key_of_one_relation_does_not_order_groups_of_two() {
    let f = fixture();
    f.run("CREATE TABLE p (i INT PRIMARY KEY, name VARCHAR)");
    f.run("INSERT INTO p VALUES (0, 'a'), (3, 'b'), (4, 'b'), (5, 'c')");
    f.run("CREATE TABLE c (i INT, w INT)");
    f.run("INSERT INTO c VALUES (0, 3), (0, 1), (0, 1), (3, 2), (3, 1), (4, 3), (5, 3)");
    let groups = "(SELECT p.i, c.w FROM p JOIN c ON p.i = c.i GROUP BY p.i, c.w)";
    for (select, wanted) in [
        ("i, w FROM @ ORDER BY i, w", "0|1 0|3 3|1 3|2 4|3 5|3"),
        ("i, w FROM @ ORDER BY i, w DESC", "0|3 0|1 3|2 3|1 4|3 5|3"),
        ("DISTINCT i FROM @ ORDER BY i", "0 3 4 5"),
        ("i, count(*) FROM @ GROUP BY i ORDER BY i", "0|2 3|2 4|1 5|1"),
    ] {
        assert_eq!(joined(&f, &format!("SELECT {}", select.replace('@', groups))), wanted);
    }
}

// ---- subqueries of distinct rows ----------------------------------------------------------------

#[test]
fn rows_of_a_correlated_subquery_are_distinct() {
    let f = fixture();
    f.run("CREATE TABLE c (i INT, w INT)");
    f.run("INSERT INTO c VALUES (0, 3), (1, NULL), (2, NULL), (3, 1), (4, 3), (5, 3)");
    let lateral = |rows: &str| {
        joined(&f, &format!("SELECT o.i, t.n FROM c o, LATERAL ({rows}) t ORDER BY ALL"))
    };
    let distinct =
        |condition: &str| lateral(&format!("SELECT DISTINCT x.w AS n FROM c x WHERE {condition}"));
    assert_eq!(distinct("x.i <> o.i AND x.i < 2 AND o.i > 3"), "4|3 4|- 5|3 5|-");
    assert_eq!(distinct("x.i IN (o.i, o.i + 1, 5) AND o.i < 2"), "0|3 0|- 1|3 1|-");
    assert_eq!(
        distinct("x.i BETWEEN o.i AND o.i + 2"),
        "0|3 0|- 1|1 1|- 2|1 2|3 2|- 3|1 3|3 4|3 5|3"
    );
    assert_eq!(distinct("(x.i = o.i OR x.i = 5) AND o.i IN (0, 1)"), "0|3 1|3 1|-");
    assert_eq!(distinct("x.w = o.w AND o.i < 4"), "0|3 3|1");
    let set = "SELECT x.w AS n FROM c x WHERE x.i < o.i @ SELECT x.w FROM c x WHERE x.i > o.i";
    assert_eq!(lateral(&set.replace('@', "INTERSECT")), "1|3 2|3 3|3 4|3");
    assert_eq!(lateral(&set.replace('@', "EXCEPT")), "2|- 3|- 4|1 4|- 5|1 5|3 5|-");
    for (condition, wanted) in [
        (
            "EXISTS (SELECT x.w FROM c x WHERE x.i > o.i GROUP BY x.w HAVING count(*) > 1)",
            "0 1 2 3",
        ),
        ("EXISTS (SELECT DISTINCT x.w FROM c x WHERE x.i > o.i OFFSET 1)", "0 1 2"),
        ("(SELECT count(*) FROM (SELECT DISTINCT x.w FROM c x WHERE x.i > o.i) q) = 2", "2"),
        ("o.i = 7 OR o.w IN (SELECT max(x.w) FROM c x WHERE x.i >= o.i)", "0 4 5"),
        ("o.i = 1 OR o.w IN (SELECT x.w + 0 FROM c x WHERE x.i > o.i)", "0 1 4"),
    ] {
        assert_eq!(
            joined(&f, &format!("SELECT o.i FROM c o WHERE {condition} ORDER BY 1")),
            wanted
        );
    }
}

#[test]
fn casts_tie_all_their_values_to_a_row_outside() {
    let f = fixture();
    f.run("CREATE TABLE c (i INT, d DOUBLE, t TIMESTAMP, s VARCHAR, n DECIMAL(10, 2))");
    f.run(
        "INSERT INTO c VALUES (0, 1.1, '2024-01-01 10:00:00', '1', 1), \
           (1, 1.2, '2024-01-01 11:00:00', '01', 1.1), (2, 2.4, '2024-01-02 00:00:00', '2', 2.4), \
           (3, 0.9, '2024-01-02 12:00:00', ' 2', 3.7)",
    );
    f.run("CREATE TABLE o (i INT, d DATE)");
    f.run("INSERT INTO o VALUES (1, '2024-01-01'), (2, '2024-01-02'), (3, '2024-01-03')");
    for (condition, wanted) in [
        ("x.t::DATE = o.d", "1|2 2|2 3|0"),
        ("o.d = CAST(x.t AS DATE)", "1|2 2|2 3|0"),
        ("date_trunc('day', x.t) = o.d", "1|2 2|2 3|0"),
        ("x.d::INT = o.i", "1|3 2|1 3|0"),
        ("x.s::INT = o.i", "1|2 2|2 3|0"),
        ("x.n::DECIMAL(10, 0) = o.i", "1|2 2|1 3|0"),
        ("x.i::BIGINT = o.i", "1|1 2|1 3|1"),
    ] {
        let counted =
            format!("SELECT o.i, (SELECT count(*) FROM c x WHERE {condition}) FROM o ORDER BY 1");
        assert_eq!(joined(&f, &counted), wanted, "{condition}");
        let rows = format!("LATERAL (SELECT count(*) AS n FROM c x WHERE {condition}) t");
        assert_eq!(joined(&f, &format!("SELECT o.i, t.n FROM o, {rows} ORDER BY 1")), wanted);
        let some = "EXISTS (SELECT count(*) FROM c x WHERE @ GROUP BY x.i % 1 HAVING count(*) > 1)";
        let many: Vec<_> = wanted.split(' ').filter(|row| row.as_bytes()[2] > b'1').collect();
        let many: Vec<_> = many.iter().map(|row| &row[..1]).collect();
        let asked = format!("SELECT o.i FROM o WHERE {} ORDER BY 1", some.replace('@', condition));
        assert_eq!(joined(&f, &asked), many.join(" "), "{condition}");
    }
}
