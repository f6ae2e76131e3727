//! MERGE INTO.

use crate::support::Db;

fn stock() -> Db {
    Db::with(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR);
         INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
         CREATE TABLE src (id INT, v INT, s VARCHAR);
         INSERT INTO src VALUES (2, 200, 'B'), (3, NULL, 'C'), (4, 400, 'D')",
    )
}

#[test]
fn update_and_insert() {
    let db = stock();
    let sql = "MERGE INTO t USING src ON t.id = src.id
        WHEN MATCHED THEN UPDATE SET v = src.v, s = t.s || src.s
        WHEN NOT MATCHED THEN INSERT VALUES (src.id, src.v, 'new')";
    assert_eq!(db.run(sql), 3);
    db.check("SELECT * FROM t ORDER BY id", &["1|10|a", "2|200|bB", "3|NULL|cC", "4|400|new"]);
}

#[test]
fn clauses_apply_in_order() {
    let db = stock();
    let sql = "MERGE INTO t AS x USING (SELECT * FROM src) AS y ON x.id = y.id
        WHEN MATCHED AND y.v IS NULL THEN DELETE
        WHEN MATCHED AND y.v > 1000 THEN UPDATE SET v = -1
        WHEN MATCHED THEN UPDATE SET s = 'kept'
        WHEN NOT MATCHED AND y.id > 100 THEN DO NOTHING
        WHEN NOT MATCHED BY TARGET THEN INSERT (id, s) VALUES (y.id, y.s)
        WHEN NOT MATCHED BY SOURCE AND x.id = 1 THEN UPDATE SET v = v + 1, s = 'orphan'";
    assert_eq!(db.run(sql), 4);
    db.check("SELECT * FROM t ORDER BY id", &["1|11|orphan", "2|20|kept", "4|NULL|D"]);
}

#[test]
fn only_some_kinds_of_clauses() {
    let db = stock();
    let gone = "MERGE INTO t USING src ON t.id = src.id WHEN NOT MATCHED BY SOURCE THEN DELETE";
    assert_eq!(db.run(gone), 1);
    let deleted = "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED AND t.id = 2 THEN DELETE";
    assert_eq!(db.run(deleted), 1);
    let added = "MERGE INTO t USING src ON t.id = src.id WHEN NOT MATCHED THEN INSERT *";
    assert_eq!(db.run(added), 2);
    db.check("SELECT * FROM t ORDER BY id", &["2|200|B", "3|30|c", "4|400|D"]);
    let nothing = "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN DO NOTHING";
    assert_eq!(db.run(nothing), 0);
    let all = "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED AND t.id = 3 THEN UPDATE SET *";
    assert_eq!(db.run(all), 1);
    db.check("SELECT * FROM t WHERE id = 3", &["3|NULL|C"]);
}

#[test]
fn conditions_without_equality() {
    let db = stock();
    let never = "MERGE INTO t USING src ON FALSE
        WHEN NOT MATCHED AND v IS DISTINCT FROM -1 THEN INSERT VALUES (id + 10, v, s)";
    assert_eq!(db.run(never), 3);
    let range =
        "MERGE INTO t USING (VALUES (11, 13)) AS r(low, high) ON t.id BETWEEN r.low AND r.high
        WHEN MATCHED THEN UPDATE SET s = 'in range'";
    assert_eq!(db.run(range), 2);
    db.check("SELECT id FROM t WHERE s = 'in range' ORDER BY id", &["12", "13"]);
}

#[test]
fn a_row_is_changed_at_most_once() {
    let db = stock();
    db.run("INSERT INTO src VALUES (2, 201, 'again')");
    let update = "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN UPDATE SET v = src.v";
    db.fails(update, &["matches more than one row"]);
    let delete = "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN DELETE";
    db.fails(delete, &["matches more than one row"]);
    let both = "MERGE INTO t USING src ON t.id = src.id
        WHEN MATCHED AND src.v = 200 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 0";
    db.fails(both, &["matches more than one row"]);
    db.check("SELECT sum(v), count(*) FROM t", &["60|3"]);
    // Rows the clause leaves alone may repeat.
    let one = "MERGE INTO t USING src ON t.id = src.id
        WHEN MATCHED AND src.v = 201 THEN UPDATE SET v = src.v WHEN MATCHED THEN DO NOTHING";
    assert_eq!(db.run(one), 1);
    db.check("SELECT v FROM t WHERE id = 2", &["201"]);
}

#[test]
fn keys_may_move_around() {
    let db = stock();
    let swap = "MERGE INTO t USING (VALUES (1, 3), (3, 1)) AS s(old, new) ON t.id = s.old
        WHEN MATCHED THEN UPDATE SET id = s.new";
    assert_eq!(db.run(swap), 2);
    db.check("SELECT id, v FROM t ORDER BY id", &["1|30", "2|20", "3|10"]);
    let reuse = "MERGE INTO t USING (VALUES (1, 0), (2, 1), (9, 2)) AS s(id, new) ON t.id = s.id
        WHEN MATCHED AND s.id = 1 THEN DELETE
        WHEN MATCHED THEN UPDATE SET id = s.new
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.new, 0)";
    assert_eq!(db.run(reuse), 3);
    db.check("SELECT id, v FROM t ORDER BY id", &["1|20", "2|0", "3|10"]);
    let twice = "MERGE INTO t USING (VALUES (7), (7)) AS s(id) ON t.id = s.id
        WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)";
    db.fails(twice, &["PRIMARY KEY", "7"]);
    db.check("SELECT count(*) FROM t", &["3"]);
}

#[test]
fn different_clauses_set_different_columns() {
    let db = stock();
    let sql = "MERGE INTO t USING src ON t.id = src.id
        WHEN MATCHED AND t.id = 2 THEN UPDATE SET v = 1
        WHEN MATCHED THEN UPDATE SET s = 'three'
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = v * 2, s = upper(s)";
    assert_eq!(db.run(sql), 3);
    db.check("SELECT * FROM t ORDER BY id", &["1|20|A", "2|1|b", "3|30|three"]);
}

#[test]
fn expressions_of_a_clause_are_computed_for_its_rows_only() {
    let db = stock();
    db.run("INSERT INTO src VALUES (1, 0, 'zero')");
    let sql = "MERGE INTO t USING src ON t.id = src.id
        WHEN MATCHED AND src.v = 0 THEN UPDATE SET s = 'zero'
        WHEN MATCHED AND src.v IS NOT NULL THEN UPDATE SET v = 1000 / src.v";
    assert_eq!(db.run(sql), 2);
    db.check("SELECT id, v, s FROM t ORDER BY id", &["1|10|zero", "2|5|b", "3|30|c"]);
}

#[test]
fn defaults_and_conversions() {
    let db = Db::with("CREATE TABLE t (id INT, v TINYINT DEFAULT 7); INSERT INTO t VALUES (1, 1)");
    let sql = "MERGE INTO t USING (VALUES (1, '5'), (2, '6')) AS s(id, v) ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET v = DEFAULT WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)";
    assert_eq!(db.run(sql), 2);
    db.check("SELECT * FROM t ORDER BY id", &["1|7", "2|7"]);
    let overflow = "MERGE INTO t USING (VALUES (1)) AS s(id) ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET v = 1000";
    db.fails(overflow, &["column \"v\"", "1000", "TINYINT"]);
}

#[test]
fn returning() {
    let db = stock();
    let sql = "MERGE INTO t USING src ON t.id = src.id
        WHEN MATCHED AND src.v IS NULL THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = src.v
        WHEN NOT MATCHED THEN INSERT VALUES (src.id, src.v, src.s) RETURNING id, v";
    let mut returned = db.rows(sql);
    returned.sort();
    assert_eq!(returned, ["2|200", "3|30", "4|400"]);
}

#[test]
fn the_source_may_be_the_target() {
    let db = stock();
    let sql = "MERGE INTO t USING t AS s ON t.id = s.id + 1
        WHEN MATCHED THEN UPDATE SET v = s.v
        WHEN NOT MATCHED THEN INSERT VALUES (s.id + 1, s.v, 'n')";
    assert_eq!(db.run(sql), 3);
    db.check("SELECT id, v FROM t ORDER BY id", &["1|10", "2|10", "3|20", "4|30"]);
    db.fails("MERGE INTO t USING t ON t.id = t.id WHEN MATCHED THEN DELETE", &["both called"]);
}

#[test]
fn a_large_merge() {
    let db = Db::with(
        "CREATE TABLE big AS SELECT range AS id, 0 AS v FROM range(300000);
         CREATE TABLE delta AS SELECT range * 3 AS id, range AS v FROM range(150000)",
    );
    let sql = "MERGE INTO big USING delta ON big.id = delta.id
        WHEN MATCHED AND delta.id % 2 = 0 THEN DELETE
        WHEN MATCHED THEN UPDATE SET v = delta.v
        WHEN NOT MATCHED THEN INSERT VALUES (delta.id, -1)";
    assert_eq!(db.run(sql), 150_000);
    db.check(
        "SELECT count(*), count(*) FILTER (WHERE v = -1), sum(v) FILTER (WHERE v > 0) FROM big",
        &["300000|50000|2500000000"],
    );
}

#[test]
fn mistakes_are_named() {
    let db = stock();
    db.run("CREATE VIEW w AS SELECT * FROM t");
    db.fails("MERGE INTO w USING src ON w.id = src.id WHEN MATCHED THEN DELETE", &["is a view"]);
    db.fails(
        "MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN UPDATE SET nosuch = 1",
        &["column \"nosuch\" does not exist"],
    );
    db.fails(
        "MERGE INTO t USING src ON t.id = src.id WHEN NOT MATCHED THEN INSERT VALUES (1)",
        &["3 columns", "1 value"],
    );
    db.fails("MERGE INTO t USING nosuch ON TRUE WHEN MATCHED THEN DELETE", &["nosuch"]);
}

#[test]
fn a_clause_names_the_side_that_its_rows_have() {
    let db = stock();
    for (clause, side) in [
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = src.v", "sees the target only"),
        ("WHEN NOT MATCHED BY SOURCE AND src.v IS NULL THEN DELETE", "sees the target only"),
        ("WHEN NOT MATCHED BY SOURCE AND (SELECT src.v) IS NULL THEN DELETE", "target only"),
        ("WHEN NOT MATCHED THEN INSERT VALUES (src.id, t.v, 'x')", "sees the source only"),
        ("WHEN NOT MATCHED AND t.v IS NULL THEN INSERT (id) VALUES (src.id)", "source only"),
        ("WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (src.id, (SELECT t.v), 's')", "source"),
    ] {
        db.fails(&format!("MERGE INTO t USING src ON t.id = src.id {clause}"), &[side]);
    }
    db.check("SELECT * FROM t ORDER BY id", &["1|10|a", "2|20|b", "3|30|c"]);
    // What a subquery reads is its own.
    db.run(
        "MERGE INTO t USING src ON t.id = src.id
         WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = (SELECT max(src.v) FROM src)
         WHEN NOT MATCHED THEN INSERT VALUES (src.id, (SELECT max(v) FROM t), s)",
    );
    db.check("SELECT * FROM t WHERE id IN (1, 4) ORDER BY id", &["1|400|a", "4|30|D"]);
}
