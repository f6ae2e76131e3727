//! A session for a program in another language, over a pair of pipes: [`serve`].
//!
//! `swingdb-cluster --serve` reads requests from its standard input and answers on its standard
//! output, one after the other, until the input ends. A message is a length (32 bits,
//! little-endian) and so many bytes.
//!
//! | message | bytes |
//! |---|---|
//! | request | a [`Request`] as JSON |
//! | parameters, behind a query that has some | an Arrow IPC stream with one row |
//! | answer | an [`Answer`] as JSON |
//! | rows, behind [`Answer::Rows`] | pieces of an Arrow IPC stream, each a message; an empty one |
//! | end of the rows | an [`End`] as JSON |
//!
//! The first request is [`Request::Open`].

use std::io::{Read, Write};

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use serde::{Deserialize, Serialize};
use swingdb::{ScalarValue, Value};
use swingdb_common::own_texts::with_own_texts;

use crate::cut::Cut;
use crate::error::{Error, Result, class_of};
use crate::parameters::Given;
use crate::session::{Rows, Session};
use crate::{Cluster, Options};

/// The longest message that is taken.
const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// What a program asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Opens the session.
    Open {
        /// The nodes: `host:port/database`.
        nodes: Vec<String>,
        /// The secret that nodes ask for.
        #[serde(default)]
        token: Option<String>,
        /// The file with the certificates that nodes' certificates are signed by.
        #[serde(default)]
        tls_ca: Option<std::path::PathBuf>,
    },
    /// Runs statements.
    Query {
        /// Their text.
        sql: String,
        /// How a table that they make is cut, as the command line takes it.
        #[serde(default)]
        cut: Option<String>,
        /// Whether parameters follow.
        #[serde(default)]
        has_parameters: bool,
        /// Whether these are called by the names of their columns.
        #[serde(default)]
        by_name: bool,
    },
    /// Moves to the newest state.
    Refresh,
    /// Says which state it reads.
    Epochs,
    /// Settles what a dead coordinator has left.
    Recover,
    /// Moves the rows to other nodes, and the session too.
    Resize {
        /// The nodes.
        nodes: Vec<String>,
    },
}

/// What a session answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// So many rows have changed.
    Changed(u64),
    /// The epoch of each shard's database that the session reads.
    Epochs(Vec<u64>),
    /// Rows follow.
    Rows,
    /// It failed.
    Failed(Failure),
}

/// How a result ends.
#[derive(Debug, Serialize, Deserialize)]
pub struct End {
    /// Why it is not whole.
    pub failed: Option<Failure>,
}

/// An error as another language raises it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The name of the exception.
    pub class: String,
    /// What happened.
    pub message: String,
    /// The node that is to blame.
    pub node: Option<String>,
}

impl Failure {
    fn of(error: &Error) -> Self {
        let (class, node) = match error {
            Error::Address { .. } | Error::Cut { .. } | Error::List { .. } => {
                ("InterfaceError", None)
            }
            Error::NodeLost { node, .. } | Error::NodeSlow { node, .. } => {
                ("NodeLostError", Some(node))
            }
            Error::NodeVersion { node, .. } => ("NodeVersionError", Some(node)),
            Error::NodeFailed { node, .. } => ("NodeFailedError", Some(node)),
            Error::Statement { node, class, .. } => (class.as_str(), Some(node)),
            Error::Undelivered { node, .. } => ("UndeliveredError", Some(node)),
            Error::InDoubt { node, .. } => ("InDoubtError", Some(node)),
            Error::Member { node, .. } => ("ClusterError", Some(node)),
            Error::Table { .. } => ("ClusterError", None),
            Error::Unsupported(_) => ("NotSupportedError", None),
            Error::Database(error) => (class_of(error), None),
        };
        Self { class: class.to_string(), message: error.to_string(), node: node.cloned() }
    }
}

/// Answers requests until there are no more.
pub fn serve(mut input: impl Read, output: impl Write) -> std::io::Result<()> {
    let mut output = Pipe(output);
    let mut session = None::<Session>;
    while let Some(message) = read_message(&mut input)? {
        let request = serde_json::from_slice::<Request>(&message).map_err(std::io::Error::other)?;
        let parameters = match &request {
            Request::Query { has_parameters: true, .. } => read_message(&mut input)?,
            _ => None,
        };
        if let (Request::Epochs, Some(session)) = (&request, &session) {
            output.json(&Answer::Epochs(session.epochs()))?;
            output.0.flush()?;
            continue;
        }
        match answer(&mut session, request, parameters) {
            Ok(Some(rows)) => match (rows.schema(), rows.rows_changed()) {
                (None, Some(count)) => output.json(&Answer::Changed(count))?,
                _ => output.rows(rows)?,
            },
            Ok(None) => output.json(&Answer::Done)?,
            Err(error) => output.json(&Answer::Failed(Failure::of(&error)))?,
        }
        output.0.flush()?;
    }
    Ok(())
}

fn answer(
    session: &mut Option<Session>,
    request: Request,
    parameters: Option<Vec<u8>>,
) -> Result<Option<Rows>> {
    let closed = || Error::Unsupported("a request before the session is open".to_string());
    if let Request::Resize { nodes } = &request {
        let session = session.as_mut().ok_or_else(closed)?;
        let resized = session.cluster().resize(nodes)?;
        session.move_to(resized)?;
        return Ok(None);
    }
    let open = session.as_ref().ok_or_else(closed);
    match request {
        Request::Open { nodes, token, tls_ca } => {
            let options = Options { token, tls_ca, ..Options::default() };
            *session = Some(Cluster::connect(&nodes, options)?.session()?);
        }
        Request::Query { sql, cut, by_name, .. } => {
            let named = parameters.map(|bytes| values_of(&bytes)).transpose()?.unwrap_or_default();
            let cut = cut.as_deref().map_or_else(|| Ok(Cut::default()), str::parse)?;
            if by_name {
                return open?.execute_given(&sql, Given::Named(&named), &cut).map(Some);
            }
            let values = named.into_iter().map(|(_, value)| value).collect::<Vec<_>>();
            return open?.execute_with(&sql, &values, &cut).map(Some);
        }
        Request::Refresh => open?.refresh()?,
        Request::Epochs | Request::Resize { .. } => _ = open?,
        Request::Recover => open?.cluster().recover()?,
    }
    Ok(None)
}

/// The values of the first row, with the names of their columns.
fn values_of(bytes: &[u8]) -> Result<Vec<(String, Value)>> {
    let mut batches = StreamReader::try_new(bytes, None)?;
    let Some(batch) = batches.next().transpose()? else { return Ok(Vec::new()) };
    if batch.num_rows() != 1 {
        return Err(Error::Unsupported("parameters that are not one row".to_string()));
    }
    let schema = batch.schema();
    let values = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        let value = ScalarValue::try_from_array(column, 0)?;
        let value = if value.is_null() { Value::Null } else { Value::Scalar(value) };
        Ok((field.name().clone(), value))
    });
    values.collect()
}

fn read_message(input: &mut impl Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_MESSAGE_BYTES {
        return Err(std::io::Error::other("a message that is too long"));
    }
    let mut message = vec![0; length];
    input.read_exact(&mut message)?;
    Ok(Some(message))
}

/// Writes messages.
struct Pipe<W>(W);

impl<W: Write> Pipe<W> {
    fn message(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(std::io::Error::other)?;
        self.0.write_all(&length.to_le_bytes())?;
        self.0.write_all(bytes)
    }

    fn json(&mut self, value: &impl Serialize) -> std::io::Result<()> {
        self.message(&serde_json::to_vec(value)?)
    }

    fn rows(&mut self, rows: Rows) -> std::io::Result<()> {
        self.json(&Answer::Rows)?;
        let failed = self.batches(rows)?.err().map(|error| Failure::of(&error));
        self.message(&[])?;
        self.json(&End { failed })
    }

    /// The rows as pieces of an Arrow stream; the outer error is the pipe's, the inner the query's.
    fn batches(&mut self, rows: Rows) -> std::io::Result<Result<()>> {
        let schema = rows.schema().unwrap_or_else(|| arrow::datatypes::Schema::empty().into());
        let mut writer = match StreamWriter::try_new(Vec::new(), &schema) {
            Ok(writer) => writer,
            Err(error) => return Ok(Err(error.into())),
        };
        for batch in rows {
            if let Err(error) = batch.and_then(|batch| write(&mut writer, &batch)) {
                self.piece(writer.get_mut())?;
                return Ok(Err(error));
            }
            self.piece(writer.get_mut())?;
            self.0.flush()?;
        }
        let ended = writer.finish().map_err(Error::from);
        self.piece(writer.get_mut())?;
        Ok(ended)
    }

    fn piece(&mut self, bytes: &mut Vec<u8>) -> std::io::Result<()> {
        if !bytes.is_empty() {
            self.message(bytes)?;
            bytes.clear();
        }
        Ok(())
    }
}

fn write(writer: &mut StreamWriter<Vec<u8>>, batch: &RecordBatch) -> Result<()> {
    Ok(writer.write(&with_own_texts(batch)?)?)
}
