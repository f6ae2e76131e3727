//! Files of object stores and of the web: [`find`].
//!
//! They are fetched by `swingdb-remote`, a program of its own, into files without a name, and read
//! as other files are. What that program wrote counts only when it has ended well. So a connection
//! that breaks off never looks like the end of a file. Of Parquet files only the ends are fetched
//! first, and then what is read of them ([`Parts`]).

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use swingdb_common::error::{Error, Result};

use crate::input::fetcher::{Fetcher, PROGRAM, Running, address, broken, no_such_object};
use crate::input::parts::Parts;
use crate::input::stream::nameless_file;

/// The most objects that a pattern may name: each is an open file.
const MAX_OBJECTS: usize = 500;
const BLOCK_BYTES: usize = 1 << 20;

/// What was fetched.
pub(crate) enum Object {
    /// All of an object.
    Whole { address: String, file: File, bytes: u64 },
    /// The end of one, for now.
    Parts(Arc<Parts>),
}

/// Whether a name is an address that can be fetched.
pub(crate) fn is_remote(path: &str) -> bool {
    let schemes = ["s3", "s3a", "gs", "gcs", "https", "http"];
    address(path).is_some_and(|(scheme, _)| schemes.contains(&scheme))
}

/// The objects at an address, or at those that its pattern matches, in order of their names;
/// `in_parts` tells of an address whether parts of its object are enough.
pub(crate) fn find(path: &str, in_parts: impl Fn(&str) -> bool) -> Result<Vec<Object>> {
    let is_web = path.starts_with("http");
    let found = match is_web || !path.contains(['*', '?', '[']) {
        true => vec![path.to_string()],
        false => list(path)?,
    };
    let ends: Vec<String> = found.iter().filter(|address| in_parts(address)).cloned().collect();
    let mut ends = Parts::fetch(path, &ends, &Fetcher::of_statement())?.into_iter();
    let object = |address: String| match in_parts(&address) {
        true => ends.next().map(Object::Parts).ok_or_else(|| broken(path, "an object is missing")),
        false => fetch(address),
    };
    found.into_iter().map(object).collect()
}

/// The addresses that a pattern matches.
fn list(path: &str) -> Result<Vec<String>> {
    let mut listed = Vec::new();
    run("list", path, |bytes| {
        listed.extend_from_slice(bytes);
        Ok(())
    })?;
    let wrong = |error: serde_json::Error| broken(path, &format!("{PROGRAM}: {error}"));
    let lines = serde_json::Deserializer::from_slice(&listed).into_iter::<String>();
    let found = lines.collect::<std::result::Result<Vec<_>, _>>().map_err(wrong)?;
    if found.is_empty() {
        return Err(no_such_object(path));
    }
    if found.len() > MAX_OBJECTS {
        return Err(Error::plan(format!("{path:?} matches more than {MAX_OBJECTS} objects")));
    }
    Ok(found)
}

/// Fetches one object.
fn fetch(address: String) -> Result<Object> {
    let (mut file, folder) = nameless_file()?;
    let mut bytes = 0;
    run("get", &address, |block| {
        bytes += block.len() as u64;
        file.write_all(block).map_err(|error| folder.failed("write", &error))
    })?;
    Ok(Object::Whole { address, file, bytes })
}

/// Runs the program up to its end, and hands on what it writes.
fn run(task: &str, path: &str, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut running = Running::start(&[task, path], path)?;
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match running.read(&mut block, path)? {
            0 => break,
            count => take(&block[..count])?,
        }
    }
    running.end(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_told_apart() {
        for path in ["s3://b/a.csv", "gs://b/*.csv", "https://h/a.csv?x=1"] {
            assert!(is_remote(path), "{path}");
        }
        for path in ["a.csv", "/s3/a.csv", "s3:/b/a", "file:///a.csv", "ftp://h/a", "odd*://h/a"] {
            assert!(!is_remote(path), "{path}");
        }
    }
}
