//! The file of an export: complete under its name, or not there.
//!
//! Everything is written to a temporary file beside the target, which takes the target's name at
//! the end. Devices, pipes and the standard output have no contents to keep whole, and are written
//! directly. A pipe without a reader is an error.
//!
//! Parts of a message ([`OutputFile::write_parts`]) go to the operating system from where they lie,
//! without a copy in between. Parts can be *lent* to a pipe ([`OutputFile::lend`]): the pipe shows
//! their pages, and nothing is copied before the reader does. The parts are held until the reader
//! has read them. They hold the segments of tables, and these hold the lease of their state, so no
//! page changes before. A reader must read, which copies. A reader that moves the pages on, by
//! `splice` or `tee`, may see them change later; we cannot detect this.
//!
//! A process that is killed leaves its temporary file. The next export to the same name removes the
//! file: its name tells the process, and an unheld lock means no writer.
//!
//! The program may close the file while it is written, and open its own file at that number. Then
//! the export fails, and the program's file is neither written to nor closed.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, IoSlice, Write};
use std::os::fd::{AsFd, IntoRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::{CancelToken, checkpoint};
use swingdb_common::runtime::pipes;

use crate::input::stream::PIPE_BYTES;

const BUFFER_BYTES: usize = 1 << 20;
/// Parts below this size are copied into a pipe: lending takes a slot of the pipe for each page.
const MIN_LENT_BYTES: usize = 16 << 10;
/// Between two looks at whether the statement is interrupted.
const LOOK_MS: i32 = 100;
/// The longest sleep between two looks at whether the reader has read.
const MAX_LOOK: Duration = Duration::from_millis(5);
/// How long an export that has failed waits for the reader of what it has lent.
const PATIENCE: Duration = Duration::from_secs(1);
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

/// The standard output or error, where `path` means it. A socket cannot be opened by that name; a
/// pipe whose reader has gone would be waited for; a file would be written from its beginning on,
/// or another one take its place.
fn standard(path: &Path) -> io::Result<Option<File>> {
    let number = |name: &str| {
        let prefixes = ["/dev/fd/", "/proc/self/fd/"];
        prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).map(str::to_owned)
    };
    let Some(name) = path.to_str() else { return Ok(None) };
    let file = match number(name).as_deref().unwrap_or(name) {
        "1" | "/dev/stdout" => io::stdout().as_fd().try_clone_to_owned()?,
        "2" | "/dev/stderr" => io::stderr().as_fd().try_clone_to_owned()?,
        _ => return Ok(None),
    };
    Ok(Some(file.into()))
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
struct OpenFile {
    /// There until it is dropped.
    file: Option<File>,
    /// Device and inode.
    identity: (u64, u64),
}

impl OpenFile {
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

impl Write for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.here()?.write(bytes).map_err(gone)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.here()?.write_vectored(parts).map_err(gone)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.here().is_err() {
            // The number is the program's.
            let _ = self.file.take().map(IntoRawFd::into_raw_fd);
        }
    }
}

/// Says what a broken pipe is.
fn gone(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => {
            io::Error::new(error.kind(), "the reader has ended before the end of the data")
        }
        _ => error,
    }
}

/// What a pipe shows of this process's memory.
struct Lent {
    /// Each with the place of its end among all bytes written to the pipe.
    parts: VecDeque<(u64, Buffer)>,
    /// Bytes written to the pipe.
    written: u64,
}

impl Lent {
    /// Lets go of what has been read.
    fn release(&mut self, pipe: &File) -> io::Result<()> {
        // Others may write to the pipe as well: then it is less than this that has been read.
        let read = self.written.saturating_sub(pipes::unread(pipe.as_fd())?);
        while self.parts.front().is_some_and(|(end, _)| *end <= read) {
            self.parts.pop_front();
        }
        Ok(())
    }
}

/// A file in the making; removed when dropped before [`OutputFile::commit`].
pub(crate) struct OutputFile {
    path: PathBuf,
    /// `None` for what is written directly, and after the end.
    temporary: Option<PathBuf>,
    writer: BufWriter<OpenFile>,
    bytes: u64,
    /// Where memory is lent instead of copied.
    lent: Option<Lent>,
    /// Whether it is the standard output or error.
    is_standard: bool,
}

impl OutputFile {
    /// Opens the file that will become `path`.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let fail = |error| Error::io(path, error);
        if let Some(file) = standard(path).map_err(fail)? {
            let mut file = Self::new(path, None, file).map_err(fail)?;
            file.is_standard = true;
            return Ok(file);
        }
        let existing = std::fs::metadata(path).ok();
        if existing.as_ref().is_some_and(|metadata| metadata.is_dir()) {
            let error = io::Error::new(io::ErrorKind::IsADirectory, "is a directory");
            return Err(Error::io(path, error));
        }
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
        if file.metadata()?.file_type().is_fifo() {
            pipes::widen(file.as_fd(), PIPE_BYTES);
        }
        let writer = BufWriter::with_capacity(BUFFER_BYTES, OpenFile::new(file)?);
        Ok(Self {
            path: path.to_path_buf(),
            temporary,
            writer,
            bytes: 0,
            lent: None,
            is_standard: false,
        })
    }

    /// The file's name, for errors.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its reader gets one byte after the other: the standard output, a pipe, a socket.
    pub(crate) fn is_stream(&mut self) -> bool {
        let kind = self.writer.get_mut().here().and_then(|file| file.metadata());
        let is_one = |kind: std::fs::FileType| kind.is_fifo() || kind.is_socket();
        self.is_standard || kind.is_ok_and(|facts| is_one(facts.file_type()))
    }

    /// From now on large parts are lent to the reader. An error unless this is a pipe.
    pub(crate) fn lend(&mut self) -> Result<()> {
        let kind = self.writer.get_mut().here().and_then(|file| file.metadata());
        if !kind.map_err(|error| Error::io(&self.path, error))?.file_type().is_fifo() {
            let path = self.path.display();
            return Err(Error::plan(format!("option zero_copy is for pipes; {path} is none")));
        }
        self.lent = Some(Lent { parts: VecDeque::new(), written: 0 });
        Ok(())
    }

    /// Writes parts that follow one another, from where they lie.
    pub(crate) fn write_parts(
        &mut self,
        parts: Vec<Buffer>,
        token: Option<&CancelToken>,
    ) -> Result<()> {
        self.bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        if self.lent.is_none() {
            let written = write_all(&mut self.writer, &parts);
            return written.map_err(|error| Error::io(&self.path, error));
        }
        for run in parts.chunk_by(|a, b| a.len().max(b.len()) < MIN_LENT_BYTES) {
            match run {
                [large] if large.len() >= MIN_LENT_BYTES => self.lend_one(large, token)?,
                small => self.copy_in(small, token)?,
            }
        }
        Ok(())
    }

    /// Copies into a pipe that also shows lent parts.
    fn copy_in(&mut self, parts: &[Buffer], token: Option<&CancelToken>) -> Result<()> {
        let fail = |error| Error::io(&self.path, error);
        let pipe = self.writer.get_mut().here().map_err(fail)?;
        while !pipes::wait_writable(pipe.as_fd(), LOOK_MS).map_err(gone).map_err(fail)? {
            token.map_or(Ok(()), CancelToken::check)?;
        }
        write_all(&mut self.writer, parts).map_err(fail)?;
        if let Some(lent) = &mut self.lent {
            lent.written += parts.iter().map(|part| part.len() as u64).sum::<u64>();
        }
        Ok(())
    }

    fn lend_one(&mut self, part: &Buffer, token: Option<&CancelToken>) -> Result<()> {
        let fail = |error| Error::io(&self.path, gone(error));
        let pipe = self.writer.get_mut().here().map_err(fail)?;
        let Some(lent) = &mut self.lent else { return Ok(()) };
        // Held from before the pipe shows it.
        lent.parts.push_back((lent.written + part.len() as u64, part.clone()));
        let mut at = 0;
        while at < part.len() {
            match pipes::lend(pipe.as_fd(), &part[at..]) {
                Ok(taken) => {
                    at += taken;
                    lent.written += taken as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    lent.release(pipe).map_err(fail)?;
                    pipes::wait_writable(pipe.as_fd(), LOOK_MS).map_err(fail)?;
                    token.map_or(Ok(()), CancelToken::check)?;
                }
                Err(error) => return Err(fail(error)),
            }
        }
        Ok(())
    }

    /// Waits until the reader has read what is lent.
    pub(crate) fn take_back(&mut self, token: Option<&CancelToken>) -> Result<()> {
        let fail = |error| Error::io(&self.path, gone(error));
        let mut pause = Duration::from_micros(50);
        while let Some(lent) = &mut self.lent {
            let pipe = self.writer.get_mut().here().map_err(fail)?;
            lent.release(pipe).map_err(fail)?;
            if lent.parts.is_empty() {
                break;
            }
            // Without a reader nobody will see what becomes of the pages.
            pipes::wait_writable(pipe.as_fd(), 0).map_err(fail)?;
            token.map_or(Ok(()), CancelToken::check)?;
            std::thread::sleep(pause);
            pause = (pause * 2).min(MAX_LOOK);
        }
        Ok(())
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
        // An export that has failed: its reader may not see pages change that it can still read.
        let until = Instant::now() + PATIENCE;
        while let Some(lent) = &mut self.lent
            && !lent.parts.is_empty()
            && Instant::now() < until
        {
            let Ok(pipe) = self.writer.get_mut().here() else { break };
            let looked = lent.release(pipe);
            if looked.is_err() || pipes::wait_writable(pipe.as_fd(), 0).is_err() {
                break;
            }
            std::thread::sleep(MAX_LOOK);
        }
        if let Some(temporary) = &self.temporary {
            // Nothing more can be done here about a file that cannot be removed.
            let _ = std::fs::remove_file(temporary);
        }
    }
}

/// Writes parts that follow one another, without a copy.
fn write_all(writer: &mut BufWriter<OpenFile>, parts: &[Buffer]) -> io::Result<()> {
    writer.flush()?;
    let slices = parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part));
    let mut slices: Vec<IoSlice<'_>> = slices.collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match writer.get_mut().write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
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
