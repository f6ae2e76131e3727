//! Ending a statement from another thread, and by dropping its result.

use std::time::{Duration, Instant};

use super::common::{Fixture, fixture, rows};
use swingdb::Error;

/// A self-join without an equality: hours of work inside one operator.
const ENDLESS: &str = "SELECT count(*) FROM n a JOIN n b ON a.v * b.v % 7 < b.v - a.v";

fn many_rows() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE n AS SELECT value AS v FROM generate_series(1, 300000)");
    f
}

#[test]
fn an_interrupt_ends_a_statement_at_once() {
    let f = many_rows();
    let handle = f.con.interrupt_handle();
    let interrupter = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        handle.interrupt();
        Instant::now()
    });
    let error = f.error(ENDLESS);
    let ended = Instant::now();
    let asked = interrupter.join().unwrap();
    assert!(matches!(error, Error::Interrupted), "{error:?}");
    let delay = ended.duration_since(asked);
    assert!(delay < Duration::from_millis(100), "took {delay:?}");
    // The session goes on.
    assert_eq!(f.value("SELECT count(*) FROM n"), "300000");
}

#[test]
fn an_interrupt_reaches_a_result_being_read() {
    let f = many_rows();
    let mut result = f.run("SELECT a.v FROM n a CROSS JOIN n b");
    result.next().unwrap().unwrap();
    f.con.interrupt_handle().interrupt();
    let ended = result.find(|batch| batch.is_err()).unwrap();
    assert!(matches!(ended, Err(Error::Interrupted)));
    assert!(result.next().is_none());
}

#[test]
fn an_interrupt_with_nothing_running_does_nothing() {
    let f = many_rows();
    f.con.interrupt_handle().interrupt();
    assert_eq!(f.value("SELECT max(v) FROM n"), "300000");
}

#[test]
fn dropping_a_result_stops_its_work() {
    let f = many_rows();
    for _ in 0..20 {
        let mut result = f.run("SELECT a.v FROM n a CROSS JOIN n b");
        result.next().unwrap().unwrap();
    }
    // Twenty cross joins left running would keep this from ending soon.
    let start = Instant::now();
    assert_eq!(rows(f.run("SELECT sum(v) FROM n")).unwrap(), ["45000150000"]);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn progress_is_reported() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    let f = many_rows();
    let most = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&most);
    f.con.set_progress(Some(Arc::new(move |done: u64, total: Option<u64>, unit: &str| {
        assert_eq!(unit, "rows");
        assert!(total.is_some_and(|total| done <= total));
        seen.fetch_max(done + 1, Ordering::Relaxed);
    })));
    let handle = f.con.interrupt_handle();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        handle.interrupt();
    });
    assert!(matches!(f.error(ENDLESS), Error::Interrupted));
    assert!(most.load(Ordering::Relaxed) > 0);
}
