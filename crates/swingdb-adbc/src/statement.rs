//! Statements: SQL with parameters, and ingestion of Arrow streams into tables.
//!
//! A statement with parameters runs once for each row of them, as one transaction; the rows of all
//! runs are its result.
//!
//! Cancelling a statement ends what it runs, or the reading of its rows, or its waiting for another
//! statement of the session. The others go on.

use std::str::FromStr;
use std::sync::Arc;

use adbc_core::options::{IngestMode, OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult, Statement};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use swingdb::{Interruptible, QueryResult, ScalarValue, Value};

use crate::error::{Result, of_arrow, of_database, state, unknown_option, unsupported};
use crate::option_values::{flag, text};
use crate::rows::{Reader, reader, ready};
use crate::session::{Session, cancel_handle, qualified};
use swingdb::plain_rows::plain_schema;

/// The name that the columns of a stream have while a table is made of them.
const INGESTED: &str = "swingdb_adbc_ingested";

/// A statement of a session.
pub(crate) struct SwingStatement {
    session: Session,
    /// Its own work: cancelling reaches no other statement of the session.
    work: Interruptible,
    sql: Option<String>,
    bound: Option<Box<dyn RecordBatchReader + Send>>,
    ingest: Ingest,
}

/// Where a stream goes.
struct Ingest {
    table: Option<String>,
    schema: Option<String>,
    catalog: Option<String>,
    mode: IngestMode,
    temporary: bool,
}

impl SwingStatement {
    pub(crate) fn new(session: Session) -> Self {
        let ingest = Ingest {
            table: None,
            schema: None,
            catalog: None,
            mode: IngestMode::Create,
            temporary: false,
        };
        Self { session, work: Interruptible::default(), sql: None, bound: None, ingest }
    }

    fn sql(&self) -> Result<&str> {
        self.sql.as_deref().ok_or_else(|| state("the statement has no SQL yet"))
    }

    /// Runs the statement; the rows, and how many it changed.
    fn run(&mut self) -> Result<(Reader, Option<i64>)> {
        self.work.clone().run(|| self.carry_out())
    }

    fn carry_out(&mut self) -> Result<(Reader, Option<i64>)> {
        if let Some(table) = self.ingest.table.clone() {
            let rows = self.ingest(&table)?;
            return Ok((ready(Arc::new(Schema::empty()), Vec::new()), Some(rows)));
        }
        let sql = self.sql()?.to_string();
        let bound = self.bound.take();
        self.session.begin_if_needed()?;
        match bound {
            None => {
                let result = self.session.connection.execute(&sql, &[]).map_err(of_database)?;
                let changed = count(&result);
                Ok((reader(result)?, changed))
            }
            Some(bound) => {
                let session = self.session.clone();
                session.as_one(|| with_each_row(&session, &sql, bound))
            }
        }
    }

    /// The columns of the rows, which are not computed.
    fn schema_of_rows(&mut self) -> Result<Schema> {
        let sql = self.sql()?.trim().trim_end_matches(';').to_string();
        self.session.begin_if_needed()?;
        let types = self.session.connection.parameter_types(&sql).map_err(of_database)?;
        let nulls = vec![Value::Null; types.len()];
        let sql = format!("SELECT * FROM (\n{sql}\n) AS q LIMIT 0");
        let rows = self.session.connection.execute(&sql, &nulls).map_err(of_database)?;
        Ok(plain_schema(&rows.schema()))
    }

    fn ingest(&mut self, table: &str) -> Result<i64> {
        let bound = self.bound.take();
        let stream = bound.ok_or_else(|| state("nothing is bound that could be ingested"))?;
        self.session.begin_if_needed()?;
        let session = self.session.clone();
        let rows = session.as_one(|| self.ingest.run(&session, table, stream))?;
        Ok(i64::try_from(rows).unwrap_or(i64::MAX))
    }
}

/// How many rows a statement changed.
fn count(result: &QueryResult) -> Option<i64> {
    result.rows_changed().map(|rows| i64::try_from(rows).unwrap_or(i64::MAX))
}

/// Runs a statement for each row of its parameters.
fn with_each_row(
    session: &Session,
    sql: &str,
    bound: Box<dyn RecordBatchReader + Send>,
) -> Result<(Reader, Option<i64>)> {
    let (mut schema, mut batches, mut changed) = (None, Vec::new(), None);
    for batch in bound {
        let batch = batch.map_err(of_arrow)?;
        for row in 0..batch.num_rows() {
            let value =
                |column: &ArrayRef| ScalarValue::try_from_array(column, row).map(Value::Scalar);
            let values = batch.columns().iter().map(value);
            let values = values.collect::<std::result::Result<Vec<_>, _>>();
            let values = values.map_err(|error| of_database(error.into()))?;
            let result = session.connection.execute(sql, &values).map_err(of_database)?;
            if let Some(more) = count(&result) {
                changed = Some(changed.unwrap_or(0_i64).saturating_add(more));
            }
            let rows = reader(result)?;
            schema.get_or_insert_with(|| rows.schema());
            for batch in rows {
                batches.push(batch.map_err(of_arrow)?);
            }
        }
    }
    let schema: SchemaRef = schema.unwrap_or_else(|| Arc::new(Schema::empty()));
    Ok((ready(schema, batches), changed))
}

impl Session {
    /// Runs statements as one: all of them, or none.
    fn as_one<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let own = !self.connection.in_transaction();
        if own {
            self.connection.begin().map_err(of_database)?;
        }
        let outcome = work();
        match (&outcome, own) {
            (Ok(_), true) => self.connection.commit().map_err(of_database)?,
            // The first error is the one to report.
            (Err(_), true) => drop(self.connection.rollback()),
            _ => {}
        }
        outcome
    }
}

impl Ingest {
    fn run(
        &self,
        session: &Session,
        table: &str,
        stream: Box<dyn RecordBatchReader + Send>,
    ) -> Result<u64> {
        let catalog = if self.temporary { Some("temp") } else { self.catalog.as_deref() };
        let schema = if self.temporary { Some("main") } else { self.schema.as_deref() };
        let name = qualified([catalog, schema, Some(table)]);
        let kind = if self.temporary { "TEMP TABLE" } else { "TABLE" };
        let made = match self.mode {
            IngestMode::Append => None,
            IngestMode::Create => Some(format!("CREATE {kind}")),
            IngestMode::CreateAppend => Some(format!("CREATE {kind} IF NOT EXISTS")),
            IngestMode::Replace => Some(format!("CREATE OR REPLACE {kind}")),
        };
        let connection = &session.connection;
        if let Some(create) = made {
            connection.register(INGESTED, stream.schema(), Vec::new()).map_err(of_database)?;
            let place =
                if self.temporary { qualified([None, None, Some(table)]) } else { name.clone() };
            let created =
                connection.query(&format!("{create} {place} AS SELECT * FROM {INGESTED}"));
            connection.deregister(INGESTED);
            created.map_err(of_database)?;
        }
        connection.append(&name, Named(stream)).map_err(of_database)
    }
}

/// A stream that is handed on.
struct Named(Box<dyn RecordBatchReader + Send>);

impl Iterator for Named {
    type Item = std::result::Result<RecordBatch, arrow::error::ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl RecordBatchReader for Named {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

impl Optionable for SwingStatement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_string();
        match key {
            OptionStatement::TargetTable => {
                self.ingest.table = Some(text(&name, &value)?.to_string());
                self.sql = None;
            }
            OptionStatement::TargetCatalog => {
                self.ingest.catalog = Some(text(&name, &value)?.to_string());
            }
            OptionStatement::TargetDbSchema => {
                self.ingest.schema = Some(text(&name, &value)?.to_string());
            }
            OptionStatement::IngestMode => {
                self.ingest.mode = IngestMode::from_str(text(&name, &value)?)?;
            }
            OptionStatement::Temporary => self.ingest.temporary = flag(&name, &value)?,
            OptionStatement::Incremental if !flag(&name, &value)? => {}
            OptionStatement::Incremental => {
                return Err(unsupported("results have no partitions here"));
            }
            _ => return Err(unknown_option(&name)),
        }
        Ok(())
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        let missing = || unknown_option(key.as_ref());
        match &key {
            OptionStatement::TargetTable => self.ingest.table.clone().ok_or_else(missing),
            OptionStatement::TargetCatalog => self.ingest.catalog.clone().ok_or_else(missing),
            OptionStatement::TargetDbSchema => self.ingest.schema.clone().ok_or_else(missing),
            OptionStatement::IngestMode => Ok(String::from(self.ingest.mode)),
            OptionStatement::Temporary => Ok(self.ingest.temporary.to_string()),
            OptionStatement::Incremental => Ok(false.to_string()),
            _ => Err(missing()),
        }
    }

    fn get_option_bytes(&self, key: OptionStatement) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionStatement) -> Result<i64> {
        Err(unknown_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionStatement) -> Result<f64> {
        Err(unknown_option(key.as_ref()))
    }
}

impl Statement for SwingStatement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        let schema = batch.schema();
        self.bound = Some(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        Ok(())
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.bound = Some(reader);
        Ok(())
    }

    fn execute(&mut self) -> Result<Reader> {
        self.run().map(|(rows, _)| rows)
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        let (rows, changed) = self.run()?;
        // A query is computed, too: it may fail.
        for batch in rows {
            batch.map_err(of_arrow)?;
        }
        Ok(changed)
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        self.work.clone().run(|| self.schema_of_rows())
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        Err(unsupported("results have no partitions here"))
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        let (connection, sql) = (&self.session.connection, self.sql()?);
        let types = self.work.run(|| connection.parameter_types(sql)).map_err(of_database)?;
        let field = |(place, known): (usize, Option<Arc<Field>>)| {
            let of = known.map_or(DataType::Null, |field| field.data_type().clone());
            Field::new((place + 1).to_string(), of, true)
        };
        let fields = types.into_iter().enumerate().map(field).collect::<Vec<_>>();
        Ok(plain_schema(&Schema::new(fields)))
    }

    fn prepare(&mut self) -> Result<()> {
        // Plans are kept by their text.
        self.sql().map(drop)
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        self.sql = Some(query.as_ref().to_string());
        self.ingest.table = None;
        Ok(())
    }

    fn set_substrait_plan(&mut self, _plan: impl AsRef<[u8]>) -> Result<()> {
        Err(unsupported("plans of Substrait are not read; write SQL"))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        cancel_handle(&self.work)
    }
}
