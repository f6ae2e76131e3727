//! A folder of files that is complete under its name, or not there.
//!
//! Everything is written to a temporary folder. If the target does not exist, the temporary folder
//! lies beside it, and takes the target's name at the end. If the target exists and is empty (a
//! mount point, or a process's working directory), the temporary folder lies in it. At the end the
//! files are moved out one by one, and last the file without which the folder is nothing. All is on
//! the disk before that.
//!
//! A process that is killed leaves its temporary folder. The next export to the same target removes
//! it: its name tells the process, and an unheld lock means no writer.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::CancelToken;

use crate::output_file::writer_of;

/// Tries to find a name that is free.
const MAX_NAME_TRIES: u64 = 1_000;
/// What a temporary folder in an empty target is called after.
const INSIDE: &str = "export";

/// Whether a folder is at `path`, and where: an end of `/` says nothing, and a link means what it
/// leads to.
pub(crate) fn find(path: &Path) -> Result<(bool, PathBuf)> {
    let fail = |error| Error::io(path, error);
    match std::fs::metadata(path) {
        Ok(facts) if facts.is_dir() => Ok((true, path.canonicalize().map_err(fail)?)),
        Ok(_) => Err(fail(io::Error::new(io::ErrorKind::NotADirectory, "is a file"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok((false, path.components().collect()))
        }
        Err(error) => Err(fail(error)),
    }
}

/// A folder in the making; removed when dropped before [`OutputFolder::commit`].
pub struct OutputFolder {
    target: PathBuf,
    /// Whether the target was there.
    exists: bool,
    temporary: PathBuf,
    /// Locked while the folder is written.
    handle: Option<File>,
    /// Whether nothing is to be removed.
    done: bool,
}

impl OutputFolder {
    /// Makes the folder that will become `path`, which is not there, or is an empty folder.
    pub fn create(path: &Path) -> Result<Self> {
        let fail = |error| Error::io(path, error);
        let (exists, target) = find(path)?;
        let no_name = || fail(io::Error::new(io::ErrorKind::InvalidInput, "has no name"));
        let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let (place, name) = match exists {
            true => (target.as_path(), OsStr::new(INSIDE)),
            false => {
                let name = target.file_name().ok_or_else(no_name)?;
                (parent.unwrap_or(Path::new(".")), name)
            }
        };
        remove_abandoned(place, name);
        if exists && std::fs::read_dir(place).map_err(fail)?.next().is_some() {
            let why = "is not empty; name a new folder";
            return Err(fail(io::Error::new(io::ErrorKind::DirectoryNotEmpty, why)));
        }
        let temporary = make(place, name).map_err(fail)?;
        let handle = File::open(&temporary).map_err(fail)?;
        // Without locks (some network file systems) nobody removes it for us.
        let _ = handle.try_lock();
        Ok(Self { target, exists, temporary, handle: Some(handle), done: false })
    }

    /// Where a file of the folder is to be written.
    pub fn place(&self, name: &str) -> PathBuf {
        self.temporary.join(name)
    }

    /// Writes a file of text.
    pub fn text(&mut self, name: &str, text: &str) -> Result<()> {
        let path = self.place(name);
        std::fs::write(&path, text).map_err(|error| Error::io(self.target.join(name), error))
    }

    /// Gives the folder its name; `last` is the file without which it is nothing.
    pub fn commit(mut self, last: &str, token: &CancelToken) -> Result<()> {
        let target = self.target.clone();
        let fail = |error| Error::io(&target, error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.temporary).map_err(fail)? {
            token.check()?;
            let entry = entry.map_err(fail)?;
            File::open(entry.path()).and_then(|file| file.sync_all()).map_err(fail)?;
            names.push(entry.file_name());
        }
        sync_folder(&self.temporary).map_err(fail)?;
        match self.exists {
            false => std::fs::rename(&self.temporary, &target).map_err(fail)?,
            true => {
                names.sort_by_key(|name| name == last);
                self.move_files(&names).map_err(fail)?;
            }
        }
        self.done = true;
        // It is there; on the disk it is with the file system's next write.
        let _ = sync_folder(if self.exists { &target } else { parent(&target) });
        Ok(())
    }

    /// Moves the files to the target, or none of them.
    fn move_files(&self, names: &[OsString]) -> io::Result<()> {
        for (at, name) in names.iter().enumerate() {
            let (from, to) = (self.temporary.join(name), self.target.join(name));
            // Somebody else may have written there meanwhile.
            let moved = match std::fs::symlink_metadata(&to) {
                Ok(_) => Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, "is not empty now")),
                Err(_) => std::fs::rename(&from, &to),
            };
            if let Err(error) = moved {
                for name in names[..at].iter().rev() {
                    let _ = std::fs::remove_file(self.target.join(name));
                }
                return Err(error);
            }
        }
        // Empty, and in nobody's way.
        let _ = std::fs::remove_dir(&self.temporary);
        Ok(())
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        if !self.done {
            // Nothing more can be done here about a folder that cannot be removed.
            let _ = std::fs::remove_dir_all(&self.temporary);
        }
        self.handle = None;
    }
}

pub(crate) fn parent(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes a temporary folder for `name` in `place`.
pub(crate) fn make(place: &Path, name: &OsStr) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    for _ in 0..MAX_NAME_TRIES {
        let mut temporary = OsString::from(".");
        temporary.push(name);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        temporary.push(format!(".{}-{number}.tmp", std::process::id()));
        let temporary = place.join(temporary);
        match std::fs::create_dir(&temporary) {
            Ok(()) => return Ok(temporary),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary folder"))
}

/// Removes temporary folders for `name` whose processes have ended.
pub(crate) fn remove_abandoned(place: &Path, name: &OsStr) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let Some(pid) = writer_of(&entry.file_name(), name) else { continue };
        if pid == std::process::id() || Path::new("/proc").join(pid.to_string()).exists() {
            continue;
        }
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_free = || File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok());
        if is_folder && is_free() {
            // Somebody else may have been quicker.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use swingdb_common::runtime::cancel::Running;

    fn names(path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn commit(folder: OutputFolder) -> Result<()> {
        folder.commit("b", &Arc::new(Running::default()).start(None))
    }

    #[test]
    fn a_folder_is_whole_or_not_there() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("out/");
        let mut folder = OutputFolder::create(&target).unwrap();
        folder.text("a", "half").unwrap();
        drop(folder);
        assert!(names(place.path()).is_empty());
        let mut folder = OutputFolder::create(&target).unwrap();
        folder.text("a", "whole").unwrap();
        folder.text("b", "b").unwrap();
        assert!(!target.exists());
        commit(folder).unwrap();
        assert_eq!(names(&target), ["a", "b"]);
        assert_eq!(names(place.path()), ["out"]);
        let Err(Error::Io { source, .. }) = OutputFolder::create(&target) else { panic!() };
        assert_eq!(source.kind(), io::ErrorKind::DirectoryNotEmpty);
        let file = OutputFolder::create(&target.join("a"));
        assert!(matches!(file, Err(Error::Io { .. })));
        assert!(OutputFolder::create(&place.path().join("no/such")).is_err());
    }

    #[test]
    fn an_empty_folder_is_filled_and_stays_the_same_folder() {
        use std::os::unix::fs::MetadataExt;
        let place = tempfile::tempdir().unwrap();
        let identity = || std::fs::metadata(place.path()).unwrap().ino();
        let before = identity();
        let mut folder = OutputFolder::create(place.path()).unwrap();
        folder.text("b", "b").unwrap();
        folder.text("a", "a").unwrap();
        assert!(!place.path().join("b").exists());
        // Somebody else writes there meanwhile: nothing of ours stays.
        std::fs::write(place.path().join("b"), "other").unwrap();
        assert!(commit(folder).is_err());
        assert_eq!(names(place.path()), ["b"]);
        std::fs::remove_file(place.path().join("b")).unwrap();
        let mut folder = OutputFolder::create(place.path()).unwrap();
        folder.text("b", "b").unwrap();
        commit(folder).unwrap();
        assert_eq!(names(place.path()), ["b"]);
        assert_eq!(identity(), before);
    }

    #[test]
    fn folders_of_the_dead_are_removed_and_no_others() {
        let place = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let (dead, alive) = (gone.id(), std::process::id());
        let make = |name: String| {
            let path = place.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("half"), "half").unwrap();
            path
        };
        let (abandoned, other, ours) = (
            make(format!(".out.{dead}-7.tmp")),
            make(format!(".another.{dead}-7.tmp")),
            make(format!(".out.{alive}-7000.tmp")),
        );
        drop(OutputFolder::create(&place.path().join("out")).unwrap());
        assert!(!abandoned.exists());
        assert!(other.exists() && ours.exists());
    }
}
