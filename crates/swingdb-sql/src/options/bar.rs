//! Whether long statements show how far they are: the settings `enable_progress_bar` and
//! `progress_bar_time`, in DuckDB's words.
//!
//! The engine only keeps them. What owns the screen (the shell, the Python package) looks them up.

use std::sync::Arc;
use std::time::Duration;

use datafusion::prelude::SessionConfig;

/// The settings of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressBar {
    /// Whether there is a bar.
    pub enabled: bool,
    /// How long a statement runs before it appears.
    pub after: Duration,
}

impl Default for ProgressBar {
    fn default() -> Self {
        Self { enabled: false, after: Duration::from_secs(2) }
    }
}

impl ProgressBar {
    /// The settings that a configuration carries.
    pub fn of(config: &SessionConfig) -> Self {
        config.get_extension::<Self>().map(|bar| Self::clone(&bar)).unwrap_or_default()
    }

    /// Puts them into a configuration.
    pub fn carry(self, config: &mut SessionConfig) {
        config.set_extension(Arc::new(self));
    }
}
