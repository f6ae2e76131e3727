//! Temporary files for what operators have no memory for: [`disk`].
//!
//! Sorts, aggregations, joins and exchanges ask for files, write batches to them, and read them
//! again. A file is a list of *blocks*. Blocks of many files lie in one *container*, a file without
//! a name. So nothing is left in any folder, however the process ends, and a query with thousands
//! of files has few descriptors.
//!
//! * A writer has a container for itself and appends to it, so writers do not wait for each other.
//!   A container that is full, or that nobody's blocks lie in any more, is closed.
//! * A file that is dropped gives its blocks' space back at once.
//! * Each block has a checksum. The engine does not check what it reads back, so bytes that a disk
//!   has changed would be undefined behaviour; here they are an error.
//! * `max_temp_directory_size` counts the bytes of all files of an environment.
//!
//! **Exchanges.** An exchange (`RepartitionExec`) that may not hold a batch writes it to a file,
//! and tells the reader that the next batch is on the disk. DataFusion 55.2 shares one file among
//! several batches, and opens a second one where two inputs write at the same time. The reader
//! follows the first file alone: it waits there although its batch is in the second file. Once all
//! readers wait so, the inputs wait for the readers, and the query never ends
//! (<https://github.com/apache/datafusion/issues/24883>). So does an exchange that cannot write,
//! since its reader waits for a file that nobody completes. Therefore:
//!
//! * Each batch has a file of its own ([`configure`]). A thread that has begun a file completes it
//!   without waiting for anybody, so no reader waits for a file that others have to go on with.
//! * Writing does not fail. The error comes where the batch is read.
//!
//! **Fork.** A child keeps nothing of its parent's files ([`NamelessFile`]), and makes an
//! environment of its own.

use std::io::{Error as IoError, ErrorKind, Result as IoResult, Write};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use futures::stream;
use parking_lot::Mutex;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::temporary::{Folder, NamelessFile, longest_file};

use crate::options::temporary::{Directory, Most, TemporaryFiles};

/// Bytes of a file behind which an exchange begins another one: behind each batch.
const FILE_BYTES: usize = 1;
/// What an exchange says when it asks for a file.
const ASKED_BY_EXCHANGES: &str = "SpillPool";
/// Bytes of a block, but of the last one of a file.
const BLOCK_BYTES: usize = 128 << 10;
/// Bytes of a container.
const CONTAINER_BYTES: u64 = 1 << 30;
/// Space is given back in pages, so no two files share one.
const PAGE_BYTES: u64 = 4096;
/// Containers that wait for the next writer.
const MAX_IDLE: usize = 64;

/// Lets the exchanges of a session write one batch a file.
pub(crate) fn configure(options: &mut ConfigOptions) -> EngineResult<()> {
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(FILE_BYTES)?;
    Ok(())
}

/// The disk of an environment.
pub(crate) fn disk(settings: &TemporaryFiles) -> DiskManagerBuilder {
    let store =
        Store { settings: settings.clone(), bytes: AtomicU64::new(0), idle: Mutex::default() };
    DiskManagerBuilder::default().with_temp_file_factory(Arc::new(Files(Arc::new(store))))
}

/// Makes files.
struct Files(Arc<Store>);

impl TempFileFactory for Files {
    fn create_temp_file(&self, description: &str) -> EngineResult<Arc<dyn SpillFile>> {
        let is_of_exchange = description == ASKED_BY_EXCHANGES;
        let store = Arc::clone(&self.0);
        Ok(Arc::new(File(Arc::new(Blocks { store, is_of_exchange, written: Mutex::default() }))))
    }
}

/// The files of an environment.
struct Store {
    settings: TemporaryFiles,
    /// Bytes in blocks.
    bytes: AtomicU64,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// Containers that nobody writes to. Only blocks keep them.
    containers: Vec<Weak<Container>>,
    /// What the containers of now are for. It ends with them.
    usage: Weak<Usage>,
}

/// What holds from the first container until the last one is closed.
struct Usage {
    folder: Folder,
    /// Bytes that blocks may have together.
    most: u64,
}

/// A file without a name, for blocks.
struct Container {
    file: NamelessFile,
    usage: Arc<Usage>,
    /// Where the next block begins; its writer alone changes it.
    end: AtomicU64,
    /// How long it may become.
    most: u64,
}

impl Store {
    /// A container for one writer.
    fn container(&self) -> Result<Arc<Container>> {
        let mut idle = self.idle.lock();
        while let Some(last) = idle.containers.pop() {
            // A forked child does not have its parent's.
            if let Some(container) = last.upgrade().filter(|it| it.file.is_of_this_process()) {
                return Ok(container);
            }
        }
        let folder = match &self.settings.directory {
            Directory::Nowhere => return Err(no_folder()),
            directory => directory.named().unwrap_or_else(Folder::of_environment),
        };
        let file = folder.nameless_file()?;
        let usage = match idle.usage.upgrade() {
            Some(usage) if usage.folder == folder => usage,
            _ => {
                let most = match self.settings.most {
                    Most::Bytes(most) => most,
                    Most::OfDisk(percent) => file.free_bytes().map_or(u64::MAX, |free| {
                        let part = u128::from(free) * u128::from(percent) / 100;
                        // Blocks that there are in another folder count, and take no space here.
                        (part as u64).saturating_add(self.bytes.load(Ordering::Relaxed))
                    }),
                };
                let usage = Arc::new(Usage { folder, most });
                idle.usage = Arc::downgrade(&usage);
                usage
            }
        };
        let most = CONTAINER_BYTES.min(longest_file());
        Ok(Arc::new(Container { file, usage, end: AtomicU64::new(0), most }))
    }

    /// A writer does not need its container any more.
    fn take_back(&self, container: &Arc<Container>) {
        // In a forked child another thread may hold the lock for ever.
        if !container.file.is_of_this_process() {
            return;
        }
        let end = container.end.load(Ordering::Relaxed).next_multiple_of(PAGE_BYTES);
        container.end.store(end, Ordering::Relaxed);
        let mut idle = self.idle.lock();
        if end < container.most && idle.containers.len() < MAX_IDLE {
            idle.containers.push(Arc::downgrade(container));
        }
    }
}

fn no_folder() -> Error {
    let message = "temp_directory is empty, so nothing is written that does not fit into memory; \
                   name a directory (SET temp_directory), or raise memory_limit";
    Error::TemporaryFile { folder: None, is_full: true, errno: None, message: message.to_string() }
}

/// Part of a file.
#[derive(Clone)]
struct Block {
    container: Arc<Container>,
    at: u64,
    len: usize,
    checksum: u64,
}

impl Block {
    fn read(&self) -> Result<Vec<u8>> {
        let (container, at) = (&self.container, self.at);
        let read = container.file.read(at, self.len, self.checksum);
        read.map_err(|error| container.usage.folder.failed("read", &error))
    }
}

/// A file.
struct File(Arc<Blocks>);

struct Blocks {
    store: Arc<Store>,
    /// Then errors of writing come where it is read, and it is read at once.
    is_of_exchange: bool,
    written: Mutex<Written>,
}

#[derive(Default)]
struct Written {
    blocks: Vec<Block>,
    bytes: u64,
    /// Why the rest is missing.
    failed: Option<Error>,
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let written = self.written.get_mut();
        self.store.bytes.fetch_sub(written.bytes, Ordering::Relaxed);
        let mut rest = written.blocks.as_slice();
        while let Some(first) = rest.first() {
            let is_behind = |pair: &[Block]| {
                let (before, block) = (&pair[0], &pair[1]);
                Arc::ptr_eq(&before.container, &block.container)
                    && before.at + before.len as u64 == block.at
            };
            let count = 1 + rest.windows(2).take_while(|pair| is_behind(pair)).count();
            let last = &rest[count - 1];
            let end = (last.at + last.len as u64).next_multiple_of(PAGE_BYTES);
            first.container.file.give_back(first.at..end);
            rest = &rest[count..];
        }
    }
}

impl SpillFile for File {
    fn size(&self) -> Option<u64> {
        Some(self.0.written.lock().bytes)
    }

    fn read_stream(&self) -> EngineResult<Pin<Box<dyn Stream<Item = EngineResult<Bytes>> + Send>>> {
        let file = Arc::clone(&self.0);
        // To its present end: with other settings more batches may follow.
        Ok(Box::pin(stream::try_unfold(0, move |from| next_bytes(Arc::clone(&file), from))))
    }

    fn open_writer(&self) -> EngineResult<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer { file: Arc::clone(&self.0), buffer: Vec::new(), container: None }))
    }
}

/// The next bytes of a file, and the number of the block behind them.
async fn next_bytes(file: Arc<Blocks>, from: usize) -> EngineResult<Option<(Bytes, usize)>> {
    let blocks = file.blocks_from(from)?;
    let next = from + blocks.len();
    if blocks.is_empty() {
        return Ok(None);
    }
    let read = SpawnedTask::spawn_blocking(move || bytes_of(&blocks)).join().await;
    let read = read.map_err(|error| DataFusionError::External(error.into()))??;
    Ok(Some((Bytes::from(read), next)))
}

impl Blocks {
    /// What is read next: one block, or all of a batch.
    fn blocks_from(&self, from: usize) -> Result<Vec<Block>> {
        let written = self.written.lock();
        if let Some(error) = &written.failed {
            return Err(error.clone());
        }
        let rest = written.blocks.get(from..).unwrap_or_default();
        let count = if self.is_of_exchange { rest.len() } else { rest.len().min(1) };
        Ok(rest[..count].to_vec())
    }
}

/// The bytes of blocks, one behind the other.
fn bytes_of(blocks: &[Block]) -> Result<Vec<u8>> {
    if let [block] = blocks {
        return block.read();
    }
    let mut all = Vec::with_capacity(blocks.iter().map(|block| block.len).sum());
    for block in blocks {
        all.extend_from_slice(&block.read()?);
    }
    Ok(all)
}

/// Writes a file. That of an exchange keeps the error for its reader.
struct Writer {
    file: Arc<Blocks>,
    /// What comes into the next block.
    buffer: Vec<u8>,
    container: Option<Arc<Container>>,
}

impl Writer {
    /// Writes what is in the buffer.
    fn write_block(&mut self) -> Result<()> {
        let mut from = 0;
        while from < self.buffer.len() {
            let container = match &mut self.container {
                Some(container) => container,
                None => self.container.insert(self.file.store.container()?),
            };
            let at = container.end.load(Ordering::Relaxed);
            let rest = &self.buffer[from..];
            let room = usize::try_from(container.most.saturating_sub(at)).unwrap_or(usize::MAX);
            if room == 0 {
                if at == 0 {
                    let too_long = IoError::from(ErrorKind::FileTooLarge);
                    return Err(container.usage.folder.failed("write", &too_long));
                }
                self.container = None;
                continue;
            }
            let block = &rest[..rest.len().min(room)];
            let written = add_block(&self.file, container, at, block);
            if let Err(error) = written {
                container
                    .file
                    .give_back(at..(at + block.len() as u64).next_multiple_of(PAGE_BYTES));
                return Err(error);
            }
            from += block.len();
        }
        self.buffer.clear();
        Ok(())
    }

    /// Runs a step; an exchange goes on when it fails, and writes nothing more.
    fn step(&mut self, step: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.file.written.lock().failed.is_some() {
            return Ok(());
        }
        match step(self) {
            Err(error) if self.file.is_of_exchange => {
                self.buffer = Vec::new();
                self.file.written.lock().failed = Some(error);
                Ok(())
            }
            result => result,
        }
    }
}

/// Writes a block into a container, and adds it to a file.
fn add_block(file: &Blocks, container: &Arc<Container>, at: u64, block: &[u8]) -> Result<()> {
    let (store, usage, count) = (&file.store, &container.usage, block.len() as u64);
    let before = store.bytes.fetch_add(count, Ordering::Relaxed);
    let written = match before + count > usage.most {
        true => Err(over_limit(usage)),
        false => {
            let written = container.file.write(block, at);
            written.map_err(|error| usage.folder.failed("write", &error))
        }
    };
    let checksum = written.inspect_err(|_| {
        store.bytes.fetch_sub(count, Ordering::Relaxed);
    })?;
    container.end.store(at + count, Ordering::Relaxed);
    let mut written = file.written.lock();
    written.bytes += count;
    let container = Arc::clone(container);
    written.blocks.push(Block { container, at, len: block.len(), checksum });
    Ok(())
}

fn over_limit(usage: &Usage) -> Error {
    let most = usage.most;
    let message = format!(
        "queries need more than {most} bytes of temporary files, the most that \
         max_temp_directory_size allows; raise it, or memory_limit"
    );
    let folder = Some(usage.folder.path().to_path_buf());
    Error::TemporaryFile { folder, is_full: true, errno: None, message }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
        let count = bytes.len().min(BLOCK_BYTES - self.buffer.len());
        self.step(|writer| {
            writer.buffer.extend_from_slice(&bytes[..count]);
            if writer.buffer.len() == BLOCK_BYTES { writer.write_block() } else { Ok(()) }
        })?;
        Ok(count)
    }

    fn flush(&mut self) -> IoResult<()> {
        Ok(self.step(Self::write_block)?)
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> EngineResult<()> {
        Ok(self.step(Self::write_block)?)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(container) = self.container.take() {
            self.file.store.take_back(&container);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use futures::TryStreamExt;
    use swingdb_common::runtime::threads;
    use swingdb_common::runtime::wait::block_on;

    use super::*;

    fn store(directory: Directory, most: Most) -> Files {
        let settings = TemporaryFiles { directory, most };
        Files(Arc::new(Store { settings, bytes: AtomicU64::new(0), idle: Mutex::default() }))
    }

    fn in_folder(folder: &tempfile::TempDir, most: Most) -> Files {
        store(Directory::Named(folder.path().to_path_buf()), most)
    }

    /// All bytes of a file, and how many pieces they came in.
    fn read(file: &Arc<dyn SpillFile>) -> Result<(Vec<u8>, usize)> {
        let stream = file.read_stream()?;
        let mut task = threads::spawn(stream.try_collect::<Vec<Bytes>>())?;
        let pieces = block_on(task.join())??;
        Ok((pieces.concat(), pieces.len()))
    }

    fn containers(files: &Files) -> usize {
        let idle = files.0.idle.lock();
        idle.containers.iter().filter(|container| container.strong_count() > 0).count()
    }

    #[test]
    fn what_is_written_is_read_by_many_threads() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let folder = tempfile::tempdir().unwrap();
        let files = in_folder(&folder, Most::default());
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (files, folder) = (&files, &folder);
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed ^ thread);
                    let mut kept: Vec<(Arc<dyn SpillFile>, Vec<u8>)> = Vec::new();
                    for _ in 0..60 {
                        let kind = if rng.bool() { ASKED_BY_EXCHANGES } else { "Sorting" };
                        let file = files.create_temp_file(kind).unwrap();
                        let (mut writer, mut model) = (file.open_writer().unwrap(), Vec::new());
                        for _ in 0..rng.usize(..6) {
                            let most = if rng.bool() { 100 } else { 3 * BLOCK_BYTES };
                            let bytes = vec![rng.u8(..); rng.usize(..most)];
                            writer.write_all(&bytes).unwrap();
                            model.extend_from_slice(&bytes);
                            if rng.u8(..3) == 0 {
                                writer.flush().unwrap();
                                assert_eq!(read(&file).unwrap().0, model);
                            }
                        }
                        writer.finish().unwrap();
                        assert_eq!(file.size(), Some(model.len() as u64));
                        kept.push((file, model));
                        if kept.len() > 8 {
                            let (file, model) = kept.swap_remove(rng.usize(..kept.len()));
                            assert!(read(&file).unwrap().0 == model);
                        }
                        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
                    }
                    assert!(kept.iter().all(|(file, model)| read(file).unwrap().0 == *model));
                });
            }
        });
        assert_eq!(files.0.bytes.load(Ordering::SeqCst), 0);
        assert_eq!(containers(&files), 0, "closed with the last file");
    }

    #[test]
    fn many_files_have_one_descriptor_and_give_their_space_back() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let files = in_folder(&folder, Most::default());
        let made: Vec<_> = (0..1000)
            .map(|_| {
                let file = files.create_temp_file(ASKED_BY_EXCHANGES).unwrap();
                let mut writer = file.open_writer().unwrap();
                writer.write_all(&[7; 5000]).unwrap();
                writer.finish().unwrap();
                file
            })
            .collect();
        assert_eq!(containers(&files), 1);
        let space = || {
            let mut files = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
            let ours = |path: &Path| path.starts_with(folder.path());
            let file = files.find(|it| std::fs::read_link(it.path()).is_ok_and(|it| ours(&it)));
            std::fs::metadata(file.unwrap().path()).unwrap().blocks() * 512
        };
        let (before, mut kept) = (space(), made);
        assert!(before >= 1000 * 5000, "{before}");
        kept.truncate(1);
        assert_eq!(files.0.bytes.load(Ordering::SeqCst), 5000);
        assert!(space() < before / 100, "{} of {before}", space());
        assert_eq!(read(&kept[0]).unwrap().0, [7; 5000]);
    }

    #[test]
    fn an_exchange_reads_a_batch_at_once_and_others_by_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let files = in_folder(&folder, Most::default());
        for (kind, pieces) in [(ASKED_BY_EXCHANGES, 1), ("Sorting", 3)] {
            let file = files.create_temp_file(kind).unwrap();
            let mut writer = file.open_writer().unwrap();
            writer.write_all(&vec![1; 2 * BLOCK_BYTES + 1]).unwrap();
            writer.finish().unwrap();
            assert_eq!(read(&file).unwrap().1, pieces, "{kind}");
        }
    }

    #[test]
    fn more_than_is_allowed_is_an_error_and_all_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Directory::Named(folder.path().join("a/b"));
        for (files, words) in [
            (in_folder(&folder, Most::Bytes(200_000)), "max_temp_directory_size"),
            (in_folder(&folder, Most::OfDisk(0)), "max_temp_directory_size"),
            (store(Directory::Nowhere, Most::default()), "temp_directory is empty"),
            (store(missing, Most::default()), "make it, or name another folder"),
        ] {
            let write = |kind: &str| -> Result<Arc<dyn SpillFile>> {
                let file = files.create_temp_file(kind)?;
                let mut writer = file.open_writer()?;
                for _ in 0..3 {
                    writer.write_all(&[1; 100_000])?;
                }
                writer.finish()?;
                Ok(file)
            };
            let Err(error) = write("Sorting") else { panic!() };
            assert!(matches!(error, Error::TemporaryFile { .. }), "{error:?}");
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(files.0.bytes.load(Ordering::SeqCst), 0);
            // The exchange goes on, and whoever reads is told.
            let of_exchange = write(ASKED_BY_EXCHANGES).unwrap();
            let error = read(&of_exchange).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            drop(of_exchange);
            assert_eq!(files.0.bytes.load(Ordering::SeqCst), 0);
        }
    }
}
