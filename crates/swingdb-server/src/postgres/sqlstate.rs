//! Errors as messages: [`Refusal`], with the SQLSTATE that PostgreSQL has for them.

use pgwire::messages::response::ErrorResponse;
use swingdb::Error;

use crate::postgres::values::OutOfRange;

/// Why a statement or a message is refused.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// Five letters and digits.
    pub code: &'static str,
    /// The message for the client.
    pub message: String,
    /// Whether the session ends with it.
    pub is_fatal: bool,
}

impl Refusal {
    /// An error of a statement.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_fatal: false }
    }

    /// An error with which the session ends.
    pub fn fatal(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_fatal: true }
    }

    /// A violation of the protocol.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new("08P01", message)
    }

    /// The message.
    pub fn response(&self) -> ErrorResponse {
        let severity = if self.is_fatal { "FATAL" } else { "ERROR" };
        ErrorResponse::new(vec![
            (b'S', severity.to_string()),
            (b'V', severity.to_string()),
            (b'C', self.code.to_string()),
            // A zero would end the text for the client.
            (b'M', self.message.replace('\0', "\u{fffd}")),
        ])
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::new(code(&error), error.to_string())
    }
}

impl From<arrow::error::ArrowError> for Refusal {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::from(Error::from(error))
    }
}

impl From<OutOfRange> for Refusal {
    fn from(error: OutOfRange) -> Self {
        Self::new("22003", error.to_string())
    }
}

/// The SQLSTATE of an error.
fn code(error: &Error) -> &'static str {
    match error {
        // A session may change nothing: its reason for refusing writes.
        Error::Transaction { message } if message.contains("serves snapshots") => "25006",
        Error::InStatement { error, .. } => code(error),
        error => swingdb::sqlstate(error),
    }
}

#[cfg(test)]
mod tests {
    use swingdb::ObjectKind;

    use super::*;

    #[test]
    fn errors_have_the_codes_that_clients_look_for() {
        let not_found = |kind| Error::NotFound { kind, name: "x".into(), suggestion: None };
        let inner = Box::new(not_found(ObjectKind::Table));
        assert_eq!(Refusal::from(Error::InStatement { line: 2, error: inner }).code, "42P01");
        assert_eq!(Refusal::from(not_found(ObjectKind::Column)).code, "42703");
        assert_eq!(Refusal::from(Error::Interrupted).code, "57014");
    }
}
