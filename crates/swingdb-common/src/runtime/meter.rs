//! Progress of an import or export: counted by many threads, reported about ten times a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::progress::Progress;

/// Time between two reports, milliseconds.
const REPORT_EVERY_MS: u64 = 100;

/// Counts what is done.
pub struct Meter {
    progress: Option<Arc<dyn Progress>>,
    total: Option<u64>,
    unit: &'static str,
    done: AtomicU64,
    started: Instant,
    /// When the next report is due, milliseconds after the start.
    due_ms: AtomicU64,
}

impl Meter {
    /// Counts up to `total` units; reports to nobody when `progress` is `None`.
    pub fn new(
        progress: Option<Arc<dyn Progress>>,
        total: Option<u64>,
        unit: &'static str,
    ) -> Arc<Self> {
        Arc::new(Self {
            progress,
            total,
            unit,
            done: AtomicU64::new(0),
            started: Instant::now(),
            due_ms: AtomicU64::new(REPORT_EVERY_MS),
        })
    }

    /// `count` more are done.
    pub fn add(&self, count: u64) {
        let done = self.done.fetch_add(count, Ordering::Relaxed) + count;
        let Some(progress) = &self.progress else { return };
        let now_ms = self.started.elapsed().as_millis() as u64;
        let due_ms = self.due_ms.load(Ordering::Relaxed);
        // Of several threads that find the report due, the one that moves the time makes it.
        let next_ms = now_ms + REPORT_EVERY_MS;
        if now_ms >= due_ms
            && self
                .due_ms
                .compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            progress.progress(done, self.total, self.unit);
        }
    }

    /// The last report, after which nothing more is counted.
    pub fn finish(&self) {
        if let Some(progress) = &self.progress {
            let done = self.done.load(Ordering::Relaxed);
            progress.progress(self.total.unwrap_or(done), self.total, self.unit);
        }
    }

    /// Units done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn reports_are_few_and_the_last_is_complete() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let progress = move |done: u64, total: Option<u64>, unit: &str| {
            log.lock().push((done, total, unit.to_string()));
        };
        let meter = Meter::new(Some(Arc::new(progress)), Some(3_000_000), "rows");
        for _ in 0..3_000 {
            meter.add(1_000);
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        meter.finish();
        let seen = seen.lock();
        let most = meter.started.elapsed().as_millis() / u128::from(REPORT_EVERY_MS) + 1;
        assert!((2..=most).contains(&(seen.len() as u128)), "{} reports", seen.len());
        assert!(seen.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert_eq!(seen.last(), Some(&(3_000_000, Some(3_000_000), "rows".to_string())));
    }
}
