//! Statements that change many rows: interrupted and out of time in what follows their query, and
//! beyond the limit of memory with what they note about keys.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Home;
use swingdb::arrow::array::AsArray;
use swingdb::arrow::datatypes::Int64Type;
use swingdb::store::{Durability, StoreOptions};
use swingdb::{Connection, Database, Error, OpenOptions};

const ROWS: i64 = 400_000;

fn run(con: &Connection, sql: &str) -> Result<(), Error> {
    con.query(sql)?.try_for_each(|batch| batch.map(drop))
}

fn number(con: &Connection, sql: &str) -> i64 {
    let batches = con.query(sql).and_then(|rows| rows.collect()).unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// A table `t` with a key whose values are in no order, and one without.
fn fill(con: &Connection) {
    let shuffled = format!("(range * 7919 + 3) % {ROWS}");
    for sql in [
        "CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)".to_owned(),
        format!("INSERT INTO t SELECT {shuffled}, range FROM range({ROWS})"),
        format!("CREATE TABLE plain AS SELECT {shuffled} AS k, range AS v FROM range({ROWS})"),
    ] {
        run(con, &sql).unwrap();
    }
}

/// That all is as `fill` has left it, keys too.
fn check(con: &Connection) {
    for table in ["t", "plain"] {
        assert_eq!(number(con, &format!("SELECT count(*) FROM {table}")), ROWS);
        let sum = format!("SELECT sum(k)::BIGINT FROM {table}");
        assert_eq!(number(con, &sum), ROWS * (ROWS - 1) / 2);
    }
    let refused = run(con, "INSERT INTO t VALUES (17, 0)").unwrap_err();
    assert!(matches!(refused, Error::Constraint { .. }), "{refused}");
    run(con, "INSERT INTO plain VALUES (17, 0)").unwrap();
    run(con, &format!("INSERT INTO t VALUES ({ROWS}, 0)")).unwrap();
    run(con, &format!("DELETE FROM t WHERE k = {ROWS}")).unwrap();
    run(con, "DELETE FROM plain WHERE k = 17 AND v = 0").unwrap();
}

fn changes() -> Vec<String> {
    vec![
        format!("INSERT INTO t SELECT (range * 7919) % {ROWS} + {ROWS}, 0 FROM range({ROWS})"),
        "UPDATE t SET k = k + 1, v = 0".to_owned(),
        "UPDATE t SET v = v + 1".to_owned(),
        "DELETE FROM t WHERE v % 2 = 0".to_owned(),
        "ALTER TABLE plain ADD PRIMARY KEY (k)".to_owned(),
        "ALTER TABLE t ADD COLUMN c DOUBLE DEFAULT random()".to_owned(),
        "ALTER TABLE t ADD COLUMN c BIGINT DEFAULT 7".to_owned(),
        "INSERT INTO t SELECT k, 1 FROM plain ON CONFLICT (k) DO UPDATE SET v = 1".to_owned(),
    ]
}

#[test]
fn a_limit_of_time_ends_a_change_wherever_it_is() {
    let home = Home::new();
    let con = Database::private_in(home.path()).unwrap().connect();
    fill(&con);
    for sql in changes() {
        // In a transaction, which stays as it is.
        run(&con, "BEGIN").unwrap();
        let (mut limit, mut refused) = (1, 0);
        loop {
            run(&con, &format!("SET statement_timeout = {limit}")).unwrap();
            let done = run(&con, &sql);
            // Under the limit, too.
            while run(&con, "SET statement_timeout = 0").is_err() {}
            match done {
                Ok(()) => break,
                Err(Error::TimedOut { .. }) => refused += 1,
                Err(error) => panic!("{sql} within {limit} ms: {error}"),
            }
            assert!(con.in_transaction());
            check(&con);
            limit += limit / 3 + 1;
        }
        // A column of one value may take less than a millisecond.
        assert!(refused > 0 || sql.ends_with("DEFAULT 7"), "{sql} takes no time");
        run(&con, "ROLLBACK").unwrap();
        check(&con);
    }
}

#[test]
fn an_interrupt_ends_a_change_soon_and_nothing_of_it_stays() {
    let home = Home::new();
    let con = Database::private_in(home.path()).unwrap().connect();
    fill(&con);
    for sql in changes() {
        for wait in [3, 30, 80, 150, 300] {
            run(&con, "BEGIN").unwrap();
            let (handle, ended) = (con.interrupt_handle(), Arc::new(AtomicBool::new(false)));
            let stop = Arc::clone(&ended);
            let interrupter = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(wait));
                let asked = Instant::now();
                while !stop.load(Ordering::SeqCst) {
                    handle.interrupt();
                    std::thread::sleep(Duration::from_millis(1));
                }
                asked
            });
            let done = run(&con, &sql);
            let end = Instant::now();
            ended.store(true, Ordering::SeqCst);
            let delay = end.saturating_duration_since(interrupter.join().unwrap());
            match done {
                Ok(()) => {}
                Err(Error::Interrupted) => {
                    // A machine may be busy with other things.
                    assert!(delay < Duration::from_secs(5), "{sql}: {delay:?}");
                    check(&con);
                }
                Err(error) => panic!("{sql}: {error}"),
            }
            run(&con, "ROLLBACK").unwrap();
            check(&con);
        }
    }
}

#[test]
fn a_checkpoint_ends_at_its_limit() {
    let home = Home::new();
    let disk = tempfile::tempdir().unwrap();
    let store = StoreOptions::new(disk.path()).durability(Durability::Manual);
    let options = OpenOptions::default().home(home.path()).store(store);
    let database = Database::open_with_options("d", &options).unwrap();
    let con = database.connect();
    fill(&con);
    let stored = || database.durable_info().unwrap().stored_version;
    let before = stored();
    run(&con, "SET statement_timeout = 1").unwrap();
    let ended = run(&con, "CHECKPOINT");
    assert!(matches!(ended, Err(Error::TimedOut { .. })), "{ended:?}");
    assert_eq!(stored(), before);
    while run(&con, "RESET statement_timeout").is_err() {}
    run(&con, "CHECKPOINT").unwrap();
    assert_ne!(stored(), before);
}

#[test]
fn what_is_noted_about_keys_counts() {
    let home = Home::new();
    let con = Database::private_in(home.path()).unwrap().connect();
    fill(&con);
    run(&con, "SET memory_limit = '6MB'").unwrap();
    // Rows on their way into a table without a key need less.
    run(&con, "CREATE TABLE copy AS SELECT * FROM plain").unwrap();
    let out_of_memory = |sql: &str| {
        let error = run(&con, sql).expect_err(sql);
        assert!(matches!(error, Error::OutOfMemory { file_system: None, .. }), "{sql}: {error}");
    };
    // Row ids and values of all rows.
    out_of_memory("ALTER TABLE t ADD COLUMN c DOUBLE DEFAULT random()");
    out_of_memory("ALTER TABLE plain ADD PRIMARY KEY (k)");
    out_of_memory(&format!(
        "INSERT INTO t SELECT (range * 7919) % {ROWS} + {ROWS}, 0 FROM range({ROWS})"
    ));
    run(&con, "INSERT INTO plain VALUES (17, 0)").unwrap();
    run(&con, "DELETE FROM plain WHERE k = 17 AND v = 0").unwrap();
    run(&con, "RESET memory_limit").unwrap();
    check(&con);
    for sql in [
        "ALTER TABLE t ADD COLUMN c DOUBLE DEFAULT random()",
        "ALTER TABLE plain ADD PRIMARY KEY (k)",
    ] {
        run(&con, sql).unwrap();
    }
}
