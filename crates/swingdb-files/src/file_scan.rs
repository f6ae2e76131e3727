//! Reading files of any format as one table, on several threads.
//!
//! [`FileScan::open`] finds the files and their schema; [`FileScan::run`] reads them. The batches
//! reach the sink from many threads at once, each with its place in the order of the files:
//! ascending, and for all formats but Parquet 0, 1, 2 ... without gaps.

use std::sync::Arc;

use arrow::datatypes::{Field, SchemaRef};
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::parallel::Turnstile;

use crate::csv::CsvScan;
use crate::input::{InputFile, find_input};
use crate::ipc::scan::IpcScan;
use crate::json::JsonScan;
use crate::options::{FileFormat, ImportOptions};
use crate::parquet::scan::ParquetScan;
use crate::reading::file_columns::{Combined, FileColumns};
use crate::reading::match_columns::match_columns;
use crate::reading::{FileSink, Run, Sink, Target};

/// Files that are read as one table.
pub struct FileScan {
    files: Vec<InputFile>,
    kind: Kind,
    places: FileColumns,
    /// All columns, where the files have some by where they lie.
    combined: Option<Combined>,
    target_columns: Option<Vec<usize>>,
}

enum Kind {
    Csv(CsvScan),
    Parquet(ParquetScan),
    Json(JsonScan),
    Ipc(IpcScan),
}

impl Kind {
    fn open(
        files: &[InputFile],
        options: &ImportOptions,
        target: Option<&Target<'_>>,
    ) -> Result<Self> {
        let Some(first) = files.first() else {
            return Err(Error::internal("a search for files that found none is an error"));
        };
        Ok(match first.format(options.format) {
            FileFormat::Csv => Self::Csv(CsvScan::open(files, options, target)?),
            FileFormat::Parquet => Self::Parquet(ParquetScan::open(files)?),
            FileFormat::Json => Self::Json(JsonScan::open(files, options, target)?),
            FileFormat::Arrow => Self::Ipc(IpcScan::open(files)?),
        })
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Self::Csv(scan) => scan.schema(),
            Self::Parquet(scan) => scan.schema(),
            Self::Json(scan) => scan.schema(),
            Self::Ipc(scan) => scan.schema(),
        }
    }

    /// For each column its place in the target.
    fn target_columns(&self, file: &InputFile, target: &Target<'_>) -> Result<Vec<usize>> {
        let decided = match self {
            Self::Csv(scan) => scan.target_columns(),
            Self::Json(scan) => scan.target_columns(),
            _ => None,
        };
        if let Some(columns) = decided {
            return Ok(columns.to_vec());
        }
        let schema = self.schema();
        let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
        Ok(match_columns(&file.path, Some(&names), names.len(), target)?.target_columns)
    }

    fn run(&self, files: &[InputFile], run: &Run<'_>, sink: &FileSink<'_>) -> Result<()> {
        match self {
            Self::Csv(scan) => scan.run(files, run, sink),
            Self::Parquet(scan) => scan.run(files, run, sink),
            Self::Json(scan) => scan.run(files, run, sink),
            Self::Ipc(scan) => scan.run(files, run, sink),
        }
    }
}

impl FileScan {
    /// Finds files, format and schema. With a `target`, text formats are read as the types of its
    /// columns; other formats keep their own, see `import`.
    pub fn open(path: &str, options: &ImportOptions, target: Option<&Target<'_>>) -> Result<Self> {
        Self::open_files(find_input(path, options.format)?, options, target)
    }

    /// As [`FileScan::open`], of files that have been found.
    pub(crate) fn open_files(
        files: Vec<InputFile>,
        options: &ImportOptions,
        target: Option<&Target<'_>>,
    ) -> Result<Self> {
        if let Some(first) = files.first() {
            options.check_for(first.format(options.format))?;
            first.check_packing(options)?;
        }
        let files: Vec<InputFile> =
            files.into_iter().map(|file| file.encoded(options.encoding)).collect();
        let places = FileColumns::find(&files, options)?;
        match target {
            Some(target) => Self::into_target(files, options, places, target),
            None => {
                let kind = Kind::open(&files, options, None)?;
                let combined = match places.is_empty() {
                    true => None,
                    false => Some(Combined::new(&kind.schema(), &places, options)?),
                };
                Ok(Self { files, kind, places, combined, target_columns: None })
            }
        }
    }

    /// Columns of the table that the files do not have come from where the files lie, if these have
    /// such. Those that the caller asks for must be columns of the table.
    fn into_target(
        files: Vec<InputFile>,
        options: &ImportOptions,
        places: FileColumns,
        target: &Target<'_>,
    ) -> Result<Self> {
        let of_target = |name: &str| {
            target.fields.iter().position(|field| field.name().eq_ignore_ascii_case(name))
        };
        let asked = options.filename.is_some() || options.hive_partitioning == Some(true);
        if asked
            && let Some(missing) = places.fields().iter().find(|f| of_target(f.name()).is_none())
        {
            let known = target.fields.iter().map(|field| field.name());
            return Err(Error::not_found(ObjectKind::Column, missing.name().clone(), known));
        }
        let places = places.only(|name| of_target(name).is_some());
        // First as if there were no such columns: the files may have all that the table has.
        let whole = Kind::open(&files, options, Some(target))
            .and_then(|kind| Ok((kind.target_columns(&files[0], target)?, kind)));
        let (taken, kind) = match whole {
            Ok(whole) => whole,
            Err(error) if places.is_empty() => return Err(error),
            Err(error) => {
                let is_place = |field: &&Arc<Field>| {
                    places
                        .fields()
                        .iter()
                        .any(|place| place.name().eq_ignore_ascii_case(field.name()))
                };
                let numbered = target.fields.iter().enumerate();
                let (numbers, rest): (Vec<usize>, Vec<Arc<Field>>) = numbered
                    .filter(|(_, field)| !is_place(field))
                    .map(|(number, field)| (number, Arc::clone(field)))
                    .unzip();
                let smaller = Target { fields: &rest, listed: target.listed };
                let Ok(kind) = Kind::open(&files, options, Some(&smaller)) else {
                    return Err(error);
                };
                let Ok(columns) = kind.target_columns(&files[0], &smaller) else {
                    return Err(error);
                };
                (columns.into_iter().map(|column| numbers[column]).collect(), kind)
            }
        };
        let free = |name: &str| of_target(name).is_some_and(|place| !taken.contains(&place));
        let places = places.only(free);
        if places.is_empty() {
            return Ok(Self { files, kind, places, combined: None, target_columns: Some(taken) });
        }
        let combined = Combined::appended(&kind.schema(), &places);
        let added = places.fields().iter().filter_map(|field| of_target(field.name()));
        let target_columns = Some(taken.into_iter().chain(added).collect());
        Ok(Self { files, kind, places, combined: Some(combined), target_columns })
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        match &self.combined {
            Some(combined) => combined.schema(),
            None => self.kind.schema(),
        }
    }

    /// For each column of [`Self::schema`], the target's column, where there is a target.
    pub fn target_columns(&self) -> Option<&[usize]> {
        self.target_columns.as_deref()
    }

    /// Bytes of all files, packed as they are; of streams those that have been read.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(InputFile::length).sum()
    }

    /// Whether the number of bytes is not known before all is read.
    pub fn is_stream(&self) -> bool {
        self.files.iter().any(InputFile::is_stream)
    }

    /// The first file, for messages.
    pub fn first_file(&self) -> &InputFile {
        &self.files[0]
    }

    /// Reads everything; ends with the first error in the order of the files.
    pub fn run(&self, run: &Run<'_>, sink: &Sink<'_>) -> Result<()> {
        self.files.iter().for_each(InputFile::last_reading);
        let Some(combined) = &self.combined else {
            return self.kind.run(&self.files, run, &|order, _, batch| sink(order, batch));
        };
        let (combined, inner) = combined.project(run.projection)?;
        let run = Run { projection: Some(&inner), ..run.clone() };
        self.kind.run(&self.files, &run, &|order, file, batch| {
            sink(order, combined.complete(&batch, self.places.values(file))?)
        })
    }

    /// As [`FileScan::run`] with a sink that passes `turnstile`: an error that keeps a batch from
    /// reaching the sink must end the waiting of those behind it.
    pub(crate) fn run_guarded(
        &self,
        run: &Run<'_>,
        sink: &Sink<'_>,
        turnstile: &Turnstile,
    ) -> Result<()> {
        self.run(&Run { turnstile: Some(turnstile), ..run.clone() }, sink)
    }
}

#[cfg(test)]
mod tests {
    use swingdb_common::runtime::meter::Meter;
    use swingdb_common::time::zones::Zone;

    use super::*;

    /// A panic in any part is an error, whichever thread meets it; nobody waits for ever.
    #[test]
    fn a_panic_is_an_error() {
        for (part, threads) in (0..3).flat_map(|part| [1, 4].map(|threads| (part, threads))) {
            let turnstile = Turnstile::default();
            let mut count = 0;
            let mut after = 0;
            let next = || {
                count += 1;
                after += u64::from(count > 51);
                assert!(part != 0 || count != 51, "no luck with cutting");
                Ok((count <= 100).then_some((count - 1, ())))
            };
            let run = Run {
                threads,
                batch_rows: 1,
                projection: None,
                token: None,
                zone: Zone::UTC,
                meter: Meter::new(None, None, "bytes"),
                turnstile: Some(&turnstile),
            };
            let result = run.in_parallel(next, |order, ()| {
                assert!(part != 1 || order != 50, "no luck with parsing");
                turnstile.pass(order, || {
                    assert!(part != 2 || order != 50, "no luck with storing");
                    Ok(())
                })
            });
            let error = result.unwrap_err();
            assert!(error.to_string().contains("no luck"), "{part} {threads}: {error}");
            assert!(part != 0 || after == 0, "asked again after the panic");
        }
    }
}
