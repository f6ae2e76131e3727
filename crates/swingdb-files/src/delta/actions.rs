//! Actions of a log: lines of JSON in commits, rows of columns in checkpoints.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use parking_lot::Mutex;
use serde::Deserialize;
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::meter::Meter;
use swingdb_common::time::zones::Zone;

use super::failure::broken;
use crate::file_scan::FileScan;
use crate::input::find_files;
use crate::options::{FileFormat, ImportOptions};
use crate::reading::Run;

/// What readers must be able to do.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub(super) min_reader_version: i32,
    #[serde(default)]
    pub(super) reader_features: Option<BTreeSet<String>>,
}

/// The columns of a table, and how it is configured.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(rename = "schemaString")]
    pub(super) schema: String,
    #[serde(default)]
    pub(super) partition_columns: Vec<String>,
    #[serde(default)]
    pub(super) configuration: HashMap<String, Option<String>>,
}

/// A file that belongs to the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add {
    /// Relative to the table, or an address; `%20` and the like stand for bytes.
    pub(super) path: String,
    #[serde(default)]
    pub(super) partition_values: HashMap<String, Option<String>>,
    #[serde(default)]
    deletion_vector: Option<serde_json::Value>,
}

impl Add {
    /// Whether some of the file's rows are deleted.
    pub(super) fn has_deleted_rows(&self) -> bool {
        self.deletion_vector.is_some()
    }

    /// Where the file lies.
    pub(super) fn place(&self, root: &Path) -> Result<PathBuf> {
        let path = decoded(&self.path);
        if let Some(local) = path.strip_prefix("file:") {
            return Ok(PathBuf::from(local.strip_prefix("//").unwrap_or(local)));
        }
        match path.contains("://") {
            true => Err(broken(root, format!("has a file elsewhere, {path}"))),
            false => Ok(root.join(path)),
        }
    }
}

/// Text in which `%20` and the like stand for bytes.
fn decoded(text: &str) -> String {
    crate::reading::file_columns::decoded(text)
}

#[derive(Deserialize)]
struct Remove {
    path: String,
}

/// The actions of one commit or checkpoint, of the kinds that readers need.
#[derive(Debug, Default)]
pub(super) struct Actions {
    pub(super) protocol: Option<Protocol>,
    pub(super) metadata: Option<Metadata>,
    pub(super) added: Vec<Add>,
    pub(super) removed: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    protocol: Option<Protocol>,
    meta_data: Option<Metadata>,
    add: Option<Add>,
    remove: Option<Remove>,
}

impl Actions {
    /// Those of a commit.
    pub(super) fn of_commit(path: &Path) -> Result<Self> {
        let file = std::fs::File::open(path).map_err(|error| Error::io(path, error))?;
        let mut all = Self::default();
        for (number, line) in (1_u64..).zip(BufReader::new(file).lines()) {
            let line = line.map_err(|error| Error::io(path, error))?;
            if line.trim().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_str(&line).map_err(|error| Error::Import {
                path: path.to_path_buf(),
                line: Some(number),
                message: format!("is no action of a Delta log: {error}"),
            })?;
            all.protocol = line.protocol.or(all.protocol);
            all.metadata = line.meta_data.or(all.metadata);
            all.added.extend(line.add);
            all.removed.extend(line.remove.map(|remove| remove.path));
        }
        Ok(all)
    }

    /// Those of a part of a checkpoint, which is a Parquet file. It tells of removed files only for
    /// those who delete them.
    pub(super) fn of_checkpoint(path: &Path) -> Result<Self> {
        let name = path.to_str().ok_or_else(|| broken(path, "has a name that is no text"))?;
        let options = ImportOptions {
            format: Some(FileFormat::Parquet),
            hive_partitioning: Some(false),
            ..ImportOptions::default()
        };
        let scan = FileScan::open_files(find_files(&glob::Pattern::escape(name))?, &options, None)?;
        let schema = scan.schema();
        let wanted = ["protocol", "metaData", "add", "sidecar"];
        let fields = schema.fields().iter().enumerate();
        let columns: Vec<usize> = fields
            .filter(|(_, field)| wanted.contains(&field.name().as_str()))
            .map(|(at, _)| at)
            .collect();
        let batches = Mutex::new(Vec::new());
        let run = Run {
            threads: 1,
            batch_rows: 8_192,
            projection: Some(&columns),
            token: None,
            zone: Zone::UTC,
            meter: Meter::new(None, None, "bytes"),
            turnstile: None,
        };
        scan.run(&run, &|order, batch| {
            batches.lock().push((order, batch));
            Ok(())
        })?;
        let mut batches = batches.into_inner();
        batches.sort_by_key(|(order, _)| *order);
        let mut all = Self::default();
        for (_, batch) in &batches {
            all.take(path, batch)?;
        }
        Ok(all)
    }

    /// The actions of rows, of which each has one column that is not NULL.
    fn take(&mut self, path: &Path, batch: &RecordBatch) -> Result<()> {
        let structs = |name: &str| batch.column_by_name(name).and_then(|c| c.as_struct_opt());
        // Writers have the column also where nothing lies in other files.
        if structs("sidecar").is_some_and(|sidecars| sidecars.null_count() < sidecars.len()) {
            return Err(broken(path, "is a checkpoint of the second kind, which cannot be read"));
        }
        if let Some(adds) = structs("add") {
            let paths = Texts::of(path, adds, "path")?;
            let values = column(path, adds, "partitionValues")?;
            let vectors = adds.column_by_name("deletionVector");
            for row in (0..adds.len()).filter(|row| adds.is_valid(*row)) {
                let Some(file) = paths.get(row) else {
                    return Err(broken(path, "has a file without a name"));
                };
                let deleted = vectors.is_some_and(|vectors| vectors.is_valid(row));
                self.added.push(Add {
                    path: file,
                    partition_values: pairs(path, values, row)?,
                    deletion_vector: deleted.then_some(serde_json::Value::Null),
                });
            }
        }
        if let Some(all) = structs("metaData") {
            for row in (0..all.len()).filter(|row| all.is_valid(*row)) {
                let schema = Texts::of(path, all, "schemaString")?.get(row);
                let names = column(path, all, "partitionColumns")?;
                self.metadata = Some(Metadata {
                    schema: schema.ok_or_else(|| broken(path, "has no schema"))?,
                    partition_columns: list(path, names, row)?.unwrap_or_default(),
                    configuration: match all.column_by_name("configuration") {
                        Some(column) => pairs(path, column, row)?,
                        None => HashMap::new(),
                    },
                });
            }
        }
        if let Some(all) = structs("protocol") {
            for row in (0..all.len()).filter(|row| all.is_valid(*row)) {
                let versions = cast(column(path, all, "minReaderVersion")?, &DataType::Int32)?;
                let versions = versions.as_primitive::<Int32Type>();
                if versions.is_null(row) {
                    return Err(broken(path, "has a protocol without a version"));
                }
                let features = match all.column_by_name("readerFeatures") {
                    Some(column) => list(path, column, row)?,
                    None => None,
                };
                self.protocol = Some(Protocol {
                    min_reader_version: versions.value(row),
                    reader_features: features.map(BTreeSet::from_iter),
                });
            }
        }
        Ok(())
    }
}

fn column<'a>(path: &Path, of: &'a StructArray, name: &str) -> Result<&'a ArrayRef> {
    of.column_by_name(name).ok_or_else(|| broken(path, format!("has no column {name:?}")))
}

/// A column of texts.
struct Texts(ArrayRef);

impl Texts {
    fn of(path: &Path, of: &StructArray, name: &str) -> Result<Self> {
        Self::new(column(path, of, name)?)
    }

    fn new(column: &ArrayRef) -> Result<Self> {
        Ok(Self(cast(column, &DataType::Utf8)?))
    }

    fn get(&self, row: usize) -> Option<String> {
        let texts = self.0.as_string::<i32>();
        texts.is_valid(row).then(|| texts.value(row).to_string())
    }
}

/// A list of texts; `None` for NULL.
fn list(path: &Path, column: &ArrayRef, row: usize) -> Result<Option<Vec<String>>> {
    let lists = column.as_list_opt::<i32>();
    let lists = lists.ok_or_else(|| broken(path, "has a column that is no list"))?;
    if lists.is_null(row) {
        return Ok(None);
    }
    let values = lists.value(row);
    let texts = Texts::new(&values)?;
    Ok(Some((0..values.len()).filter_map(|at| texts.get(at)).collect()))
}

/// A map of texts; an empty one for NULL.
fn pairs(path: &Path, column: &ArrayRef, row: usize) -> Result<HashMap<String, Option<String>>> {
    let maps = column.as_map_opt();
    let maps = maps.ok_or_else(|| broken(path, "has a column that is no map"))?;
    if maps.is_null(row) {
        return Ok(HashMap::new());
    }
    let entries = maps.value(row);
    let (keys, values) = (Texts::new(entries.column(0))?, Texts::new(entries.column(1))?);
    let pair = |at| Some((keys.get(at)?, values.get(at)));
    Ok((0..entries.len()).filter_map(pair).collect())
}
