//! A progress bar on the standard error, if that is a terminal.
//!
//! Commands that always take long show a [`Bar`] at once. SQL statements show a [`Statement`]'s,
//! after the time that the setting `progress_bar_time` says. A statement's bar goes away for good
//! as soon as its result is printed on the same terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use swingdb::{Connection, Progress};

/// Redraws a second, at most.
const REDRAWS_HZ: u8 = 10;

/// The bar of one operation; removed from the screen when it is dropped.
pub struct Bar<'a> {
    connection: &'a Connection,
    bar: Option<ProgressBar>,
}

impl<'a> Bar<'a> {
    /// Shows a bar for what `connection` does until the bar is dropped.
    pub fn show(connection: &'a Connection, label: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Bar { connection, bar: None };
        }
        let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ);
        let bar = ProgressBar::with_draw_target(None, target);
        // The style first: everything else draws.
        bar.set_style(style(false, "rows"));
        bar.set_prefix(label.to_string());
        connection.set_progress(Some(Arc::new(Report { bar: bar.clone() })));
        Bar { connection, bar: Some(bar) }
    }
}

/// Calls `work` with what shows how far it is, if the standard error is a terminal.
pub fn during<T>(label: &str, work: impl FnOnce(Option<Arc<dyn Progress>>) -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work(None);
    }
    // Nothing is drawn before the first report: most calls have nothing long to do.
    let target = ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ);
    let bar = ProgressBar::with_draw_target(None, target);
    bar.set_style(style(false, "bytes"));
    bar.set_prefix(label.to_string());
    let result = work(Some(Arc::new(Report { bar: bar.clone() })));
    bar.finish_and_clear();
    result
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            self.connection.set_progress(None);
        }
    }
}

/// The bar of the statement that runs now.
static SHOWN: Mutex<Weak<swingdb::Bar>> = Mutex::new(Weak::new());

/// Lets the statements of a connection show how far they are, if a person looks on.
pub fn enable(connection: &Connection) -> swingdb::Result<()> {
    if io::stderr().is_terminal() {
        connection.query("SET enable_progress_bar = true")?;
    }
    Ok(())
}

/// The bar of one SQL statement; removed from the screen when it is dropped.
pub struct Statement<'a> {
    connection: &'a Connection,
    bar: Option<Arc<swingdb::Bar>>,
}

impl<'a> Statement<'a> {
    /// Shows a bar for the next statement of `connection`, if its settings want one.
    pub fn begin(connection: &'a Connection) -> Self {
        let Some(after) = connection.progress_bar().filter(|_| io::stderr().is_terminal()) else {
            return Statement { connection, bar: None };
        };
        let bar = Arc::new(swingdb::Bar::new(after, |text| {
            // A bar that cannot be shown is no reason to fail.
            let _ = io::stderr().write_all(text.as_bytes());
        }));
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&bar);
        let report: Arc<dyn Progress> = Arc::<swingdb::Bar>::clone(&bar);
        connection.set_progress(Some(report));
        Statement { connection, bar: Some(bar) }
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.stop();
            self.connection.set_progress(None);
        }
    }
}

/// Removes the statement's bar from the screen for good.
pub fn stop() {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    if let Some(bar) = shown {
        bar.stop();
    }
}

/// The standard output. What is written to it when it is a terminal removes the bar first.
pub struct Output {
    to: io::Stdout,
    is_terminal: bool,
}

impl Output {
    pub fn new() -> Self {
        let to = io::stdout();
        let is_terminal = to.is_terminal();
        Output { to, is_terminal }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_terminal {
            stop();
        }
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

struct Report {
    bar: ProgressBar,
}

impl Progress for Report {
    fn progress(&self, done: u64, total: Option<u64>, unit: &str) {
        if self.bar.length() != total || self.bar.position() == 0 {
            if let Some(total) = total {
                self.bar.set_length(total);
            }
            self.bar.set_style(style(total.is_some(), unit));
        }
        self.bar.set_position(done);
    }
}

fn style(bounded: bool, unit: &str) -> ProgressStyle {
    let template = match (bounded, unit == "bytes") {
        (true, true) => {
            "{prefix} [{bar:30}] {percent:>3}% {bytes}/{total_bytes} {bytes_per_sec} {eta}"
        }
        (true, false) => {
            "{prefix} [{bar:30}] {percent:>3}% {human_pos}/{human_len} {per_sec} {eta}"
        }
        (false, true) => "{prefix} {bytes} {bytes_per_sec} {elapsed}",
        (false, false) => "{prefix} {human_pos} {per_sec} {elapsed}",
    };
    // A template that is not understood, which a test rules out, leaves the plain style.
    let style = ProgressStyle::with_template(template);
    style.map_or_else(|_| ProgressStyle::default_bar(), |style| style.progress_chars("=> "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_understood() {
        let bar = ProgressBar::hidden();
        for (total, unit) in [(Some(10), "bytes"), (Some(10), "rows"), (None, "rows")] {
            Report { bar: bar.clone() }.progress(5, total, unit);
            assert_eq!(bar.position(), 5);
        }
        assert_eq!(bar.length(), Some(10));
    }
}
