//! Why nothing can be fetched.

use std::error::Error as _;
use std::fmt::Display;

const NO_CREDENTIALS: &str = "there are no credentials in the environment \
    (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS; AWS_SKIP_SIGNATURE=true or \
    GOOGLE_SKIP_SIGNATURE=true for public buckets), and this machine has no role";

/// What ends the program.
#[derive(Debug)]
pub enum Failure {
    /// There is no such object.
    NotFound(String),
    /// Anything else.
    Message(String),
}

impl Failure {
    pub fn message(text: impl Display) -> Self {
        Failure::Message(text.to_string())
    }

    /// The same, with the name of what it is about.
    pub fn of(self, name: &Option<String>) -> Self {
        match (self, name) {
            (Failure::Message(text), Some(name)) => Failure::Message(format!("{name}: {text}")),
            (failure, _) => failure,
        }
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Failure::NotFound(_) => 3,
            Failure::Message(_) => 1,
        }
    }

    /// The reason on one line.
    pub fn text(&self) -> String {
        let (Failure::NotFound(text) | Failure::Message(text)) = self;
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        if let object_store::Error::NotFound { path, .. } = &error {
            return Failure::NotFound(format!("there is no object {path}"));
        }
        // What is below an error often says more than the error, and is not always in its text.
        let mut text = error.to_string();
        let mut below = error.source();
        while let Some(cause) = below {
            let more = cause.to_string();
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            below = cause.source();
        }
        // Where a machine would have its role.
        if ["169.254.169.254", "metadata.google.internal"].iter().any(|at| text.contains(at)) {
            text = format!("{NO_CREDENTIALS}: {text}");
        }
        Failure::Message(text)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::message(error)
    }
}
