//! Input that gives its bytes once: pipes, sockets, the standard input.
//!
//! An import reads the beginning of its files several times, to find out packing, format and types.
//! So what is read of a stream is kept, and read again from memory, until the last reading begins
//! ([`Stream::last_reading`]). Formats that are read from their end need all of it first:
//! [`Stream::reader`] copied into a [`nameless_file`].
//!
//! Waiting for whoever writes ends when the statement is interrupted. A writer that dies looks like
//! one that has ended; formats with an end of their own tell the difference.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use swingdb_common::error::Result;
use swingdb_common::runtime::temporary::Folder;
use swingdb_common::runtime::{cancel, pipes};

/// Between two looks at whether the statement is interrupted.
const LOOK_MS: i32 = 100;
/// Room that pipes get, where the system allows it.
pub(crate) const PIPE_BYTES: usize = 1 << 20;

/// Whether a path names the standard input.
pub(crate) fn is_standard_input(path: &str) -> bool {
    matches!(path, "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0")
}

/// A stream to read.
#[derive(Debug)]
pub(crate) struct Stream {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The beginning.
    kept: Vec<u8>,
    /// Bytes read so far.
    count: u64,
    /// What is read from now on is not kept.
    last: bool,
    /// What was kept is gone.
    gone: bool,
}

impl Stream {
    /// Opens what is at `path`, if it is a stream.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Arc<Self>>> {
        let file = match path.to_str() {
            Some(path) if is_standard_input(path) => {
                // A socket cannot be opened by its name, and a file begins where the program
                // before has stopped.
                File::from(io::stdin().as_fd().try_clone_to_owned()?)
            }
            _ if std::fs::metadata(path)?.file_type().is_fifo() => {
                // Otherwise to open it waits for somebody who writes, and hears of no interrupt.
                OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?
            }
            _ => return Ok(None),
        };
        if file.metadata()?.file_type().is_fifo() {
            pipes::widen(file.as_fd(), PIPE_BYTES);
        }
        Ok(Some(Arc::new(Self { file, state: Mutex::default() })))
    }

    /// Bytes read so far.
    pub(crate) fn count(&self) -> u64 {
        self.state.lock().count
    }

    /// The next reader is the last one: what it reads is not kept any more.
    pub(crate) fn last_reading(&self) {
        self.state.lock().last = true;
    }

    /// A reader from the beginning on.
    pub(crate) fn reader(self: &Arc<Self>) -> impl Read + Send + use<> {
        Reader { stream: Arc::clone(self), at: 0, beyond: false }
    }

    fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            cancel::check().map_err(|_| io::Error::other("interrupted"))?;
            if !pipes::wait_readable(self.file.as_fd(), LOOK_MS)? {
                continue;
            }
            match (&self.file).read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

struct Reader {
    stream: Arc<Stream>,
    /// In what is kept.
    at: usize,
    /// What was kept has been read, and is gone.
    beyond: bool,
}

impl Read for Reader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let state = &mut *self.stream.state.lock();
        if state.gone && !self.beyond {
            return Err(io::Error::other("gives its bytes only once, and has given them"));
        }
        let kept = state.kept.get(self.at..).unwrap_or_default();
        if !kept.is_empty() {
            let len = kept.len().min(out.len());
            out[..len].copy_from_slice(&kept[..len]);
            self.at += len;
            return Ok(len);
        }
        if state.last && !self.beyond {
            (state.kept, state.gone, self.beyond) = (Vec::new(), true, true);
        }
        let read = self.stream.read(out)?;
        state.count += read as u64;
        if !state.last {
            state.kept.extend_from_slice(&out[..read]);
            self.at += read;
        }
        Ok(read)
    }
}

/// A new file on a disk that no folder shows, and the folder that it lies in.
pub(crate) fn nameless_file() -> Result<(File, Folder)> {
    let folder = cancel::temporary_folder();
    Ok((folder.plain_file()?, folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(folder: &Path, bytes: &'static [u8]) -> Arc<Stream> {
        let path = folder.join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let opened = Stream::open(&path).unwrap().unwrap();
        std::thread::spawn(move || std::fs::write(path, bytes).unwrap());
        opened
    }

    fn take(reader: &mut impl Read, most: u64) -> Vec<u8> {
        let mut out = Vec::new();
        reader.take(most).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn the_beginning_is_read_again_until_the_last_reading() {
        let folder = tempfile::tempdir().unwrap();
        let stream = stream(folder.path(), b"0123456789");
        assert_eq!(take(&mut stream.reader(), 4), b"0123");
        let mut second = stream.reader();
        assert_eq!(take(&mut second, 2), b"01");
        assert_eq!(take(&mut second, 4), b"2345");
        assert_eq!(stream.count(), 6);
        stream.last_reading();
        let mut last = stream.reader();
        assert_eq!(take(&mut last, 5), b"01234");
        assert_eq!(take(&mut last, 100), b"56789");
        assert_eq!((take(&mut last, 1), stream.count()), (vec![], 10));
        let again = stream.reader().read(&mut [0; 4]).unwrap_err();
        assert!(again.to_string().contains("only once"), "{again}");
    }

    #[test]
    fn files_are_no_streams() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "x").unwrap();
        assert!(Stream::open(&path).unwrap().is_none());
        assert!(Stream::open(&folder.path().join("missing")).is_err());
    }
}
