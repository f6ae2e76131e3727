//! A running result keeps the state it started from.

use super::common::{batch_rows, fixture, rows, seeded};

const ROWS: i64 = 500_000;

#[test]
fn later_statements_do_not_disturb_a_running_result() {
    let f = fixture();
    f.run(&format!("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, {ROWS}) AS value"));
    let mut running = f.con.query("SELECT n FROM t").unwrap();
    let first = running.next().unwrap().unwrap();
    f.run("UPDATE t SET n = -1");
    f.run("DELETE FROM t WHERE n = -1");
    f.run("DROP TABLE t");
    f.run("CREATE TABLE t AS SELECT 'other' AS s");
    let mut count = 0;
    let mut sum = 0;
    for batch in std::iter::once(Ok(first)).chain(running) {
        for row in batch_rows(&batch.unwrap()) {
            count += 1;
            sum += row.parse::<i64>().unwrap();
        }
    }
    assert_eq!((count, sum), (ROWS, ROWS * (ROWS + 1) / 2));
}

#[test]
fn other_connections_see_what_is_committed() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT 1 AS n");
    let other = f.database.connect();
    let seen = || rows(other.query("SELECT sum(n) FROM t").unwrap()).unwrap();
    f.run("BEGIN");
    f.run("INSERT INTO t VALUES (10)");
    assert_eq!(f.rows("SELECT sum(n) FROM t"), ["11"]);
    assert_eq!(seen(), ["1"]);
    f.run("COMMIT");
    assert_eq!(seen(), ["11"]);
}

/// Plans of queries that come again are kept; what they are right for ends with any change.
#[test]
fn queries_that_come_again_see_the_rows_of_now() {
    const QUERIES: [&str; 5] = [
        "SELECT a.g, count(*), sum(b.n) FROM t a JOIN u b USING (g) WHERE a.n > 3 GROUP BY a.g",
        "SELECT g, n FROM t
         WHERE n > (SELECT avg(n) FROM u) AND g IN (SELECT g FROM u WHERE n < 50)",
        "WITH s AS (SELECT g, sum(n) AS n FROM t GROUP BY g)
         SELECT g FROM s WHERE n = (SELECT max(n) FROM s)",
        "SELECT min(n), max(n), count(*) FROM (FROM t UNION ALL FROM u)",
        "SELECT getvariable('v'), current_setting('threads'), count(*) FROM t JOIN u USING (g)",
    ];
    let (mut random, _) = seeded();
    let f = fixture();
    f.run("CREATE TABLE t (g INT, n BIGINT); CREATE TABLE u (g INT, n BIGINT)");
    let other = f.database.connect();
    let mut in_transaction = false;
    for step in 0..50 {
        let (g, n) = (random.u8(..6), random.u8(..100));
        let table = if random.bool() { "t" } else { "u" };
        let change = match random.u8(..9) {
            0 | 1 => format!("INSERT INTO {table} VALUES ({g}, {n}), ({g} + 1, {n} / 2)"),
            2 => format!("UPDATE {table} SET n = n + {n} WHERE g = {g}"),
            3 => format!("DELETE FROM {table} WHERE n > {n} AND g = {g}"),
            4 => format!("SET VARIABLE v = {n}"),
            5 => format!("SET threads = {}", 1 + n % 3),
            6 if in_transaction => "ROLLBACK".to_string(),
            7 if in_transaction => "COMMIT".to_string(),
            6 | 7 => "BEGIN".to_string(),
            // Another connection; in a transaction its changes are not to be seen.
            _ => {
                let insert = format!("INSERT INTO {table} VALUES ({g}, {n})");
                // What both have changed is refused.
                let _ = other.query(&insert).and_then(|result| result.collect());
                continue;
            }
        };
        match f.con.query(&change).and_then(|result| result.collect()) {
            Ok(_) if change == "BEGIN" => in_transaction = true,
            Ok(_) if change == "ROLLBACK" || change == "COMMIT" => in_transaction = false,
            Ok(_) => {}
            Err(error) => {
                let changed = error.to_string().contains("somebody else committed a change");
                assert!(changed, "{change}: {error}");
                f.run("ROLLBACK");
                in_transaction = false;
            }
        }
        for query in QUERIES {
            let query = format!("{query} ORDER BY ALL");
            let fresh = f.rows(&format!("{query} -- {step}"));
            for _ in 0..3 {
                assert_eq!(f.rows(&query), fresh, "{query}, after {change}");
            }
        }
    }
}

#[test]
fn a_result_outlives_connection_and_database() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 100000) AS value");
    let result = f.run("SELECT n FROM t ORDER BY n DESC");
    drop(f);
    let rows = rows(result).unwrap();
    assert_eq!((rows.len(), rows[0].as_str()), (100_000, "100000"));
}

#[test]
fn a_table_scan_is_views_of_the_same_memory() {
    let f = fixture();
    f.run("CREATE TABLE t AS SELECT value AS n FROM generate_series(1, 200000) AS value");
    let address = |batch: &arrow::array::RecordBatch| {
        batch.column(0).to_data().buffers()[0].as_ptr() as usize
    };
    let one = f.con.table("t").unwrap().map(|b| address(&b.unwrap())).collect::<Vec<_>>();
    let two = f.con.table("T").unwrap().map(|b| address(&b.unwrap())).collect::<Vec<_>>();
    assert_eq!(one, two);
    f.run("DELETE FROM t WHERE n % 2 = 0");
    let left = f.con.table("t").unwrap();
    assert_eq!(left.row_count(), 100_000);
    assert_eq!(left.map(|b| b.unwrap().num_rows()).sum::<usize>(), 100_000);
}
