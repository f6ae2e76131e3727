//! CREATE MACRO: what calls mean, which names are seen where, and where macros are kept.

use super::common::{Fixture, fixture, rows};
use swingdb::{Database, Error};

/// The names of the columns of a query.
fn names(f: &Fixture, sql: &str) -> Vec<String> {
    f.run(sql).schema().fields().iter().map(|field| field.name().clone()).collect()
}

#[test]
fn an_expression_with_parameters() {
    let f = fixture();
    f.run("CREATE MACRO add(a, b := 10) AS a + b");
    assert_eq!(
        f.value("SELECT add(1), add(1, 2), add(b := 5, a := 1), ADD(1, b => 3)"),
        "11|3|6|4"
    );
    assert_eq!(
        names(&f, "SELECT add(1, 2), add(1) + 1, add(3) AS x"),
        ["add(1, 2)", "add(1) + 1", "x"]
    );
    f.run("CREATE TABLE t AS SELECT range AS a, range * 10 AS b FROM range(3)");
    // The names in arguments are the caller's, whatever parameters are called.
    assert_eq!(f.rows("SELECT add(b, a) FROM t ORDER BY add(b, a) DESC"), ["22", "11", "0"]);
    assert_eq!(f.rows("SELECT a FROM t WHERE add(a) = 12"), ["2"]);
    assert_eq!(f.rows("SELECT add(a), count(*) FROM t GROUP BY add(a) ORDER BY ALL")[0], "10|1");
    f.run("UPDATE t SET b = add(a, b) WHERE add(a) > 10; DELETE FROM t WHERE add(a) = 10");
    assert_eq!(f.rows("SELECT * FROM t ORDER BY a"), ["1|11", "2|22"]);
    assert_eq!(f.value("INSERT INTO t VALUES (add(1, 1), add(2, 2)) RETURNING add(a, b)"), "6");
    assert_eq!(names(&f, "DELETE FROM t RETURNING add(a)"), ["add(a)"]);
}

#[test]
fn operators_bind_as_they_are_written() {
    let f = fixture();
    f.run("CREATE MACRO less(a, b) AS a - b; CREATE MACRO neg(a) AS -a");
    f.run("CREATE FUNCTION square(a) AS a * a");
    assert_eq!(f.value("SELECT 10 - less(5, 3 - 1), less(1, less(2, 3)) * 2"), "7|4");
    assert_eq!(f.value("SELECT square(1 + 2), 8 / square(2), square(square(2))"), "9|2|16");
    assert_eq!(f.value("SELECT neg(-1), neg(2 ^ 2), 1 - neg(1)"), "1|-4.0|2");
    f.run("CREATE MACRO five() AS 5; CREATE MACRO one_of(a, b) AS a IN (b, 3)");
    assert_eq!(f.rows("SELECT x FROM (VALUES (2), (1)) v (x) ORDER BY five(), x"), ["1", "2"]);
    assert_eq!(f.value("SELECT NOT one_of(2, 1), one_of(five(), 2 + 3)"), "true|true");
}

#[test]
fn bodies_may_be_anything() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS i FROM range(5)");
    f.run("CREATE MACRO ratio(a, b) AS sum(a) / sum(b)");
    assert_eq!(f.value("SELECT ratio(i * 3, i) FROM t"), "3");
    f.run("CREATE MACRO below(n) AS (SELECT max(i) FROM t WHERE i < n)");
    assert_eq!(f.value("SELECT below(3), below(1 + 1)"), "2|1");
    f.run("CREATE MACRO is_there(n) AS EXISTS (SELECT 1 FROM t WHERE i = n)");
    assert_eq!(f.value("SELECT is_there(4), is_there(5)"), "true|false");
    f.run("CREATE MACRO running(a) AS sum(a) OVER (ORDER BY a)");
    assert_eq!(f.rows("SELECT running(i) FROM t ORDER BY 1"), ["0", "1", "3", "6", "10"]);
    f.run("CREATE MACRO most(a) AS max(a) + 1");
    assert_eq!(
        f.rows("SELECT most(i) OVER (ORDER BY i) FROM t WHERE i < 2 ORDER BY 1"),
        ["1", "2"]
    );
    f.run("CREATE MACRO positive(a) AS sum(a) FILTER (WHERE a > 0)");
    let sql = "SELECT positive(i - 2) FILTER (WHERE i < 4) OVER () FROM t LIMIT 1";
    assert_eq!(f.value(sql), "1");
    f.run("CREATE MACRO different(a) AS count(DISTINCT a)");
    assert_eq!(f.value("SELECT different(i % 2) FROM t"), "2");
    f.run("CREATE MACRO listed(a, by) AS array_agg(a ORDER BY by DESC)");
    assert_eq!(f.value("SELECT listed(i, i) FROM t WHERE i > 2"), "[4, 3]");
    f.run("CREATE MACRO kind(a) AS CASE WHEN a > 1 THEN 'x' ELSE 'y' END");
    f.run("CREATE MACRO packed(a) AS {'a': a, 'l': [a, 2]}");
    assert_eq!(f.value("SELECT kind(2), (packed(3)).l"), "x|[3, 2]");
}

#[test]
fn lambdas_and_fields() {
    let f = fixture();
    f.run("CREATE MACRO moved(l, by) AS list_transform(l, x -> x + by)");
    assert_eq!(f.value("SELECT moved([1, 2], 10)"), "[11, 12]");
    // The caller's x is no x of the lambda.
    assert_eq!(f.value("SELECT moved([1, 2], x) FROM (SELECT 7 AS x)"), "[8, 9]");
    f.run("CREATE MACRO hides(a) AS list_transform([1, 2], lambda a: a + 1)");
    assert_eq!(f.value("SELECT hides(50)"), "[2, 3]");
    f.run("CREATE MACRO applied(l, f) AS list_transform(l, f)");
    assert_eq!(f.value("SELECT applied([1, 2], v -> v * 2)"), "[2, 4]");
    f.run("CREATE MACRO x_of(p) AS p.x + 1; CREATE MACRO first_of(l) AS l[1]");
    assert_eq!(f.value("SELECT x_of({'x': 4}), first_of([3, 4])"), "5|3");
    assert_eq!(f.value("SELECT x_of(s) FROM (SELECT {'x': 5} AS s)"), "6");
}

#[test]
fn names_that_are_no_parameters() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 1 AS a");
    f.run("CREATE MACRO of_table(a) AS (SELECT t.a + a FROM t)");
    assert_eq!(f.value("SELECT of_table(10)"), "11");
    f.run("CREATE MACRO of_query(a) AS (WITH a AS (SELECT 3 AS b) SELECT a.b FROM a)");
    assert_eq!(f.value("SELECT of_query(1)"), "3");
    f.run("CREATE MACRO \"Odd Name\"(\"p q\") AS \"p q\" + 1");
    assert_eq!(f.value("SELECT \"Odd Name\"(1), \"odd name\"(2)"), "2|3");
    f.run("CREATE MACRO same(x) AS x; CREATE MACRO pair(x, y) AS x * 10 + y");
    assert_eq!(f.value("SELECT same(y), pair(y, x) FROM (SELECT 1 AS x, 2 AS y)"), "2|21");
    // A macro goes before a function of the engine, inside of others too.
    f.run("CREATE MACRO upper(s) AS lower(s)");
    assert_eq!(f.value("SELECT upper('A'), main.upper('B')"), "a|b");
    f.run("DROP MACRO upper");
    assert_eq!(f.value("SELECT upper('a')"), "A");
}

#[test]
fn queries_with_parameters() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT range AS i, range % 2 AS k FROM range(10)");
    f.run(
        "CREATE MACRO largest(n, of := 0) AS TABLE \
         SELECT i FROM t WHERE k = of ORDER BY i DESC LIMIT n",
    );
    assert_eq!(f.rows("FROM largest(2)"), ["8", "6"]);
    assert_eq!(f.rows("SELECT x.i + 1 FROM largest(1, of := 1) AS x"), ["10"]);
    assert_eq!(f.rows("SELECT largest.i FROM largest(1)"), ["8"]);
    assert_eq!(f.rows("SELECT v FROM largest(1) AS x (v)"), ["8"]);
    assert_eq!(f.value("SELECT count(*) FROM largest(3) a JOIN largest(5) b USING (i)"), "3");
    f.run("CREATE MACRO up_to(n) AS TABLE FROM range(10) AS r WHERE r < n");
    assert_eq!(
        f.rows("SELECT t.i, r FROM t, up_to(t.i) WHERE t.i < 3 ORDER BY ALL"),
        ["1|0", "2|0", "2|1"]
    );
    f.run("CREATE MACRO counted(n) AS TABLE WITH c AS (SELECT n AS z) SELECT (z) AS x FROM c");
    assert_eq!(f.rows("FROM counted(3)"), ["3"]);
    f.run("CREATE MACRO given(a) AS TABLE VALUES (a, a + 1), (0, 0)");
    assert_eq!(f.rows("FROM given(3)"), ["3|4", "0|0"]);
    f.run("CREATE MACRO turned(kinds) AS TABLE PIVOT t ON k IN (0, 1) USING sum(i + kinds)");
    // A scalar macro may have the name of a table macro.
    f.run("CREATE MACRO largest(n) AS n + 1");
    assert_eq!(f.value("SELECT largest(i) FROM largest(1)"), "9");
    // Without a word about its kind, the expression's goes first.
    f.run("DROP MACRO largest");
    assert_eq!(f.rows("FROM largest(1)"), ["8"]);
    f.error("SELECT largest(1)");
    f.run("DROP MACRO largest; CREATE TEMP MACRO largest(n) AS TABLE SELECT n");
    f.run("DROP MACRO TABLE largest");
    f.error("FROM largest(1)");
}

#[test]
fn variants_differ_in_their_parameters() {
    let f = fixture();
    f.run("CREATE MACRO total(a) AS a, (a, b) AS a + b, (a, b, c) AS total(a, b) + c");
    assert_eq!(
        f.value("SELECT total(1), total(1, 2), total(1, 2, 3), total(b := 1, a := 2)"),
        "1|3|6|3"
    );
    let error = f.error("SELECT total()").to_string();
    assert!(error.contains("total(a), total(a, b), total(a, b, c)"), "{error}");
    f.run("CREATE MACRO rows(a) AS TABLE (SELECT a AS x), (a, b) AS TABLE (SELECT a AS x, b AS y)");
    assert_eq!(f.rows("SELECT * FROM rows(1) a, rows(2, 3) b"), ["1|2|3"]);
    f.run("CREATE MACRO vague(a) AS a, (a, b := 1) AS a + b");
    assert!(f.error("SELECT vague(1)").to_string().contains("several variants"));
    assert_eq!(f.value("SELECT vague(1, 2)"), "3");
    f.error("CREATE MACRO twice(a) AS a, (b) AS b");
    f.error("CREATE MACRO mixed(a) AS a, (a, b) AS TABLE (SELECT a)");
}

#[test]
fn errors_name_the_macro_and_its_parameters() {
    let f = fixture();
    f.run("CREATE MACRO add(a, b := 1) AS a + b");
    for (sql, words) in [
        ("SELECT add()", "macro add(a, b := 1) needs a value for its parameter \"a\""),
        ("SELECT add(1, 2, 3)", "takes at most 2 arguments, and 3 are given"),
        ("SELECT add(1, c := 2)", "has no parameter \"c\""),
        ("SELECT add(1, a := 2)", "gets its parameter \"a\" twice"),
        ("SELECT add(a := 1, 2)", "follows a named argument"),
        ("SELECT add(*) FROM range(2)", "takes values, and not *"),
        ("SELECT add(1) FILTER (WHERE true)", "FILTER"),
        ("SELECT add(1) OVER ()", "exactly one aggregate"),
        ("FROM add(1)", "is an expression, and no table"),
        ("CREATE MACRO add(x) AS x", "macro \"add\" already exists"),
        ("CREATE MACRO ADD(x) AS x", "already exists"),
        ("CREATE MACRO m(a, A) AS a", "two parameters"),
        ("CREATE MACRO m(a := 1, b) AS a", "needs a default"),
        ("CREATE MACRO m(a, b := a) AS a", "mentions a column or a query"),
        ("CREATE MACRO m(a) AS a + $1", "parameter $1: a macro"),
        ("CREATE MACRO m(a INT) AS a", "has no type"),
        ("CREATE MACRO m(a) AS", "an expression, found: EOF"),
        ("CREATE MACRO m AS 1", "expected: ("),
        ("CREATE OR REPLACE MACRO IF NOT EXISTS m() AS 1", "exclude each other"),
        ("DROP MACRO ad", "macro \"ad\" does not exist; did you mean \"add\"?"),
        ("DROP MACRO TABLE add", "no table macro"),
    ] {
        let error = f.error(sql).to_string();
        assert!(error.to_lowercase().contains(&words.to_lowercase()), "{sql}: {error}");
    }
    f.run("CREATE MACRO IF NOT EXISTS add(x) AS x; DROP MACRO IF EXISTS nothing");
    assert_eq!(f.value("SELECT add(1)"), "2");
    f.run("CREATE OR REPLACE MACRO ADD(x) AS x * 3");
    assert_eq!(f.value("SELECT add(1)"), "3");
    f.run("DROP FUNCTION add");
    f.error("SELECT add(1)");
}

#[test]
fn what_is_created_is_looked_at() {
    let f = fixture();
    assert!(matches!(
        f.error("CREATE MACRO m(a) AS (SELECT a FROM nothing)"),
        Error::NotFound { .. }
    ));
    assert!(matches!(f.error("CREATE MACRO m(a) AS a + x"), Error::NotFound { .. }));
    f.error("CREATE MACRO m(a) AS unknown_function(a)");
    f.error("CREATE MACRO m(a) AS m(a)");
    assert!(f.rows("SHOW MACROS").is_empty());
    // What depends on the types of arguments is left to the calls.
    f.run("CREATE MACRO m(a) AS list_sum(list_transform(a, x -> x + 1))");
    assert_eq!(f.value("SELECT m([1, 2])"), "5");
    f.error("SELECT m('text')");
}

#[test]
fn recursion_and_growth_have_bounds() {
    let f = fixture();
    f.run("CREATE SCHEMA s; CREATE MACRO s.a(x) AS x; CREATE MACRO s.b(x) AS a(x)");
    f.run("CREATE MACRO a(x) AS s.b(x)");
    assert_eq!(f.value("SELECT a(1)"), "1");
    for sql in ["CREATE OR REPLACE MACRO s.a(x) AS b(x)", "CREATE MACRO r(x) AS r(x) + 1"] {
        assert!(f.error(sql).to_string().contains("calls itself"), "{sql}");
    }
    // From now on s.b means the other a.
    f.run("DROP MACRO s.a");
    let error = f.error("SELECT a(1)").to_string();
    assert!(error.contains("macro a calls itself") && error.contains("s.b(x)"), "{error}");
    f.run("CREATE MACRO twice(x) AS x + x");
    let bomb = "twice(".repeat(40) + "1" + &")".repeat(40);
    assert!(f.error(&format!("SELECT {bomb}")).to_string().contains("100000 expressions"));
    f.run("CREATE MACRO m0(x) AS x");
    for level in 1..70 {
        f.con.query(&format!("CREATE MACRO m{level}(x) AS m{}(x)", level - 1)).ok();
    }
    assert_eq!(f.value("SELECT m60(3)"), "3");
    assert!(f.error("SELECT m68(1)").to_string().contains("m68"));
}

#[test]
fn names_in_bodies_are_those_of_the_macro() {
    let f = fixture();
    f.run(
        "CREATE SCHEMA s; CREATE TABLE s.t AS SELECT 's' AS w; CREATE TABLE t AS SELECT 'm' AS w",
    );
    f.run("CREATE TABLE u AS SELECT 'u' AS w");
    f.run("CREATE MACRO s.w() AS (SELECT w FROM t); CREATE MACRO w() AS (SELECT t.w FROM t)");
    f.run("CREATE MACRO s.v() AS w() || (SELECT w FROM u)");
    assert_eq!(f.value("SELECT s.w(), w(), s.v()"), "s|m|su");
    f.error("SELECT v()");
    f.run("CREATE TEMP TABLE t AS SELECT 'temporary' AS w");
    assert_eq!(f.value("SELECT s.w(), w(), main.w(), swingdb.s.v()"), "s|m|m|su");
    f.run("CREATE TEMP MACRO w() AS (SELECT w FROM t)");
    assert_eq!(f.value("SELECT w(), main.w(), temp.w()"), "temporary|m|temporary");
    let other = f.database.connect();
    assert_eq!(rows(other.query("SELECT w()").unwrap()).unwrap(), ["m"]);
    f.run("DROP MACRO w");
    assert_eq!(f.value("SELECT w()"), "m");
    f.error("DROP SCHEMA s");
    f.run("DROP SCHEMA s CASCADE");
    f.error("SELECT s.w()");
}

#[test]
fn views_and_prepared_statements_keep_the_call() {
    let f = fixture();
    f.run("CREATE MACRO price(a) AS a * 2; CREATE MACRO few(n) AS TABLE SELECT * FROM range(n) r");
    f.run("CREATE VIEW v AS SELECT price(r) AS p, price(1) FROM few(3)");
    f.run("PREPARE q AS SELECT price($1)");
    assert_eq!(f.rows("FROM v"), ["0|2", "2|2", "4|2"]);
    assert_eq!(names(&f, "FROM v"), ["p", "price(1)"]);
    assert!(f.value("SHOW CREATE VIEW v").contains("price(r)"));
    f.run("CREATE OR REPLACE MACRO price(a) AS a * 3");
    assert_eq!(f.rows("SELECT p FROM v"), ["0", "3", "6"]);
    assert_eq!(f.value("EXECUTE q(5)"), "15");
    // A default and a CHECK keep what the macro stood for.
    f.run("CREATE TABLE t (a INT DEFAULT price(2), CHECK (price(a) > 3))");
    f.run("DROP MACRO price");
    f.run("INSERT INTO t DEFAULT VALUES");
    f.error("INSERT INTO t VALUES (1)");
    assert_eq!(f.value("SELECT a FROM t"), "6");
    f.error("FROM v");
    f.error("EXECUTE q(5)");
    f.run("CREATE MACRO price(a) AS a");
    assert_eq!(f.rows("SELECT p FROM v"), ["0", "1", "2"]);
    f.run("CREATE TEMP VIEW w AS SELECT price(4) AS p");
    assert_eq!(f.value("FROM w"), "4");
}

#[test]
fn texts_are_read_back_as_they_were_meant() {
    let f = fixture();
    f.run("CREATE TABLE a AS SELECT 1 AS k, 5 AS t; CREATE TABLE b AS SELECT 1 AS k, 3 AS t");
    f.run(
        "CREATE MACRO near(x) AS TABLE \
         SELECT b.t + x AS t FROM a ASOF JOIN b ON a.k = b.k AND a.t >= b.t",
    );
    assert_eq!(f.value("FROM near(1)"), "4");
    f.run("CREATE VIEW v AS SELECT n.t FROM near(2) n ASOF JOIN b ON n.t >= b.t");
    assert_eq!(f.value("FROM v"), "5");
    f.run("CREATE MACRO doc(j) AS j ->> 'a'; CREATE MACRO power_of(x) AS -x ** 2 + 2 ^ x");
    assert_eq!(f.value("SELECT doc('{\"a\": 1}'), power_of(3)"), "1|17.0");
    f.run("CREATE MACRO every(l) AS [x * 2 FOR x IN l IF x > 1]");
    assert_eq!(f.value("SELECT every([1, 2, 3])"), "[4, 6]");
    f.run("CREATE MACRO turned(p) AS TABLE PIVOT a ON k IN (1) USING sum(t + p)");
    assert_eq!(f.value("FROM turned(1)"), "6");
    f.run("CREATE MACRO later(d, n) AS d + INTERVAL (n) DAY");
    assert_eq!(f.value("SELECT later(DATE '2026-01-01', 2)"), "2026-01-03T00:00:00");
}

#[test]
fn they_are_part_of_the_database() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let database = Database::open_in(home.path(), "db").unwrap();
    let con = database.connect();
    con.query("CREATE TABLE t AS SELECT 4 AS a").unwrap();
    con.query("CREATE MACRO m(x) AS (SELECT a + x FROM t)").unwrap();
    con.query("CREATE SCHEMA s; CREATE MACRO s.n(x := 2) AS TABLE SELECT a * x AS p FROM t")
        .unwrap();
    con.query("BEGIN; CREATE MACRO gone(x) AS x; DROP MACRO m; ROLLBACK").unwrap();
    con.query("SHARE").unwrap();
    let snapshot = Database::get_snapshot_in(home.path(), "db", "copy").unwrap();
    let ours = snapshot.connect();
    let value = |sql: &str| rows(ours.query(sql).unwrap()).unwrap();
    assert_eq!(value("SELECT m(1), p FROM s.n()"), ["5|8"]);
    assert!(ours.query("SELECT gone(1)").is_err());
    ours.query("CREATE OR REPLACE MACRO m(x) AS x; UPDATE t SET a = 7; SHARE").unwrap();
    assert_eq!(value("SELECT m(1)"), ["1"]);
    assert_eq!(rows(con.query("SELECT m(1)").unwrap()).unwrap(), ["5"]);
    // From an attached database; its names are its own.
    con.query("ATTACH 'copy' AS other; UPDATE t SET a = 0").unwrap();
    assert_eq!(
        rows(con.query("SELECT other.m(1), p FROM other.s.n(x := 3)").unwrap()).unwrap(),
        ["1|21"]
    );
    drop((con, database));
    let again = Database::open_in(home.path(), "db").unwrap().connect();
    assert_eq!(rows(again.query("SELECT m(1)").unwrap()).unwrap(), ["1"]);
}

#[test]
fn they_are_shown() {
    let f = fixture();
    f.run("CREATE MACRO add(a, b := 1) AS a + b, (a, b, c) AS a + b + c; CREATE SCHEMA s");
    f.run("CREATE MACRO s.rows(n) AS TABLE SELECT * FROM range(n)");
    assert_eq!(
        f.rows("SHOW MACROS"),
        [
            "add|main|swingdb|macro|a, b := 1|a + b",
            "add|main|swingdb|macro|a, b, c|a + b + c",
            "rows|s|swingdb|table macro|n|SELECT * FROM range(n)",
        ]
    );
    let create = f.value("SHOW CREATE MACRO add");
    assert_eq!(create, "CREATE MACRO \"add\"(a, b := 1) AS a + b, (a, b, c) AS a + b + c");
    let table = f.value("SHOW CREATE MACRO s.rows");
    assert_eq!(table, "CREATE MACRO s.\"rows\"(n) AS TABLE SELECT * FROM range(n)");
    f.run("DROP MACRO add; DROP MACRO TABLE s.rows");
    f.run(&create);
    f.run(&table);
    assert_eq!(f.value("SELECT add(1), count(*) FROM s.rows(3)"), "2|3");
    assert!(f.rows("SHOW FUNCTIONS").contains(&"add|macro".to_string()));
    assert!(matches!(f.error("SHOW CREATE MACRO ad"), Error::NotFound { .. }));
}
