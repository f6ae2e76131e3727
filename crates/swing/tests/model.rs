//! Random operations on several areas, chains and snapshots against a naive model.
//!
//! The model of an area is a map from extents to a few cells (numbers at the extent's begin, in its
//! middle and at its end); a snapshot's model is a copy of that map. After every step some of them,
//! and now and then all of them, are compared with the bytes. `SWING_SEED` replays a run,
//! `SWING_STEPS` makes it longer.

#[macro_use]
mod common;

use std::collections::BTreeMap;

use common::*;
use swing::{Area, AreaOffset, ByteLen, ExtentId, ExtentState, Publish, Snapshot, WriteIntent};

/// Cells of an extent.
const CELLS: usize = 3;
/// Extents used in each zone.
const SMALL_USED: u32 = 6;
const DATA_USED: u32 = 6;
const MAX_AREAS: usize = 5;
const MAX_SNAPSHOTS: usize = 8;

type Contents = BTreeMap<u32, [u64; CELLS]>;

struct Writer {
    area: Area,
    name: Option<String>,
    now: Contents,
    committed: Option<Contents>,
    shared: Option<(u64, Contents)>,
    /// The area's mapping is shared with the snapshot it was derived from.
    alive: bool,
}

struct Reader {
    snapshot: Snapshot,
    then: Contents,
    /// Its mapping was taken over by a derived area: it no longer shows the snapshot's state.
    taken: bool,
}

/// Name, committed state, shared state.
type Closed = (String, Contents, Option<(u64, Contents)>);

struct World {
    home: Home,
    rng: fastrand::Rng,
    writers: Vec<Writer>,
    readers: Vec<Reader>,
    /// Shared states of areas whose owner has closed them.
    closed: Vec<Closed>,
    next_value: u64,
    next_name: u64,
}

fn cell(geometry: &swing::Geometry, extent: u32, cell: usize) -> u64 {
    let range = geometry.range(ExtentId(extent));
    let len = (range.end - range.start).get();
    range.start.get() + [0, len / 2, len - 8][cell]
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            home: home(),
            rng: fastrand::Rng::with_seed(seed),
            writers: Vec::new(),
            readers: Vec::new(),
            closed: Vec::new(),
            next_value: 1,
            next_name: 1,
        }
    }

    fn extent(&mut self) -> u32 {
        let first_data = (ByteLen::mib(16).get() / SMALL) as u32;
        if self.rng.bool() {
            self.rng.u32(0..SMALL_USED)
        } else {
            first_data + self.rng.u32(0..DATA_USED)
        }
    }

    fn value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }

    fn pick_writer(&mut self) -> Option<usize> {
        (!self.writers.is_empty()).then(|| self.rng.usize(..self.writers.len()))
    }

    fn step(&mut self) {
        match self.rng.u8(0..100) {
            0..=29 => self.write(),
            30..=37 => self.overwrite(),
            38..=43 => self.discard(),
            44..=61 => self.publish(),
            62..=69 => self.hook(),
            70..=74 => self.drop_reader(),
            75..=79 => self.derive(),
            80..=81 => self.freeze_view(),
            82 => self.protect_ahead(),
            83..=85 => self.clone_memory(),
            86..=88 => self.close(),
            89..=91 => self.reopen(),
            92..=93 => self.remove(),
            94..=96 => self.create(),
            97 => drop(self.home.ns.gc().unwrap()),
            _ => self.reclaim(),
        }
    }

    fn fresh_name(&mut self) -> String {
        self.next_name += 1;
        format!("area {}", self.next_name)
    }

    fn create(&mut self) {
        if self.writers.len() >= MAX_AREAS {
            return;
        }
        let text = (self.rng.u8(0..4) > 0).then(|| self.fresh_name());
        let area = match &text {
            Some(text) => self.home.ns.create(&name(text), &options()).unwrap(),
            None => self.home.ns.create_unnamed(&options()).unwrap(),
        };
        let now = Contents::new();
        self.writers.push(Writer {
            area,
            name: text,
            now,
            committed: None,
            shared: None,
            alive: true,
        });
    }

    fn write(&mut self) {
        let Some(w) = self.pick_writer() else { return };
        let (extent, which, value) = (self.extent(), self.rng.usize(..CELLS), self.value());
        let writer = &mut self.writers[w];
        let at = cell(writer.area.geometry(), extent, which);
        writer.area.make_writable(range(at, 8), WriteIntent::Keep).unwrap();
        store(&writer.area, at, value);
        writer.now.entry(extent).or_default()[which] = value;
    }

    /// Several extents at once, the outer ones in part.
    fn overwrite(&mut self) {
        let Some(w) = self.pick_writer() else { return };
        let first = self.extent();
        let count = self.rng.u32(1..4);
        let partial = self.rng.bool();
        let mut value = self.next_value;
        let writer = &mut self.writers[w];
        let geometry = *writer.area.geometry();
        let mut start = geometry.start(ExtentId(first)).get();
        let end = geometry.range(ExtentId(first + count - 1)).end.get();
        if partial {
            start += 8;
        }
        let intent = WriteIntent::Overwrite;
        writer.area.make_writable(AreaOffset(start)..AreaOffset(end), intent).unwrap();
        for extent in first..first + count {
            let cells = writer.now.entry(extent).or_default();
            for (which, model) in cells.iter_mut().enumerate() {
                let at = cell(&geometry, extent, which);
                if at < start {
                    continue;
                }
                value += 1;
                store(&writer.area, at, value);
                *model = value;
            }
        }
        self.next_value = value;
    }

    fn discard(&mut self) {
        let Some(w) = self.pick_writer() else { return };
        let (first, count) = (self.extent(), self.rng.u32(1..3));
        let writer = &mut self.writers[w];
        let geometry = writer.area.geometry();
        let start = geometry.start(ExtentId(first));
        let end = geometry.range(ExtentId(first + count - 1)).end;
        writer.area.discard(start..end).unwrap();
        for extent in first..first + count {
            writer.now.remove(&extent);
            assert_eq!(writer.area.extent_state(ExtentId(extent)), ExtentState::Absent);
        }
    }

    fn publish(&mut self) {
        let Some(w) = self.pick_writer() else { return };
        let kind = if self.rng.bool() { Publish::Shared } else { Publish::Committed };
        let writer = &mut self.writers[w];
        let epoch = writer.area.publish(kind, &epoch_payload(&writer.now)).unwrap();
        writer.committed = Some(writer.now.clone());
        if kind == Publish::Shared {
            writer.shared = Some((epoch.get(), writer.now.clone()));
        }
    }

    fn hook(&mut self) {
        if self.readers.len() >= MAX_SNAPSHOTS {
            return;
        }
        let open = self.writers.iter().filter_map(|w| Some((w.name.clone()?, w.shared.clone())));
        let closed = self.closed.iter().map(|(n, _, shared)| (n.clone(), shared.clone()));
        let all: Vec<_> = open.chain(closed).collect();
        if all.is_empty() {
            return;
        }
        let (text, shared) = &all[self.rng.usize(..all.len())];
        let hooked = self.home.ns.hook(&name(text));
        match (hooked, shared) {
            (Ok(snapshot), Some((epoch, then))) => {
                assert_eq!(snapshot.epoch().get(), *epoch);
                assert_eq!(snapshot.payload(), epoch_payload(then));
                self.readers.push(Reader { snapshot, then: then.clone(), taken: false });
            }
            (Err(swing::HookError::NotShared { .. }), None) => {}
            (hooked, shared) => panic!("{hooked:?} for {shared:?}"),
        }
    }

    fn drop_reader(&mut self) {
        if !self.readers.is_empty() {
            let r = self.rng.usize(..self.readers.len());
            self.readers.swap_remove(r);
        }
    }

    fn derive(&mut self) {
        if self.writers.len() >= MAX_AREAS || self.readers.is_empty() {
            return;
        }
        let r = self.rng.usize(..self.readers.len());
        let text = (self.rng.u8(0..4) > 0).then(|| self.fresh_name());
        let reader = &mut self.readers[r];
        let area = reader.snapshot.derive(text.as_deref().map(name).as_ref()).unwrap();
        assert_eq!(area.base() == reader.snapshot.base(), !reader.taken);
        reader.taken = true;
        let now = reader.then.clone();
        self.writers.push(Writer {
            area,
            name: text,
            now,
            committed: None,
            shared: None,
            alive: true,
        });
    }

    fn freeze_view(&mut self) {
        let Some(w) = self.pick_writer() else { return };
        if self.readers.len() < MAX_SNAPSHOTS {
            let snapshot = self.writers[w].area.freeze_view().unwrap();
            self.readers.push(Reader { snapshot, then: self.writers[w].now.clone(), taken: false });
        }
    }

    /// Changes nothing that anybody sees, and copies nothing: the stores after it prove it.
    fn protect_ahead(&mut self) {
        let Some(w) = self.pick_writer() else { return };
        let least = ByteLen::mib(self.rng.u64(0..8));
        let area = &self.writers[w].area;
        let extents = (0..area.geometry().extent_count()).map(ExtentId);
        let private = |e: &ExtentId| area.extent_state(*e) == ExtentState::Private;
        let before: Vec<ExtentId> = extents.filter(private).collect();
        let done = area.protect_ahead(least).unwrap();
        assert_eq!(before.iter().any(private), !done && !before.is_empty());
    }

    fn clone_memory(&mut self) {
        let Some(w) = self.pick_writer() else { return };
        if self.readers.is_empty() {
            return;
        }
        let r = self.rng.usize(..self.readers.len());
        let first_data = (ByteLen::mib(16).get() / SMALL) as u32;
        let (from, to) =
            (first_data + self.rng.u32(0..DATA_USED), first_data + self.rng.u32(0..DATA_USED));
        let (reader, writer) = (&self.readers[r], &mut self.writers[w]);
        let geometry = *writer.area.geometry();
        let at = geometry.start(ExtentId(to));
        let mapped = writer.area.map_foreign(&reader.snapshot, geometry.range(ExtentId(from)), at);
        match reader.then.get(&from) {
            Some(cells) => {
                mapped.unwrap();
                writer.now.insert(to, *cells);
            }
            None => assert!(matches!(mapped, Err(swing::MapForeignError::OutOfRange { .. }))),
        }
    }

    fn close(&mut self) {
        let Some(w) = self.pick_writer() else { return };
        let writer = self.writers.swap_remove(w);
        let (name, committed, shared) = (writer.name, writer.committed, writer.shared);
        drop(writer.area);
        assert!(writer.alive);
        if let (Some(name), Some(committed)) = (name, committed) {
            self.closed.push((name, committed, shared));
        }
    }

    fn reopen(&mut self) {
        if self.closed.is_empty() || self.writers.len() >= MAX_AREAS {
            return;
        }
        let c = self.rng.usize(..self.closed.len());
        let (text, committed, shared) = self.closed.swap_remove(c);
        let area = self.home.ns.open_area(&name(&text)).unwrap();
        assert_eq!(area.payload(), epoch_payload(&committed));
        let now = committed.clone();
        let committed = Some(committed);
        self.writers.push(Writer { area, name: Some(text), now, committed, shared, alive: true });
    }

    fn remove(&mut self) {
        if !self.closed.is_empty() {
            let c = self.rng.usize(..self.closed.len());
            let (text, ..) = self.closed.swap_remove(c);
            self.home.ns.remove(&name(&text)).unwrap();
        }
    }

    fn reclaim(&mut self) {
        if let Some(w) = self.pick_writer() {
            self.writers[w].area.reclaim().unwrap();
            assert_eq!(self.writers[w].area.stats().spare.get(), 0);
        }
    }

    fn trace(&mut self, step: usize) {
        let next = self.rng.clone().u8(0..100);
        let areas = |w: &Writer| format!("{:?}:{}", w.name, w.area.id());
        let areas: Vec<_> = self.writers.iter().map(areas).collect();
        let snapshots = |r: &Reader| format!("{}@{}", r.snapshot.area_id(), r.snapshot.epoch());
        let snapshots: Vec<_> = self.readers.iter().map(snapshots).collect();
        println!("{step}: op {next} areas {areas:?} snapshots {snapshots:?}");
    }

    fn check(&mut self, all: bool) {
        for writer in &self.writers {
            if self.rng.u8(0..3) == 0 || all {
                check_area(&writer.area, &writer.now);
            }
        }
        for reader in self.readers.iter().filter(|r| !r.taken) {
            if self.rng.u8(0..3) == 0 || all {
                check_snapshot(&reader.snapshot, &reader.then);
            }
        }
    }
}

fn epoch_payload(contents: &Contents) -> Vec<u8> {
    let sum = contents.values().flatten().fold(0u64, |a, v| a.wrapping_mul(31).wrapping_add(*v));
    sum.to_le_bytes().to_vec()
}

fn check_area(area: &Area, model: &Contents) {
    let geometry = area.geometry();
    for (extent, cells) in model {
        assert_ne!(area.extent_state(ExtentId(*extent)), ExtentState::Absent);
        for (which, value) in cells.iter().enumerate() {
            let at = cell(geometry, *extent, which);
            // SAFETY: the extent is present, hence mapped.
            let seen = unsafe { area.base().add(at as usize).cast::<u64>().read() };
            assert_eq!(seen, *value, "extent {extent} cell {which} of {:?}", area.name());
        }
    }
    let stats = area.stats();
    let mapped: u64 = model.keys().map(|e| geometry.len(ExtentId(*e)).get()).sum();
    assert_eq!(stats.mapped.get(), mapped);
}

fn check_snapshot(snapshot: &Snapshot, model: &Contents) {
    let geometry = snapshot.geometry();
    for (extent, cells) in model {
        for (which, value) in cells.iter().enumerate() {
            let at = cell(geometry, *extent, which);
            let seen = u64::from_le_bytes(read_snapshot(snapshot, at, 8).try_into().unwrap());
            assert_eq!(
                seen,
                *value,
                "extent {extent} cell {which} of {}@{}",
                snapshot.area_id(),
                snapshot.epoch()
            );
        }
    }
}

/// In this run an area depends on a state that the area it was found through shows no more.
const WITH_A_FORGOTTEN_ORIGIN: u64 = 17_239_483_649_217_583_117;

fn run(seed: u64, steps: usize) {
    println!("SWING_SEED={seed}");
    let mut world = World::new(seed);
    world.create();
    for step in 0..steps {
        if std::env::var_os("SWING_TRACE").is_some() {
            world.trace(step);
        }
        world.step();
        world.check(step % 50 == 0 || std::env::var_os("SWING_TRACE").is_some());
    }
    world.check(true);
    // In any order, everything goes; nothing is left behind.
    while !world.writers.is_empty() || !world.readers.is_empty() {
        if world.rng.bool() {
            world.close()
        } else {
            world.drop_reader()
        }
        world.check(true);
    }
    while !world.closed.is_empty() {
        world.remove();
    }
    world.home.ns.gc().unwrap();
    let left: Vec<_> = std::fs::read_dir(world.home.dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// INV-AREA-1 to INV-AREA-5 under random use.
fn random_operations_agree_with_the_model() {
    let steps = std::env::var("SWING_STEPS").ok().and_then(|s| s.parse().ok()).unwrap_or(1500);
    if let Some(seed) = std::env::var("SWING_SEED").ok().and_then(|s| s.parse().ok()) {
        return run(seed, steps);
    }
    run(WITH_A_FORGOTTEN_ORIGIN, 1500);
    for _ in 0..3 {
        run(fastrand::u64(..), steps);
    }
}

over_both_back_ends! {
    random_operations_agree_with_the_model,
}
