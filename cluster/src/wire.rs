//! What coordinator and nodes say to each other, besides plans and rows.
//!
//! Messages are JSON inside of Arrow Flight's tickets, actions and metadata. Both sides refuse
//! another [`WIRE`] version: there is one version of a cluster at a time.

use arrow::datatypes::SchemaRef;
use arrow::ipc::convert::{IpcSchemaEncoder, fb_to_schema};
use datafusion::common::{ScalarValue, Statistics};
use prost::Message;
use serde::{Deserialize, Serialize};

use crate::catalog::Member;
use crate::cut::Cut;

/// The version of the protocol and of the plans in it.
pub const WIRE: u32 = 9;

/// The version that both sides must share: plans are of one version of the engine.
pub fn version() -> String {
    format!("{} (protocol {WIRE})", env!("CARGO_PKG_VERSION"))
}

/// The header with the cluster's secret.
pub const TOKEN_HEADER: &str = "x-swingdb-token";

/// What a ticket asks for.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// A snapshot: the answer's metadata is a [`Held`]. It stays until the stream ends.
    Hold {
        /// The database.
        database: String,
        /// The version of who asks.
        version: String,
        /// The state that the snapshot must show.
        shows: Shows,
        /// What the asker has been told already: a process and an epoch of its database.
        #[serde(default)]
        known: Option<(String, u64)>,
    },
    /// Nothing, for as long as a coordinator has a change open: when the stream ends before the
    /// change is decided, the coordinator has gone, and the node settles the change.
    Attend {
        /// The database.
        database: String,
        /// The number of the change.
        number: u64,
        /// Who has begun it.
        coordinator: String,
    },
    /// The rows of a table.
    Scan(Scan),
}

/// The state that a snapshot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shows {
    /// The newest that is shared.
    Newest,
    /// The one after a change of the cluster.
    After(u64),
    /// That of a change which is open, as far as its steps have been carried out.
    Open(u64),
}

/// A snapshot that a node holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Held {
    /// Its number at that node.
    pub hold: u64,
    /// Identifies the process of the node.
    pub process: String,
    /// The epoch of the node's database.
    pub epoch: u64,
    /// The last change of the whole cluster that it shows.
    pub change: u64,
    /// What all that runs at the node may hold in memory.
    pub memory: Option<u64>,
    /// What is in it; `None`: the asker has been told.
    pub contents: Option<Contents>,
}

/// What is in a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contents {
    /// What the node is in the cluster.
    pub place: Option<Member>,
    /// Its tables.
    pub tables: Vec<HeldTable>,
    /// Statements that define its views, macros and types.
    pub definitions: Vec<String>,
    /// Statements that make all that it has, without rows.
    pub script: Vec<String>,
}

/// A table of a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HeldTable {
    /// Its name.
    pub name: String,
    /// Its columns, as Arrow writes schemas.
    pub schema: Bytes,
    /// What is known of its rows.
    pub statistics: Bytes,
    /// The columns of its primary key.
    pub primary_key: Vec<usize>,
    /// How its rows are dealt out.
    pub cut: Cut,
}

/// A scan of a table at one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    /// The process that has the snapshot: one that was started since would have another of its
    /// number.
    pub process: String,
    /// The snapshot.
    pub hold: u64,
    /// The table.
    pub table: String,
    /// Its columns that are asked for.
    pub projection: Vec<usize>,
    /// Conditions that rows must fulfil, as the engine writes expressions.
    pub filters: Vec<Bytes>,
    /// How many rows are enough.
    pub limit: Option<usize>,
    /// The session's time zone.
    pub time_zone: Option<String>,
    /// The session's limit of memory; `None`: the node's.
    pub budget: Option<Budget>,
}

/// What all that runs for a session may hold in memory at each node, together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Budget {
    /// Identifies the session to all nodes.
    pub session: String,
    /// How many bytes.
    pub bytes: u64,
}

/// Bytes, which JSON has as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write;
        let mut text = String::with_capacity(self.0.len() * 2);
        for byte in &self.0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok().filter(|_| pair.len() == 2)
        });
        let bytes = digits.collect::<Option<Vec<u8>>>();
        bytes.map(Bytes).ok_or_else(|| serde::de::Error::custom("no hexadecimal bytes"))
    }
}

/// A schema as bytes.
pub fn schema_bytes(schema: &SchemaRef) -> Bytes {
    Bytes(IpcSchemaEncoder::new().schema_to_fb(schema).finished_data().to_vec())
}

/// A schema from bytes.
pub fn schema_of(bytes: &Bytes) -> Result<SchemaRef, String> {
    let root = arrow::ipc::root_as_schema(&bytes.0).map_err(|error| error.to_string())?;
    Ok(std::sync::Arc::new(fb_to_schema(root)))
}

/// A value as bytes.
pub fn value_bytes(value: &ScalarValue) -> Result<Bytes, String> {
    let written = datafusion_proto_common::protobuf_common::ScalarValue::try_from(value);
    Ok(Bytes(written.map_err(|error| error.to_string())?.encode_to_vec()))
}

/// A value from bytes.
pub fn value_of(bytes: &Bytes) -> Result<ScalarValue, String> {
    let read = datafusion_proto_common::protobuf_common::ScalarValue::decode(bytes.0.as_slice());
    let read = read.map_err(|error| error.to_string())?;
    ScalarValue::try_from(&read).map_err(|error| error.to_string())
}

/// Statistics as bytes.
pub fn statistics_bytes(statistics: &Statistics) -> Bytes {
    Bytes(datafusion_proto_common::protobuf_common::Statistics::from(statistics).encode_to_vec())
}

/// Statistics from bytes.
pub fn statistics_of(bytes: &Bytes) -> Result<Statistics, String> {
    let read = datafusion_proto_common::protobuf_common::Statistics::decode(bytes.0.as_slice());
    let read = read.map_err(|error| error.to_string())?;
    Statistics::try_from(&read).map_err(|error| error.to_string())
}
