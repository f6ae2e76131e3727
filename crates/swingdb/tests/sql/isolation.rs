//! A running result keeps the state it started from.

use super::common::{batch_rows, fixture, rows};

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
