//! Answering one request for parts of objects after the other.
//!
//! A request is a line of JSON: a list of objects, of each either its end, or some ranges of it.
//!
//! ```json
//! [{"address": "s3://b/a.parquet", "tail": 65536},
//!  {"address": "s3://b/b.parquet", "version": "...", "ranges": [[4, 1000], [5000, 9000]]}]
//! ```
//!
//! The answer has all parts, each as a line of JSON with its bytes behind it, and an empty line at
//! the end. `of` is the object's place in the request, `bytes` the length of the whole object, and
//! `version` tells whether it is still the same one:
//!
//! ```json
//! {"of": 0, "start": 934464, "length": 65536, "bytes": 1000000, "version": "..."}
//! ```
//!
//! A server of the web that knows no parts sends the whole object in place of its end. An object
//! that is another one than `version` says is an error, and an error ends the program. So does half
//! a minute without a request.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use futures::StreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use serde_json::{Value, json};

use crate::address::Address;
use crate::failure::Failure;
use crate::fetch::{PART_BYTES, PARTS, complete, copy, within};

/// How long the program waits for a request.
const IDLE: Duration = Duration::from_secs(30);

/// An object, and where it is.
#[derive(Clone)]
struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
    is_web: bool,
}

/// What is asked for in one go.
struct Wanted {
    of: usize,
    /// Its address, for messages of requests that have several.
    name: Option<String>,
    object: Object,
    part: Part,
}

enum Part {
    /// The last bytes.
    Tail(u64),
    /// These bytes of this version.
    Range(Range<u64>, String),
}

/// What came.
enum Came {
    Bytes {
        start: u64,
        bytes: bytes::Bytes,
        meta: ObjectMeta,
    },
    /// The server sends objects as wholes only.
    NoParts,
}

/// Answers requests until there are no more.
pub fn serve(output: &mut impl Write) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::message)?;
    let (sender, requests) = channel();
    // It ends with the program: nobody waits for a thread that reads.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut stores = Stores::default();
    loop {
        let line = match requests.recv_timeout(IDLE) {
            Ok(line) => line?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let wanted = stores.wanted(&line)?;
        runtime.block_on(answer(wanted, output))?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
}

/// The clients, by the places of their objects; they keep connections.
#[derive(Default)]
struct Stores(HashMap<String, Arc<dyn ObjectStore>>);

impl Stores {
    fn object(&mut self, address: &str) -> Result<Object, Failure> {
        let address = Address::parse(address)?;
        let (path, is_web) = (address.path()?, address.is_web());
        let store = match self.0.get(&address.root()) {
            Some(store) => Arc::clone(store),
            None => {
                let store: Arc<dyn ObjectStore> = address.store()?.into();
                self.0.insert(address.root(), Arc::clone(&store));
                store
            }
        };
        Ok(Object { store, path, is_web })
    }

    /// What a request asks for, in pieces that are fetched beside each other.
    fn wanted(&mut self, line: &str) -> Result<Vec<Wanted>, Failure> {
        let request: Value = serde_json::from_str(line).map_err(Failure::message)?;
        let mut wanted = Vec::new();
        let items = request.as_array().ok_or_else(wrong)?;
        for (of, item) in items.iter().enumerate() {
            let address = item["address"].as_str().ok_or_else(wrong)?;
            let object = self.object(address)?;
            let name = (items.len() > 1).then(|| address.to_string());
            if let Some(bytes) = item["tail"].as_u64() {
                wanted.push(Wanted { of, name, object, part: Part::Tail(bytes) });
                continue;
            }
            let version = item["version"].as_str().ok_or_else(wrong)?;
            for range in item["ranges"].as_array().ok_or_else(wrong)? {
                let (start, end) = (range[0].as_u64(), range[1].as_u64());
                let (start, end) = start.zip(end).ok_or_else(wrong)?;
                for start in (start..end).step_by(PART_BYTES as usize) {
                    let range = start..end.min(start + PART_BYTES);
                    let (name, object) = (name.clone(), object.clone());
                    let part = Part::Range(range, version.to_string());
                    wanted.push(Wanted { of, name, object, part });
                }
            }
        }
        Ok(wanted)
    }
}

fn wrong() -> Failure {
    Failure::message("the request is not one")
}

async fn answer(wanted: Vec<Wanted>, output: &mut impl Write) -> Result<(), Failure> {
    let fetched = futures::stream::iter(wanted).map(|wanted| async move {
        let came = fetched(&wanted).await.map_err(|failure| failure.of(&wanted.name))?;
        Ok::<_, Failure>((wanted, came))
    });
    let mut fetched = fetched.buffered(PARTS);
    while let Some(next) = fetched.next().await {
        let (wanted, came) = next?;
        match came {
            Came::Bytes { start, bytes, meta } => {
                announce(output, &wanted, start..start + bytes.len() as u64, &meta)?;
                output.write_all(&bytes)?;
            }
            Came::NoParts => {
                whole(&wanted, output).await.map_err(|failure| failure.of(&wanted.name))?;
            }
        }
    }
    Ok(())
}

/// Says which part comes next.
fn announce(
    output: &mut impl Write,
    wanted: &Wanted,
    part: Range<u64>,
    meta: &ObjectMeta,
) -> Result<(), Failure> {
    let line = json!({
        "of": wanted.of,
        "start": part.start,
        "length": part.end - part.start,
        "bytes": meta.size,
        "version": version(meta),
    });
    Ok(writeln!(output, "{line}")?)
}

/// What other contents of the same name have another one of.
fn version(meta: &ObjectMeta) -> String {
    let of = meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339());
    format!("{} {of}", meta.size)
}

async fn fetched(wanted: &Wanted) -> Result<Came, Failure> {
    let object = &wanted.object;
    let get = |range: GetRange| async move {
        let options = GetOptions { range: Some(range), ..GetOptions::default() };
        within(object.store.get_opts(&object.path, options)).await
    };
    let (answer, expected) = match &wanted.part {
        Part::Range(range, expected) => {
            let answer = get(GetRange::Bounded(range.clone())).await??;
            if version(&answer.meta) != *expected {
                return Err(Failure::message("was changed while it was read"));
            }
            (answer, range.clone())
        }
        Part::Tail(bytes) => match get(GetRange::Suffix(*bytes)).await? {
            Ok(answer) => {
                let size = answer.meta.size;
                (answer, size.saturating_sub(*bytes)..size)
            }
            Err(error @ object_store::Error::NotFound { .. }) => return Err(error.into()),
            Err(_) if object.is_web => return Ok(Came::NoParts),
            Err(error) => {
                // An object without bytes has no last ones.
                let meta = within(object.store.head(&object.path)).await??;
                return match meta.size {
                    0 => Ok(Came::Bytes { start: 0, bytes: bytes::Bytes::new(), meta }),
                    _ => Err(error.into()),
                };
            }
        },
    };
    read(answer, expected).await
}

async fn read(answer: GetResult, expected: Range<u64>) -> Result<Came, Failure> {
    let meta = answer.meta.clone();
    let bytes = within(answer.bytes()).await??;
    complete(bytes.len() as u64, expected.end - expected.start)?;
    Ok(Came::Bytes { start: expected.start, bytes, meta })
}

/// Writes all of an object.
async fn whole(wanted: &Wanted, output: &mut impl Write) -> Result<(), Failure> {
    let answer = within(wanted.object.store.get(&wanted.object.path)).await??;
    announce(output, wanted, 0..answer.meta.size, &answer.meta)?;
    copy(answer, output).await
}
