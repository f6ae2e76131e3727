//! Why the program ends with something else than success.

use std::fmt::Display;
use std::io;
use swingdb::Error;
use unicode_width::UnicodeWidthStr;

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

    /// With a line of `text`, and a caret below the place (line and column from 1) in it.
    pub fn pointing(self, text: &str, place: Option<(u64, u64)>) -> Self {
        // What ends the program in a way of its own stays what it is.
        if !matches!(self, Failure::Database(_) | Failure::Message(_)) {
            return self;
        }
        let index = |number: u64| usize::try_from(number.checked_sub(1)?).ok();
        let place = place.and_then(|(line, column)| Some((index(line)?, index(column)?)));
        let Some((row, place)) = place else { return self };
        let Some(source) = text.lines().nth(row).filter(|s| place <= s.chars().count()) else {
            return self;
        };
        Failure::Message(format!("{}\n{}", self.text(), pointed(source, place)))
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

/// A line, or the part of a long one around a place, and a caret below the place.
fn pointed(source: &str, place: usize) -> String {
    const AROUND: usize = 60;
    let first = place.saturating_sub(AROUND);
    let part =
        || source.chars().skip(first).take(2 * AROUND).map(|c| if c == '\t' { ' ' } else { c });
    let before: String = part().take(place - first).collect();
    format!("  {}\n  {}^", part().collect::<String>().trim_end(), " ".repeat(before.width()))
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
    fn errors_point_at_their_place() {
        let wrong = |line, column| {
            let place = (Some(line), Some(column));
            Failure::Database(Error::Parse { message: "no".into(), line: place.0, column: place.1 })
        };
        let text = "SELECT 1;\nSELECT \t東京 FRM t";
        let at = |line, column, text: &str| {
            wrong(line, column).pointing(text, Some((line, column))).text()
        };
        let pointing = at(2, 12, text);
        assert_eq!(pointing, "line 2, column 12: no\n  SELECT  東京 FRM t\n               ^");
        assert_eq!(at(7, 1, text), wrong(7, 1).text());
        assert_eq!(at(1, 90, text), wrong(1, 90).text());
        assert_eq!(at(0, 0, text), wrong(0, 0).text());
        assert_eq!(wrong(1, 1).pointing(text, None).text(), wrong(1, 1).text());
        let long = format!("{} FRM {}", "x".repeat(500), "y".repeat(500));
        let pointing = at(1, 502, &long);
        let lines: Vec<_> = pointing.lines().collect();
        assert_eq!(lines[1].find("FRM"), lines[2].find('^'));
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(closed, Failure::Closed));
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(matches!(full, Failure::Message(_)));
    }
}
