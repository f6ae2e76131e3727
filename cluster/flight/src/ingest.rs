//! Bulk ingestion: a client's batches become a temporary table of its session, or are added to one.
//!
//! The batches go into the table as they come: the server holds some of them, and a client that
//! sends faster waits. A client that stops sending in the middle gets nothing: its call has an end,
//! and only that makes the rows visible ([`Sent`]).

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::TryStreamExt;
use swingdb::Value;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, channel};
use tonic::Status;

use crate::call::{Call, Turn};
use crate::parameters::batches_of;
use crate::session::Session;
use crate::status::of_database;

/// Batches that wait for the table.
const QUEUE: usize = 2;
/// The schema of temporary tables, and their catalog.
const PLACE: [&str; 2] = ["temp", "main"];
/// Has the columns of the rows while their table is made.
const COLUMNS: &str = "__swingdb_flight_columns";
/// Has the rows while they replace those of a table.
const ROWS: &str = "__swingdb_flight_rows";

/// What happens to a table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum To {
    Made,
    Added,
    Replaced,
}

/// Where rows go, checked.
#[derive(Debug)]
pub struct Target {
    table: String,
    if_missing: TableNotExistOption,
    if_there: TableExistsOption,
    transaction: bytes::Bytes,
}

impl Target {
    /// What a client asks for; an error where a session cannot have it.
    pub fn of(asked: CommandStatementIngest) -> Result<Self, Status> {
        if !asked.temporary {
            return Err(Status::failed_precondition(
                "this server serves snapshots: rows can only be ingested into temporary tables of \
                 the session (`temporary`)",
            ));
        }
        if let Some(option) = asked.options.keys().next() {
            return Err(Status::unimplemented(format!("there is no option {option:?}")));
        }
        for (given, own) in [&asked.catalog, &asked.schema].into_iter().zip(PLACE) {
            if given.as_ref().is_some_and(|given| !given.is_empty() && given != own) {
                let message = format!("temporary tables are in {}", PLACE.join("."));
                return Err(Status::invalid_argument(message));
            }
        }
        let options = asked.table_definition_options.unwrap_or_default();
        let missing = TableNotExistOption::try_from(options.if_not_exist);
        let there = TableExistsOption::try_from(options.if_exists);
        match (missing, there) {
            (Err(_) | Ok(TableNotExistOption::Unspecified), _)
            | (_, Err(_) | Ok(TableExistsOption::Unspecified)) => Err(Status::invalid_argument(
                "what happens if the table is there, and if it is not, has to be said",
            )),
            (Ok(if_missing), Ok(if_there)) => Ok(Self {
                table: asked.table,
                if_missing,
                if_there,
                transaction: asked.transaction_id.unwrap_or_default(),
            }),
        }
    }

    fn what(&self, is_there: bool) -> Result<To, Status> {
        let name = &self.table;
        match (is_there, self.if_missing, self.if_there) {
            (false, TableNotExistOption::Create, _) => Ok(To::Made),
            (false, ..) => Err(Status::not_found(format!("there is no temporary table {name:?}"))),
            (true, _, TableExistsOption::Append) => Ok(To::Added),
            (true, _, TableExistsOption::Replace) => Ok(To::Replaced),
            (true, ..) => {
                Err(Status::already_exists(format!("there is a temporary table {name:?} already")))
            }
        }
    }
}

/// Ingests what a client sends; the number of rows.
pub async fn ingest(
    session: &Arc<Session>,
    target: Target,
    sent: PeekableFlightDataStream,
) -> Result<i64, Status> {
    let mut batches = batches_of(sent);
    let first = batches.try_next().await?;
    let schema = batches.schema().cloned();
    let schema = schema.ok_or_else(|| Status::invalid_argument("rows without columns"))?;
    let (sender, receiver) = channel(QUEUE);
    let (handle, patience) = (Handle::current(), session.patience());
    let rows = Sent { schema, receiver, handle, patience, has_ended: false };
    let work = session.call(move |call| call.ingest(&target, rows));
    let feed = async move {
        let mut next = first;
        while let Some(batch) = next {
            // Where nobody takes it, the work has ended with an error.
            if sender.send(Some(batch)).await.is_err() {
                return Ok(());
            }
            next = batches.try_next().await?;
        }
        // A call that its client cancels has the same end (tonic 0.14). But the server drops such a
        // call where it waits next: so these rows are not taken for all.
        tokio::task::yield_now().await;
        let _ = sender.send(None).await;
        Ok::<_, Status>(())
    };
    let (done, fed) = futures::join!(work, feed);
    fed.and(done)
}

/// The batches that a client sends, for a thread that waits for them. Only after `None` they are
/// whole.
struct Sent {
    schema: SchemaRef,
    receiver: Receiver<Option<RecordBatch>>,
    handle: Handle,
    /// How long the client may send nothing.
    patience: Option<Duration>,
    has_ended: bool,
}

impl Iterator for Sent {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let receiver = &mut self.receiver;
        let next = self.handle.block_on(async {
            match self.patience {
                None => Ok(receiver.recv().await),
                Some(patience) => tokio::time::timeout(patience, receiver.recv()).await,
            }
        });
        let message = match next {
            Ok(Some(Some(batch))) => return Some(Ok(batch)),
            Ok(Some(None)) => {
                self.has_ended = true;
                return None;
            }
            Ok(None) => "the rows of the client ended early",
            Err(_) => "the client has not sent rows within the time of a statement",
        };
        self.has_ended = true;
        Some(Err(ArrowError::IpcError(message.to_string())))
    }
}

impl RecordBatchReader for Sent {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Call {
    /// Puts rows into a temporary table; all of them or none.
    fn ingest(&self, target: &Target, rows: Sent) -> Result<i64, Status> {
        let mut turn = self.turn()?;
        turn.check(&target.transaction)?;
        turn.refresh()?;
        let table = quoted(&target.table);
        let count = match target.what(turn.has_temporary(&target.table)?)? {
            To::Added => turn.append(&table, rows)?,
            To::Made => turn.make(&table, rows)?,
            To::Replaced => {
                let (new, count) = (quoted(ROWS), turn.make(&quoted(ROWS), rows)?);
                let sql = format!("CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM {new}");
                let done = turn.finish(&sql);
                turn.drop_table(&new)?;
                done?;
                count
            }
        };
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl Turn<'_> {
    fn has_temporary(&self, table: &str) -> Result<bool, Status> {
        let sql = "SELECT 1 FROM duckdb_tables() WHERE temporary AND lower(table_name) = lower(?)";
        let rows = self.connection().execute(sql, &[Value::from(table)]);
        let rows = rows.and_then(|rows| rows.collect()).map_err(|error| of_database(&error))?;
        Ok(rows.iter().any(|batch| batch.num_rows() > 0))
    }

    /// Runs a statement to its end.
    fn finish(&mut self, sql: &str) -> Result<(), Status> {
        self.run(sql, &[])?.collect().map(drop).map_err(|error| of_database(&error))
    }

    /// Drops a table, also when the client has left.
    fn drop_table(&mut self, table: &str) -> Result<(), Status> {
        self.unbroken(|turn| turn.finish(&format!("DROP TABLE {table}")))
    }

    fn append(&self, table: &str, rows: Sent) -> Result<u64, Status> {
        self.connection().append(table, rows).map_err(|error| of_database(&error))
    }

    /// Makes a temporary table of rows; without all of them there is none.
    fn make(&mut self, table: &str, rows: Sent) -> Result<u64, Status> {
        let columns = self.connection().register(COLUMNS, rows.schema(), Vec::new());
        columns.map_err(|error| of_database(&error))?;
        let made = self.finish(&format!("CREATE TEMP TABLE {table} AS SELECT * FROM {COLUMNS}"));
        self.connection().deregister(COLUMNS);
        made?;
        let added = self.append(table, rows);
        if added.is_err() {
            self.drop_table(table)?;
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Int64Array;
    use arrow_flight::sql::TableDefinitionOptions;
    use tonic::Code;

    fn asked() -> CommandStatementIngest {
        let options = TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Create.into(),
            if_exists: TableExistsOption::Fail.into(),
        };
        CommandStatementIngest {
            table_definition_options: Some(options),
            table: "t".to_string(),
            temporary: true,
            ..CommandStatementIngest::default()
        }
    }

    #[test]
    fn only_what_a_session_can_have_is_taken() {
        assert!(Target::of(asked()).is_ok());
        let code = |asked| Target::of(asked).unwrap_err().code();
        let plain = CommandStatementIngest { temporary: false, ..asked() };
        assert_eq!(code(plain), Code::FailedPrecondition);
        let elsewhere = CommandStatementIngest { schema: Some("other".to_string()), ..asked() };
        assert_eq!(code(elsewhere), Code::InvalidArgument);
        let vague = CommandStatementIngest { table_definition_options: None, ..asked() };
        assert_eq!(code(vague), Code::InvalidArgument);
        let options = [("fast".to_string(), "yes".to_string())].into();
        assert_eq!(code(CommandStatementIngest { options, ..asked() }), Code::Unimplemented);
    }

    #[test]
    fn rows_that_end_early_are_not_whole() {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let values: Arc<dyn arrow::array::Array> = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("a", values)]).unwrap();
        for (ends, patience) in [(true, None), (false, None), (false, Some(Duration::ZERO))] {
            let (sender, receiver) = channel(QUEUE);
            sender.try_send(Some(batch.clone())).unwrap();
            if ends {
                sender.try_send(None).unwrap();
            }
            let _waits = patience.map(|_| sender.clone());
            drop(sender);
            let (schema, handle) = (batch.schema(), runtime.handle().clone());
            let mut rows = Sent { schema, receiver, handle, patience, has_ended: false };
            assert!(rows.next().unwrap().is_ok());
            assert_eq!(rows.next().map(|next| next.is_err()), (!ends).then_some(true));
            assert!(rows.next().is_none());
        }
    }
}
