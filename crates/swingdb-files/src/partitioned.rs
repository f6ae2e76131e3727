//! `PARTITION_BY`: rows into folders called `key=value`, one for each combination of values.
//!
//! Rows are gathered for each folder, and written when they become too many, the largest folder
//! first; so memory is bounded, and a folder may get several files. All files are written to a
//! temporary folder beside the target. What is not there yet, or is to be replaced as a whole,
//! takes the target's name at the end by one rename. Into a folder that keeps what it has, the
//! files are moved one by one: each is complete, but a failure may leave some of them.
//!
//! A process that is killed leaves its temporary folder; the next export to the target removes it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::cancel::CancelToken;
use swingdb_common::runtime::meter::Meter;
use swingdb_common::time::texts::{is_moment, moment_text};
use swingdb_common::time::zones::Zone;
use swingdb_common::types::sql_names::sql_name;

use crate::options::{Existing, ExportOptions, ExportReport, FileFormat};
use crate::output_folder::{find, make, parent, remove_abandoned};
use crate::reading::file_columns::NULL_FOLDER;
use crate::write_one::{Reporting, format_of, write_one};

/// Folders of an export at most.
const MAX_PARTITIONS: usize = 100_000;
/// Bytes of rows that are gathered before some are written.
const MAX_GATHERED_BYTES: usize = 256 << 20;

/// Writes `rows` into folders below `path`.
pub(crate) fn write(
    schema: SchemaRef,
    rows: &mut (dyn Iterator<Item = Result<RecordBatch>> + Send),
    path: &Path,
    options: &ExportOptions,
    zone: Zone,
    reporting: &Reporting,
) -> Result<ExportReport> {
    let started = Instant::now();
    let format = format_of(path, options)?;
    options.check_for(format)?;
    let keys = Keys::find(&schema, options, zone)?;
    let staging = Staging::create(path, options.existing)?;
    let meter = Meter::new(reporting.progress.clone(), None, "rows");
    let inner = Reporting { progress: None, ..reporting.clone() };
    let names = FileNames::new(options, format);
    let options = ExportOptions {
        format: Some(format),
        partition_by: Vec::new(),
        filename_pattern: None,
        file_extension: None,
        write_partition_columns: false,
        existing: Existing::Refuse,
        ..options.clone()
    };
    let mut gathered = Gathered { folders: Vec::new(), places: HashMap::new(), bytes: 0 };
    let mut written = 0;
    let mut flush = |partition: &mut Partition| -> Result<()> {
        let folder = staging.temporary.join(&partition.folder);
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        let file = folder.join(names.name(partition.files));
        partition.files += 1;
        let batches = std::mem::take(&mut partition.batches);
        let schema = keys.written(&schema)?;
        let mut rows = batches.into_iter().map(Ok::<RecordBatch, Error>);
        let report = write_one(schema, &mut rows, &file, &options, zone, &inner)?;
        meter.add(report.rows);
        written += report.bytes;
        Ok(())
    };
    for batch in rows {
        reporting.token.as_ref().map_or(Ok(()), CancelToken::check)?;
        gathered.add(&keys, &batch?)?;
        while gathered.bytes > MAX_GATHERED_BYTES {
            flush(gathered.largest())?;
            gathered.count();
        }
    }
    for partition in gathered.folders.iter_mut().filter(|part| !part.batches.is_empty()) {
        reporting.token.as_ref().map_or(Ok(()), CancelToken::check)?;
        flush(partition)?;
    }
    let rows = meter.done();
    staging.commit()?;
    meter.finish();
    Ok(ExportReport { rows, bytes: written, duration: started.elapsed() })
}

/// The columns whose values name folders.
struct Keys {
    places: Vec<usize>,
    /// The columns that files have.
    kept: Vec<usize>,
    names: Vec<String>,
    zone: Zone,
}

impl Keys {
    fn find(schema: &SchemaRef, options: &ExportOptions, zone: Zone) -> Result<Self> {
        let fields = schema.fields();
        let mut places = Vec::new();
        for name in &options.partition_by {
            let exact = fields.iter().position(|field| field.name() == name);
            let same = || fields.iter().position(|field| field.name().eq_ignore_ascii_case(name));
            let Some(place) = exact.or_else(same) else {
                let known = fields.iter().map(|field| field.name());
                return Err(Error::not_found(ObjectKind::Column, name.clone(), known));
            };
            if places.contains(&place) {
                return Err(Error::plan(format!("option partition_by names {name:?} twice")));
            }
            let data_type = fields[place].data_type();
            if data_type.is_nested() || data_type.is_binary() {
                return Err(Error::unsupported(format!(
                    "option partition_by with {name:?}, which is {}; partition by a text of it",
                    sql_name(data_type)
                )));
            }
            places.push(place);
        }
        let is_kept = |place: &usize| options.write_partition_columns || !places.contains(place);
        let kept: Vec<usize> = (0..fields.len()).filter(is_kept).collect();
        if kept.is_empty() {
            let message = "option partition_by names all columns, so that files would have none; \
                           with write_partition_columns they have these as well";
            return Err(Error::plan(message));
        }
        let names = places.iter().map(|place| encoded(fields[*place].name())).collect();
        Ok(Self { places, kept, names, zone })
    }

    /// The columns of the files.
    fn written(&self, schema: &SchemaRef) -> Result<SchemaRef> {
        Ok(schema.project(&self.kept)?.into())
    }

    /// For each row the names of its folders.
    fn folders(&self, batch: &RecordBatch) -> Result<Vec<String>> {
        let mut folders = vec![String::new(); batch.num_rows()];
        for (at, (place, name)) in self.places.iter().zip(&self.names).enumerate() {
            let texts = texts(batch.column(*place), self.zone)?;
            for (folder, text) in folders.iter_mut().zip(texts) {
                if at > 0 {
                    folder.push('/');
                }
                folder.push_str(name);
                folder.push('=');
                match text {
                    None => folder.push_str(NULL_FOLDER),
                    // What would be read as NULL is written in another way.
                    Some(text) if text == NULL_FOLDER => {
                        folder.push_str(&NULL_FOLDER.replacen('_', "%5F", 1));
                    }
                    Some(text) => folder.push_str(&encoded(&text)),
                }
            }
        }
        Ok(folders)
    }
}

/// Values as the text of a folder's name.
fn texts(array: &ArrayRef, zone: Zone) -> Result<Vec<Option<String>>> {
    let array = match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values)?,
        _ => ArrayRef::clone(array),
    };
    if is_moment(array.data_type()) {
        let zone = match array.data_type() {
            DataType::Timestamp(_, Some(_)) => zone,
            _ => Zone::UTC,
        };
        let text = |row| {
            let mut out = Vec::new();
            moment_text(array.as_ref(), row, zone, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        let rows = 0..array.len();
        return Ok(rows.map(|row| array.is_valid(row).then(|| text(row))).collect());
    }
    let texts = cast(&array, &DataType::Utf8)?;
    Ok(texts.as_string::<i32>().iter().map(|text| text.map(str::to_string)).collect())
}

/// Text as a part of a path: bytes that mean something elsewhere are `%20` and the like.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The rows of one folder that are not written yet.
struct Partition {
    folder: String,
    batches: Vec<RecordBatch>,
    bytes: usize,
    /// Files that the folder has.
    files: u64,
}

/// The rows of all folders that are not written yet.
struct Gathered {
    folders: Vec<Partition>,
    places: HashMap<String, usize>,
    bytes: usize,
}

impl Gathered {
    fn add(&mut self, keys: &Keys, batch: &RecordBatch) -> Result<()> {
        let mut rows: HashMap<usize, Vec<u32>> = HashMap::new();
        for (row, folder) in (0_u32..).zip(keys.folders(batch)?) {
            let place = match self.places.get(&folder) {
                Some(place) => *place,
                None => self.open(folder)?,
            };
            rows.entry(place).or_default().push(row);
        }
        let kept = batch.project(&keys.kept)?;
        let each = data_bytes(&kept) / kept.num_rows().max(1) + 1;
        for (place, rows) in rows {
            let bytes = rows.len() * each;
            let part = match rows.len() == kept.num_rows() {
                true => kept.clone(),
                false => take_record_batch(&kept, &UInt32Array::from(rows))?,
            };
            let partition = &mut self.folders[place];
            partition.batches.push(part);
            partition.bytes += bytes;
            self.bytes += bytes;
        }
        Ok(())
    }

    fn open(&mut self, folder: String) -> Result<usize> {
        if self.folders.len() == MAX_PARTITIONS {
            let message = format!("option partition_by makes more than {MAX_PARTITIONS} folders");
            return Err(Error::plan(message));
        }
        let place = self.folders.len();
        self.places.insert(folder.clone(), place);
        self.folders.push(Partition { folder, batches: Vec::new(), bytes: 0, files: 0 });
        Ok(place)
    }

    /// The folder with most rows to write; there is one where there are rows.
    fn largest(&mut self) -> &mut Partition {
        let largest = (0..self.folders.len()).max_by_key(|place| self.folders[*place].bytes);
        &mut self.folders[largest.unwrap_or_default()]
    }

    /// Counts again, after some folders were written.
    fn count(&mut self) {
        self.bytes = 0;
        for partition in &mut self.folders {
            if partition.batches.is_empty() {
                partition.bytes = 0;
            }
            self.bytes += partition.bytes;
        }
    }
}

/// About the bytes of a batch's own values: views share the buffers of a larger one.
fn data_bytes(batch: &RecordBatch) -> usize {
    let column = |array: &ArrayRef| match array.data_type() {
        DataType::Utf8View => {
            array.as_string_view().views().iter().map(|view| 16 + *view as u32 as usize).sum()
        }
        DataType::BinaryView => {
            array.as_binary_view().views().iter().map(|view| 16 + *view as u32 as usize).sum()
        }
        other => match other.primitive_width() {
            Some(width) => width * array.len(),
            None => array.get_array_memory_size(),
        },
    };
    batch.columns().iter().map(column).sum()
}

/// What files are called.
struct FileNames {
    pattern: String,
    end: String,
}

impl FileNames {
    fn new(options: &ExportOptions, format: FileFormat) -> Self {
        let usual = match options.existing {
            // Beside the files that are there already.
            Existing::Keep => "data_{uuid}_{i}",
            _ => "data_{i}",
        };
        let mut pattern = options.filename_pattern.clone().unwrap_or_else(|| usual.to_string());
        if !pattern.contains("{i}") {
            pattern.push_str("{i}");
        }
        let packing = match (format, options.compression.as_deref()) {
            (FileFormat::Csv | FileFormat::Json, Some("gzip" | "gz")) => ".gz",
            (FileFormat::Csv | FileFormat::Json, Some("zstd" | "zst")) => ".zst",
            _ => "",
        };
        let end = match (&options.file_extension, format) {
            (Some(extension), _) => extension.clone(),
            (None, FileFormat::Csv) => format!("csv{packing}"),
            (None, FileFormat::Json) => format!("json{packing}"),
            (None, FileFormat::Parquet) => "parquet".to_string(),
            (None, FileFormat::Arrow) => "arrow".to_string(),
        };
        Self { pattern, end }
    }

    fn name(&self, number: u64) -> String {
        let mut name = self.pattern.replace("{i}", &number.to_string());
        if name.contains("{uuid}") {
            name = name.replace("{uuid}", &format!("{:032x}", fastrand::u128(..)));
        }
        format!("{name}.{}", self.end)
    }
}

/// The temporary folder, and what becomes of it.
struct Staging {
    target: PathBuf,
    existing: Existing,
    /// Whether the target is there.
    exists: bool,
    temporary: PathBuf,
    /// Locked while it is written.
    handle: File,
}

impl Staging {
    fn create(path: &Path, existing: Existing) -> Result<Self> {
        let fail = |error| Error::io(path, error);
        let (exists, target) = find(path)?;
        let is_full = exists && std::fs::read_dir(&target).map_err(fail)?.next().is_some();
        if is_full && existing == Existing::Refuse {
            let why = "is not empty; overwrite replaces what is there, overwrite_or_ignore only \
                       files of the same names, and append adds files";
            return Err(fail(io::Error::new(io::ErrorKind::DirectoryNotEmpty, why)));
        }
        let no_name = || fail(io::Error::new(io::ErrorKind::InvalidInput, "has no name"));
        let name: &OsStr = target.file_name().ok_or_else(no_name)?;
        let place = parent(&target);
        remove_abandoned(place, name);
        let temporary = make(place, name).map_err(fail)?;
        let handle = File::open(&temporary).map_err(fail)?;
        // Without locks (some network file systems) nobody removes it for us.
        let _ = handle.try_lock();
        Ok(Self { target, existing, exists, temporary, handle })
    }

    fn commit(self) -> Result<()> {
        let fail = |error| Error::io(&self.target, error);
        match (self.exists, self.existing) {
            (false, _) => std::fs::rename(&self.temporary, &self.target).map_err(fail),
            (true, Existing::Replace) => self.replace().map_err(fail),
            (true, _) => {
                let moved = self.move_files(&self.temporary, &self.target);
                moved.map_err(fail)
            }
        }
    }

    /// Takes the target's place; what was there is removed.
    fn replace(&self) -> io::Result<()> {
        let name = self.target.file_name().unwrap_or_default();
        let old = make(parent(&self.target), name)?;
        std::fs::rename(&self.target, &old)?;
        if let Err(error) = std::fs::rename(&self.temporary, &self.target) {
            std::fs::rename(&old, &self.target)?;
            return Err(error);
        }
        std::fs::remove_dir_all(&old)
    }

    /// Moves all files below `from` to the same places below `to`.
    fn move_files(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            let (source, place) = (entry.path(), to.join(entry.file_name()));
            if entry.file_type()?.is_dir() {
                self.move_files(&source, &place)?;
                continue;
            }
            if self.existing == Existing::Keep && std::fs::symlink_metadata(&place).is_ok() {
                let why = format!("{} is there already", place.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            std::fs::rename(source, place)?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Gone after a rename; what is left is nobody's.
        let _ = std::fs::remove_dir_all(&self.temporary);
        let _ = self.handle.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_stand_for_any_text() {
        assert_eq!(encoded("a b=%/ü"), "a%20b%3D%25%2F%C3%BC");
        assert_eq!(encoded("2024-01-31"), "2024-01-31");
        assert_eq!(encoded(".."), "..");
    }

    #[test]
    fn names_of_files() {
        let mut options = ExportOptions::default();
        let name = |options: &ExportOptions| FileNames::new(options, FileFormat::Csv).name(3);
        assert_eq!(name(&options), "data_3.csv");
        options.compression = Some("gzip".into());
        options.filename_pattern = Some("part".into());
        assert_eq!(name(&options), "part3.csv.gz");
        options.existing = Existing::Keep;
        options.filename_pattern = None;
        assert_ne!(name(&options), name(&options));
    }
}
