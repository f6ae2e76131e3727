//! Why the program ends with something else than success.

use std::fmt::Display;
use std::io;
use swingdb::Error;

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

/// Exit status for wrong usage, as that of the argument parser.
const USAGE: u8 = 2;
/// Exit status when a command or statement failed.
const FAILED: u8 = 1;

/// Exit status when Ctrl-C ended it, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// What ends a command.
#[derive(Debug)]
pub enum Failure {
    /// The library refused.
    Database(Error),
    /// A message of the program itself.
    Message(String),
    /// The command line makes no sense.
    Usage(String),
    /// The reader of the standard output went away, such as `head`: nothing to tell anybody.
    Closed,
    /// The reason was printed already.
    Reported,
}

impl Failure {
    pub fn message(text: impl Display) -> Self {
        Failure::Message(text.to_string())
    }

    pub fn usage(text: impl Display) -> Self {
        Failure::Usage(text.to_string())
    }

    /// Prints the reason and gives the exit status.
    pub fn report(self) -> u8 {
        match self {
            Failure::Closed => 0,
            Failure::Reported => FAILED,
            Failure::Usage(text) => {
                eprintln!("error: {text}\n\nFor more information, try '--help'.");
                USAGE
            }
            Failure::Database(Error::Interrupted) => {
                eprintln!("error: interrupted");
                INTERRUPTED
            }
            other => {
                eprintln!("error: {}", other.text());
                FAILED
            }
        }
    }

    /// The reason as one message.
    pub fn text(&self) -> String {
        match self {
            Failure::Database(error) => error.to_string(),
            Failure::Message(text) | Failure::Usage(text) => text.clone(),
            Failure::Closed => "the output was closed".to_string(),
            Failure::Reported => "failed".to_string(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Database(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::Closed,
            _ => Failure::Message(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_no_error() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(closed, Failure::Closed));
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Failure::Message(_)));
    }
}
