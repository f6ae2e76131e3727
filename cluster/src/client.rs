//! How nodes are reached: [`Client`]. Every error names the node.
//!
//! Connections are kept. A node that does not answer the network's own pings for
//! [`Limits::silence`] is lost, also in the middle of a result.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightDescriptor, Ticket};
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Statistics};
use datafusion_distributed::{ChannelResolver, WorkerChannel, grpc};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use swingdb_common::own_texts::with_own_texts;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};
use url::Url;

use crate::blame::blaming;
use crate::catalog::Member;
use crate::cut::Cut;
use crate::error::{Error, Result};
use crate::wire::{
    Ask, Contents, Held, Scan, Shows, TOKEN_HEADER, schema_of, statistics_of, version,
};

/// The largest message: schemas with statistics of many tables, wide batches.
pub const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// The most bytes of headers: the settings of a plan, and the texts of errors.
pub const MAX_HEADER_BYTES: u32 = 1 << 20;

/// How long nodes may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// To accept a connection.
    pub connect: Duration,
    /// To answer a question that needs no rows to be read.
    pub answer: Duration,
    /// Without any sign of life while something is awaited.
    pub silence: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { connect: seconds(5), answer: seconds(10), silence: seconds(10) }
    }
}

/// See the [module documentation](self).
#[derive(Clone)]
pub struct Client {
    token: Option<MetadataValue<Ascii>>,
    limits: Limits,
    /// How connections are encrypted.
    tls: Option<ClientTlsConfig>,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
    /// What nodes have told, by them and their databases.
    told: Arc<Mutex<HashMap<(String, String), Last>>>,
    /// The runtime whose threads serve connections; `None`: that of who asks first.
    network: Option<Handle>,
}

/// A connection that shows the secret with each request.
#[derive(Clone)]
struct WithToken {
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
}

impl Service<http::Request<Body>> for WithToken {
    type Response = <Channel as Service<http::Request<Body>>>::Response;
    type Error = <Channel as Service<http::Request<Body>>>::Error;
    type Future = <Channel as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.channel.poll_ready(cx)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let token =
            self.token.as_ref().map(|token| http::HeaderValue::from_bytes(token.as_bytes()));
        if let Some(Ok(token)) = token {
            request.headers_mut().insert(TOKEN_HEADER, token);
        }
        self.channel.call(request)
    }
}

type Flight = FlightServiceClient<WithToken>;

/// A snapshot at a node; the node keeps it until this is dropped.
pub struct Kept {
    /// Which of the cluster's nodes it is.
    pub place: usize,
    /// The node.
    pub node: String,
    /// What the node says of it.
    pub held: Held,
    /// What is in it.
    pub contents: Arc<Told>,
    is_lost: Arc<AtomicBool>,
    /// Has the stream whose end is that of the snapshot.
    watch: JoinHandle<()>,
}

/// What is in a snapshot, read. As long as nothing has changed, sessions share it.
#[derive(Debug)]
pub struct Told {
    /// What the node is in the cluster.
    pub place: Option<Member>,
    /// Its tables.
    pub tables: BTreeMap<String, ToldTable>,
    /// Statements that define its views, macros and types.
    pub definitions: Vec<String>,
    /// Statements that make all that it has, without rows.
    pub script: Vec<String>,
}

/// A table of a snapshot.
#[derive(Debug)]
pub struct ToldTable {
    /// Its columns.
    pub schema: SchemaRef,
    /// What is known of its rows.
    pub statistics: Statistics,
    /// The columns of its primary key.
    pub primary_key: Vec<usize>,
    /// How its rows are dealt out.
    pub cut: Cut,
}

impl Told {
    fn of(contents: Contents) -> Result<Self, String> {
        let mut contents = contents;
        let tables = std::mem::take(&mut contents.tables).into_iter().map(|table| {
            let schema = schema_of(&table.schema)?;
            let statistics = statistics_of(&table.statistics)?;
            let (primary_key, cut) = (table.primary_key, table.cut);
            Ok((table.name, ToldTable { schema, statistics, primary_key, cut }))
        });
        let tables = tables.collect::<Result<_, String>>()?;
        let Contents { place, definitions, script, .. } = contents;
        Ok(Self { place, tables, definitions, script })
    }
}

/// The last that a node has told of a database.
struct Last {
    process: String,
    epoch: u64,
    told: Arc<Told>,
}

impl Kept {
    /// Whether the node has gone, or its process has ended, and the snapshot with it.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Notes that the node has gone.
    pub fn lose(&self) {
        self.is_lost.store(true, Ordering::Release);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Client {
    /// A client that shows `token`.
    pub fn new(token: Option<&str>, limits: Limits) -> Result<Self> {
        let token = token
            .map(MetadataValue::try_from)
            .transpose()
            .map_err(|_| Error::Unsupported("a token with characters beyond ASCII".to_string()))?;
        Ok(Self {
            token,
            limits,
            tls: None,
            channels: Arc::default(),
            told: Arc::default(),
            network: None,
        })
    }

    /// The same client, which speaks TLS only, with nodes whose certificates are signed by one of
    /// a file.
    pub fn encrypted(self, authorities: &Path) -> Result<Self> {
        let read = std::fs::read(authorities).map_err(|error| {
            Error::Unsupported(format!("the certificates {}: {error}", authorities.display()))
        })?;
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read));
        Ok(Self { tls: Some(tls), ..self })
    }

    /// The same client, with its connections on the threads of a runtime which does nothing else
    /// that takes long.
    pub fn on(self, network: Handle) -> Self {
        Self { network: Some(network), ..self }
    }

    /// How long nodes may take.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn channel(&self, node: &str) -> Result<Channel> {
        if let Some(known) = self.channels.lock().get(node) {
            return Ok(known.clone());
        }
        let address = || Error::Address { address: node.to_string() };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let endpoint =
            Endpoint::from_shared(format!("{scheme}://{node}")).map_err(|_| address())?;
        let endpoint = match &self.tls {
            Some(tls) => endpoint
                .tls_config(tls.clone())
                .map_err(|error| lost(node, format!("its TLS: {}", with_causes(&error))))?,
            None => endpoint,
        };
        let endpoint = endpoint
            .connect_timeout(self.limits.connect)
            .http2_keep_alive_interval(self.limits.silence / 2)
            .keep_alive_timeout(self.limits.silence / 2)
            .keep_alive_while_idle(true)
            .http2_max_header_list_size(MAX_HEADER_BYTES)
            .tcp_nodelay(true);
        let connected = match &self.network {
            None => endpoint.connect().await,
            Some(network) => {
                let work = network.spawn(async move { endpoint.connect().await });
                work.await.map_err(|error| lost(node, error.to_string()))?
            }
        };
        let channel = connected.map_err(|error| lost(node, with_causes(&error)))?;
        self.channels.lock().insert(node.to_string(), channel.clone());
        Ok(channel)
    }

    async fn with_token(&self, node: &str) -> Result<WithToken> {
        Ok(WithToken { channel: self.channel(node).await?, token: self.token.clone() })
    }

    async fn flight(&self, node: &str) -> Result<Flight> {
        let flight = FlightServiceClient::new(self.with_token(node).await?);
        let flight = flight.max_decoding_message_size(MAX_MESSAGE_BYTES);
        Ok(flight.max_encoding_message_size(MAX_MESSAGE_BYTES))
    }

    /// The error for a node's answer; a connection that broke is not used again.
    fn failed(&self, node: &str, status: &Status) -> Error {
        let error = of_status(node, status);
        if matches!(error, Error::NodeLost { .. }) {
            self.channels.lock().remove(node);
        }
        error
    }

    async fn in_time<T>(&self, node: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.limits.answer;
        match tokio::time::timeout(limit, work).await {
            Ok(done) => done,
            Err(_) => {
                self.channels.lock().remove(node);
                Err(Error::NodeSlow { node: node.to_string(), seconds: limit.as_secs_f64() })
            }
        }
    }

    /// Takes a snapshot at a node.
    pub async fn hold(
        &self,
        place: usize,
        node: &str,
        database: &str,
        shows: Shows,
    ) -> Result<Kept> {
        self.in_time(node, async {
            let key = (node.to_string(), database.to_string());
            let last = self
                .told
                .lock()
                .get(&key)
                .map(|last| ((last.process.clone(), last.epoch), Arc::clone(&last.told)));
            let known = last.as_ref().map(|(known, _)| known.clone());
            let (database, version) = (database.to_string(), version());
            let ask = Ask::Hold { database, version, shows, known };
            let answer = self.flight(node).await?.do_get(ticket(&ask)).await;
            let mut stream = answer.map_err(|status| self.failed(node, &status))?.into_inner();
            let first = stream.message().await.map_err(|status| self.failed(node, &status))?;
            let first = first.ok_or_else(|| lost(node, "the stream ended".to_string()))?;
            let mut held = read_answer::<Held>(node, &first.app_metadata)?;
            let contents = match (held.contents.take(), last) {
                (Some(contents), _) => {
                    let told = Told::of(contents)
                        .map(Arc::new)
                        .map_err(|message| Error::NodeFailed { node: node.to_string(), message })?;
                    let (process, epoch) = (held.process.clone(), held.epoch);
                    let last = Last { process, epoch, told: Arc::clone(&told) };
                    // An epoch says nothing of what is not committed.
                    if !matches!(shows, Shows::Open(_)) {
                        self.told.lock().insert(key, last);
                    }
                    told
                }
                (None, Some((_, told))) => told,
                (None, None) => {
                    let message = "a snapshot without what is in it".to_string();
                    return Err(Error::NodeFailed { node: node.to_string(), message });
                }
            };
            let is_lost = Arc::new(AtomicBool::new(false));
            let ended = Arc::clone(&is_lost);
            let watch = tokio::spawn(async move {
                // Nothing comes any more, until the node goes.
                while let Ok(Some(_)) = stream.message().await {}
                ended.store(true, Ordering::Release);
            });
            Ok(Kept { place, node: node.to_string(), held, contents, is_lost, watch })
        })
        .await
    }

    /// Attends to a change at a node, until this future is dropped, or the node goes.
    pub async fn attend(&self, node: &str, database: &str, number: u64, coordinator: &str) {
        let (database, coordinator) = (database.to_string(), coordinator.to_string());
        let ask = Ask::Attend { database, number, coordinator };
        let Ok(mut flight) = self.flight(node).await else { return };
        if let Ok(answer) = flight.do_get(ticket(&ask)).await {
            let mut stream = answer.into_inner();
            while let Ok(Some(_)) = stream.message().await {}
        }
    }

    /// The rows of a scan at a node.
    pub async fn scan(
        &self,
        node: &str,
        scan: &Scan,
        schema: SchemaRef,
    ) -> Result<BoxStream<'static, Result<RecordBatch, DataFusionError>>> {
        let mut flight = self.flight(node).await?;
        let answer = flight.do_get(ticket(&Ask::Scan(scan.clone()))).await;
        let stream = answer.map_err(|status| self.failed(node, &status))?.into_inner();
        let rows = FlightRecordBatchStream::new_from_flight_data(
            stream.map_err(|status| FlightError::Tonic(Box::new(status))),
        );
        let (node, client) = (node.to_string(), self.clone());
        let rows = rows.map(move |batch| {
            let batch = batch.map_err(|error| match error {
                FlightError::Tonic(status) => client.failed(&node, &status),
                other => lost(&node, other.to_string()),
            })?;
            // Names and metadata of columns are the asker's; types must be the same. Rows that are
            // only counted have no columns.
            let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let (schema, columns) = (Arc::clone(&schema), batch.columns().to_vec());
            Ok(RecordBatch::try_new_with_options(schema, columns, &count)?)
        });
        Ok(rows.boxed())
    }

    /// Asks a node to do something.
    pub async fn act<Q: Serialize, A: DeserializeOwned>(
        &self,
        node: &str,
        kind: &str,
        question: &Q,
    ) -> Result<A> {
        self.act_within(node, kind, question, self.limits.answer).await
    }

    /// As [`act`](Self::act), with another limit of time.
    pub async fn act_within<Q: Serialize, A: DeserializeOwned>(
        &self,
        node: &str,
        kind: &str,
        question: &Q,
        limit: Duration,
    ) -> Result<A> {
        let patient =
            Self { limits: Limits { answer: limit, ..self.limits.clone() }, ..self.clone() };
        patient
            .in_time(node, async {
                let body = serde_json::to_vec(question).map_err(|error| bad(node, &error))?;
                let action = Action { r#type: kind.to_string(), body: body.into() };
                let answer = self.flight(node).await?.do_action(action).await;
                let mut stream = answer.map_err(|status| self.failed(node, &status))?.into_inner();
                let first = stream.message().await.map_err(|status| self.failed(node, &status))?;
                let first = first.ok_or_else(|| lost(node, "the stream ended".to_string()))?;
                read_answer(node, &first.body)
            })
            .await
    }

    /// Sends rows to a node, with a message in front; the node's answer.
    pub async fn put<Q: Serialize, A: DeserializeOwned>(
        &self,
        node: &str,
        question: &Q,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    ) -> Result<A> {
        let said = serde_json::to_vec(question).map_err(|error| bad(node, &error))?;
        let descriptor = FlightDescriptor::new_cmd(said);
        // Rows that cannot be written end the stream, which the node takes for all.
        let unsent = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&unsent);
        let own =
            batches.into_iter().map(|batch| with_own_texts(&batch).map_err(FlightError::from));
        let rows = FlightDataEncoderBuilder::new()
            .with_dictionary_handling(DictionaryHandling::Resend)
            .with_schema(schema)
            .with_flight_descriptor(Some(descriptor))
            .build(stream::iter(own))
            .filter_map(move |data| {
                std::future::ready(data.map_err(|error| *noted.lock() = Some(error)).ok())
            });
        let answer = self.flight(node).await?.do_put(rows).await;
        if let Some(error) = unsent.lock().take() {
            return Err(Error::Unsupported(format!("rows that cannot be sent: {error}")));
        }
        let mut stream = answer.map_err(|status| self.failed(node, &status))?.into_inner();
        let first = stream.message().await.map_err(|status| self.failed(node, &status))?;
        let first = first.ok_or_else(|| lost(node, "the stream ended".to_string()))?;
        read_answer(node, &first.app_metadata)
    }
}

#[async_trait]
impl ChannelResolver for Client {
    async fn get_worker_client_for_url(
        &self,
        url: &Url,
    ) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let node = node_of(url);
        let channel = grpc::BoxCloneSyncChannel::new(self.with_token(&node).await?);
        Ok(blaming(node, grpc::create_worker_client(channel)))
    }
}

/// The address of a node as a URL.
pub fn url_of(node: &str) -> Result<Url> {
    let url = Url::parse(&format!("http://{node}"));
    url.map_err(|_| Error::Address { address: node.to_string() })
}

/// The node of a URL.
fn node_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("{host}:{}", url.port_or_known_default().unwrap_or(80))
}

fn ticket(ask: &Ask) -> Ticket {
    // Messages of this crate have only fields that JSON can write.
    Ticket { ticket: serde_json::to_vec(ask).unwrap_or_default().into() }
}

fn bad(node: &str, error: &serde_json::Error) -> Error {
    Error::NodeFailed { node: node.to_string(), message: format!("not understood: {error}") }
}

fn read_answer<A: DeserializeOwned>(node: &str, bytes: &[u8]) -> Result<A> {
    serde_json::from_slice(bytes).map_err(|error| bad(node, &error))
}

/// A node that is not there.
pub fn lost(node: &str, message: String) -> Error {
    Error::NodeLost { node: node.to_string(), message }
}

/// The metadata in which a node says its version when it refuses another.
pub const VERSION_HEADER: &str = "x-swingdb-version";

/// The metadata in which a node says that a statement failed, and how: the name of the exception.
pub const CLASS_HEADER: &str = "x-swingdb-class";

fn of_status(node: &str, status: &Status) -> Error {
    let (node, message) = (node.to_string(), status.message().to_string());
    let said = |header| status.metadata().get(header).and_then(|value| value.to_str().ok());
    if let Some(class) = said(CLASS_HEADER) {
        return Error::Statement { node, class: class.to_string(), message };
    }
    if let Some(theirs) = said(VERSION_HEADER) {
        return Error::NodeVersion { node, theirs: theirs.to_string(), ours: version() };
    }
    // What the network says has a cause, what the node says has none.
    let cause = std::error::Error::source(status).map(with_causes);
    match (status.code(), cause) {
        (_, Some(cause)) => Error::NodeLost { node, message: cause },
        (Code::Unavailable, None) => Error::NodeLost { node, message },
        (Code::DeadlineExceeded, _) => Error::NodeLost { node, message },
        (Code::Unimplemented, _) => {
            let theirs = "another version".to_string();
            Error::NodeVersion { node, theirs, ours: version() }
        }
        _ => Error::NodeFailed { node, message },
    }
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
