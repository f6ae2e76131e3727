//! Files into tables.
//!
//! An import is one statement: a savepoint before it, parallel writing into parts of an append that
//! nobody sees, and either the whole append or none of it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;
use swingdb_common::cast::convert::{Origin, convert_array, relabel};
use swingdb_common::enums::EnumType;
use swingdb_common::error::{Error, ObjectKind, Result};
use swingdb_common::runtime::meter::Meter;
use swingdb_common::uuid;
use swingdb_files::file_scan::FileScan;
use swingdb_files::options::{ImportOptions, ImportReport};
use swingdb_files::reading::{Run, Target};
use swingdb_store::{ColumnDef, IfExists, SEGMENT_ROWS, Table, TableDef, TableWriter, WriteTxn};

use crate::execute::atomic::with_txn;
use crate::execute::dml::defaults::DefaultValue;
use crate::execute::target;
use crate::execute::target::{QualifiedName, check_given};
use crate::session::{Session, temporary};

/// Appends files to a table; see [`Connection::import_file`](crate::Connection::import_file).
pub(crate) fn import_file(
    session: &Arc<Session>,
    path: &Path,
    table: &str,
    options: ImportOptions,
) -> Result<ImportReport> {
    let _running = session.lock_statement()?;
    let name = parse_name(table)?;
    let Some(path) = path.to_str() else {
        let message = "has a name that is not UTF-8".to_string();
        return Err(Error::Import { path: path.to_path_buf(), line: None, message });
    };
    import(session, path, &name, &options)
}

/// A table's name as SQL writes it.
pub(crate) fn parse_name(name: &str) -> Result<ObjectName> {
    let parse = || {
        let mut parser = Parser::new(&DuckDbDialect {}).try_with_sql(name).ok()?;
        let parsed = parser.parse_object_name(false).ok()?;
        let ended = parser.peek_token().token == datafusion::sql::sqlparser::tokenizer::Token::EOF;
        ended.then_some(parsed)
    };
    parse().ok_or_else(|| {
        Error::plan(format!("{name:?} is not the name of a table; quote it as SQL does"))
    })
}

/// Appends files to the table `name` inside the running statement.
pub(crate) fn import(
    session: &Arc<Session>,
    path: &str,
    name: &ObjectName,
    options: &ImportOptions,
) -> Result<ImportReport> {
    let started = Instant::now();
    if options.union_by_name {
        let message = "option union_by_name in COPY; write INSERT INTO t BY NAME FROM \
                       read_parquet('*.parquet', union_by_name = true), or read_csv, read_json";
        return Err(Error::unsupported(message));
    }
    let (session, name) = &temporary::of_table(session, name);
    let catalog = session.catalog();
    let place = target::place(session, &catalog, name)?;
    let existing = target::find_table(&catalog, &place)?;
    if existing.is_none() && (options.must_exist || !options.columns.is_empty()) {
        // A view of the name, or nothing: the error says which.
        target::target(session, &catalog, name)?;
    }
    let plan = match &existing {
        Some(target) => Plan::into_table(session, path, &target.table, options)?,
        None => Plan::into_new_table(path, options)?,
    };
    let token = session.cancel_token();
    let total = (!plan.scan.is_stream()).then(|| plan.scan.bytes());
    let meter = Meter::new(session.progress(), total, "bytes");
    let run = Run {
        threads: options.threads.map_or_else(|| session.threads(), Ok)?.max(1),
        batch_rows: SEGMENT_ROWS,
        projection: None,
        token: Some(&token),
        zone: session.zone(),
        meter: Arc::clone(&meter),
        turnstile: None,
    };
    let rows = with_txn(session, |txn| {
        if existing.is_none() {
            txn.create_table(plan.table_def(&place), IfExists::Fail)?;
        }
        plan.append(session, txn, &place, &run)
    })?;
    meter.finish();
    Ok(ImportReport { rows, bytes: plan.scan.bytes(), duration: started.elapsed() })
}

/// What goes where.
struct Plan {
    scan: FileScan,
    columns: Vec<Column>,
    /// The table's schema, all columns nullable: the store checks NOT NULL.
    schema: SchemaRef,
}

/// A column of the table and where its values come from.
struct Column {
    definition: ColumnDef,
    source: Source,
}

enum Source {
    /// A column of the files.
    File(usize),
    /// The column's default.
    Default(DefaultValue),
}

impl Plan {
    fn into_new_table(path: &str, options: &ImportOptions) -> Result<Self> {
        let scan = FileScan::open(path, options, None)?;
        let schema = scan.schema();
        let columns = schema.fields().iter().enumerate().map(|(index, field)| Column {
            definition: ColumnDef {
                name: field.name().clone(),
                data_type: field.data_type().clone(),
                nullable: true,
                is_uuid: uuid::is_marked(field),
                enumeration: EnumType::of_field(field),
                default_sql: None,
            },
            source: Source::File(index),
        });
        Self::new(columns.collect(), scan)
    }

    fn into_table(
        session: &Session,
        path: &str,
        table: &Table,
        options: &ImportOptions,
    ) -> Result<Self> {
        let listed = listed_columns(table, options)?;
        let all = table.schema().fields();
        let fields: Vec<Arc<Field>> =
            listed.iter().map(|column| Arc::clone(&all[*column])).collect();
        let target = Target { fields: &fields, listed: !options.columns.is_empty() };
        let scan = FileScan::open(path, options, Some(&target))?;
        let places = scan.target_columns().unwrap_or_default().to_vec();
        let columns = table.columns().iter().enumerate().map(|(index, definition)| {
            let from = places.iter().position(|place| listed[*place] == index);
            let source = match from {
                Some(column) => Source::File(column),
                None => Source::Default(DefaultValue::of(session, definition)?),
            };
            Ok(Column { definition: definition.clone(), source })
        });
        Self::new(columns.collect::<Result<_>>()?, scan)
    }

    fn new(columns: Vec<Column>, scan: FileScan) -> Result<Self> {
        let fields = columns.iter().map(|column| {
            Field::new(&column.definition.name, column.definition.data_type.clone(), true)
        });
        let schema = Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()));
        Ok(Self { scan, columns, schema })
    }

    fn table_def(&self, place: &QualifiedName) -> TableDef {
        TableDef {
            schema: place.schema.clone(),
            name: place.name.clone(),
            columns: self.columns.iter().map(|column| column.definition.clone()).collect(),
            constraints: Vec::new(),
        }
    }

    fn append(
        &self,
        session: &Session,
        txn: &mut WriteTxn,
        place: &QualifiedName,
        run: &Run<'_>,
    ) -> Result<u64> {
        let writer: TableWriter = txn.writer(&place.schema, &place.name)?;
        writer.account(session.waiting("rows to import")?);
        self.scan.run(run, &|order, batch| {
            if batch.num_rows() == 0 {
                return Ok(());
            }
            let mut part = writer.part(order)?;
            part.push(self.convert(session, &batch)?)?;
            part.finish()
        })?;
        txn.adopt(writer)
    }

    /// A batch of the files as a batch of the table.
    fn convert(&self, session: &Session, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let zone = session.zone();
        let arrays = self.columns.iter().map(|column| match &column.source {
            Source::Default(value) => value.rows(session, &column.definition, rows),
            Source::File(index) => {
                let field = column.definition.field();
                convert_array(batch.column(*index), &field, Origin::UNNUMBERED, zone)
                    .map_err(|error| self.conversion_error(error))
            }
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        relabel(arrays, &self.schema, rows)
    }

    /// A value of a file with types of its own does not fit the table's.
    fn conversion_error(&self, error: Error) -> Error {
        match error {
            Error::Conversion { .. } => self.scan.first_file().broken(&error.to_string()),
            other => other,
        }
    }
}

/// The columns of the table that the files' columns go to, in the files' order.
fn listed_columns(table: &Table, options: &ImportOptions) -> Result<Vec<usize>> {
    let columns = table.columns();
    if options.columns.is_empty() {
        return Ok(table.given_columns());
    }
    let mut listed = Vec::new();
    for name in &options.columns {
        let same = |column: &ColumnDef| column.name.eq_ignore_ascii_case(name);
        let exact = columns.iter().position(|column| &column.name == name);
        let Some(index) = exact.or_else(|| columns.iter().position(same)) else {
            let known = columns.iter().map(|column| &column.name);
            return Err(Error::not_found(ObjectKind::Column, name.clone(), known));
        };
        if listed.contains(&index) {
            return Err(Error::plan(format!("column {name:?} is named twice")));
        }
        listed.push(index);
    }
    check_given(table, &listed)?;
    Ok(listed)
}
