//! `swingdb export`: a table or a query of a snapshot into a file.

use super::import::{delimiter, file_format};
use crate::args::ExportArgs;
use crate::failure::{Failure, Outcome};
use crate::home::{Home, split_target};
use crate::interrupt;
use crate::progress::Bar;
use crate::units;
use swingdb::io::ExportOptions;

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
    let options = ExportOptions {
        format: args.format.map(file_format),
        header: args.header.map(|header| header.is_yes()),
        delimiter: args.delimiter.as_deref().map(delimiter).transpose()?,
        compression: args.compression.clone(),
        ..ExportOptions::default()
    };
    let database = home.snapshot(&name)?;
    let connection = database.connect();
    interrupt::attach_once(&connection);
    let bar = Bar::show(&connection, &args.file.to_string_lossy());
    let report = connection.export_file(&source, &args.file, options)?;
    drop(bar);
    let (rows, bytes) = (units::rows(report.rows), units::bytes(report.bytes));
    let taken = units::duration(report.duration);
    println!("{rows} ({bytes}) exported to {} in {taken}", args.file.display());
    Ok(())
}
