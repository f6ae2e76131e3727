//! How long-running statements and imports tell their caller how far they are.
//!
//! A [`Progress`] is called from a thread of the library about ten times a second while something
//! long runs; it must return quickly and must not call back into the connection it is set on.
//! [`Bar`] is one that shows a line of text.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Receives progress reports; see `Connection::set_progress` of `swingdb`.
pub trait Progress: Send + Sync {
    /// `done` units are finished out of `total`, when that is known; `unit` is "rows" or "bytes".
    fn progress(&self, done: u64, total: Option<u64>, unit: &str);
}

impl<F: Fn(u64, Option<u64>, &str) + Send + Sync> Progress for F {
    fn progress(&self, done: u64, total: Option<u64>, unit: &str) {
        self(done, total, unit);
    }
}

/// Characters of a full bar.
const BAR_CHARS: usize = 30;
/// The most that is shown before the end: what follows the last row read may take long.
const MAX_PERCENT: u64 = 99;

/// One line that shows how far a statement is, drawn again over itself.
///
/// The share never decreases, although a statement may report several stages. Nothing is drawn
/// before the statement has run for a while. The line is removed when the bar is dropped.
pub struct Bar {
    begun: Instant,
    after: Duration,
    write: Box<dyn Fn(&str) + Send + Sync>,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    /// The largest share reported so far.
    percent: Option<u64>,
    /// The largest count reported so far, for statements whose total is not known.
    done: u64,
    /// Characters that are on the screen.
    drawn: usize,
    stopped: bool,
}

impl Bar {
    /// A bar that appears after a time; `write` puts text on the screen.
    pub fn new(after: Duration, write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { begun: Instant::now(), after, write: Box::new(write), line: Mutex::default() }
    }

    /// Removes the line until the next report.
    pub fn clear(&self) {
        self.remove(&mut self.line.lock());
    }

    /// Removes the line; later reports draw nothing.
    pub fn stop(&self) {
        let mut line = self.line.lock();
        self.remove(&mut line);
        line.stopped = true;
    }

    fn remove(&self, line: &mut Line) {
        if line.drawn > 0 {
            (self.write)(&format!("\r{}\r", " ".repeat(line.drawn)));
            line.drawn = 0;
        }
    }
}

impl Line {
    fn text(&self, taken: Duration, unit: &str) -> String {
        let seconds = taken.as_secs();
        match self.percent {
            Some(percent) => {
                let full = BAR_CHARS * percent as usize / 100;
                let (full, empty) = ("=".repeat(full), " ".repeat(BAR_CHARS - full));
                format!("{percent:>3} % [{full}{empty}] {seconds} s")
            }
            None if self.done > 0 => format!("{} {unit}, {seconds} s", self.done),
            None => format!("running, {seconds} s"),
        }
    }
}

impl Progress for Bar {
    fn progress(&self, done: u64, total: Option<u64>, unit: &str) {
        let mut line = self.line.lock();
        if let Some(total) = total.filter(|total| *total > 0) {
            let percent = u128::from(done) * 100 / u128::from(total);
            let percent = percent.min(u128::from(MAX_PERCENT)) as u64;
            line.percent = line.percent.max(Some(percent));
        }
        line.done = line.done.max(done);
        let taken = self.begun.elapsed();
        if line.stopped || taken < self.after {
            return;
        }
        let text = line.text(taken, unit);
        let chars = text.chars().count();
        let rest = line.drawn.saturating_sub(chars);
        (self.write)(&format!("\r{text}{}", " ".repeat(rest)));
        line.drawn = chars.max(line.drawn);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn recorded(after: Duration) -> (Bar, Arc<Mutex<Vec<String>>>) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        (Bar::new(after, move |text: &str| log.lock().push(text.to_string())), seen)
    }

    #[test]
    fn a_bar_never_goes_back_and_ends_below_all() {
        let (bar, seen) = recorded(Duration::ZERO);
        let reports = [(10, 100), (60, 100), (1, 100), (50, 60), (7, 0), (100, 100), (900, 100)];
        for (done, total) in reports {
            bar.progress(done, Some(total), "rows");
        }
        let shares: Vec<u64> = seen
            .lock()
            .iter()
            .map(|text| text.trim_start().split(' ').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(shares, [10, 60, 60, 83, 83, 99, 99]);
        drop(bar);
        let seen = seen.lock();
        let width = seen[0].len() - 1;
        assert_eq!(seen.last(), Some(&format!("\r{}\r", " ".repeat(width))));
    }

    #[test]
    fn a_short_statement_shows_nothing() {
        let (bar, seen) = recorded(Duration::from_secs(3600));
        bar.progress(1, Some(2), "rows");
        drop(bar);
        assert!(seen.lock().is_empty());
    }

    #[test]
    fn what_has_no_total_is_counted() {
        let (bar, seen) = recorded(Duration::ZERO);
        bar.progress(0, None, "rows");
        bar.progress(12, None, "rows");
        bar.stop();
        bar.progress(13, None, "rows");
        drop(bar);
        let seen = seen.lock();
        assert_eq!(seen[..2], ["\rrunning, 0 s", "\r12 rows, 0 s"]);
        assert_eq!(seen.len(), 3, "{seen:?}");
    }
}
