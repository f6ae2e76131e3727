//! What a child was about to do and what it has done, in a file that outlives it.
//!
//! Each record is one `write` of a few bytes to a file opened for appending: the kernel either has
//! it or not, however the child dies.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What a record says about its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The change of this step begins.
    Begin,
    /// It is committed.
    Done,
    /// Sharing the state after this step begins.
    Share,
    /// It is shared.
    Shared,
}

impl Mark {
    const ALL: [(Self, char); 4] =
        [(Self::Begin, 'B'), (Self::Done, 'D'), (Self::Share, 's'), (Self::Shared, 'S')];

    fn letter(self) -> char {
        Self::ALL[self as usize].1
    }
}

/// The child's end.
pub struct Journal(File);

impl Journal {
    /// Goes on with the journal at `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// Adds a record.
    pub fn note(&mut self, mark: Mark, step: i64) -> io::Result<()> {
        self.0.write_all(format!("{}{step}\n", mark.letter()).as_bytes())
    }
}

/// What the journal of a dead child says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The last change that is committed.
    pub done: i64,
    /// The last change that has begun; more than `done` when the child died within it.
    pub begun: i64,
    /// The step whose state is shared, if any.
    pub shared: Option<i64>,
    /// The step whose state was being shared when the child died, if so.
    pub sharing: Option<i64>,
}

impl Progress {
    /// Reads the journal of a child, starting from what was so before it.
    pub fn read(path: &PathBuf, before: Self) -> io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut progress = before;
        for line in text.lines() {
            let invalid = || io::Error::new(io::ErrorKind::InvalidData, line.to_string());
            let (letter, step) = line.split_at_checked(1).ok_or_else(invalid)?;
            let step: i64 = step.parse().map_err(|_| invalid())?;
            match letter {
                "B" => progress.begun = step,
                "D" => progress.done = step,
                "s" => progress.sharing = Some(step),
                "S" => (progress.shared, progress.sharing) = (Some(step), None),
                _ => return Err(invalid()),
            }
        }
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let before = Progress { done: 4, begun: 4, ..Progress::default() };
        assert_eq!(Progress::read(&path, before).unwrap(), before);
        let mut journal = Journal::open(&path).unwrap();
        for (mark, step) in [
            (Mark::Begin, 5),
            (Mark::Done, 5),
            (Mark::Share, 5),
            (Mark::Shared, 5),
            (Mark::Begin, 6),
        ] {
            journal.note(mark, step).unwrap();
        }
        let progress = Progress::read(&path, before).unwrap();
        assert_eq!(progress, Progress { done: 5, begun: 6, shared: Some(5), sharing: None });
    }
}
