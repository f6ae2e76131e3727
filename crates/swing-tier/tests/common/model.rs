//! A naive model of a log, and random operations on both.

use std::collections::BTreeMap;
use std::sync::Arc;

use swing_tier::storage::Storage;
use swing_tier::{
    BufferClass, CommitError, Epoch, Lease, Log, LogOptions, OpenError, RecordId, storage,
};

/// One state: every record's bytes, and the root payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub records: BTreeMap<RecordId, Vec<u8>>,
    pub root: Vec<u8>,
}

/// A state with the checkpoints that it retains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub now: Contents,
    pub checkpoints: BTreeMap<String, Contents>,
}

/// Options that make files full and journals end often.
pub fn small_options() -> LogOptions {
    LogOptions {
        file_bytes: 1 << 20,
        reserve_bytes: 64 << 10,
        journal_bytes: 96 << 10,
        background: false,
        dead_fraction: 0.3,
        queue: storage::QueueOptions {
            depth: 8,
            buffers: vec![
                BufferClass { len: 16 << 10, count: 4 },
                BufferClass { len: 512 << 10, count: 2 },
            ],
        },
        ..LogOptions::default()
    }
}

pub fn open(storage: &Arc<dyn Storage>) -> Result<Log, OpenError> {
    Log::open(storage.clone(), small_options())
}

/// What the lease shows, all of it read.
pub fn contents(lease: &Lease) -> Contents {
    let ids = lease.records();
    let bytes = lease.read_many(&ids).unwrap_or_else(|error| panic!("{error}"));
    Contents { records: ids.into_iter().zip(bytes).collect(), root: lease.root().to_vec() }
}

/// All that an open log shows.
pub fn seen(log: &Log) -> Model {
    let names = log.checkpoints();
    let checkpoint = |name: &str| contents(&log.checkpoint(name).unwrap());
    let checkpoints = names.iter().map(|(name, _)| (name.clone(), checkpoint(name))).collect();
    Model { now: contents(&log.lease()), checkpoints }
}

/// Bytes of a random record; most are short.
pub fn random_bytes(random: &mut fastrand::Rng) -> Vec<u8> {
    let len = match random.u32(0..60) {
        0 => 0,
        1..40 => random.usize(1..300),
        40..54 => random.usize(300..9000),
        54..59 => random.usize(9000..70_000),
        _ => random.usize(70_000..700_000),
    };
    let mut bytes = vec![random.u8(..); len];
    bytes.iter_mut().step_by(61).for_each(|b| *b = random.u8(..));
    bytes
}

/// Commits a random batch to the log; the model becomes what it should be after it.
pub fn random_commit(
    log: &Log,
    model: &mut Model,
    random: &mut fastrand::Rng,
) -> Result<Epoch, CommitError> {
    let mut next = model.clone();
    let mut batch = log.batch()?;
    let many = if random.u32(0..10) == 0 { 60 } else { 4 };
    for _ in 0..random.usize(0..many) {
        let bytes = random_bytes(random);
        next.now.records.insert(batch.put(&bytes)?, bytes);
    }
    let frees = random.usize(0..5).min(model.now.records.len());
    for _ in 0..frees {
        let index = random.usize(0..model.now.records.len());
        let id = *model.now.records.keys().nth(index).unwrap();
        if next.now.records.remove(&id).is_some() {
            batch.free(id)?;
        }
    }
    if random.bool() {
        next.now.root = random_bytes(random);
        next.now.root.truncate(200);
        batch.set_root(&next.now.root)?;
    }
    let name = format!("checkpoint {}", random.u32(0..3));
    match random.u32(0..12) {
        0 => {
            batch.retain(&name)?;
            next.checkpoints.insert(name, next.now.clone());
        }
        1 if next.checkpoints.remove(&name).is_some() => batch.release(&name),
        _ => {}
    }
    if random.u32(0..12) == 0 {
        // Given up: nothing of it may ever be seen.
        drop(batch);
        return Ok(log.stats().epoch);
    }
    let epoch = batch.commit()?;
    *model = next;
    Ok(epoch)
}
