//! Ending a statement from another thread, and by dropping its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::common::{Fixture, fixture, rows};
use swingdb::{Error, InterruptHandle};

/// A self-join without an equality: hours of work inside one operator.
const ENDLESS: &str = "SELECT count(*) FROM n a JOIN n b ON a.v * b.v % 7 < b.v - a.v";

fn many_rows() -> Fixture {
    let f = fixture();
    f.run("CREATE TABLE n AS SELECT value AS v FROM generate_series(1, 300000) AS value");
    f
}

/// Interrupts once `ready` is true, and then again and again until told to stop: on a busy machine
/// the first time may be before the statement has begun. Gives the moment of the first.
fn interrupter(
    handle: InterruptHandle,
    ready: impl Fn() -> bool + Send + 'static,
) -> (Arc<AtomicBool>, std::thread::JoinHandle<Instant>) {
    let ended = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&ended);
    let thread = std::thread::spawn(move || {
        let mut first = None;
        while first.is_none() || !stop.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(200));
            if ready() {
                handle.interrupt();
                first.get_or_insert_with(Instant::now);
            }
        }
        first.unwrap()
    });
    (ended, thread)
}

#[test]
fn an_interrupt_ends_a_statement_at_once() {
    let f = many_rows();
    let (stop, interrupter) = interrupter(f.con.interrupt_handle(), || true);
    let error = f.error(ENDLESS);
    let ended = Instant::now();
    stop.store(true, Ordering::SeqCst);
    let asked = interrupter.join().unwrap();
    assert!(matches!(error, Error::Interrupted), "{error:?}");
    // Whatever else the machine does: the statement itself takes hours.
    let delay = ended.saturating_duration_since(asked);
    assert!(delay < Duration::from_secs(20), "took {delay:?}");
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
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[test]
fn progress_is_reported() {
    let f = many_rows();
    let most = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&most);
    f.con.set_progress(Some(Arc::new(move |done: u64, total: Option<u64>, unit: &str| {
        assert_eq!(unit, "rows");
        assert!(total.is_some_and(|total| done <= total));
        seen.fetch_max(done + 1, Ordering::Relaxed);
    })));
    let (begun, reports) = (Instant::now(), Arc::clone(&most));
    let reported =
        move || reports.load(Ordering::Relaxed) > 0 || begun.elapsed() > Duration::from_secs(60);
    let (stop, interrupter) = interrupter(f.con.interrupt_handle(), reported);
    assert!(matches!(f.error(ENDLESS), Error::Interrupted));
    stop.store(true, Ordering::SeqCst);
    interrupter.join().unwrap();
    assert!(most.load(Ordering::Relaxed) > 0);
}
