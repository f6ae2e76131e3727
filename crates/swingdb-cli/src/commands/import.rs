//! `swingdb import`: files into a table.

use crate::args::{Format, ImportArgs};
use crate::failure::{Failure, Outcome};
use crate::home::{Home, split_target};
use crate::progress::Bar;
use crate::units;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use swingdb::io::{Delimiter, FileFormat, ImportOptions, OptionValue};

/// What stands for the standard input, and its name.
const STANDARD: &str = "-";
const INPUT: &str = "/dev/stdin";

pub fn run(home: &Home, args: &ImportArgs) -> Outcome {
    let (name, table) = split_target(&args.into)?;
    let table = table.ok_or_else(|| {
        Failure::usage(format!("--into {name:?} names no table: give DATABASE.TABLE"))
    })?;
    let mut options = ImportOptions {
        format: args.format.map(file_format),
        header: args.header.map(|header| header.is_yes()),
        delimiter: args.delimiter.as_deref().map(delimiter).transpose()?,
        nulls: args.null.iter().cloned().collect(),
        ..ImportOptions::default()
    };
    for given in &args.option {
        let (name, value) = option(given)?;
        options.set(name, &value)?;
    }
    // A missing file is found before anything is created.
    let is_input = |file: &&PathBuf| file.as_os_str() == STANDARD;
    if args.files.iter().filter(is_input).count() > 1 {
        return Err(Failure::usage("the standard input is given more than once"));
    }
    for file in args.files.iter().filter(|file| !is_input(file)) {
        let wrong = |error| Failure::message(format!("{}: {error}", file.display()));
        std::fs::metadata(file).map_err(wrong)?;
    }
    let database = home.open(&name)?;
    let connection = database.connect();
    let start = Instant::now();
    let (mut rows, mut bytes) = (0, 0);
    for file in &args.files {
        let file = if is_input(&file) { Path::new(INPUT) } else { file };
        let label = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        let bar = Bar::show(&connection, &label);
        let report = connection.import_file(file, &table, options.clone())?;
        drop(bar);
        rows += report.rows;
        bytes += report.bytes;
    }
    let taken = start.elapsed();
    // Success is said when all that was asked for is done.
    if args.share {
        database.share()?;
    }
    println!("{}", summary(rows, bytes, taken, &args.into));
    Ok(())
}

fn summary(rows: u64, bytes: u64, taken: Duration, target: &str) -> String {
    let per_second = rows as f64 / taken.as_secs_f64().max(1e-9);
    let (rows, bytes, taken) = (units::rows(rows), units::bytes(bytes), units::duration(taken));
    let rate = units::grouped(per_second as u64);
    format!("{rows} ({bytes}) imported into {target} in {taken}, {rate} rows/s")
}

/// The format, as the library calls it.
pub fn file_format(format: Format) -> FileFormat {
    match format {
        Format::Parquet => FileFormat::Parquet,
        Format::Csv => FileFormat::Csv,
        Format::Json => FileFormat::Json,
        Format::Arrow => FileFormat::Arrow,
    }
}

/// What `--delimiter` means.
pub fn delimiter(text: &str) -> Outcome<Delimiter> {
    let text = if text == "tab" { "\t" } else { text };
    let wrong = || Failure::usage(format!("--delimiter {text:?} is not one to four bytes"));
    Delimiter::new(text).ok_or_else(wrong)
}

/// Name and value of `--option NAME=VALUE`, or `--option NAME`.
fn option(given: &str) -> Outcome<(&str, OptionValue)> {
    Ok(match given.split_once('=') {
        Some((name, value)) => (name.trim(), OptionValue::Text(value.to_string())),
        None => (given.trim(), OptionValue::Flag),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters_are_a_few_bytes() {
        assert_eq!(delimiter(";").ok(), Some(b';'.into()));
        assert_eq!(delimiter("\\t").ok(), Some(b'\t'.into()));
        assert_eq!(delimiter("||").ok(), Delimiter::new("||"));
        assert_eq!(delimiter("tab").ok(), Some(b'\t'.into()));
        assert!(delimiter("").is_err());
    }

    #[test]
    fn the_summary_names_rows_bytes_and_rate() {
        let text = summary(2000, 1 << 20, Duration::from_secs(2), "taxi.trips");
        let expected = "2 000 rows (1.0 MiB) imported into taxi.trips in 2.000 s, 1 000 rows/s";
        assert_eq!(text, expected);
    }
}
