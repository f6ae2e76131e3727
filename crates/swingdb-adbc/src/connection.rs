//! Sessions: [`SwingConnection`].
//!
//! Without autocommit the first statement opens a transaction, and so does the first one after a
//! commit or rollback: a session that does nothing keeps no state of the database.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::schemas::{GET_STATISTIC_NAMES_SCHEMA, GET_TABLE_TYPES_SCHEMA};
use adbc_core::{CancelHandle, Connection, Optionable};
use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::Schema;

use crate::error::{Result, argument, of_arrow, of_database, state, unknown_option, unsupported};
use crate::option_values::{flag, text};
use crate::rows::{Reader, ready};
use crate::session::{Session, cancel_handle, qualified, quoted};
use crate::statement::SwingStatement;
use crate::{info, objects};
use swingdb::Interruptible;
use swingdb::plain_rows::plain_schema;

/// What tables are, as `get_objects` says it.
pub(crate) const TABLE_TYPES: [&str; 3] = ["BASE TABLE", "LOCAL TEMPORARY", "VIEW"];

/// A session, which its statements share.
pub(crate) struct SwingConnection {
    session: Session,
    /// The connection's own queries; statements have work of their own.
    work: Interruptible,
    read_only: bool,
}

impl SwingConnection {
    pub(crate) fn new(connection: swingdb::Connection) -> Self {
        let work = Interruptible::default();
        Self { session: Session::new(connection), work, read_only: false }
    }

    fn set_autocommit(&self, on: bool) -> Result<()> {
        if on && self.session.connection.in_transaction() {
            self.session.connection.commit().map_err(of_database)?;
        }
        self.session.set_autocommit(on);
        Ok(())
    }

    fn set_read_only(&mut self, on: bool) -> Result<()> {
        if on {
            self.session.connection.set_read_only("the connection has adbc.connection.readonly");
        } else if self.read_only {
            return Err(state("a connection that was made read-only stays so"));
        }
        self.read_only = on;
        Ok(())
    }

    fn one_text(&self, sql: &str) -> Result<String> {
        let rows = objects::texts(&self.session.connection, sql, &[])?;
        rows.into_iter().flatten().flatten().next().ok_or_else(|| state("the query has no rows"))
    }

    /// Ends the open transaction, if there is one.
    fn end(&self, how: impl FnOnce(&swingdb::Connection) -> swingdb::Result<()>) -> Result<()> {
        if self.session.autocommits() {
            return Err(state("with autocommit there is no transaction to end"));
        }
        match self.session.connection.in_transaction() {
            true => how(&self.session.connection).map_err(of_database),
            false => Ok(()),
        }
    }
}

impl Optionable for SwingConnection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_string();
        match key {
            OptionConnection::AutoCommit => self.set_autocommit(flag(&name, &value)?),
            OptionConnection::ReadOnly => self.set_read_only(flag(&name, &value)?),
            OptionConnection::CurrentSchema => {
                let sql = format!("USE {}", quoted(text(&name, &value)?));
                self.session.connection.query(&sql).map(drop).map_err(of_database)
            }
            OptionConnection::CurrentCatalog => {
                let wanted = text(&name, &value)?;
                match self.one_text("SELECT current_database()")? == wanted {
                    true => Ok(()),
                    false => {
                        Err(unsupported("a connection stays in the database it was opened on"))
                    }
                }
            }
            OptionConnection::IsolationLevel => match text(&name, &value)? {
                // A transaction sees the state in which it began.
                "adbc.connection.transaction.isolation.default"
                | "adbc.connection.transaction.isolation.snapshot" => Ok(()),
                other => Err(unsupported(format!("transactions have snapshots, not {other}"))),
            },
            _ => Err(unknown_option(&name)),
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        match key {
            OptionConnection::AutoCommit => Ok(self.session.autocommits().to_string()),
            OptionConnection::ReadOnly => Ok(self.read_only.to_string()),
            OptionConnection::CurrentCatalog => self.one_text("SELECT current_database()"),
            OptionConnection::CurrentSchema => self.one_text("SELECT current_schema()"),
            OptionConnection::IsolationLevel => {
                Ok("adbc.connection.transaction.isolation.snapshot".to_string())
            }
            other => Err(unknown_option(other.as_ref())),
        }
    }

    fn get_option_bytes(&self, key: OptionConnection) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionConnection) -> Result<i64> {
        Err(unknown_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionConnection) -> Result<f64> {
        Err(unknown_option(key.as_ref()))
    }
}

impl Connection for SwingConnection {
    type StatementType = SwingStatement;

    fn new_statement(&mut self) -> Result<SwingStatement> {
        Ok(SwingStatement::new(self.session.clone()))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        cancel_handle(&self.work)
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Reader> {
        info::reader(codes).map_err(of_arrow)
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Reader> {
        let wanted = objects::Wanted {
            catalog,
            schema: db_schema,
            table: table_name,
            types: table_type.unwrap_or_else(|| TABLE_TYPES.to_vec()),
            column: column_name,
        };
        self.work.run(|| objects::reader(&self.session.connection, depth, &wanted))
    }

    fn get_table_schema(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        let table = qualified([catalog, db_schema, Some(table_name)]);
        let sql = format!("SELECT * FROM {table} LIMIT 0");
        let rows = self.work.run(|| self.session.connection.query(&sql)).map_err(of_database)?;
        Ok(plain_schema(&rows.schema()))
    }

    fn get_table_types(&self) -> Result<Reader> {
        let types = Arc::new(StringArray::from_iter_values(TABLE_TYPES));
        let schema = Arc::clone(&GET_TABLE_TYPES_SCHEMA);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![types]).map_err(of_arrow)?;
        Ok(ready(schema, vec![batch]))
    }

    fn get_statistic_names(&self) -> Result<Reader> {
        Ok(ready(Arc::clone(&GET_STATISTIC_NAMES_SCHEMA), Vec::new()))
    }

    fn get_statistics(
        &self,
        _catalog: Option<&str>,
        _db_schema: Option<&str>,
        _table_name: Option<&str>,
        _approximate: bool,
    ) -> Result<Reader> {
        Err(unsupported("statistics are read by SQL: SUMMARIZE table"))
    }

    fn commit(&mut self) -> Result<()> {
        self.work.run(|| self.end(swingdb::Connection::commit))
    }

    fn rollback(&mut self) -> Result<()> {
        self.end(swingdb::Connection::rollback)
    }

    fn read_partition(&self, _partition: impl AsRef<[u8]>) -> Result<Reader> {
        Err(argument("results have no partitions here"))
    }
}
