//! The files of an import: finding them, telling their format, opening them for reading.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use parking_lot::Mutex;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::cancel;
use swingdb_common::runtime::cancel::StatementName;
use swingdb_common::runtime::meter::Meter;
use swingdb_common::runtime::temporary::Folder;

use crate::input::fetcher::{address, not_fetched};
use crate::input::parts::Parts;
use crate::input::remote;
use crate::input::stream::{Stream, is_standard_input, nameless_file};
use crate::options::encoding::TextEncoding;
use crate::options::{FileFormat, ImportOptions};

/// A pattern may match this many files.
pub const MAX_FILES: usize = 100_000;
/// Bytes read at a time from a compressed file.
const COMPRESSED_READ_BYTES: usize = 1 << 20;

/// The ends of packed files' names.
const PACKED: [&str; 3] = [".gz", ".zst", ".zstd"];

/// How the bytes of a text file are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

/// A file to read.
#[derive(Clone, Debug)]
pub struct InputFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) packing: Packing,
    /// First bytes, unpacked.
    head: Vec<u8>,
    /// What gives its bytes once; `bytes` says nothing then.
    stream: Option<Arc<Stream>>,
    /// All bytes of a stream, unpacked; those of an object that were fetched.
    copy: Option<Arc<File>>,
    /// The object whose bytes are fetched as they are needed.
    parts: Option<Arc<Parts>>,
    /// How its text is written; UTF-8 when `None`.
    encoding: Option<TextEncoding>,
}

/// Refuses to read from addresses of the network and of object stores.
pub(crate) fn check_local(path: &str) -> Result<()> {
    match address(path) {
        Some((scheme, rest)) => Err(not_fetched(scheme, rest, "")),
        None => Ok(()),
    }
}

/// Refuses to write to addresses of the network and of object stores.
pub fn check_local_output(path: &str) -> Result<()> {
    let Some((scheme, rest)) = address(path) else { return Ok(()) };
    let instead = match scheme {
        "s3" | "s3a" => format!(", such as with aws s3 cp --recursive . s3://{rest}"),
        "gs" | "gcs" => format!(", such as with gcloud storage cp -r . gs://{rest}"),
        _ => String::new(),
    };
    Err(Error::unsupported(format!(
        "{scheme}:// as the name of a file; write a file of this machine, and copy that{instead}"
    )))
}

/// What an import reads: as [`find_files`], and pipes and the standard input as well. These give
/// their bytes once, so nothing else reads them: a table in a query may be read several times.
pub(crate) fn find_input(path: &str, format: Option<FileFormat>) -> Result<Vec<InputFile>> {
    if remote::is_remote(path) {
        return find_remote(path, format);
    }
    let single = Path::new(path.strip_prefix("file://").unwrap_or(path));
    match Stream::open(single) {
        Ok(Some(stream)) => Ok(vec![InputFile::of_stream(single, stream)?.prepared(format)?]),
        // The search says it better.
        Ok(None) | Err(_) => find_files(path),
    }
}

/// What a query reads: as [`find_files`], and streams. These give their bytes once, while a
/// statement may be planned, and read its tables, several times. So their bytes are kept in a file
/// without a name: those of a FIFO until the statement has ended, those of the standard input for
/// all statements of the process.
pub(crate) fn find_read(path: &str, format: Option<FileFormat>) -> Result<Vec<InputFile>> {
    static STANDARD_INPUT: Mutex<Option<Result<InputFile>>> = Mutex::new(None);
    if remote::is_remote(path) {
        return find_remote(path, format);
    }
    if is_standard_input(path) {
        let mut known = STANDARD_INPUT.lock();
        let read = match known.as_ref() {
            Some(read) => read.clone(),
            None => {
                // Where no file can be made, nothing has been read yet.
                let file = nameless_file()?;
                let Some(stream) = stream_at(path)? else { return find_files(path) };
                known.insert(copied(path, stream, file)).clone()
            }
        };
        return Ok(vec![read?]);
    }
    let is_fifo = std::fs::metadata(path).is_ok_and(|facts| facts.file_type().is_fifo());
    match is_fifo && cancel::planning().is_some() {
        true => {
            let read = kept(path, || {
                let file = nameless_file()?;
                let read = stream_at(path)?.map(|stream| copied(path, stream, file));
                Ok(read.transpose()?.into_iter().collect())
            })?;
            if read.is_empty() { find_files(path) } else { Ok(read) }
        }
        false => find_files(path),
    }
}

/// The files at an address of an object store or of the web; of Parquet files their ends.
fn find_remote(path: &str, format: Option<FileFormat>) -> Result<Vec<InputFile>> {
    let in_parts = |address: &str| {
        let name = Path::new(address);
        // What is packed is read from its beginning.
        let is_packed = PACKED.iter().any(|end| address.to_ascii_lowercase().ends_with(end));
        format.or_else(|| format_by_name(name)) == Some(FileFormat::Parquet) && !is_packed
    };
    // The same address may be read as files of another format, too.
    let key = if in_parts(path) { format!("{path} in parts") } else { path.to_string() };
    kept(&key, || {
        let found = remote::find(path, in_parts)?.into_iter();
        let file = |object: remote::Object| match object {
            remote::Object::Whole { address, file, bytes } => {
                InputFile::of_copy(Path::new(&address), file, bytes)
            }
            remote::Object::Parts(parts) => InputFile::of_parts(parts),
        };
        found.map(file).collect()
    })
}

/// What `read` gives of a path, once for a statement, which may ask for it several times. So is its
/// error: what has been read of a stream is gone.
fn kept(path: &str, read: impl FnOnce() -> Result<Vec<InputFile>>) -> Result<Vec<InputFile>> {
    type Known = (StatementName, String, Result<Vec<InputFile>>);
    static READ: Mutex<Vec<Known>> = Mutex::new(Vec::new());
    let Some(statement) = cancel::planning() else { return read() };
    {
        let mut all = READ.lock();
        all.retain(|(name, _, _)| !name.has_ended());
        let is_this = |(name, known, _): &&Known| name.is_of(&statement) && known == path;
        if let Some((_, _, read)) = all.iter().find(is_this) {
            return read.clone();
        }
    }
    // Others read theirs meanwhile.
    let read = read();
    if !read.as_ref().is_ok_and(Vec::is_empty) {
        READ.lock().push((statement.name(), path.to_string(), read.clone()));
    }
    read
}

/// The stream at a path; `None` for what is none.
fn stream_at(path: &str) -> Result<Option<Arc<Stream>>> {
    let path = Path::new(path);
    Stream::open(path).map_err(|error| Error::io(path, error))
}

/// The bytes of a stream in a file without a name.
fn copied(path: &str, stream: Arc<Stream>, file: (File, Folder)) -> Result<InputFile> {
    InputFile::of_stream(Path::new(path), stream)?.copied(file)
}

/// The files that `path` names: itself, or what its pattern matches, in order of their names.
pub(crate) fn find_files(path: &str) -> Result<Vec<InputFile>> {
    check_local(path)?;
    let path = path.strip_prefix("file://").unwrap_or(path);
    let single = Path::new(path);
    if !is_pattern(path) {
        return Ok(vec![InputFile::inspect(single)?]);
    }
    let entries = glob::glob(path)
        .map_err(|error| Error::plan(format!("{path:?} is no file name pattern: {error}")))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io(error.path().to_path_buf(), error.into()))?;
        if entry.is_dir() {
            continue;
        }
        if files.len() == MAX_FILES {
            return Err(Error::plan(format!("{path:?} matches more than {MAX_FILES} files")));
        }
        files.push(InputFile::inspect(&entry)?);
    }
    match files.is_empty() {
        true => Err(no_such_file(path)),
        false => Ok(files),
    }
}

/// Whether a name stands for all names that are like it.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[']) && !Path::new(path).exists()
}

pub(crate) fn no_such_file(path: &str) -> Error {
    Error::NotFound { kind: ObjectKind::File, name: path.to_string(), suggestion: neighbour(path) }
}

/// A file beside the missing one whose name is nearly the same.
fn neighbour(path: &str) -> Option<String> {
    const MAX_NEIGHBOURS: usize = 1_000;
    let path = Path::new(path);
    let directory = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return None,
    };
    let name = path.file_name()?.to_str()?;
    let entries = std::fs::read_dir(directory).ok()?.flatten().take(MAX_NEIGHBOURS);
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    match Error::not_found(ObjectKind::File, name, &names) {
        Error::NotFound { suggestion, .. } => suggestion,
        _ => None,
    }
}

impl InputFile {
    /// The file of a path, which is no pattern.
    pub(crate) fn of_path(path: &Path) -> Result<Self> {
        Self::inspect(path)
    }

    /// Looks at a file's length and first bytes.
    fn inspect(path: &Path) -> Result<Self> {
        let fail = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => no_such_file(&path.to_string_lossy()),
            _ => Error::io(path, source),
        };
        // Before it is opened: that of a pipe waits for somebody who writes.
        let metadata = std::fs::metadata(path).map_err(fail)?;
        if metadata.is_dir() {
            let message =
                "is a directory; name the files in it with a pattern such as /*.csv".into();
            return Err(Error::Import { path: path.to_path_buf(), line: None, message });
        }
        if !metadata.is_file() {
            // What a pipe has given once it does not give again.
            let message = "is not a regular file".into();
            return Err(Error::Import { path: path.to_path_buf(), line: None, message });
        }
        let bytes = metadata.len();
        Self::new(path, bytes, None).look()
    }

    /// Reads the first bytes of a stream.
    fn of_stream(path: &Path, stream: Arc<Stream>) -> Result<Self> {
        Self::new(path, 0, Some(stream)).look()
    }

    /// A file without a name that has the bytes of what is at `path`.
    fn of_copy(path: &Path, copy: File, bytes: u64) -> Result<Self> {
        let file = Self::new(path, bytes, None);
        Self { copy: Some(Arc::new(copy)), ..file }.look()
    }

    /// An object of which parts are fetched when they are needed.
    fn of_parts(parts: Arc<Parts>) -> Result<Self> {
        let file = Self::new(Path::new(&parts.address), parts.bytes, None);
        let is_here = parts.has_all();
        let file = Self { copy: Some(Arc::clone(&parts.file)), parts: Some(parts), ..file };
        // The beginning says what the caller knows already.
        if is_here { file.look() } else { Ok(file) }
    }

    fn new(path: &Path, bytes: u64, stream: Option<Arc<Stream>>) -> Self {
        let (packing, head) = (Packing::Plain, Vec::new());
        let path = path.to_path_buf();
        Self { path, bytes, packing, head, stream, copy: None, parts: None, encoding: None }
    }

    /// The file as text in `encoding`.
    pub(crate) fn encoded(self, encoding: Option<TextEncoding>) -> Self {
        Self { encoding, ..self }
    }

    /// Whether its text can be read from anywhere on, as it stands in the file.
    pub(crate) fn is_plain(&self) -> bool {
        self.packing == Packing::Plain && self.encoding.is_none() && !self.is_stream()
    }

    /// Finds the packing, and takes the first bytes.
    fn look(mut self) -> Result<Self> {
        self.head = self.first_bytes()?;
        self.packing = match self.head[..] {
            [0x1F, 0x8B, ..] => Packing::Gzip,
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Packing::Zstd,
            _ => Packing::Plain,
        };
        if self.packing != Packing::Plain {
            self.head = self.first_bytes()?;
        }
        Ok(self)
    }

    fn first_bytes(&self) -> Result<Vec<u8>> {
        const HEAD_BYTES: u64 = 512;
        let mut head = Vec::new();
        let read = self.open(None)?.take(HEAD_BYTES).read_to_end(&mut head);
        read.map_err(|error| match self.packing {
            Packing::Plain => self.read_error(error),
            _ => self.broken(&error.to_string()),
        })?;
        Ok(head)
    }

    /// A stream in a format that is read from its end becomes a file first.
    fn prepared(self, format: Option<FileFormat>) -> Result<Self> {
        const FILE_MAGIC: &[u8] = b"ARROW1";
        let from_end = match self.format(format) {
            FileFormat::Parquet => true,
            FileFormat::Arrow => self.head.starts_with(FILE_MAGIC),
            FileFormat::Csv | FileFormat::Json => false,
        };
        if from_end { self.copied(nameless_file()?) } else { Ok(self) }
    }

    /// All bytes of a stream in a file without a name, which can be read any number of times.
    fn copied(mut self, (mut file, folder): (File, Folder)) -> Result<Self> {
        self.last_reading();
        let mut reader = self.open(None)?;
        let mut block = vec![0; COMPRESSED_READ_BYTES];
        loop {
            let read = reader.read(&mut block).map_err(|error| self.read_error(error))?;
            if read == 0 {
                break;
            }
            let written = io::Write::write_all(&mut file, &block[..read]);
            written.map_err(|error| folder.failed("write", &error))?;
        }
        self.bytes = file.stream_position().map_err(|error| folder.failed("write", &error))?;
        (self.stream, self.packing) = (None, Packing::Plain);
        self.copy = Some(Arc::new(file));
        Ok(self)
    }

    /// Whether it stands for a file without a name.
    pub(crate) fn is_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// Has all bytes here, also those of an object of which only parts were needed before.
    pub(crate) fn whole(&self) -> Result<()> {
        self.parts.as_ref().map_or(Ok(()), |parts| parts.need_all())
    }

    /// Has these bytes here.
    pub(crate) fn need(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.parts.as_ref().map_or(Ok(()), |parts| parts.need(ranges))
    }

    /// Whether these bytes are here.
    pub(crate) fn has(&self, ranges: &[Range<u64>]) -> bool {
        self.parts.as_ref().is_none_or(|parts| parts.has(ranges))
    }

    /// A file that these bytes can be read from, and maybe others not.
    pub(crate) fn file_with(&self, ranges: &[Range<u64>]) -> Result<File> {
        self.need(ranges)?;
        self.opened().map_err(|error| Error::io(&self.path, error))
    }

    /// Whether its bytes are given once, and their number is not known before.
    pub(crate) fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// The next reading of a stream is the last one.
    pub(crate) fn last_reading(&self) {
        if let Some(stream) = &self.stream {
            stream.last_reading();
        }
    }

    /// Its length; of a stream what has been read so far.
    pub(crate) fn length(&self) -> u64 {
        self.stream.as_ref().map_or(self.bytes, |stream| stream.count())
    }

    /// A file that can be read anywhere; a stream cannot.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.whole().map_err(io::Error::other)?;
        self.opened()
    }

    fn opened(&self) -> io::Result<File> {
        match &self.copy {
            // Opened anew, for a position of its own.
            Some(copy) => File::open(format!("/proc/self/fd/{}", copy.as_raw_fd())),
            None => File::open(&self.path),
        }
    }

    /// An error about the contents of this file.
    pub fn broken(&self, message: &str) -> Error {
        Error::Import { path: self.path.clone(), line: None, message: message.to_string() }
    }

    /// An error of reading: the operating system's, or the unpacker's about broken contents.
    pub(crate) fn read_error(&self, error: io::Error) -> Error {
        if let Err(interrupted) = cancel::check() {
            return interrupted.into();
        }
        match self.packing {
            // The operating system's errors have a number.
            Packing::Plain if error.raw_os_error().is_none() => self.broken(&error.to_string()),
            Packing::Plain => Error::io(&self.path, error),
            // The decoder of the text says it well.
            _ if error.kind() == io::ErrorKind::InvalidData && self.encoding.is_some() => {
                self.broken(&error.to_string())
            }
            _ => self.broken(&format!("cannot be unpacked: {error}")),
        }
    }

    /// Refuses a packing other than the one that the caller says.
    pub(crate) fn check_packing(&self, options: &ImportOptions) -> Result<()> {
        let name = match self.packing {
            Packing::Plain => "none",
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        };
        match options.compression.as_deref() {
            Some(said) if said != name => {
                let message = format!("option compression says {said}, the file's bytes {name}");
                Err(self.broken(&message))
            }
            _ => Ok(()),
        }
    }

    /// The unpacked bytes from the beginning, of text as UTF-8; `meter` counts the packed ones.
    pub(crate) fn open(&self, meter: Option<Arc<Meter>>) -> Result<Box<dyn Read + Send>> {
        let unpacked = self.unpacked(meter)?;
        Ok(match self.encoding {
            Some(encoding) => encoding.decoded(unpacked),
            None => unpacked,
        })
    }

    fn unpacked(&self, meter: Option<Arc<Meter>>) -> Result<Box<dyn Read + Send>> {
        self.whole()?;
        let source: Box<dyn Read + Send> = match &self.stream {
            Some(stream) => Box::new(stream.reader()),
            None => Box::new(self.file().map_err(|error| Error::io(&self.path, error))?),
        };
        let counted = Counted { source, meter };
        Ok(match self.packing {
            Packing::Plain => Box::new(counted),
            Packing::Gzip => {
                let buffered = io::BufReader::with_capacity(COMPRESSED_READ_BYTES, counted);
                Box::new(MultiGzDecoder::new(buffered))
            }
            Packing::Zstd => {
                let buffered = io::BufReader::with_capacity(COMPRESSED_READ_BYTES, counted);
                let decoder = zstd::stream::read::Decoder::with_buffer(buffered);
                Box::new(decoder.map_err(|error| self.broken(&error.to_string()))?)
            }
        })
    }

    /// The format by what the caller says, the name, or the first bytes, in this order.
    pub(crate) fn format(&self, wanted: Option<FileFormat>) -> FileFormat {
        wanted.or_else(|| format_by_name(&self.path)).unwrap_or_else(|| self.format_by_contents())
    }

    fn format_by_contents(&self) -> FileFormat {
        match self.head.trim_ascii_start() {
            [b'P', b'A', b'R', b'1', ..] => FileFormat::Parquet,
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xFF, 0xFF, 0xFF, 0xFF, ..] => {
                FileFormat::Arrow
            }
            [b'{', ..] => FileFormat::Json,
            _ => FileFormat::Csv,
        }
    }
}

/// The format that the end of a file's name tells; a `.gz` or `.zst` behind it does not matter.
pub(crate) fn format_by_name(path: &Path) -> Option<FileFormat> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = PACKED.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    match Path::new(name).extension()?.to_str()? {
        "parquet" | "pq" | "parq" => Some(FileFormat::Parquet),
        "csv" | "tsv" | "tbl" | "txt" => Some(FileFormat::Csv),
        "json" | "jsonl" | "ndjson" => Some(FileFormat::Json),
        "arrow" | "arrows" | "ipc" | "feather" => Some(FileFormat::Arrow),
        _ => None,
    }
}

/// A file whose bytes are counted while they are read.
struct Counted {
    source: Box<dyn Read + Send>,
    meter: Option<Arc<Meter>>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(out)?;
        if let Some(meter) = &self.meter {
            meter.add(read as u64);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_name() {
        let by = |name: &str| format_by_name(Path::new(name));
        assert_eq!(by("/a/b.csv.gz"), Some(FileFormat::Csv));
        assert_eq!(by("x.PARQUET"), Some(FileFormat::Parquet));
        assert_eq!(by("x.ndjson.zst"), Some(FileFormat::Json));
        assert_eq!(by("x.feather"), Some(FileFormat::Arrow));
        assert_eq!(by("x.gz"), None);
        assert_eq!(by("csv"), None);
    }

    #[test]
    fn missing_files_directories_and_patterns() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
        std::fs::write(path("taxi1.csv"), "a\n1\n").unwrap();
        std::fs::write(path("taxi2.csv"), "a\n2\n").unwrap();
        std::fs::write(path("odd[1].csv"), "a\n3\n").unwrap();
        let found = find_files(&path("taxi*.csv")).unwrap();
        let names: Vec<_> = found.iter().map(|file| file.path.file_name().unwrap()).collect();
        assert_eq!(names, ["taxi1.csv", "taxi2.csv"]);
        assert_eq!(find_files(&path("odd[1].csv")).unwrap().len(), 1);
        let Err(Error::NotFound { suggestion, .. }) = find_files(&path("taxi3.csv")) else {
            panic!()
        };
        assert!(suggestion.is_some());
        assert!(matches!(find_files(&path("*.parquet")), Err(Error::NotFound { .. })));
        let is_directory = find_files(directory.path().to_str().unwrap()).unwrap_err();
        assert!(matches!(is_directory, Error::Import { .. }), "{is_directory}");
    }
}
