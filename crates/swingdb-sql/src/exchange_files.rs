//! Files for the batches that an exchange has no memory for: [`disk`].
//!
//! An exchange (`RepartitionExec`) that may not hold a batch writes it to a file, and tells the
//! reader that the next batch is on the disk. DataFusion 55.2 shares one file among several
//! batches, and opens a second one where two inputs write at the same time. The reader follows the
//! first file alone: it waits there although its batch is in the second file. Once all readers wait
//! so, the inputs wait for the readers, and the query never ends
//! (<https://github.com/apache/datafusion/issues/24883>). So does an exchange that cannot write,
//! since its reader waits for a file that nobody completes.
//!
//! Therefore:
//!
//! * Each batch has a file of its own ([`configure`]). A thread that has begun a file completes it
//!   without waiting for anybody, so no reader waits for a file that others have to go on with.
//! * Writing does not fail. The error comes where the batch is read.
//!
//! As there may be many files, each is open only while it is written or read. A file is deleted
//! with its batch, and the folder with its last file. After a kill both stay in the system's folder
//! for temporary files. Other operators than exchanges write DataFusion's own files.

use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, ErrorKind, Read, Result as IoResult, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use futures::stream;
use parking_lot::Mutex;
use tempfile::TempDir;

/// Bytes of a file behind which an exchange begins another one: behind each batch.
const FILE_BYTES: usize = 1;
/// Bytes that all exchanges of an environment may have in files.
const MAX_BYTES: u64 = 100 << 30;
/// What an exchange says when it asks for a file.
const ASKED_BY_EXCHANGES: &str = "SpillPool";

/// Lets the exchanges of a session write one batch a file.
pub(crate) fn configure(options: &mut ConfigOptions) -> Result<()> {
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(FILE_BYTES)?;
    Ok(())
}

/// The disk of an environment.
pub(crate) fn disk() -> Result<DiskManagerBuilder> {
    let others = Arc::new(DiskManager::builder().build()?);
    Ok(DiskManagerBuilder::default().with_temp_file_factory(Arc::new(Files::new(others))))
}

/// Makes files.
struct Files {
    folder: Mutex<Weak<TempDir>>,
    shared: Arc<Shared>,
    /// For operators that are no exchanges.
    others: Arc<DiskManager>,
}

#[derive(Default)]
struct Shared {
    next: AtomicU64,
    bytes: AtomicU64,
}

impl Files {
    fn new(others: Arc<DiskManager>) -> Self {
        Self { folder: Mutex::default(), shared: Arc::default(), others }
    }

    /// The folder of the files that there are, or a new one.
    fn folder(&self) -> Result<Arc<TempDir>> {
        let mut folder = self.folder.lock();
        if let Some(there) = folder.upgrade() {
            return Ok(there);
        }
        let made = Arc::new(tempfile::Builder::new().prefix("swingdb-exchange-").tempdir()?);
        *folder = Arc::downgrade(&made);
        Ok(made)
    }
}

impl TempFileFactory for Files {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        if description != ASKED_BY_EXCHANGES {
            return self.others.create_tmp_file(description);
        }
        let (folder, shared) = (self.folder()?, Arc::clone(&self.shared));
        let name = shared.next.fetch_add(1, Ordering::Relaxed).to_string();
        let path = folder.path().join(name);
        let written = Mutex::default();
        Ok(Arc::new(BatchFile(Arc::new(Batch { path, written, shared, _folder: folder }))))
    }
}

/// The file of one batch.
struct BatchFile(Arc<Batch>);

struct Batch {
    path: PathBuf,
    written: Mutex<Written>,
    shared: Arc<Shared>,
    _folder: Arc<TempDir>,
}

#[derive(Default)]
struct Written {
    bytes: u64,
    /// Why the rest is missing.
    failed: Option<IoError>,
}

impl Drop for Batch {
    fn drop(&mut self) {
        let bytes = self.written.get_mut().bytes;
        self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
        // Nothing is left to do about a file that cannot be deleted.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl SpillFile for BatchFile {
    fn path(&self) -> Option<&Path> {
        Some(&self.0.path)
    }

    fn size(&self) -> Option<u64> {
        Some(self.0.written.lock().bytes)
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let batch = Arc::clone(&self.0);
        // To its present end: with other settings more batches may follow.
        Ok(Box::pin(stream::try_unfold(0, move |from| {
            let batch = Arc::clone(&batch);
            async move {
                if let Some(error) = batch.written.lock().failed.take() {
                    return Err(DataFusionError::IoError(error));
                }
                let read = SpawnedTask::spawn_blocking(move || rest(&batch.path, from));
                let read = read.join().await;
                let read = read.map_err(|error| DataFusionError::External(error.into()))??;
                let end = from + read.len() as u64;
                Ok((end > from).then(|| (Bytes::from(read), end)))
            }
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer { batch: Arc::clone(&self.0), file: None }))
    }
}

/// The bytes of a file behind a place.
fn rest(path: &Path, from: u64) -> IoResult<Vec<u8>> {
    let (mut file, mut read) = (File::open(path)?, Vec::new());
    file.seek(SeekFrom::Start(from))?;
    file.read_to_end(&mut read)?;
    Ok(read)
}

/// Writes a batch, and keeps the error for its reader.
struct Writer {
    batch: Arc<Batch>,
    file: Option<File>,
}

impl Writer {
    fn append(&mut self, bytes: &[u8]) -> IoResult<()> {
        let count = bytes.len() as u64;
        let before = self.batch.shared.bytes.fetch_add(count, Ordering::Relaxed);
        self.batch.written.lock().bytes += count;
        if before + count > MAX_BYTES {
            let message = format!("exchanges have {MAX_BYTES} bytes in temporary files, the most");
            return Err(IoError::new(ErrorKind::QuotaExceeded, message));
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let made =
                    OpenOptions::new().write(true).create_new(true).open(&self.batch.path)?;
                self.file.insert(made)
            }
        };
        file.write_all(bytes)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        if self.batch.written.lock().failed.is_none()
            && let Err(error) = self.append(bytes)
        {
            self.batch.written.lock().failed = Some(error);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        self.file = None;
        Ok(())
    }
}
