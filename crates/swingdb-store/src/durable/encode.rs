//! Encoding the blocks of columns for the log, on all cores.
//!
//! What a block holds follows from the column's type: so its [`Shape`] is known, and the codecs
//! (`swing_tier::pack`) choose by a sample. Blocks that several small buffers share are bytes.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::{Scope, ScopedJoinHandle};

use arrow::datatypes::DataType;
use parking_lot::Mutex;
use swing_tier::pack::{Shape, encode};
use swingdb_common::error::Result;
use swingdb_common::runtime::cancel::{OnThread, planning};
use swingdb_common::runtime::parallel::{WORKER_NAME, caught};
use swingdb_common::runtime::threads;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::durable::ledger::Known;
use crate::memory::raw::{self, Loc};
use crate::memory::space::Blocks;
use crate::segments::parallel::in_parallel;
use crate::segments::read::{Node, Source};
use crate::segments::segment::Segment;

/// Seed of the checks of blocks.
const CHECK_SEED: u64 = u64::from_le_bytes(*b"SwDBblok");
/// Blocks are encoded together up to about so many bytes.
const TOGETHER: u64 = 32 << 20;
/// Blocks of at most so many bytes in all are encoded by one thread.
const ALONE: u64 = 1 << 20;

/// A block, ready for the log.
#[derive(Debug)]
pub(super) struct Prepared {
    /// XXH3 of its bytes in memory.
    pub check: u128,
    /// `None`: as it is in memory.
    pub encoded: Option<Vec<u8>>,
}

impl Prepared {
    /// Of `loc`; without the encoded bytes if the log has the block already.
    fn new(blocks: &Arc<Blocks>, (loc, shape): (Loc, Shape), known: &Mutex<Known>) -> Result<Self> {
        let bytes = raw::bytes(blocks, loc)?;
        let check = xxh3_128_with_seed(bytes, CHECK_SEED);
        let has = known.lock().has(check, loc.len);
        let encoded = if has { None } else { encode(bytes, shape) };
        Ok(Self { check, encoded })
    }
}

/// Blocks of an array, prepared, by the identity of the array's.
pub(super) type AllPrepared = HashMap<*const Blocks, Vec<Prepared>>;

/// Blocks without a column's type: bitmaps.
pub(super) fn prepare_bytes(blocks: &Arc<Blocks>, known: &Mutex<Known>) -> Result<Vec<Prepared>> {
    let one = |loc: &Loc| Prepared::new(blocks, (*loc, Shape::Bytes), known);
    blocks.listed().iter().map(one).collect()
}

/// Blocks of segments' columns that are to be prepared.
pub(super) struct Gathered {
    all: Vec<(Arc<Blocks>, Loc, Shape)>,
    bytes: u64,
    /// How many segments they are of.
    pub segments: usize,
}

impl Gathered {
    /// The blocks that `wanted` says: of as many segments, from the first on, as have some 32 MiB
    /// of them.
    pub fn of(segments: &[Arc<Segment>], wanted: impl Fn(&Blocks) -> bool) -> Result<Self> {
        let mut found = Self { all: Vec::new(), bytes: 0, segments: 0 };
        for segment in segments {
            if found.bytes >= TOGETHER {
                break;
            }
            found.segments += 1;
            for chunk in segment.chunks()? {
                let patch = chunk.patch.as_ref().map(|patch| patch.source());
                let arrays = std::iter::once(chunk.source()).chain(patch);
                for array in arrays.filter(|array| wanted(array.blocks)) {
                    for (loc, shape) in array.blocks.listed().iter().zip(shapes(array)) {
                        found.bytes += loc.len;
                        found.all.push((array.blocks.clone(), *loc, shape));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Prepares them, in order.
    pub fn prepare(&self, known: &Mutex<Known>) -> Result<Vec<Prepared>> {
        let threads = if self.bytes <= ALONE { 1 } else { threads::cores() };
        in_parallel(threads, &self.all, |(blocks, loc, shape)| {
            Prepared::new(blocks, (*loc, *shape), known)
        })
    }

    /// Prepares them on a thread of its own, for the statement of the calling one; `None`: there is
    /// nothing to do, or no thread.
    pub fn prepare_ahead<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        known: &'scope Mutex<Known>,
    ) -> Option<ScopedJoinHandle<'scope, Result<Vec<Prepared>>>> {
        if self.all.is_empty() {
            return None;
        }
        let statement = planning();
        let work = move || {
            let _working = statement.as_ref().map(OnThread::of);
            caught(|| self.prepare(known))
        };
        std::thread::Builder::new().name(WORKER_NAME.into()).spawn_scoped(scope, work).ok()
    }

    /// What was prepared, by the arrays' blocks.
    pub fn by_blocks(&self, done: Vec<Prepared>) -> AllPrepared {
        let mut prepared = AllPrepared::new();
        for ((blocks, ..), one) in self.all.iter().zip(done) {
            prepared.entry(Arc::as_ptr(blocks)).or_default().push(one);
        }
        // Tables can share blocks, which then come twice.
        for (blocks, ..) in &self.all {
            let of = prepared.get_mut(&Arc::as_ptr(blocks));
            of.into_iter().for_each(|of| of.truncate(blocks.listed().len()));
        }
        prepared
    }
}

/// What each block of an array holds.
fn shapes(array: Source<'_>) -> Vec<Shape> {
    let mut buffers = Vec::new();
    add_buffers(array.data_type, array.node, &mut buffers);
    let shape_of = |block: &Loc| {
        let mut inside = buffers.iter().filter(|(loc, _)| loc.len > 0 && block.contains(*loc));
        match (inside.next(), inside.next()) {
            (Some((loc, shape)), None) if loc.offset == block.offset => *shape,
            _ => Shape::Bytes,
        }
    };
    array.blocks.listed().iter().map(shape_of).collect()
}

/// The buffers of an array and its children, and what is in them.
fn add_buffers(data_type: &DataType, node: &Node, into: &mut Vec<(Loc, Shape)>) {
    into.extend(node.nulls.map(|loc| (loc, Shape::Bytes)));
    let first = match data_type {
        DataType::Utf8View | DataType::BinaryView => Shape::Views,
        DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(..) => {
            Shape::Numbers { width: 4 }
        }
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => {
            Shape::Numbers { width: 8 }
        }
        DataType::Dictionary(keys, _) => numbers(keys),
        other => numbers(other),
    };
    let shapes = std::iter::once(first).chain(std::iter::repeat(Shape::Bytes));
    into.extend(node.buffers.iter().copied().zip(shapes));
    let mut children = |types: &mut dyn Iterator<Item = &DataType>| {
        for (child, data_type) in node.children.iter().zip(types) {
            add_buffers(data_type, child, into);
        }
    };
    match data_type {
        DataType::Struct(fields) => children(&mut fields.iter().map(|field| field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => children(&mut std::iter::once(field.data_type())),
        DataType::Dictionary(_, values) => children(&mut std::iter::once(values.as_ref())),
        _ => {}
    }
}

fn numbers(data_type: &DataType) -> Shape {
    match data_type.primitive_width() {
        Some(width @ (1 | 2 | 4 | 8 | 16)) => Shape::Numbers { width: width as u8 },
        _ => Shape::Bytes,
    }
}
