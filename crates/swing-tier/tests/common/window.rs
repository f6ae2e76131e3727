//! A log of which every state can be checked from itself: commit `n` adds a record that follows
//! from `n`, and frees the oldest of more than [`WINDOW`].

use swing_tier::{CommitError, Log, RecordId};

/// How many records the log has at a time.
const WINDOW: u64 = 12;

/// The record of commit `number`.
fn record(number: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(number);
    let len = if number.is_multiple_of(7) { 90_000 } else { random.usize(1..2000) };
    vec![number as u8; len]
}

/// The root payload: the number of the last commit, then the ids of the last records.
fn parse_root(root: &[u8]) -> (u64, Vec<RecordId>) {
    let mut numbers = root.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap()));
    (numbers.next().unwrap_or(0), numbers.map(RecordId).collect())
}

/// Checks that the newest state is whole; returns the number of its commit.
pub fn check(log: &Log) -> u64 {
    let lease = log.lease();
    let (number, ids) = parse_root(lease.root());
    assert_eq!(lease.records(), ids, "exactly the records of the last commits");
    assert_eq!(ids.len() as u64, number.min(WINDOW));
    for (id, n) in ids.iter().rev().zip((1..=number).rev()) {
        assert_eq!(lease.read(*id).unwrap(), record(n), "record of commit {n}");
    }
    number
}

/// The next commit; returns its number.
pub fn commit(log: &Log) -> Result<u64, CommitError> {
    let (before, mut ids) = parse_root(log.lease().root());
    let number = before + 1;
    let mut batch = log.batch()?;
    ids.push(batch.put(&record(number))?);
    if ids.len() as u64 > WINDOW {
        batch.free(ids.remove(0))?;
    }
    let mut root = number.to_le_bytes().to_vec();
    ids.iter().for_each(|id| root.extend_from_slice(&id.0.to_le_bytes()));
    batch.set_root(&root)?;
    batch.commit()?;
    Ok(number)
}
