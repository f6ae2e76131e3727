//! Names of areas: a table beside the tokens.
//!
//! Record `t` of the namespace's file `.names` is the name of token `t`'s area, up to [`MAX_NAME`]
//! bytes and then zeros. Only the holder of the token writes it, and it counts only while somebody
//! holds the token: a death needs no cleaning up, and whoever claims a token next clears it. So
//! what is stale is never believed.
//!
//! **Concurrency.** That a name is given once is decided under a lock of the file (`flock`), which
//! nobody waits for longer than [`MAX_WAIT`]. Looking a name up takes no lock: it may see one that
//! is just being given or cleared, as if it had come a moment later or earlier. **fork.** The file
//! is open only during a call, so a child inherits no lock.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Code, Failure, Result};
use crate::tokens::MAX_TOKEN;

/// The longest name, in bytes.
pub(crate) const MAX_NAME: usize = 255;
const RECORD: usize = MAX_NAME + 1;
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The names of a namespace.
#[derive(Debug)]
pub(crate) struct Names {
    path: PathBuf,
}

fn place(token: i32) -> u64 {
    assert!((1..=MAX_TOKEN).contains(&token), "tokens are checked before");
    token as u64 * RECORD as u64
}

impl Names {
    /// Those of the namespace in this directory.
    pub(crate) fn new(namespace: &Path) -> Self {
        Self { path: namespace.join(".names") }
    }

    fn failed(&self, e: &std::io::Error) -> Failure {
        Failure::new(Code::Io, format!("{}: {e}", self.path.display()))
    }

    /// `None`: nobody has given a name yet, and none is about to be given.
    fn open(&self, create: bool) -> Result<Option<File>> {
        let mut options = File::options();
        options.read(true).write(true).create(create).truncate(false).mode(0o600);
        match options.custom_flags(libc::O_NOFOLLOW).open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == ErrorKind::NotFound && !create => Ok(None),
            Err(e) => Err(self.failed(&e)),
        }
    }

    /// Forgets what an earlier holder of the token called its area. The caller holds the token.
    pub(crate) fn clear(&self, token: i32) -> Result<()> {
        let Some(file) = self.open(false)? else { return Ok(()) };
        let mut record = [0; RECORD];
        let stale = file.read_exact_at(&mut record, place(token)).is_ok() && record != [0; RECORD];
        match stale.then(|| file.write_all_at(&[0; RECORD], place(token))) {
            Some(Err(e)) => Err(self.failed(&e)),
            _ => Ok(()),
        }
    }

    /// The token whose area has the name, among those that are held.
    pub(crate) fn find(&self, name: &[u8], is_held: impl Fn(i32) -> bool) -> Result<Option<i32>> {
        match self.open(false)? {
            Some(file) => self.find_in(file, name, is_held),
            None => Ok(None),
        }
    }

    fn find_in(
        &self,
        file: File,
        name: &[u8],
        is_held: impl Fn(i32) -> bool,
    ) -> Result<Option<i32>> {
        assert!(!name.is_empty() && name.len() <= MAX_NAME, "names are checked before");
        let mut table = Vec::new();
        let most = (MAX_TOKEN as u64 + 1) * RECORD as u64;
        file.take(most).read_to_end(&mut table).map_err(|e| self.failed(&e))?;
        let named = table.chunks_exact(RECORD).zip(0..).skip(1).find(|(record, token)| {
            record.starts_with(name) && record[name.len()] == 0 && is_held(*token)
        });
        let found = named.map(|(_, token)| token);
        assert!(found.is_none_or(|token| (1..=MAX_TOKEN).contains(&token)), "record 0 is no name");
        Ok(found)
    }

    /// Calls the area of a token, which the caller holds, by a name that no other has; the empty
    /// name takes its name away.
    pub(crate) fn give(
        &self,
        token: i32,
        name: &[u8],
        is_held: impl Fn(i32) -> bool,
    ) -> Result<()> {
        if name.is_empty() {
            return self.clear(token);
        }
        assert!(name.len() <= MAX_NAME, "names are checked before");
        let Some(file) = self.open(true)? else { return Ok(()) };
        let locked = file.try_clone().map_err(|e| self.failed(&e))?;
        self.lock(&locked)?;
        if self.find_in(file, name, |other| other != token && is_held(other))?.is_some() {
            let text = format!("another area has the name {:?}", String::from_utf8_lossy(name));
            return Err(Failure::new(Code::Exists, text));
        }
        let mut record = [0; RECORD];
        const { assert!(RECORD > MAX_NAME) };
        record[..name.len()].copy_from_slice(name);
        // The lock goes with the last descriptor of its description, at the end of this function.
        locked.write_all_at(&record, place(token)).map_err(|e| self.failed(&e))
    }

    fn lock(&self, file: &File) -> Result<()> {
        let start = Instant::now();
        loop {
            // SAFETY: an open descriptor.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
                return Ok(());
            }
            let e = std::io::Error::last_os_error();
            match e.kind() {
                ErrorKind::WouldBlock if start.elapsed() < MAX_WAIT => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                ErrorKind::WouldBlock => {
                    return Err(Failure::new(Code::Busy, "somebody else gives names, for long"));
                }
                _ => return Err(self.failed(&e)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Against a map, with tokens that die and come back.
    #[test]
    fn names_lead_to_living_areas_only() {
        let seed = std::process::id() as u64;
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new(dir.path());
        let mut model: BTreeMap<i32, Option<String>> = BTreeMap::new();
        for _ in 0..3000 {
            let token = random.i32(1..=40);
            let name = format!("name {}", random.u32(..30));
            let held = |t: i32| model.contains_key(&t);
            let taken = model.iter().find(|(_, n)| n.as_deref() == Some(&name)).map(|(t, _)| *t);
            assert_eq!(names.find(name.as_bytes(), held).unwrap(), taken);
            match (model.contains_key(&token), random.u32(..4)) {
                (false, _) => {
                    names.clear(token).unwrap();
                    model.insert(token, None);
                }
                // A death tells nobody.
                (true, 0) => {
                    model.remove(&token);
                }
                (true, 1) => {
                    names.give(token, b"", held).unwrap();
                    model.insert(token, None);
                }
                (true, _) => {
                    let given = names.give(token, name.as_bytes(), held);
                    assert_eq!(given.is_ok(), taken.is_none_or(|t| t == token));
                    if given.is_ok() {
                        model.insert(token, Some(name));
                    }
                }
            }
        }
    }

    #[test]
    fn lengths_and_beginnings() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new(dir.path());
        assert_eq!(names.find(b"a", |_| true).unwrap(), None);
        names.clear(7).unwrap();
        let long = [b'x'; MAX_NAME];
        names.give(MAX_TOKEN, &long, |_| true).unwrap();
        names.give(1, &long[1..], |_| true).unwrap();
        assert_eq!(names.find(&long, |_| true).unwrap(), Some(MAX_TOKEN));
        assert_eq!(names.find(&long[1..], |_| true).unwrap(), Some(1));
        assert_eq!(names.find(&long[2..], |_| true).unwrap(), None);
        assert_eq!(names.give(2, &long, |_| true).unwrap_err().code, Code::Exists);
    }

    #[test]
    fn a_lock_that_is_kept_is_not_waited_for_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let names = Names::new(dir.path());
        let file = names.open(true).unwrap().unwrap();
        names.lock(&file).unwrap();
        assert_eq!(names.give(1, b"a", |_| true).unwrap_err().code, Code::Busy);
        drop(file);
        names.give(1, b"a", |_| true).unwrap();
    }
}
