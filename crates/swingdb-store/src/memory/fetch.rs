//! Blocks whose bytes are still in the store, and reading them into memory.
//!
//! A state that was opened from a store has its whole catalog. Its blocks have places in memory;
//! their bytes come when a query reads them, or when the background gets to them. Until then a
//! block is *cold* ([`Cold`]).
//!
//! A [`Fetch`] reads cold blocks together, by a parallel scan of the log (`swing_tier::scan`), each
//! part straight to its place, or decoded into it. A thread that needs a block of another thread's
//! fetch takes part in that fetch until the block is there. So a thread waits for the disk, or for
//! other threads to copy or decode a part, and never for their work between two parts.
//!
//! # What holds
//! * The place of a cold block belongs to one fetch at a time ([`Reserved`]). No bytes of it are
//!   lent before all have arrived and matched their checksums.
//! * A fetch that fails, or is dropped, gives back its unfinished blocks: the next reader tries
//!   again, and gets the error itself.
//!
//! **Cycle.** A fetch holds the blocks that it reads (`space`), and writes to their places (`raw`);
//! reading bytes of cold blocks fetches them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Condvar, Mutex};
use swing_tier::pack::decode;
use swing_tier::scan::{Part, Scan, ScanOptions, ScanStats};
use swing_tier::{Lease, RecordId};
use swingdb_common::error::{Error, Result};
use swingdb_common::runtime::cancel::go_on;

use crate::errors::area::corrupt;
use crate::errors::log::{in_store, read_error};
use crate::memory::block_ref::BlockRef;
use crate::memory::raw::{Fresh, Loc, Reserved};
use crate::memory::space::{Blocks, Ground};

/// Up to so many bytes are read by the thread that needs them; more by a scan with its own threads.
const READ_AT_ONCE: u64 = 1 << 20;

/// Where cold blocks of a database come from.
#[derive(Debug)]
pub(crate) struct Source {
    /// The stored state; `None` when nothing is read from it any more.
    lease: Mutex<Option<Lease>>,
    /// How the device that the log lies on is read best.
    options: ScanOptions,
    path: PathBuf,
    ground: Weak<Ground>,
    /// Bytes of all blocks, and of those that have arrived.
    total: u64,
    arrived: AtomicU64,
    pid: u32,
}

impl Source {
    pub fn new(lease: &Lease, path: &Path, ground: &Arc<Ground>, total: u64) -> Arc<Self> {
        Arc::new(Self {
            lease: Mutex::new(Some(lease.clone())),
            options: lease.scan_options(),
            path: path.to_owned(),
            ground: Arc::downgrade(ground),
            total,
            arrived: AtomicU64::new(0),
            pid: std::process::id(),
        })
    }

    /// Bytes that have arrived, and bytes of all.
    pub fn progress(&self) -> (u64, u64) {
        (self.arrived.load(Ordering::Relaxed), self.total)
    }

    /// Nothing is read any more, because everything has arrived or nobody wants it: the log can be
    /// closed.
    pub fn close(&self) {
        drop(self.lease.lock().take());
    }

    /// What reading needs.
    fn open(&self) -> Result<(Lease, Arc<Ground>)> {
        let ended = || Error::Closed { what: "database" };
        let lease = self.lease.lock().clone().ok_or_else(ended)?;
        Ok((lease, self.ground.upgrade().ok_or_else(ended)?))
    }

    fn is_closed(&self) -> bool {
        self.lease.lock().is_none()
    }
}

/// That blocks have no bytes in memory yet.
#[derive(Debug)]
pub(crate) struct Cold {
    source: Arc<Source>,
    records: Arc<[BlockRef]>,
    arrived: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Nobody reads them; their places.
    Waiting(Vec<Reserved>),
    /// They are being read.
    Claimed(Weak<Fetch>),
    Arrived,
    /// The thread that claimed them died before it could give them back.
    Lost,
}

impl Cold {
    /// Blocks for `places`, whose bytes are in `records`.
    pub fn new(source: &Arc<Source>, records: Arc<[BlockRef]>, places: Vec<Reserved>) -> Self {
        let (source, state) = (source.clone(), Mutex::new(State::Waiting(places)));
        Self { source, records, arrived: AtomicBool::new(false), state }
    }

    /// Bytes of the records.
    pub fn stored_bytes(&self) -> u64 {
        self.records.iter().map(|record| record.stored).sum()
    }

    /// Whether the bytes are in memory.
    pub fn has_arrived(&self) -> bool {
        self.arrived.load(Ordering::Acquire)
    }

    fn set_arrived(&self) {
        let mut state = self.state.lock();
        *state = State::Arrived;
        self.arrived.store(true, Ordering::Release);
    }
}

/// Reads blocks that are cold; the others are left alone.
pub(crate) fn fetch<'a>(all: impl Iterator<Item = &'a Arc<Blocks>>) -> Result<()> {
    let mut cold: Vec<&Arc<Blocks>> = all.filter(|blocks| !blocks.in_memory()).collect();
    while !cold.is_empty() {
        let Begun { fetch, others } = Fetch::begin(&cold)?;
        if fetch.is_none() && others.is_empty() {
            // A fetch is ending, and about to give them back.
            std::thread::yield_now();
        }
        if let Some(fetch) = fetch {
            fetch.groups().iter().try_for_each(|g| fetch.take_part(&g.blocks).map(drop))?;
        }
        for (other, blocks) in others {
            other.take_part(&blocks)?;
        }
        cold.retain(|blocks| !blocks.in_memory());
    }
    Ok(())
}

/// What beginning a fetch came to: the blocks that it reads, and those that others are reading.
#[derive(Default)]
pub(crate) struct Begun {
    pub fetch: Option<Arc<Fetch>>,
    others: Others,
}

/// Fetches of others, with the blocks that they read.
type Others = Vec<(Arc<Fetch>, Arc<Blocks>)>;

/// Some blocks that are read together.
#[derive(Debug)]
pub(crate) struct Fetch {
    source: Arc<Source>,
    work: OnceLock<Work>,
    /// Where those wait who have nothing to do.
    progress: Mutex<Progress>,
    moved: Condvar,
}

/// Set when a fetch has begun.
#[derive(Debug)]
struct Work {
    /// `None`: the thread that began reads.
    scan: Option<Scan>,
    groups: Vec<Group>,
    /// For each record its group, and its place there.
    records: Vec<(usize, usize)>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Threads that wait for a part or copy one.
    busy: usize,
    /// Nothing more arrives.
    ended: bool,
}

/// Blocks that arrive together.
#[derive(Debug)]
struct Group {
    blocks: Arc<Blocks>,
    /// While they are on their way, for each block. Whoever gives a block back, or declares it
    /// arrived, holds the locks of all blocks of the group, so all of them go together.
    filling: Vec<Mutex<Option<Filling>>>,
    /// Blocks that have not arrived.
    missing: AtomicUsize,
}

/// Where a block's bytes go. Memory is taken when the first of them come, by the thread that has
/// them: to take it for a whole fetch would keep all threads waiting for one.
#[derive(Debug)]
enum BlockTarget {
    Reserved(Reserved),
    Open(Fresh),
}

impl BlockTarget {
    fn loc(&self) -> Loc {
        match self {
            Self::Reserved(reserved) => reserved.loc(),
            Self::Open(fresh) => fresh.loc(),
        }
    }

    fn into_reserved(self) -> Reserved {
        match self {
            Self::Reserved(reserved) => reserved,
            Self::Open(fresh) => fresh.into_reserved(),
        }
    }
}

/// A block on its way.
#[derive(Debug)]
struct Filling {
    /// `None`: only while it is being opened.
    place: Option<BlockTarget>,
    stored: BlockRef,
    /// Bytes of the record that have arrived.
    got: u64,
    /// The record of an encoded block that comes in several parts, or is read at once.
    encoded: Vec<u8>,
}

impl Group {
    fn new(blocks: Arc<Blocks>, places: Vec<Reserved>) -> Self {
        let records = blocks.cold().map_or(&[][..], |cold| &cold.records);
        let filling = places.into_iter().zip(records).map(|(place, stored)| {
            let place = Some(BlockTarget::Reserved(place));
            Mutex::new(Some(Filling { place, stored: *stored, got: 0, encoded: Vec::new() }))
        });
        let filling: Vec<_> = filling.collect();
        Self { missing: AtomicUsize::new(filling.len()), filling, blocks }
    }

    /// Takes all blocks off their way; `None`: they have been taken already.
    fn take(&self) -> Option<Vec<BlockTarget>> {
        let mut locked: Vec<_> = self.filling.iter().map(Mutex::lock).collect();
        let taken = locked.iter_mut().map(|filling| filling.take()?.place);
        taken.collect()
    }

    /// All bytes are there: everybody may read them, unless they were given back before.
    fn arrived(&self, source: &Source) {
        let (Some(places), Some(cold)) = (self.take(), self.blocks.cold()) else { return };
        let bytes = places.iter().map(|place| place.loc().len).sum();
        source.arrived.fetch_add(bytes, Ordering::Relaxed);
        drop(places);
        cold.set_arrived();
    }
}

impl Filling {
    /// Takes in a part; whether it was the last.
    fn take(&mut self, part: &Part, ground: &Ground) -> Result<bool> {
        if part.record_bytes() != self.stored.stored {
            return Err(corrupt("a block of another length"));
        }
        let (from, to) = (part.offset() as usize, part.offset() as usize + part.len());
        if self.stored.is_encoded() && part.len() as u64 == self.stored.stored {
            self.decode(part, ground)?;
        } else {
            self.buffer(ground)?[from..to].copy_from_slice(part);
        }
        self.got += part.len() as u64;
        let last = self.got == self.stored.stored;
        if last {
            self.finish(ground)?;
        }
        Ok(last)
    }

    /// Where the record's bytes go.
    fn buffer(&mut self, ground: &Ground) -> Result<&mut [u8]> {
        if !self.stored.is_encoded() {
            return self.open(ground);
        }
        if self.encoded.is_empty() {
            self.encoded = vec![0; self.stored.stored as usize];
        }
        Ok(&mut self.encoded)
    }

    /// All bytes of the record are there.
    fn finish(&mut self, ground: &Ground) -> Result<()> {
        let encoded = std::mem::take(&mut self.encoded);
        if encoded.is_empty() { Ok(()) } else { self.decode(&encoded, ground) }
    }

    fn decode(&mut self, encoded: &[u8], ground: &Ground) -> Result<()> {
        let decoded = decode(encoded, self.open(ground)?);
        decoded.map_err(|e| corrupt(format!("{}: {e}", self.stored.record)))
    }

    /// Its place in memory.
    fn open(&mut self, ground: &Ground) -> Result<&mut [u8]> {
        let place = match self.place.take() {
            Some(BlockTarget::Reserved(reserved)) => match ground.open(reserved) {
                Ok(fresh) => BlockTarget::Open(fresh),
                Err((reserved, error)) => {
                    self.place = Some(BlockTarget::Reserved(reserved));
                    return Err(error);
                }
            },
            Some(open) => open,
            None => return Err(Error::internal("a block without a place")),
        };
        match self.place.insert(place) {
            BlockTarget::Open(fresh) => fresh.bytes_mut(),
            BlockTarget::Reserved(_) => Err(Error::internal("a place that was not opened")),
        }
    }
}

/// Places that were claimed, with the blocks they are of.
type Claims = Vec<(Arc<Blocks>, Vec<Reserved>)>;

impl Fetch {
    /// Begins to read those of the blocks, all of one database, that nobody reads yet.
    pub fn begin(all: &[&Arc<Blocks>]) -> Result<Begun> {
        let Some(cold) = all.iter().find_map(|blocks| blocks.cold()) else {
            return Ok(Begun::default());
        };
        let source = cold.source.clone();
        // Looked at before the locks, which another thread may have held when the process forked.
        if source.pid != std::process::id() {
            return Err(Error::Forked);
        }
        let (lease, ground) = source.open()?;
        let fetch = Arc::new(Self {
            source,
            work: OnceLock::new(),
            progress: Mutex::default(),
            moved: Condvar::new(),
        });
        let (claims, others) = fetch.claim(all)?;
        if claims.is_empty() {
            return Ok(Begun { fetch: None, others });
        }
        let claimed = claims.iter().map(|(blocks, _)| blocks.clone()).collect();
        let _starting = Starting { fetch: fetch.clone(), claimed };
        let begun = fetch.start(claims, &lease, &ground);
        if begun.is_err() {
            fetch.end();
        }
        begun.map_err(|error| in_store(&fetch.source.path, error))?;
        Ok(Begun { fetch: Some(fetch), others })
    }

    /// Claims those that wait; none of them where one is lost.
    fn claim(self: &Arc<Self>, all: &[&Arc<Blocks>]) -> Result<(Claims, Others)> {
        let (mut claims, mut others) = (Vec::new(), Vec::new());
        let lost = |cold: &Cold| matches!(&*cold.state.lock(), State::Lost);
        if all.iter().filter_map(|blocks| blocks.cold()).any(lost) {
            return Err(Error::internal(
                "a thread died while it began to read these columns from the store; close the \
                 database and open it again",
            ));
        }
        for blocks in all {
            let Some(cold) = blocks.cold() else { continue };
            let mut state = cold.state.lock();
            match &mut *state {
                State::Waiting(places) => {
                    claims.push(((*blocks).clone(), std::mem::take(places)));
                    *state = State::Claimed(Arc::downgrade(self));
                }
                State::Claimed(other) => {
                    let other = other.upgrade().filter(|other| !Arc::ptr_eq(other, self));
                    others.extend(other.map(|other| (other, (*blocks).clone())));
                }
                State::Arrived | State::Lost => {}
            }
        }
        Ok((claims, others))
    }

    /// Starts to read.
    fn start(&self, claims: Claims, lease: &Lease, ground: &Ground) -> Result<()> {
        let (mut groups, mut places, mut records) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes = 0;
        for (blocks, reserved) in claims {
            let Some(cold) = blocks.cold() else { continue };
            bytes += cold.records.iter().map(|record| record.stored).sum::<u64>();
            records.extend(cold.records.iter().map(|record| record.record));
            places.extend((0..reserved.len()).map(|place| (groups.len(), place)));
            groups.push(Group::new(blocks, reserved));
        }
        let alone = bytes <= READ_AT_ONCE;
        let scan = match alone {
            true => Ok(None),
            false => lease.scan(&records, &self.source.options).map(Some),
        };
        let (scan, no_scan) = match scan {
            Ok(scan) => (scan, Ok(())),
            Err(error) => (None, Err(read_error(&self.source.path, error))),
        };
        {
            let _others_look = self.progress.lock();
            let work = Work { scan, groups, records: places };
            assert!(self.work.set(work).is_ok(), "a fetch begins once");
        }
        self.moved.notify_all();
        no_scan?;
        if alone { self.read(lease, ground, &records) } else { Ok(()) }
    }

    /// Reads everything in this thread.
    fn read(&self, lease: &Lease, ground: &Ground, records: &[RecordId]) -> Result<()> {
        let locked = self.groups().iter().flat_map(|group| &group.filling).map(Mutex::lock);
        let mut locked: Vec<_> = locked.collect();
        let mut buffers = Vec::with_capacity(records.len());
        for (record, filling) in records.iter().zip(&mut locked) {
            let Some(filling) = filling.as_mut() else { continue };
            buffers.push((*record, filling.buffer(ground)?));
        }
        lease.read_into(&mut buffers).map_err(|e| read_error(&self.source.path, e))?;
        for filling in locked.iter_mut().filter_map(|filling| filling.as_mut()) {
            filling.finish(ground).map_err(|e| in_store(&self.source.path, e))?;
        }
        drop(locked);
        self.groups().iter().for_each(|group| group.arrived(&self.source));
        self.end();
        Ok(())
    }

    fn groups(&self) -> &[Group] {
        self.work.get().map_or(&[], |work| &work.groups)
    }

    /// Bytes and records of everything it reads.
    pub fn size(&self) -> (u64, u64) {
        let cold = self.groups().iter().filter_map(|group| group.blocks.cold());
        let records = cold.flat_map(|cold| cold.records.iter());
        records.fold((0, 0), |(bytes, records), record| (bytes + record.stored, records + 1))
    }

    /// What the scan did so far; `None` where there was too little for one.
    pub fn stats(&self) -> Option<ScanStats> {
        self.work.get()?.scan.as_ref().map(Scan::stats)
    }

    /// Takes part until `blocks` have arrived; `false`: it has ended without them. A statement that
    /// is to end leaves the rest to others who take part.
    fn take_part(&self, blocks: &Blocks) -> Result<bool> {
        loop {
            go_on()?;
            let mut progress = self.progress.lock();
            while self.work.get().is_none() && !progress.ended {
                self.moved.wait(&mut progress);
            }
            if blocks.in_memory() {
                return Ok(true);
            }
            if progress.ended {
                return Ok(false);
            }
            let Some((work, scan)) = self.work.get().and_then(|w| Some((w, w.scan.as_ref()?)))
            else {
                // Whoever began it is reading.
                self.moved.wait(&mut progress);
                continue;
            };
            progress.busy += 1;
            drop(progress);
            let part = scan.next_part();
            let last = part.is_none();
            let placed = match part {
                Some(Ok(part)) => self.place(work, &part),
                Some(Err(error)) => Err(read_error(&self.source.path, error)),
                None => Ok(()),
            };
            let mut progress = self.progress.lock();
            progress.busy -= 1;
            let ended = last && progress.busy == 0;
            if last && !ended && !blocks.in_memory() {
                // The parts are with other threads, which are copying them.
                self.moved.wait(&mut progress);
            }
            drop(progress);
            self.moved.notify_all();
            let closed = self.source.is_closed() && !blocks.in_memory();
            if ended || placed.is_err() || closed {
                self.end();
            }
            placed?;
            if closed {
                return Err(Error::Closed { what: "database" });
            }
        }
    }

    /// Copies or decodes a part to its place.
    fn place(&self, work: &Work, part: &Part) -> Result<()> {
        let of = work.records.get(part.index());
        let (group, place) = *of.ok_or_else(|| Error::internal("a part of another scan"))?;
        let group = &work.groups[group];
        let mut filling = group.filling[place].lock();
        // Given back by another thread, which has failed.
        let Some(found) = &mut *filling else { return Ok(()) };
        let ended = || Error::Closed { what: "database" };
        let ground = self.source.ground.upgrade().ok_or_else(ended)?;
        let last = found.take(part, &ground).map_err(|e| in_store(&self.source.path, e))?;
        drop(filling);
        if last && group.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            group.arrived(&self.source);
        }
        Ok(())
    }

    /// Gives back what has not arrived.
    fn end(&self) {
        let mut progress = self.progress.lock();
        if std::mem::replace(&mut progress.ended, true) {
            return;
        }
        for group in self.groups() {
            let (Some(left), Some(cold)) = (group.take(), group.blocks.cold()) else { continue };
            let back = left.into_iter().map(BlockTarget::into_reserved).collect();
            *cold.state.lock() = State::Waiting(back);
        }
        drop(progress);
        self.moved.notify_all();
    }
}

/// A fetch that is being started. Where that ends in a panic, nobody waits for it any more, and
/// blocks that it could not give back are known to be lost.
struct Starting {
    fetch: Arc<Fetch>,
    claimed: Vec<Arc<Blocks>>,
}

impl Drop for Starting {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        self.fetch.end();
        for cold in self.claimed.iter().filter_map(|blocks| blocks.cold()) {
            let mut state = cold.state.lock();
            if matches!(&*state, State::Claimed(_)) {
                *state = State::Lost;
            }
        }
    }
}

impl Drop for Fetch {
    fn drop(&mut self) {
        // The places of a parent's fetch are the parent's.
        if self.source.pid == std::process::id() {
            self.end();
        }
    }
}
