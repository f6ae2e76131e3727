//! Fetching and listing.

use crate::address::Address;
use crate::failure::Failure;
use futures::{StreamExt, TryStreamExt};
use glob::{MatchOptions, Pattern};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::io::Write;
use std::time::Duration;

/// The most objects that a pattern may name, as for files.
const MAX_OBJECTS: usize = 100_000;
/// Bytes of an object that are asked for at a time, and how often that is done at once.
pub const PART_BYTES: u64 = 8 << 20;
pub const PARTS: usize = 6;
/// How long a store may say nothing.
const PATIENCE: Duration = Duration::from_secs(60);
/// What makes a name a pattern.
const WILD: [char; 3] = ['*', '?', '['];

/// As shells do: `*` does not match a `/`.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The addresses that a pattern names, in order.
pub async fn list(address: &Address) -> Result<Vec<String>, Failure> {
    if address.is_web() {
        return Err(Failure::message("the web has no lists of files: name each of them"));
    }
    let pattern = Pattern::new(&address.key)
        .map_err(|error| Failure::message(format!("{:?} is no pattern: {error}", address.key)))?;
    let fixed = address.key.find(WILD).map_or("", |wild| &address.key[..wild]);
    let folder = fixed.rsplit_once('/').map_or("", |(folder, _)| folder);
    let folder = Path::parse(folder).map_err(Failure::message)?;
    let store = address.store()?;
    let mut listed = store.list(Some(&folder));
    let mut found = Vec::new();
    while let Some(object) = within(listed.next()).await? {
        let object = object?;
        if !pattern.matches_with(object.location.as_ref(), MATCHING) {
            continue;
        }
        if found.len() == MAX_OBJECTS {
            let text = format!("{:?} matches more than {MAX_OBJECTS} objects", address.key);
            return Err(Failure::message(text));
        }
        found.push(address.beside(&object.location));
    }
    found.sort();
    Ok(found)
}

/// Writes the bytes of an object.
pub async fn get(address: &Address, output: &mut impl Write) -> Result<(), Failure> {
    let (store, path) = (address.store()?, address.path()?);
    if address.is_web() {
        return whole(store.as_ref(), &path, output).await;
    }
    let object = within(store.head(&path)).await??;
    parts(store.as_ref(), &object, output).await
}

/// As one answer: a server need not know of parts.
async fn whole(
    store: &dyn ObjectStore,
    path: &Path,
    output: &mut impl Write,
) -> Result<(), Failure> {
    copy(within(store.get(path)).await??, output).await
}

/// Writes all bytes of an answer.
pub async fn copy(answer: GetResult, output: &mut impl Write) -> Result<(), Failure> {
    let (length, mut written) = (answer.meta.size, 0);
    let mut stream = answer.into_stream();
    while let Some(piece) = within(stream.next()).await? {
        let piece = piece?;
        written += piece.len() as u64;
        output.write_all(&piece)?;
    }
    complete(written, length)
}

/// In parts, several at once. All are of the version that is there now.
async fn parts(
    store: &dyn ObjectStore,
    object: &ObjectMeta,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let starts = (0..object.size).step_by(PART_BYTES as usize);
    let part = |start: u64| async move {
        let range = start..object.size.min(start + PART_BYTES);
        let options = GetOptions {
            if_match: object.e_tag.clone(),
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let answer = within(store.get_opts(&object.location, options)).await??;
        let bytes = within(answer.bytes()).await??;
        complete(bytes.len() as u64, range.end - range.start)?;
        Ok::<_, Failure>(bytes)
    };
    let mut ready = futures::stream::iter(starts).map(part).buffered(PARTS);
    while let Some(bytes) = ready.try_next().await? {
        output.write_all(&bytes)?;
    }
    Ok(())
}

/// An error where not all bytes came.
pub fn complete(got: u64, expected: u64) -> Result<(), Failure> {
    match got == expected {
        true => Ok(()),
        false => Err(Failure::message(format!("{got} bytes came, {expected} were expected"))),
    }
}

/// Waits for a store, but not for ever.
pub async fn within<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    let late = |_| Failure::message(format!("the store says nothing for {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, work).await.map_err(late)
}
