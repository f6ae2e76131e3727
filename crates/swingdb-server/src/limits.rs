//! The limits of a session: [`Limits`].
//!
//! The engine enforces them, as settings of the session. A client may lower `statement_timeout`,
//! and never raise a limit: [`crate::session`] looks after each SET.

use std::time::Duration;

/// How much a session may use, and how many sessions there may be.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most sessions at a time.
    pub sessions: usize,
    /// Memory that operators of the statements of one session may hold, as the setting
    /// `memory_limit` takes it: '4GB', '20%'; in bytes once the server runs.
    pub memory: String,
    /// How long a statement and reading its rows may take; `None`: without end.
    pub statement_timeout: Option<Duration>,
    /// Whether statements may read files and other databases.
    pub external_access: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 100,
            memory: "50%".to_string(),
            statement_timeout: None,
            external_access: false,
        }
    }
}

impl Limits {
    /// The statements that put these limits on a new session.
    pub fn settings(&self) -> Vec<String> {
        let memory = self.memory.replace('\'', "''");
        let mut settings = vec![format!("SET memory_limit = '{memory}'")];
        settings.extend(self.timeout_setting());
        if !self.external_access {
            settings.push("SET enable_external_access = false".to_string());
        }
        settings
    }

    /// The statement that sets the time of a statement to its limit.
    pub fn timeout_setting(&self) -> Option<String> {
        self.statement_timeout
            .map(|most| format!("SET statement_timeout = '{}ms'", most.as_millis()))
    }
}
