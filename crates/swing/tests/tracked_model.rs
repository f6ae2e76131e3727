//! Random operations on tracked areas of several processes, against a naive model (INV-AREA-1,
//! INV-AREA-7, INV-AREA-12).
//!
//! Three processes own areas into which they store plainly, share them, hook each other's, live and
//! not, derive from what they have hooked, fork, and are killed. The test tells them what to do,
//! and compares every byte that they see with a map from extents to a few cells. A live hook comes
//! while two threads of the owner store: what it shows must be what was there before it asked, and
//! the beginning of what each thread has stored since. `SWING_SEED` replays the operations,
//! `SWING_STEPS` makes the run longer.

#[macro_use]
mod common;
#[path = "common/peer.rs"]
mod peer;
#[path = "common/stage.rs"]
mod stage;

use std::collections::BTreeMap;
use std::path::Path;

use common::*;
use peer::{CELLS, Contents, Store, USED};
use stage::{PLACE, ROLE, Stage};
use swing::Backing;

const PEERS: usize = 3;
const MAX_AREAS: usize = 5;
const MAX_SNAPSHOTS: usize = 9;
/// The second storing thread has this cell of each extent, the first one has the others.
const OF_THE_OTHER: usize = 2;

/// A change of an area since a state of it was known to have been shared.
#[derive(Clone, Debug)]
enum Change {
    Payload(String),
    Set(BTreeMap<u32, [u64; CELLS]>),
    /// What two threads have stored, each in order.
    Stores([Vec<Store>; 2]),
}

#[derive(Clone, Debug, Default)]
struct State {
    epoch: u64,
    payload: String,
    contents: Contents,
}

struct Owned {
    id: u32,
    name: Option<String>,
    /// Whose process has it; `None`: it is closed, or its owner is dead.
    peer: Option<usize>,
    now: Contents,
    payload: String,
    /// What an heir finds at least, with what has changed since.
    published: Option<(State, Vec<Change>)>,
    /// What a hook finds at least.
    shared: Option<(State, Vec<Change>)>,
    /// Live hooks have been answered, or asked for, since then: newer states may have been shared.
    live: bool,
    /// A memfd that ends with a process has ended.
    may_be_gone: bool,
}

struct Hooked {
    id: u32,
    peer: usize,
    then: Contents,
    /// Its addresses are those of an area that was derived from it.
    taken: bool,
}

struct World {
    home: Home,
    rng: fastrand::Rng,
    peers: Vec<Stage>,
    areas: Vec<Owned>,
    snapshots: Vec<Hooked>,
    last: u64,
}

fn set(contents: &mut Contents, extent: u32, cells: [u64; CELLS]) {
    contents.insert(extent, cells);
    contents.retain(|_, cells| *cells != [0; CELLS]);
}

fn apply(contents: &mut Contents, (extent, cell, value): Store) {
    contents.entry(extent).or_default()[cell] = value;
}

/// Where two contents say the same: in the cells of one thread.
fn agree(a: &Contents, b: &Contents, other: bool) -> bool {
    let cells = |c: &Contents, e| c.get(&e).copied().unwrap_or_default();
    (0..USED).map(peer::extent).all(|e| {
        (0..CELLS)
            .filter(|c| (*c == OF_THE_OTHER) == other)
            .all(|c| cells(a, e)[c] == cells(b, e)[c])
    })
}

/// How many of a thread's stores `seen` has; `None`: it is no beginning of them.
fn beginning(from: &Contents, stores: &[Store], seen: &Contents, other: bool) -> Option<usize> {
    let mut now = from.clone();
    (0..=stores.len()).find(|n| {
        n.checked_sub(1).into_iter().for_each(|i| apply(&mut now, stores[i]));
        agree(&now, seen, other)
    })
}

/// What is left of `changes` behind a state with these contents; `None`: there was no such state.
/// The first `least` changes are in it.
fn behind(
    (from, changes): &(State, Vec<Change>),
    least: usize,
    seen: &State,
) -> Option<Vec<Change>> {
    let mut at = from.clone();
    for (i, change) in changes.iter().enumerate() {
        if i >= least && at.contents == seen.contents && at.payload == seen.payload {
            return Some(changes[i..].to_vec());
        }
        match change {
            Change::Payload(payload) => at.payload.clone_from(payload),
            Change::Set(extents) => {
                extents.iter().for_each(|(e, cells)| set(&mut at.contents, *e, *cells));
            }
            Change::Stores(lanes) => {
                let begun =
                    |lane: usize| beginning(&at.contents, &lanes[lane], &seen.contents, lane == 1);
                let in_it = i >= least && at.payload == seen.payload;
                if let (true, Some(a), Some(b)) = (in_it, begun(0), begun(1)) {
                    let rest = [lanes[0][a..].to_vec(), lanes[1][b..].to_vec()];
                    let rest = std::iter::once(Change::Stores(rest));
                    return Some(rest.chain(changes[i + 1..].iter().cloned()).collect());
                }
                lanes.iter().flatten().for_each(|s| apply(&mut at.contents, *s));
            }
        }
    }
    (at.contents == seen.contents && at.payload == seen.payload).then(Vec::new)
}

/// `EPOCH PAYLOAD CELLS...`
fn state_of(answer: &str) -> State {
    let mut words = answer.split(' ');
    let epoch = words.next().unwrap().parse().unwrap();
    let payload = words.next().unwrap_or_default().to_owned();
    State { epoch, payload, contents: peer::contents_of(words.filter(|w| !w.is_empty())) }
}

impl Owned {
    /// Notes a change that has been made.
    fn note(&mut self, change: Change) {
        match &change {
            Change::Payload(payload) => self.payload.clone_from(payload),
            Change::Set(extents) => {
                extents.iter().for_each(|(e, cells)| set(&mut self.now, *e, *cells));
            }
            Change::Stores(lanes) => {
                lanes.iter().flatten().for_each(|s| apply(&mut self.now, *s));
            }
        }
        self.note_of_unknown(change);
    }

    /// Notes what its owner may have done, or not, before it died.
    fn note_of_unknown(&mut self, change: Change) {
        for known in [&mut self.published, &mut self.shared].into_iter().flatten() {
            known.1.push(change.clone());
        }
    }

    fn present(&self, epoch: u64) -> State {
        State { epoch, payload: self.payload.clone(), contents: self.now.clone() }
    }

    /// Checks what a hook shows, which has at least the first `least` changes if it is a live one.
    fn found(&mut self, seen: State, least: Option<usize>) {
        let known = self.shared.as_ref().expect("something has been shared");
        assert!(seen.epoch >= known.0.epoch, "an older state than before: {seen:?}, {known:?}");
        if seen.epoch == known.0.epoch || !self.live {
            assert_eq!((&seen.contents, &seen.payload), (&known.0.contents, &known.0.payload));
            let same = least.is_none_or(|least| least == 0) && seen.epoch == known.0.epoch;
            assert!(same, "{} with {least:?}: {seen:?}, {known:?}", self.live);
            return;
        }
        let rest = behind(known, least.unwrap_or(0), &seen);
        let rest = rest.unwrap_or_else(|| panic!("{seen:?}, {least:?} of {known:?}"));
        // Whatever is shared has been published: an heir finds that at least.
        if self.published.as_ref().is_some_and(|(p, _)| p.epoch <= seen.epoch) {
            self.published = Some((seen.clone(), rest.clone()));
        }
        self.shared = Some((seen, rest));
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let home = home();
        let mut world = Self {
            rng: fastrand::Rng::with_seed(seed),
            peers: Vec::new(),
            areas: Vec::new(),
            snapshots: Vec::new(),
            last: 0,
            home,
        };
        world.peers = (0..PEERS).map(|_| world.start()).collect();
        world
    }

    fn start(&self) -> Stage {
        let mut peer = Stage::start("peer", self.home.dir.path());
        assert_eq!(peer.answer(), "ready");
        peer
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn try_ask(&mut self, peer: usize, line: &str) -> Result<String, String> {
        trace(|| format!("{peer}: {line}"));
        answered(&self.peers[peer].ask(line))
    }

    fn ask(&mut self, peer: usize, line: &str) -> String {
        self.try_ask(peer, line).unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    fn extent(&mut self) -> u32 {
        peer::extent(self.rng.u32(..USED))
    }

    /// An area that somebody has, with its owner.
    fn open(&mut self) -> Option<(usize, usize)> {
        let open: Vec<_> =
            self.areas.iter().enumerate().filter_map(|(a, o)| Some((a, o.peer?))).collect();
        self.rng.choice(open)
    }

    /// An area that has none.
    fn closed(&mut self) -> Option<usize> {
        let closed: Vec<_> =
            (0..self.areas.len()).filter(|a| self.areas[*a].peer.is_none()).collect();
        self.rng.choice(closed)
    }

    fn some_stores(&mut self, most: usize) -> [Vec<Store>; 2] {
        let counts = [self.rng.usize(1..=most), self.rng.usize(..=most)];
        let mut lane = |other: bool| {
            let cell = if other { OF_THE_OTHER } else { self.rng.usize(..OF_THE_OTHER) };
            (self.extent(), cell, self.next())
        };
        [
            (0..counts[0]).map(|_| lane(false)).collect(),
            (0..counts[1]).map(|_| lane(true)).collect(),
        ]
    }

    fn step(&mut self) {
        match self.rng.u8(..100) {
            0..=21 => self.store(),
            22..=25 => self.fill(),
            26..=30 => self.discard(),
            31..=38 => self.publish(),
            39..=56 => self.hook_live(),
            57..=63 => self.hook(),
            64..=68 => self.drop_snapshot(),
            69..=73 => self.derive(),
            74..=75 => self.view(),
            76..=78 => self.foreign(),
            79..=83 => self.without_effect(),
            84..=85 => self.fork(),
            86..=87 => self.close(),
            88..=91 => self.reopen(),
            92 => self.remove(),
            93..=95 => self.create(),
            96 => drop(self.ask(0, "gc")),
            97 => self.refuse(),
            _ => self.kill(),
        }
    }

    fn create(&mut self) {
        if self.areas.len() >= MAX_AREAS {
            return;
        }
        let (id, peer) = (self.next() as u32, self.rng.usize(..PEERS));
        let name = (self.rng.u8(..5) > 0).then(|| format!("area-{id}"));
        self.ask(peer, &format!("create {id} {}", name.as_deref().unwrap_or("-")));
        self.owned(id, name, peer, Contents::new(), String::new());
    }

    /// An area that somebody has begun: one with a name shares its present state at once.
    fn owned(
        &mut self,
        id: u32,
        name: Option<String>,
        peer: usize,
        now: Contents,
        payload: String,
    ) {
        let first = State { epoch: 0, payload: payload.clone(), contents: now.clone() };
        let begun = name.is_some().then(|| (first, Vec::new()));
        self.areas.push(Owned {
            id,
            peer: Some(peer),
            now,
            payload,
            published: begun.clone(),
            shared: begun,
            live: name.is_some(),
            may_be_gone: false,
            name,
        });
    }

    fn store(&mut self) {
        let Some((a, peer)) = self.open() else { return };
        let lanes = self.some_stores(12);
        let line = store_line(self.areas[a].id, &lanes);
        self.ask(peer, &line);
        self.areas[a].note(Change::Stores(lanes));
    }

    /// `memcpy` over whole extents.
    fn fill(&mut self) {
        let Some((a, peer)) = self.open() else { return };
        let (first, count, value) = (self.extent(), self.rng.u32(1..3), self.next());
        let line = format!("{} fill {first} {count} {value}", self.areas[a].id);
        self.ask(peer, &format!("do {line}"));
        let extents = (first..first + count).map(|e| (e, [value; CELLS]));
        self.areas[a].note(Change::Set(within(extents)));
    }

    fn discard(&mut self) {
        let Some((a, peer)) = self.open() else { return };
        let (first, count) = (self.extent(), self.rng.u32(1..3));
        self.ask(peer, &format!("do {} discard {first} {count}", self.areas[a].id));
        let extents = (first..first + count).map(|e| (e, [0; CELLS]));
        self.areas[a].note(Change::Set(within(extents)));
    }

    fn publish(&mut self) {
        let Some((a, peer)) = self.open() else { return };
        let (shared, payload) = (self.rng.u8(..3) > 0, format!("p{}", self.next()));
        let kind = if shared { "shared" } else { "committed" };
        let line = format!("do {} publish {kind} {payload}", self.areas[a].id);
        let epoch = self.ask(peer, &line).parse().unwrap();
        let area = &mut self.areas[a];
        area.note(Change::Payload(payload));
        area.published = Some((area.present(epoch), Vec::new()));
        if shared {
            (area.shared, area.live) = (area.published.clone(), false);
        }
    }

    /// Another process hooks live while the owner stores; sometimes two do.
    fn hook_live(&mut self) {
        let Some((a, owner)) = self.open() else { return };
        let Some(name) = self.areas[a].name.clone() else { return };
        let mut hookers: Vec<_> = (0..PEERS).filter(|p| *p != owner).collect();
        self.rng.shuffle(&mut hookers);
        hookers.truncate(self.rng.usize(1..=2));
        let ids: Vec<_> = hookers.iter().map(|_| self.next() as u32).collect();
        let lanes = if self.rng.u8(..4) > 0 { self.some_stores(60) } else { Default::default() };
        let line = store_line(self.areas[a].id, &lanes);
        let kills = self.rng.u8(..16) == 0;
        trace(|| format!("{owner}: {line}; hooked live by {hookers:?}, killed: {kills}"));
        self.peers[owner].tell(&line);
        for (hooker, id) in hookers.iter().zip(&ids) {
            self.peers[*hooker].tell(&format!("live {id} {name}"));
        }
        let area = &mut self.areas[a];
        let hooked = area.id;
        let least = area.shared.as_ref().map_or(0, |(_, changes)| changes.len());
        area.live = true;
        match kills {
            true => area.note_of_unknown(Change::Stores(lanes)),
            false => area.note(Change::Stores(lanes)),
        }
        if kills {
            std::thread::sleep(std::time::Duration::from_micros(self.rng.u64(..800)));
            self.kill_peer(owner);
        } else {
            answered(&self.peers[owner].answer()).unwrap();
        }
        let mut seen = Vec::new();
        for (hooker, id) in hookers.into_iter().zip(ids) {
            match answered(&self.peers[hooker].answer()) {
                Ok(answer) => seen.push((state_of(&answer), hooker, id)),
                Err(e) => assert!(
                    kills && (e.starts_with("NotFresh") || e.starts_with("MemoryGone")),
                    "{e}"
                ),
            }
        }
        // A death has moved it.
        let a = self.areas.iter().position(|area| area.id == hooked).unwrap();
        seen.sort_by_key(|(state, ..)| state.epoch);
        let mut least = least;
        let unknown = |area: &Owned| area.shared.as_ref().map_or(0, |(_, changes)| changes.len());
        for (state, peer, id) in seen {
            let (then, before) = (state.contents.clone(), unknown(&self.areas[a]));
            self.areas[a].found(state, Some(least));
            least = least.saturating_sub(before - unknown(&self.areas[a]));
            self.snapshots.push(Hooked { id, peer, then, taken: false });
        }
        while self.snapshots.len() > MAX_SNAPSHOTS {
            self.drop_snapshot();
        }
    }

    fn hook(&mut self) {
        let (peer, id) = (self.rng.usize(..PEERS), self.next() as u32);
        if self.areas.is_empty() || self.snapshots.len() >= MAX_SNAPSHOTS {
            return;
        }
        let a = self.rng.usize(..self.areas.len());
        let Some(name) = self.areas[a].name.clone() else { return };
        match self.try_ask(peer, &format!("hook {id} {name}")) {
            Ok(answer) => {
                let seen = state_of(&answer);
                let then = seen.contents.clone();
                self.areas[a].found(seen, None);
                self.snapshots.push(Hooked { id, peer, then, taken: false });
            }
            Err(e) => self.is_gone(a, &e),
        }
    }

    /// What cannot be had because a process has died; nobody can have it then.
    fn is_gone(&mut self, a: usize, error: &str) {
        let area = self.areas.swap_remove(a);
        let found = ["MemoryGone", "NotFound"].map(|kind| error.starts_with(kind));
        assert!(area.may_be_gone && found.contains(&true), "{error}");
        assert!(area.peer.is_none() && backing() == Backing::Memfd, "{error}");
        // A collection may have been there before.
        let _ = self.try_ask(0, &format!("remove {}", area.name.unwrap()));
    }

    fn drop_snapshot(&mut self) {
        if !self.snapshots.is_empty() {
            let s = self.rng.usize(..self.snapshots.len());
            let gone = self.snapshots.swap_remove(s);
            self.ask(gone.peer, &format!("drop {}", gone.id));
        }
    }

    fn derive(&mut self) {
        if self.areas.len() >= MAX_AREAS || self.snapshots.is_empty() {
            return;
        }
        let (s, id) = (self.rng.usize(..self.snapshots.len()), self.next() as u32);
        let (from, peer) = (self.snapshots[s].id, self.snapshots[s].peer);
        let name = (self.rng.u8(..5) > 0).then(|| format!("area-{id}"));
        let line = format!("derive {id} {from} {}", name.as_deref().unwrap_or("-"));
        let begun = state_of(&self.ask(peer, &line));
        self.snapshots[s].taken = true;
        let then = self.snapshots[s].then.clone();
        assert_eq!(begun.contents, then, "{line}");
        self.owned(id, name, peer, then, begun.payload);
    }

    fn view(&mut self) {
        let Some((a, peer)) = self.open() else { return };
        if self.snapshots.len() < MAX_SNAPSHOTS {
            let id = self.next() as u32;
            let seen = state_of(&self.ask(peer, &format!("view {id} {}", self.areas[a].id)));
            assert_eq!(seen.contents, self.areas[a].now);
            let then = seen.contents;
            self.snapshots.push(Hooked { id, peer, then, taken: false });
        }
    }

    /// Shows an extent of a snapshot in an area of the same process.
    fn foreign(&mut self) {
        let Some((a, peer)) = self.open() else { return };
        let (from, to) = (peer::extent(self.rng.u32(6..USED)), peer::extent(self.rng.u32(6..USED)));
        let shown = |s: &&Hooked| s.peer == peer && s.then.contains_key(&from);
        let Some(snapshot) = self.snapshots.iter().find(shown) else { return };
        let cells = snapshot.then[&from];
        let line = format!("do {} foreign {} {from} {to}", self.areas[a].id, snapshot.id);
        self.ask(peer, &line);
        self.areas[a].note(Change::Set(BTreeMap::from([(to, cells)])));
    }

    /// What changes nothing that anybody sees.
    fn without_effect(&mut self) {
        let Some((a, peer)) = self.open() else { return };
        let id = self.areas[a].id;
        let what = match self.rng.u8(..5) {
            0 => format!("writable {}", self.extent()),
            1 => format!("prepare {}", self.extent()),
            2 => "hold".to_owned(),
            3 => format!("ahead {}", self.rng.u32(..8000)),
            _ => "reclaim".to_owned(),
        };
        self.ask(peer, &format!("do {id} {what}"));
    }

    fn fork(&mut self) {
        let Some((a, peer)) = self.open() else { return };
        let [mine, _] = self.some_stores(12);
        let line = format!("do {} fork {}", self.areas[a].id, peer::text_of_stores(&mine));
        self.ask(peer, &line);
        self.areas[a].note(Change::Stores([mine, Vec::new()]));
    }

    fn refuse(&mut self) {
        let Some((a, owner)) = self.open() else { return };
        let Some(name) = self.areas[a].name.clone() else { return };
        let id = self.areas[a].id;
        self.ask(owner, &format!("do {id} allow 0"));
        let hooker = (owner + 1) % PEERS;
        for kind in ["live", "hook"] {
            let refused = self.try_ask(hooker, &format!("{kind} {} {name}", u32::MAX));
            assert!(refused.is_err_and(|e| e.starts_with("NotHookable")));
        }
        self.ask(owner, &format!("do {id} allow 1"));
        self.areas[a].live = true;
    }

    fn close(&mut self) {
        let Some((a, peer)) = self.open() else { return };
        self.ask(peer, &format!("close {}", self.areas[a].id));
        self.leave(a);
    }

    /// Its owner has closed it, or is dead.
    fn leave(&mut self, a: usize) {
        self.areas[a].peer = None;
        if self.areas[a].name.is_none() {
            self.areas.swap_remove(a);
        }
    }

    fn reopen(&mut self) {
        let Some(a) = self.closed() else { return };
        let (peer, id) = (self.rng.usize(..PEERS), self.next() as u32);
        let name = self.areas[a].name.clone().unwrap();
        match self.try_ask(peer, &format!("open {id} {name}")) {
            Ok(answer) => {
                let seen = state_of(&answer);
                let area = &mut self.areas[a];
                let (known, changes) = area.published.clone().unwrap();
                let same = (&known.contents, &known.payload) == (&seen.contents, &seen.payload);
                let newer = || area.live && behind(&(known, changes), 0, &seen).is_some();
                assert!(same || newer(), "{name}: {seen:?} {:?}", area.published);
                // It shares its state at once, which is a new one.
                let area = self.areas.swap_remove(a);
                self.owned(id, area.name, peer, seen.contents, seen.payload);
            }
            Err(e) => self.is_gone(a, &e),
        }
    }

    fn remove(&mut self) {
        let Some(a) = self.closed() else { return };
        let area = self.areas.swap_remove(a);
        match self.try_ask(0, &format!("remove {}", area.name.unwrap())) {
            Ok(_) => {}
            Err(e) => assert!(area.may_be_gone && e.starts_with("NotFound"), "{e}"),
        }
    }

    fn kill(&mut self) {
        if self.rng.bool() {
            let peer = self.rng.usize(..PEERS);
            self.kill_peer(peer);
        }
    }

    /// SIGKILL, and another one in its place.
    fn kill_peer(&mut self, peer: usize) {
        trace(|| format!("{peer} is killed"));
        let started = self.start();
        std::mem::replace(&mut self.peers[peer], started).kill();
        self.snapshots.retain(|s| s.peer != peer);
        self.areas.iter_mut().for_each(|area| area.may_be_gone = true);
        for a in (0..self.areas.len())
            .rev()
            .filter(|a| self.areas[*a].peer == Some(peer))
            .collect::<Vec<_>>()
        {
            self.leave(a);
        }
    }

    /// Every byte of every area and snapshot, or of some of them.
    fn check(&mut self, all: bool) {
        for a in 0..self.areas.len() {
            let (id, peer) = (self.areas[a].id, self.areas[a].peer);
            let Some(peer) = peer.filter(|_| all || self.rng.u8(..4) == 0) else { continue };
            let seen = self.ask(peer, &format!("do {id} area"));
            let seen = peer::contents_of(seen.split(' ').filter(|w| !w.is_empty()));
            assert_eq!(seen, self.areas[a].now, "area {id}");
        }
        for s in 0..self.snapshots.len() {
            let (id, peer) = (self.snapshots[s].id, self.snapshots[s].peer);
            if self.snapshots[s].taken || !(all || self.rng.u8(..4) == 0) {
                continue;
            }
            let seen = self.ask(peer, &format!("snapshot {id}"));
            let seen = peer::contents_of(seen.split(' ').filter(|w| !w.is_empty()));
            assert_eq!(seen, self.snapshots[s].then, "INV-AREA-1: snapshot {id}");
        }
    }

    /// Everything goes, in any order; nothing is left behind.
    fn finish(mut self) {
        self.check(true);
        while !self.snapshots.is_empty() || self.open().is_some() {
            match self.rng.bool() {
                true => self.close(),
                false => self.drop_snapshot(),
            }
            self.check(true);
        }
        while !self.areas.is_empty() {
            self.remove();
        }
        self.peers.into_iter().for_each(Stage::finish);
        nothing_is_left(&self.home);
    }
}

fn trace(what: impl FnOnce() -> String) {
    if std::env::var_os("SWING_TRACE").is_some() {
        println!("{}", what());
    }
}

fn answered(text: &str) -> Result<String, String> {
    match text.strip_prefix("ok") {
        Some(answer) => Ok(answer.trim().to_owned()),
        None => Err(text.strip_prefix("error ").unwrap().to_owned()),
    }
}

fn store_line(id: u32, lanes: &[Vec<Store>; 2]) -> String {
    let [mine, other] = lanes.each_ref().map(|stores| peer::text_of_stores(stores));
    format!("do {id} store {mine} {other}")
}

/// The extents that are looked at.
fn within(extents: impl Iterator<Item = (u32, [u64; CELLS])>) -> BTreeMap<u32, [u64; CELLS]> {
    let used: Vec<u32> = (0..USED).map(peer::extent).collect();
    extents.filter(|(e, _)| used.contains(e)).collect()
}

fn run(seed: u64, steps: usize) {
    println!("SWING_SEED={seed}");
    let mut world = World::new(seed);
    world.create();
    for step in 0..steps {
        world.step();
        world.check(step % 50 == 0);
    }
    world.finish();
}

/// Not a test: what the processes run that the test starts.
#[test]
fn child_entry() {
    if std::env::var(ROLE).is_err() {
        return;
    }
    let memfd = std::env::var(swing::BACKING_VARIABLE).is_ok_and(|text| text == "memfd");
    let backing = if memfd { Backing::Memfd } else { Backing::File };
    peer::serve(Path::new(&std::env::var(PLACE).unwrap()), backing);
}

fn random_operations_of_processes_agree_with_the_model() {
    let steps = std::env::var("SWING_STEPS").ok().and_then(|s| s.parse().ok()).unwrap_or(600);
    match std::env::var("SWING_SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => run(seed, steps),
        None => (0..2).for_each(|_| run(fastrand::u64(..), steps)),
    }
}

over_both_back_ends! {
    random_operations_of_processes_agree_with_the_model,
}
