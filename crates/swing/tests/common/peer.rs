//! A process of the model test of tracked areas: it does what it is told by lines, and answers what
//! it sees. It knows nothing of what should be there.
//!
//! Contents are cells: numbers at an extent's begin, in its middle and at its end, for the extents
//! that the test uses. What has no memory holds zeros.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use swing::{
    Area, AreaOffset, ExtentId, Geometry, HookError, Namespace, OpenError, Publish, RemoveError,
    Snapshot, WriteIntent,
};

use super::common::{load, name, options, patient, read_snapshot, store};
use super::stage::{next_line, say};

/// Cells of an extent.
pub const CELLS: usize = 3;
/// The extents that are used: small ones, and extents of data from the first of these on.
const SMALL_USED: u32 = 6;
const DATA_USED: u32 = 5;
const FIRST_DATA: u32 = (16 << 20) / super::common::SMALL as u32;

/// What the cells of each extent hold; extents of nothing but zeros are left out.
pub type Contents = BTreeMap<u32, [u64; CELLS]>;

/// A store: extent, cell, value.
pub type Store = (u32, usize, u64);

/// The number of the `i`th extent that is used.
pub fn extent(i: u32) -> u32 {
    if i < SMALL_USED { i } else { FIRST_DATA + i - SMALL_USED }
}

/// How many extents are used.
pub const USED: u32 = SMALL_USED + DATA_USED;

pub fn text_of(contents: &Contents) -> String {
    let extents = contents.iter().map(|(e, c)| format!("{e}:{}:{}:{}", c[0], c[1], c[2]));
    extents.collect::<Vec<_>>().join(" ")
}

pub fn contents_of<'a>(words: impl Iterator<Item = &'a str>) -> Contents {
    let numbers = words.map(|word| word.split(':').map(|n| n.parse().unwrap()).collect());
    numbers.map(|n: Vec<u64>| (n[0] as u32, [n[1], n[2], n[3]])).collect()
}

pub fn text_of_stores(stores: &[Store]) -> String {
    let each = stores.iter().map(|(e, c, v)| format!("{e}:{c}:{v}"));
    // Never nothing: a line is words.
    format!(",{}", each.collect::<Vec<_>>().join(","))
}

fn stores_of(text: &str) -> Vec<Store> {
    let each = text.split(',').filter(|word| !word.is_empty());
    let numbers = each.map(|word| word.split(':').map(|n| n.parse().unwrap()).collect());
    numbers.map(|n: Vec<u64>| (n[0] as u32, n[1] as usize, n[2])).collect()
}

/// Where a cell is.
fn place(geometry: &Geometry, extent: u32, cell: usize) -> u64 {
    let range = geometry.range(ExtentId(extent));
    let len = (range.end - range.start).get();
    range.start.get() + [0, len / 2, len - 8][cell]
}

fn read(geometry: &Geometry, value: impl Fn(u64) -> u64) -> Contents {
    let cells = |e| std::array::from_fn(|c| value(place(geometry, e, c)));
    let all = (0..USED).map(extent).map(|e| (e, cells(e)));
    all.filter(|(_, cells)| *cells != [0; CELLS]).collect()
}

fn area_contents(area: &Area) -> Contents {
    read(area.geometry(), |at| load(area, at))
}

fn snapshot_contents(snapshot: &Snapshot) -> Contents {
    read(snapshot.geometry(), |at| {
        if !snapshot.is_mapped(&(AreaOffset(at)..AreaOffset(at + 8))) {
            return 0;
        }
        u64::from_le_bytes(read_snapshot(snapshot, at, 8).try_into().unwrap())
    })
}

fn store_all(area: &Area, stores: &[Store]) {
    for (extent, cell, value) in stores {
        store(area, place(area.geometry(), *extent, *cell), *value);
    }
}

/// Which kind of error it is that a hook had, and what it says.
fn hook_error(e: HookError) -> String {
    let kind = match &e {
        HookError::NotShared { .. } => "NotShared",
        HookError::NotHookable { .. } => "NotHookable",
        HookError::NotFresh { .. } => "NotFresh",
        HookError::MemoryGone { .. } => "MemoryGone",
        HookError::NotFound { .. } => "NotFound",
        _ => "other",
    };
    format!("{kind} {e}")
}

struct Peer {
    ns: Namespace,
    areas: BTreeMap<u32, Area>,
    snapshots: BTreeMap<u32, Snapshot>,
}

/// What a started process does until its test has gone.
pub fn serve(path: &Path, backing: swing::Backing) {
    let ns = Namespace::open(path).unwrap().with_backing(backing);
    let mut peer = Peer { ns, areas: BTreeMap::new(), snapshots: BTreeMap::new() };
    say("ready");
    while let Some(line) = next_line() {
        let words: Vec<&str> = line.split(' ').collect();
        say(&match peer.act(&words) {
            Ok(answer) => format!("ok {answer}"),
            Err(e) => format!("error {e}"),
        });
    }
}

fn text(e: impl Display) -> String {
    format!("other {e}")
}

impl Peer {
    fn area(&self, id: &str) -> &Area {
        &self.areas[&id.parse().unwrap()]
    }

    fn snapshot(&self, id: &str) -> &Snapshot {
        &self.snapshots[&id.parse().unwrap()]
    }

    fn act(&mut self, words: &[&str]) -> Result<String, String> {
        let id = words.get(1).and_then(|id| id.parse::<u32>().ok()).unwrap_or_default();
        match *words {
            ["create", _, area] => {
                let made = match area {
                    "-" => self.ns.create_unnamed(&options()),
                    area => self.ns.create(&name(area), &options()),
                };
                self.own(id, made.map_err(text)?)
            }
            ["open", _, area] => match self.ns.open_area(&name(area)) {
                Ok(area) => self.own(id, area),
                Err(e @ OpenError::MemoryGone { .. }) => Err(format!("MemoryGone {e}")),
                Err(e @ OpenError::NotFound { .. }) => Err(format!("NotFound {e}")),
                Err(e) => Err(text(e)),
            },
            ["derive", _, snapshot, area] => {
                let area = (area != "-").then(|| name(area));
                let derived = self.snapshot(snapshot).derive(area.as_ref()).map_err(text)?;
                self.own(id, derived)
            }
            ["close", _] => {
                drop(self.areas.remove(&id).unwrap());
                Ok(String::new())
            }
            ["hook", _, area] => {
                let hooked = self.ns.hook(&name(area)).map_err(hook_error)?;
                Ok(self.hold(id, hooked))
            }
            ["live", _, area] => {
                let hooked = self.ns.hook_live_with(&name(area), patient()).map_err(hook_error)?;
                assert!(hooked.is_fresh());
                Ok(self.hold(id, hooked))
            }
            ["view", _, area] => {
                let view = self.area(area).freeze_view().map_err(text)?;
                Ok(self.hold(id, view))
            }
            ["drop", _] => {
                drop(self.snapshots.remove(&id).unwrap());
                Ok(String::new())
            }
            ["snapshot", snapshot] => Ok(text_of(&snapshot_contents(self.snapshot(snapshot)))),
            ["remove", area] => match self.ns.remove(&name(area)) {
                Ok(_) => Ok(String::new()),
                Err(e @ RemoveError::NotFound { .. }) => Err(format!("NotFound {e}")),
                Err(e) => Err(text(e)),
            },
            ["gc"] => self.ns.gc().map(|_| String::new()).map_err(text),
            ref words => self.change(words),
        }
    }

    /// Takes an area over: it is tracked, and answers live hooks if it has a name.
    fn own(&mut self, id: u32, area: Area) -> Result<String, String> {
        area.track().map_err(text)?;
        if area.name().is_some() {
            area.allow_live_hooks(true).map_err(text)?;
        }
        let payload = String::from_utf8(area.payload()).unwrap();
        let answer = format!("0 {payload} {}", text_of(&area_contents(&area)));
        self.areas.insert(id, area);
        Ok(answer)
    }

    fn hold(&mut self, id: u32, snapshot: Snapshot) -> String {
        let payload = String::from_utf8(snapshot.payload().to_vec()).unwrap();
        let contents = text_of(&snapshot_contents(&snapshot));
        let answer = format!("{} {payload} {contents}", snapshot.epoch());
        self.snapshots.insert(id, snapshot);
        answer
    }

    /// What changes an area, or shows it.
    fn change(&self, words: &[&str]) -> Result<String, String> {
        let area = self.area(words[1]);
        let geometry = *area.geometry();
        let range = |first: &str, count: &str| {
            let (first, count): (u32, u32) = (first.parse().unwrap(), count.parse().unwrap());
            geometry.start(ExtentId(first))..geometry.range(ExtentId(first + count - 1)).end
        };
        match words[2..] {
            ["store", mine, other] => {
                let (mine, other) = (stores_of(mine), stores_of(other));
                std::thread::scope(|scope| {
                    scope.spawn(|| store_all(area, &other));
                    store_all(area, &mine);
                });
            }
            ["fill", first, count, value] => {
                let range = range(first, count);
                let len = (range.end - range.start).get() as usize;
                let source = vec![value.parse::<u64>().unwrap(); len / 8];
                // SAFETY: inside the area, which is tracked; nobody else stores to it.
                unsafe {
                    let at = area.base().add(range.start.get() as usize);
                    libc::memcpy(at.as_ptr().cast(), source.as_ptr().cast(), len);
                }
            }
            ["discard", first, count] => area.discard(range(first, count)).map_err(text)?,
            ["writable", extent] => {
                area.make_writable(range(extent, "1"), WriteIntent::Keep).map_err(text)?;
            }
            ["prepare", extent] => {
                let range = range(extent, "1");
                let at = area.base().as_ptr().wrapping_add(range.start.get() as usize);
                let len = (range.end - range.start).get() as usize;
                assert!(swing::tracked::prepare(at, len));
            }
            ["publish", kind, payload] => {
                let kind = if kind == "shared" { Publish::Shared } else { Publish::Committed };
                let epoch = area.publish(kind, payload.as_bytes()).map_err(text)?;
                return Ok(epoch.to_string());
            }
            ["foreign", snapshot, from, to] => {
                let at = geometry.start(ExtentId(to.parse().unwrap()));
                let from = range(from, "1");
                area.map_foreign(self.snapshot(snapshot), from, at).map_err(text)?;
            }
            ["hold"] => drop(area.hold_stores().map_err(text)?),
            ["ahead", least] => {
                let least = swing::ByteLen::kib(least.parse().unwrap());
                area.protect_ahead(least).map_err(text)?;
            }
            ["reclaim"] => drop(area.reclaim().map_err(text)?),
            ["allow", allow] => area.allow_live_hooks(allow == "1").map_err(text)?,
            ["fork", stores] => return fork_and_store(area, &stores_of(stores)),
            ["area"] => return Ok(text_of(&area_contents(area))),
            ref other => panic!("{other:?}"),
        }
        Ok(String::new())
    }
}

/// A child that has the state of the fork while its parent stores on, and whose own stores nobody
/// sees.
fn fork_and_store(area: &Area, stores: &[Store]) -> Result<String, String> {
    let then = area_contents(area);
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    // SAFETY: the child loads and stores, waits for its parent, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let mut byte = 0u8;
        // SAFETY: its own copy of the end that it does not use, room for a byte, and its end.
        unsafe {
            libc::close(ends[1]);
            libc::read(ends[0], (&raw mut byte).cast(), 1);
            let same = area_contents(area) == then;
            store(area, place(area.geometry(), extent(0), 1), u64::MAX);
            libc::_exit(if same { 0 } else { 1 })
        }
    }
    store_all(area, stores);
    let mut status = 0;
    // SAFETY: its own descriptors, and a child of this process.
    unsafe {
        libc::close(ends[1]);
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::close(ends[0]);
    }
    if status == 0 { Ok(String::new()) } else { Err(format!("other child: {status:#x}")) }
}
