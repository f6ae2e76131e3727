//! `swingdb export`: a table or a query of a snapshot into a file or to the standard output.

use super::import::{delimiter, file_format};
use crate::args::ExportArgs;
use crate::failure::{Failure, Outcome};
use crate::home::{Home, split_target};
use crate::interrupt;
use crate::progress::Bar;
use crate::units;
use std::io::IsTerminal;
use std::path::Path;
use swingdb::io::{ExportOptions, FileFormat};

/// What stands for the standard output, and its name.
const STANDARD: &str = "-";
const OUTPUT: &str = "/dev/stdout";

pub fn run(home: &Home, args: &ExportArgs) -> Outcome {
    let (name, table) = split_target(&args.source)?;
    let source = match (&args.query, table) {
        (Some(sql), None) => sql.clone(),
        (None, Some(table)) => table,
        (Some(_), Some(_)) => {
            return Err(Failure::usage("give a table or --query, not both"));
        }
        (None, None) => {
            return Err(Failure::usage(format!("{name:?}: give DATABASE.TABLE, or --query SQL")));
        }
    };
    let to_output = args.file.as_os_str() == STANDARD;
    let file = if to_output { Path::new(OUTPUT) } else { args.file.as_path() };
    let format = args.format.map(file_format);
    let format = format.or(to_output.then_some(FileFormat::Arrow));
    let is_text = matches!(format, Some(FileFormat::Csv | FileFormat::Json));
    if to_output && !is_text && std::io::stdout().is_terminal() {
        let why = "a terminal cannot show this format: add | PROGRAM, > FILE, or --format csv";
        return Err(Failure::usage(why));
    }
    let options = ExportOptions {
        format,
        header: args.header.map(|header| header.is_yes()),
        delimiter: args.delimiter.as_deref().map(delimiter).transpose()?,
        compression: args.compression.clone(),
        zero_copy: args.zero_copy,
        ..ExportOptions::default()
    };
    let database = home.snapshot(&name)?;
    let connection = database.connect();
    interrupt::attach_once(&connection);
    let bar = Bar::show(&connection, &file.to_string_lossy());
    let report = connection.export_file(&source, file, options)?;
    drop(bar);
    let (rows, bytes) = (units::rows(report.rows), units::bytes(report.bytes));
    let taken = units::duration(report.duration);
    if !to_output {
        println!("{rows} ({bytes}) exported to {} in {taken}", file.display());
    } else if std::io::stderr().is_terminal() {
        eprintln!("{rows} ({bytes}) exported in {taken}");
    }
    Ok(())
}
