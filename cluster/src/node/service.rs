//! What a node answers over Arrow Flight: snapshots, scans, and the steps of changes.

use std::sync::Arc;

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use datafusion::physical_plan::execute_stream;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt, TryStreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use subtle::ConstantTimeEq;
use swingdb_common::own_texts::with_own_texts;
use tokio::runtime::Handle;
use tokio::sync::mpsc::channel;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::changes::log::Rows;
use crate::changes::{Begin, Next, Which};
use crate::client::{CLASS_HEADER, Client, MAX_MESSAGE_BYTES, VERSION_HEADER};
use crate::error::{Error, Result};
use crate::node::orphans::{Attended, await_attention};
use crate::node::{Node, check_version};
use crate::scan::plan_at;
use crate::wire::{Ask, Scan, TOKEN_HEADER};

/// Rows of a step, at most, in memory at a node.
const MAX_STEP_BATCHES: usize = 4096;
/// The most bytes of an error's text: a header has up to three for each.
const MAX_TEXT_BYTES: usize = 64 << 10;
/// Batches of a scan that wait for the network.
const QUEUE: usize = 4;

/// See the [module documentation](self).
pub struct Service {
    node: Arc<Node>,
    /// How other nodes are reached.
    client: Client,
    /// The threads that read tables.
    work: Handle,
}

/// A step that somebody waits for; without anybody, it ends.
struct Awaited {
    node: Arc<Node>,
    /// The change; `None`: the step has ended.
    running: Option<Which>,
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some(which) = &self.running {
            self.node.changes.interrupt(which);
        }
    }
}

/// Lets nobody in who does not know the secret.
#[derive(Clone)]
pub struct AskToken(pub Arc<Node>);

impl Interceptor for AskToken {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(token) = self.0.token() else { return Ok(request) };
        let shown = request.metadata().get(TOKEN_HEADER).map(MetadataValue::as_bytes);
        match shown.is_some_and(|shown| shown.ct_eq(token.as_bytes()).into()) {
            true => Ok(request),
            false => Err(Status::unauthenticated("this node asks for another token")),
        }
    }
}

impl Service {
    /// What answers for a node; `work` reads the tables.
    pub fn new(node: Arc<Node>, client: Client, work: Handle) -> Self {
        Self { node, client, work }
    }

    fn attended(&self, database: String, number: u64, coordinator: String) -> Attended {
        let (node, client) = (Arc::clone(&self.node), self.client.clone());
        Attended { node, client, work: self.work.clone(), database, number, coordinator }
    }

    /// Carries a step out, as long as somebody waits for it.
    async fn step(&self, next: Next, rows: Rows) -> Result<Vec<u8>, Status> {
        let Next { database, number, by, .. } = next.clone();
        let running = Some(Which { database, number, by });
        let mut awaited = Awaited { node: Arc::clone(&self.node), running };
        let done = self.aside(move |node| node.changes.step(&next, rows)).await;
        awaited.running = None;
        answer(&done?)
    }

    /// The server of this service.
    pub fn into_server(self) -> FlightServiceServer<Self> {
        FlightServiceServer::new(self)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    /// Runs what waits for threads of the database.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<Node>) -> Result<T> + Send + 'static,
    ) -> Result<T, Status> {
        let node = Arc::clone(&self.node);
        let done = tokio::task::spawn_blocking(move || work(&node)).await;
        done.map_err(|error| Status::internal(error.to_string()))?.map_err(|e| status(&e))
    }

    async fn scan(&self, scan: &Scan) -> Result<BoxStream<'static, Result<FlightData, Status>>> {
        let (plan, context) = plan_at(&self.node, scan).await?;
        let schema = plan.schema();
        let rows = execute_stream(plan, context)?;
        let rows = rows.map(|batch| {
            // Else each batch takes the texts of its whole segment along.
            let own = batch.map_err(Error::from).and_then(|one| Ok(with_own_texts(&one)?));
            own.map_err(|error| FlightError::ExternalError(Box::new(error)))
        });
        let data = FlightDataEncoderBuilder::new()
            .with_dictionary_handling(DictionaryHandling::Resend)
            .with_schema(schema)
            .build(rows);
        // The network's threads must be free for others.
        let (sender, receiver) = channel(QUEUE);
        self.work.spawn(async move {
            let mut data = data;
            loop {
                let next = tokio::select! {
                    biased;
                    () = sender.closed() => return,
                    next = data.next() => next,
                };
                let next = next.map(|next| next.map_err(|error| failed(&error)));
                let is_end = next.is_none();
                if sender.send(next).await.is_err() || is_end {
                    return;
                }
            }
        });
        Ok(to_the_end(ReceiverStream::new(receiver)).boxed())
    }
}

/// What comes through a channel, up to `None`. A channel that ends without it, since a defect has
/// ended who sends, is an error: rows are missing.
fn to_the_end<T>(
    receiver: ReceiverStream<Option<Result<T, Status>>>,
) -> impl Stream<Item = Result<T, Status>> {
    stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.next().await {
            Some(Some(Ok(next))) => Some((Ok(next), Some(receiver))),
            Some(Some(Err(error))) => Some((Err(error), None)),
            Some(None) => None,
            None => Some((Err(Status::internal("a scan broke off in the middle")), None)),
        }
    })
}

/// What an error of a stream says.
fn cause(error: FlightError) -> String {
    match error {
        FlightError::ExternalError(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// An error's text as it is sent. Errors may quote a value of any length.
fn brief(mut text: String) -> String {
    let whole = text.len();
    if whole > MAX_TEXT_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
        text.push_str(&format!("... ({whole} bytes)"));
    }
    text
}

fn status(error: &Error) -> Status {
    let mut status = Status::failed_precondition(brief(error.to_string()));
    if let Some(class) = error.class_of_statement() {
        status.metadata_mut().insert(CLASS_HEADER, MetadataValue::from_static(class));
    }
    status
}

/// The error in the middle of a result.
fn failed(error: &FlightError) -> Status {
    match error {
        FlightError::ExternalError(outside) => match outside.downcast_ref::<Error>() {
            Some(error) => status(error),
            None => Status::internal(brief(outside.to_string())),
        },
        other => Status::internal(brief(other.to_string())),
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Status> {
    let read = serde_json::from_slice(bytes);
    read.map_err(|error| Status::invalid_argument(format!("not understood: {error}")))
}

fn answer<T: Serialize>(value: &T) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(value).map_err(|error| Status::internal(error.to_string()))
}

fn not_here<T>(what: &str) -> Result<Response<T>, Status> {
    Err(Status::unimplemented(format!("nodes of SwingDB do not answer {what}")))
}

/// A stream that keeps something: what is said of it, and then nothing, until it is dropped.
fn keeping<G: Send + 'static>(
    guard: G,
    said: Vec<u8>,
) -> BoxStream<'static, Result<FlightData, Status>> {
    let first = FlightData::new().with_app_metadata(said);
    let rest = stream::once(async move {
        let _guard = guard;
        std::future::pending::<Result<FlightData, Status>>().await
    });
    stream::iter([Ok(first)]).chain(rest).boxed()
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        match read::<Ask>(&request.into_inner().ticket)? {
            Ask::Hold { database, version, shows, known } => {
                if let Err(ours) = check_version(&version) {
                    let mut metadata = MetadataMap::new();
                    if let Ok(ours) = MetadataValue::try_from(&ours) {
                        metadata.insert(VERSION_HEADER, ours);
                    }
                    let text = format!("version {version} is asked for, this is {ours}");
                    let code = Code::FailedPrecondition;
                    return Err(Status::with_metadata(code, text, metadata));
                }
                let held = self.aside(move |node| node.hold(&database, shows, known)).await?;
                let said = answer(&held.1)?;
                Ok(Response::new(keeping(held.0, said)))
            }
            Ask::Attend { database, number, coordinator } => {
                let attended = self.attended(database, number, coordinator);
                self.node.attending.lock().insert(attended.coordinator.clone());
                Ok(Response::new(keeping(attended, answer(&())?)))
            }
            Ask::Scan(scan) => {
                let rows = self.scan(&scan).await.map_err(|error| status(&error))?;
                Ok(Response::new(rows))
            }
        }
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let Action { r#type: kind, body } = request.into_inner();
        let which = |body: &[u8]| read::<Which>(body);
        let said = match kind.as_str() {
            "ping" => answer(&self.node.holds())?,
            "standing" => {
                let database = read::<String>(&body)?;
                let standing = self.aside(move |node| node.changes.standing(&database)).await?;
                answer(&standing)?
            }
            "begin" => {
                let begin = read::<Begin>(&body)?;
                let Begin { database, number, coordinator, .. } = begin.clone();
                let done = self.aside(move |node| node.changes.begin(&begin)).await?;
                if !coordinator.is_empty() {
                    await_attention(self.attended(database, number, coordinator));
                }
                answer(&done)?
            }
            "step" => self.step(read::<Next>(&body)?, None).await?,
            "prepare" | "commit" | "abort" | "finish" => {
                let which = which(&body)?;
                let changed = (kind == "commit").then(|| which.database.clone());
                let done = move |node: &Arc<Node>| match kind.as_str() {
                    "prepare" => node.changes.prepare(&which),
                    "commit" => node.changes.commit(&which),
                    "abort" => node.changes.abort(&which),
                    _ => node.changes.finish(&which.database, which.number),
                };
                let said = answer(&self.aside(done).await?)?;
                if let Some(database) = changed {
                    // Sessions ask for the new state next. Who asks first gets the error.
                    let node = Arc::clone(&self.node);
                    drop(tokio::task::spawn_blocking(move || node.current(&database).map(drop)));
                }
                said
            }
            other => return not_here(other),
        };
        let result = arrow_flight::Result { body: said.into() };
        Ok(Response::new(stream::iter([Ok(result)]).boxed()))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let mut stream = request.into_inner().peekable();
        let first = std::pin::Pin::new(&mut stream).peek().await;
        let said = match first {
            Some(Ok(first)) => first.flight_descriptor.clone().unwrap_or_default().cmd,
            Some(Err(error)) => return Err(error.clone()),
            None => return Err(Status::invalid_argument("rows without anything")),
        };
        let next = read::<Next>(&said)?;
        let mut rows = FlightRecordBatchStream::new_from_flight_data(
            stream.map_err(|status| FlightError::Tonic(Box::new(status))),
        );
        let mut batches = Vec::new();
        while let Some(batch) = rows.try_next().await.map_err(|e| Status::aborted(cause(e)))? {
            if batches.len() == MAX_STEP_BATCHES {
                return Err(Status::resource_exhausted("more rows than a step may have"));
            }
            batches.push(batch);
        }
        let schema = rows.schema().cloned();
        let schema = schema.ok_or_else(|| Status::invalid_argument("rows without columns"))?;
        let app_metadata = self.step(next, Some((schema, batches))).await?.into();
        Ok(Response::new(stream::iter([Ok(PutResult { app_metadata })]).boxed()))
    }

    async fn handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        not_here("a handshake")
    }

    async fn list_flights(
        &self,
        _request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        not_here("a list of flights")
    }

    async fn get_flight_info(
        &self,
        _request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        not_here("a flight's information")
    }

    async fn poll_flight_info(
        &self,
        _request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        not_here("a poll")
    }

    async fn get_schema(
        &self,
        _request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        not_here("a schema")
    }

    async fn list_actions(
        &self,
        _request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        not_here("a list of actions")
    }

    async fn do_exchange(
        &self,
        _request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        not_here("an exchange")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rows_without_an_end_are_an_error() {
        for (sent, expected) in [
            (vec![Some(Ok(1)), Some(Ok(2)), None], vec![Some(1), Some(2)]),
            (vec![Some(Ok(1))], vec![Some(1), None]),
            (vec![Some(Ok(1)), Some(Err(Status::aborted("")))], vec![Some(1), None]),
            (vec![None], vec![]),
            (vec![], vec![None]),
        ] {
            let (sender, receiver) = channel(QUEUE);
            for next in sent {
                sender.send(next).await.unwrap();
            }
            drop(sender);
            let got =
                to_the_end(ReceiverStream::new(receiver)).map(Result::ok).collect::<Vec<_>>().await;
            assert_eq!(got, expected);
        }
    }
}
