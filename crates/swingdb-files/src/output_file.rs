//! The file of an export: complete under its name, or not there.
//!
//! Everything is written to a temporary file beside the target, which takes the target's name at
//! the end. Devices and pipes, which have no contents to keep whole, are written directly.
//!
//! A process that is killed leaves its temporary file. The next export to the same name removes it:
//! its name says which process it was of, and a lock that nobody holds that nobody writes it.
//!
//! The program may close the file while it is written, and have one of its own at the number: then
//! the export fails, and that file is neither written to nor closed.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::checkpoint;

const BUFFER_BYTES: usize = 1 << 20;
/// Tries to find a name that is free.
const MAX_NAME_TRIES: u64 = 1_000;

/// Removes temporary files for `path` whose processes have ended.
fn remove_abandoned(path: &Path, name: &OsStr) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let Ok(entries) = std::fs::read_dir(parent.unwrap_or(Path::new("."))) else { return };
    for entry in entries.flatten() {
        let file_name = entry.file_name();
        let Some(pid) = writer_of(&file_name, name) else { continue };
        if pid == std::process::id() || Path::new("/proc").join(pid.to_string()).exists() {
            continue;
        }
        let file = File::open(entry.path());
        if file.is_ok_and(|file| file.try_lock().is_ok()) {
            // Somebody else may have been quicker.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Opens a pipe once somebody reads from it. Just to open it would wait as well, and hear of no
/// interrupt.
fn open_pipe(path: &Path) -> io::Result<File> {
    const LOOK: Duration = Duration::from_millis(10);
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            // Held until the other is open: its reader would see the end otherwise.
            Ok(_held) => return OpenOptions::new().write(true).open(path),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
                checkpoint();
                std::thread::sleep(LOOK);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The process that `file` is the temporary file of, for an export to `name`: `.name.PID-N.tmp`.
pub(super) fn writer_of(file: &OsStr, name: &OsStr) -> Option<u32> {
    let rest = file.as_encoded_bytes().strip_prefix(b".")?;
    let rest = rest.strip_prefix(name.as_encoded_bytes())?.strip_prefix(b".")?;
    let (pid, number) = std::str::from_utf8(rest.strip_suffix(b".tmp")?).ok()?.split_once('-')?;
    number.parse::<u64>().ok()?;
    pid.parse().ok()
}

/// An open file that is still what was opened.
struct Kept {
    /// There until it is dropped.
    file: Option<File>,
    /// Device and inode.
    identity: (u64, u64),
}

impl Kept {
    fn new(file: File) -> io::Result<Self> {
        let facts = file.metadata()?;
        Ok(Self { file: Some(file), identity: (facts.dev(), facts.ino()) })
    }

    fn here(&mut self) -> io::Result<&mut File> {
        let identity = self.identity;
        let is_it = |file: &&mut File| {
            file.metadata().is_ok_and(|facts| (facts.dev(), facts.ino()) == identity)
        };
        let lost = || io::Error::other("this program has closed it, which did not open it");
        self.file.as_mut().filter(is_it).ok_or_else(lost)
    }
}

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.here()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.here().is_err() {
            // The number is the program's.
            let _ = self.file.take().map(IntoRawFd::into_raw_fd);
        }
    }
}

/// A file in the making; removed when dropped before [`OutputFile::commit`].
pub(crate) struct OutputFile {
    path: PathBuf,
    /// `None` for what is written directly, and after the end.
    temporary: Option<PathBuf>,
    writer: BufWriter<Kept>,
    bytes: u64,
}

impl OutputFile {
    /// Opens the file that will become `path`.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let existing = std::fs::metadata(path).ok();
        if existing.as_ref().is_some_and(|metadata| metadata.is_dir()) {
            let error = io::Error::new(io::ErrorKind::IsADirectory, "is a directory");
            return Err(Error::io(path, error));
        }
        let fail = |error| Error::io(path, error);
        if let Some(metadata) = existing.filter(|metadata| !metadata.is_file()) {
            let file = match metadata.file_type().is_fifo() {
                true => open_pipe(path),
                false => OpenOptions::new().write(true).open(path),
            };
            let file = file.map_err(fail)?;
            return Self::new(path, None, file).map_err(fail);
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = path
            .file_name()
            .ok_or_else(|| fail(io::Error::new(io::ErrorKind::InvalidInput, "has no file name")))?;
        remove_abandoned(path, name);
        for _ in 0..MAX_NAME_TRIES {
            let mut temporary = std::ffi::OsString::from(".");
            temporary.push(name);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            temporary.push(format!(".{}-{number}.tmp", std::process::id()));
            let temporary = path.with_file_name(temporary);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    // Without locks (some network file systems) nobody removes it for us.
                    let _ = file.try_lock();
                    return Self::new(path, Some(temporary), file).map_err(fail);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(fail(error)),
            }
        }
        Err(fail(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a temporary file")))
    }

    fn new(path: &Path, temporary: Option<PathBuf>, file: File) -> io::Result<Self> {
        let writer = BufWriter::with_capacity(BUFFER_BYTES, Kept::new(file)?);
        Ok(Self { path: path.to_path_buf(), temporary, writer, bytes: 0 })
    }

    /// The file's name, for errors.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name; the number of bytes.
    pub(crate) fn commit(mut self) -> Result<u64> {
        self.writer.flush().map_err(|error| Error::io(&self.path, error))?;
        if let Some(temporary) = &self.temporary {
            std::fs::rename(temporary, &self.path).map_err(|error| Error::io(&self.path, error))?;
        }
        self.temporary = None;
        Ok(self.bytes)
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nothing more can be done here about a file that cannot be removed.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_dead_are_removed_and_no_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let (dead, alive) = (gone.id(), std::process::id());
        let place = |name: String| directory.path().join(name);
        let (abandoned, other, ours, held) = (
            place(format!(".out.csv.{dead}-7.tmp")),
            place(format!(".another.csv.{dead}-7.tmp")),
            place(format!(".out.csv.{alive}-7000.tmp")),
            place(format!(".out.csv.{dead}-8.tmp")),
        );
        for file in [&abandoned, &other, &ours, &held] {
            std::fs::write(file, "half").unwrap();
        }
        let holder = File::open(&held).unwrap();
        holder.try_lock().unwrap();
        let file = OutputFile::create(&path).unwrap();
        assert!(!abandoned.exists());
        assert!(other.exists() && ours.exists() && held.exists());
        file.commit().unwrap();
        drop(holder);
        OutputFile::create(&path).unwrap().commit().unwrap();
        assert!(!held.exists());
        for strange in ["", ".", ".out.csv.tmp", ".out.csv.-1.tmp", ".out.csv.x-1.tmp", "out.csv"] {
            assert_eq!(writer_of(OsStr::new(strange), OsStr::new("out.csv")), None, "{strange}");
        }
    }

    #[test]
    fn a_file_is_whole_or_not_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out.csv");
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        std::fs::write(&path, "old").unwrap();
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.flush().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(file.commit().unwrap(), 3);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(matches!(OutputFile::create(directory.path()), Err(Error::Io { .. })));
        let missing = directory.path().join("no/such/dir.csv");
        assert!(matches!(OutputFile::create(&missing), Err(Error::Io { .. })));
    }

    #[test]
    fn a_file_of_the_program_is_not_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let (path, own) = (directory.path().join("out.csv"), directory.path().join("own"));
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        // As a program does that closes all descriptors, and gets the number for a file.
        let number = file.writer.get_mut().file.take().unwrap();
        drop(number);
        file.writer.get_mut().file = Some(File::create(&own).unwrap());
        assert!(matches!(file.commit(), Err(Error::Io { .. })));
        assert_eq!(std::fs::read(&own).unwrap(), b"");
        assert!(!path.exists());
    }
}
