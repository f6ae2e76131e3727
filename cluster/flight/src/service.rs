//! The calls of Flight SQL: [`Service`].

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::metadata::GetCatalogsBuilder;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionBeginTransactionRequest, ActionBeginTransactionResult, ActionCancelQueryRequest,
    ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
    ActionEndTransactionRequest, Any, Command, CommandGetCatalogs, CommandGetCrossReference,
    CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys, CommandGetPrimaryKeys,
    CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandPreparedStatementQuery,
    CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, EndTransaction, ProstMessageExt, SqlInfo,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor,
    FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket,
};
use bytes::Bytes;
use prost::Message;
use swingdb::cutter::{Kind, Piece, words};
use tonic::transport::server::TlsConnectInfo;
use tonic::{Request, Response, Status};

use crate::ingest::{Target, ingest};
use crate::keys::AskedForeign;
use crate::parameters::{expected, rows_of};
use crate::rows::{Answer, ready};
use crate::session::{Client, Prepared, Session, Started};
use crate::status::of_arrow;
use crate::{catalog, keys};

/// The result of CancelQuery, whose names the library does not have.
const CANCELLED: i32 = 1;
/// The action that cancels what a FlightInfo tells of; CancelQuery is its older name.
const CANCEL: &str = "CancelFlightInfo";

type Result<T, E = Status> = std::result::Result<T, E>;

/// See the [module documentation](self).
pub struct Service;

/// The session of a call's connection.
async fn session<T>(request: &Request<T>) -> Result<Arc<Session>> {
    let client = client_of(request);
    client.ok_or_else(|| Status::internal("a call without a connection"))?.session().await
}

/// The connection of a call.
pub fn client_of<T>(request: &Request<T>) -> Option<&Arc<Client>> {
    let known = request.extensions();
    known.get::<Arc<Client>>().or_else(|| {
        known.get::<TlsConnectInfo<Arc<Client>>>().map(|connection| connection.get_ref())
    })
}

/// Where the rows of a command are: at this server, by this connection.
fn info(
    ticket: &impl ProstMessageExt,
    schema: &Schema,
    asked: FlightDescriptor,
) -> Result<Response<FlightInfo>> {
    let ticket = Ticket::new(ticket.as_any().encode_to_vec());
    let info = FlightInfo::new().try_with_schema(schema).map_err(of_arrow)?;
    let info = info.with_endpoint(FlightEndpoint::new().with_ticket(ticket));
    Ok(Response::new(info.with_descriptor(asked)))
}

fn info_of(started: Started, asked: FlightDescriptor) -> Result<Response<FlightInfo>> {
    info(&TicketStatementQuery { statement_handle: started.ticket }, &started.schema, asked)
}

fn answer(batch: RecordBatch) -> Result<Response<Answer>> {
    Ok(Response::new(ready(batch)))
}

/// A schema as bytes.
pub fn schema_bytes(schema: &Schema) -> Result<Bytes> {
    let options = IpcWriteOptions::default();
    let message: Result<IpcMessage, _> = SchemaAsIpc::new(schema, &options).try_into();
    message.map(|message| message.0).map_err(of_arrow)
}

async fn foreign_keys<T>(
    asked: impl Into<AskedForeign>,
    request: &Request<T>,
) -> Result<Response<Answer>> {
    let (session, asked) = (session(request).await?, asked.into());
    answer(session.call(move |call| keys::foreign(call, &asked)).await?)
}

/// The one row of values that a query takes.
fn one_row(prepared: &Prepared) -> Result<&[swingdb::Value]> {
    match prepared.values.rows.as_slice() {
        [] => Ok(&[]),
        [row] => Ok(row),
        rows => Err(Status::invalid_argument(format!(
            "a query takes one row of parameters, and it was given {}",
            rows.len()
        ))),
    }
}

impl Service {
    /// The columns of a command's rows; what runs for that is dropped.
    pub async fn schema_of(&self, request: Request<FlightDescriptor>) -> Result<Bytes> {
        let session = session(&request).await?;
        let any = Any::decode(&*request.get_ref().cmd)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let started = match Command::try_from(any).map_err(of_arrow)? {
            Command::CommandStatementQuery(query) => {
                let transaction = query.transaction_id.unwrap_or_default();
                session.call(move |call| call.describe(&query.query, &[], &transaction)).await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                let prepared = session.prepared(&query.prepared_statement_handle)?;
                let described = session.call(move |call| {
                    call.describe(&prepared.sql, one_row(&prepared)?, &prepared.transaction)
                });
                described.await?
            }
            _ => return Ok(self.get_flight_info(request).await?.into_inner().schema),
        };
        schema_bytes(&started)
    }

    /// Cancels what a FlightInfo tells of.
    async fn cancel<T>(&self, request: &Request<T>, info: &FlightInfo) -> Result<bool> {
        let session = session(request).await?;
        let mut is_known = false;
        for ticket in info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref()) {
            let any = Any::decode(&*ticket.ticket).ok();
            let ticket = any.and_then(|any| any.unpack::<TicketStatementQuery>().ok().flatten());
            is_known |= ticket.is_some_and(|ticket| session.cancel(&ticket.statement_handle));
        }
        Ok(is_known)
    }
}

#[tonic::async_trait]
impl FlightSqlService for Service {
    type FlightService = Self;

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        let session = session(&request).await?;
        let transaction = query.transaction_id.unwrap_or_default();
        let started = session.call(move |call| call.start(&query.query, &[], &transaction)).await?;
        info_of(started, request.into_inner())
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        let session = session(&request).await?;
        Ok(Response::new(session.read(&ticket.statement_handle)?))
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        let session = session(&request).await?;
        let prepared = session.prepared(&query.prepared_statement_handle)?;
        let started = session.call(move |call| {
            call.start(&prepared.sql, one_row(&prepared)?, &prepared.transaction)
        });
        info_of(started.await?, request.into_inner())
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        let session = session(&request).await?;
        let prepared = session.prepared(&query.prepared_statement_handle)?;
        let started = session.call(move |call| {
            call.start(&prepared.sql, one_row(&prepared)?, &prepared.transaction)
        });
        let ticket = started.await?.ticket;
        Ok(Response::new(session.read(&ticket)?))
    }

    async fn do_action_create_prepared_statement(
        &self,
        asked: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult> {
        let session = session(&request).await?;
        let prepared = session.call(move |call| {
            let (sql, transaction) = (asked.query, asked.transaction_id.unwrap_or_default());
            let turn = call.turn()?;
            turn.refresh()?;
            // What is wrong with a statement is said when it runs, with its values.
            let types = turn.connection().parameter_types(&sql).unwrap_or_default();
            drop(turn);
            let nulls = vec![swingdb::Value::Null; types.len()];
            let columns = call.describe(&sql, &nulls, &transaction);
            let is_parameter = |word: Piece<'_>| word.kind == Kind::Parameter || word.text == "?";
            let columns = match words(&sql).any(is_parameter) {
                // Without values the columns may not be known.
                true => columns.unwrap_or_else(|_| Arc::new(Schema::empty())),
                false => columns?,
            };
            let prepared = Prepared { sql, transaction, values: Arc::default() };
            Ok(ActionCreatePreparedStatementResult {
                prepared_statement_handle: call.session().prepare(prepared)?,
                dataset_schema: schema_bytes(&columns)?,
                parameter_schema: schema_bytes(&expected(types))?,
            })
        });
        prepared.await
    }

    async fn do_action_close_prepared_statement(
        &self,
        asked: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<()> {
        session(&request).await?.close(&asked.prepared_statement_handle);
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult> {
        let session = session(&request).await?;
        let rows = rows_of(request.into_inner()).await?;
        let handle = query.prepared_statement_handle;
        session.bind(&handle, rows)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) })
    }

    async fn do_put_prepared_statement_update(
        &self,
        query: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64> {
        let session = session(&request).await?;
        let mut prepared = session.prepared(&query.prepared_statement_handle)?;
        let rows = rows_of(request.into_inner()).await?;
        if !rows.rows.is_empty() {
            prepared.values = Arc::new(rows);
        }
        let changed = session.call(move |call| {
            let none = [Vec::new()];
            let rows = prepared.values.rows.as_slice();
            let mut total = 0;
            for row in if rows.is_empty() { &none } else { rows } {
                let changed = call.change(&prepared.sql, row, &prepared.transaction)?;
                total = if changed < 0 { changed } else { changed.saturating_add(total) };
            }
            Ok(total)
        });
        changed.await
    }

    async fn do_put_statement_update(
        &self,
        update: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64> {
        let session = session(&request).await?;
        let transaction = update.transaction_id.unwrap_or_default();
        session.call(move |call| call.change(&update.query, &[], &transaction)).await
    }

    async fn do_put_statement_ingest(
        &self,
        asked: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64> {
        let target = Target::of(asked)?;
        let session = session(&request).await?;
        ingest(&session, target, request.into_inner()).await
    }

    async fn do_action_begin_transaction(
        &self,
        _: ActionBeginTransactionRequest,
        request: Request<Action>,
    ) -> Result<ActionBeginTransactionResult> {
        let session = session(&request).await?;
        let transaction_id = session.call(|call| call.begin()).await?;
        Ok(ActionBeginTransactionResult { transaction_id })
    }

    async fn do_action_end_transaction(
        &self,
        asked: ActionEndTransactionRequest,
        request: Request<Action>,
    ) -> Result<()> {
        let session = session(&request).await?;
        let commits = match EndTransaction::try_from(asked.action) {
            Ok(EndTransaction::Commit) => true,
            Ok(EndTransaction::Rollback) => false,
            _ => return Err(Status::invalid_argument("neither COMMIT nor ROLLBACK")),
        };
        session.call(move |call| call.end(&asked.transaction_id, commits)).await
    }

    async fn do_action_cancel_query(
        &self,
        asked: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult> {
        let info = FlightInfo::decode(asked.info)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        match self.cancel(&request, &info).await? {
            true => Ok(ActionCancelQueryResult { result: CANCELLED }),
            false => Err(Status::not_found("there is no such query in this session")),
        }
    }

    async fn do_action_fallback(
        &self,
        request: Request<Action>,
    ) -> Result<Response<<Self as FlightService>::DoActionStream>> {
        let kind = &request.get_ref().r#type;
        if kind != CANCEL {
            return Err(Status::unimplemented(format!("there is no action {kind:?}")));
        }
        let asked = CancelFlightInfoRequest::decode(&*request.get_ref().body)
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        match self.cancel(&request, &asked.info.unwrap_or_default()).await? {
            true => {
                let result = CancelFlightInfoResult { status: CancelStatus::Cancelled.into() };
                let result = arrow_flight::Result { body: result.encode_to_vec().into() };
                Ok(Response::new(Box::pin(futures::stream::iter([Ok(result)]))))
            }
            false => Err(Status::not_found("there is no such query in this session")),
        }
    }

    async fn get_flight_info_catalogs(
        &self,
        asked: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        info(&asked, &GetCatalogsBuilder::new().schema(), request.into_inner())
    }

    async fn do_get_catalogs(
        &self,
        _: CommandGetCatalogs,
        request: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        let session = session(&request).await?;
        answer(session.call(catalog::catalogs).await?)
    }

    async fn get_flight_info_schemas(
        &self,
        asked: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        info(&asked, &asked.clone().into_builder().schema(), request.into_inner())
    }

    async fn do_get_schemas(
        &self,
        asked: CommandGetDbSchemas,
        request: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        let session = session(&request).await?;
        answer(session.call(move |call| catalog::schemas(call, asked)).await?)
    }

    async fn get_flight_info_tables(
        &self,
        asked: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        info(&asked, &asked.clone().into_builder().schema(), request.into_inner())
    }

    async fn do_get_tables(
        &self,
        asked: CommandGetTables,
        request: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        let session = session(&request).await?;
        answer(session.call(move |call| catalog::tables(call, asked)).await?)
    }

    async fn get_flight_info_table_types(
        &self,
        asked: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        info(&asked, &CommandGetTableTypes {}.into_builder().schema(), request.into_inner())
    }

    async fn do_get_table_types(
        &self,
        _: CommandGetTableTypes,
        _: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        answer(catalog::table_types()?)
    }

    async fn get_flight_info_primary_keys(
        &self,
        asked: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        info(&asked, &keys::primary_schema(), request.into_inner())
    }

    async fn do_get_primary_keys(
        &self,
        asked: CommandGetPrimaryKeys,
        request: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        let session = session(&request).await?;
        answer(session.call(move |call| keys::primary(call, asked)).await?)
    }

    async fn get_flight_info_exported_keys(
        &self,
        asked: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        info(&asked, &keys::foreign_schema(), request.into_inner())
    }

    async fn do_get_exported_keys(
        &self,
        asked: CommandGetExportedKeys,
        request: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        foreign_keys(asked, &request).await
    }

    async fn get_flight_info_imported_keys(
        &self,
        asked: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        info(&asked, &keys::foreign_schema(), request.into_inner())
    }

    async fn do_get_imported_keys(
        &self,
        asked: CommandGetImportedKeys,
        request: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        foreign_keys(asked, &request).await
    }

    async fn get_flight_info_cross_reference(
        &self,
        asked: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        info(&asked, &keys::foreign_schema(), request.into_inner())
    }

    async fn do_get_cross_reference(
        &self,
        asked: CommandGetCrossReference,
        request: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        foreign_keys(asked, &request).await
    }

    async fn get_flight_info_sql_info(
        &self,
        asked: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>> {
        let schema = asked.clone().into_builder(catalog::sql_info()?).schema();
        info(&asked, &schema, request.into_inner())
    }

    async fn do_get_sql_info(
        &self,
        asked: CommandGetSqlInfo,
        _: Request<Ticket>,
    ) -> Result<Response<Answer>> {
        answer(asked.into_builder(catalog::sql_info()?).build()?)
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}
