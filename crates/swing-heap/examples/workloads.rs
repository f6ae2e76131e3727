//! The workloads of FG_MM's paper on a tenth of many objects, a walk through a graph, and a
//! key-value store under YCSB: through guards of the heap, through its plain pointers, in
//! `malloc`'s memory that the system may swap, or in a mapped file. Prints a line of JSON.
//!
//!     workloads random|btree|quicksort|bloom|graph|ycsb-a|...|ycsb-f \
//!         heap|lists|pointers|malloc|mapped OBJECTS BYTES ACCESSES BUDGET_MIB DIRECTORY [WRITES]
//!
//! BYTES is the length of all objects, or after `~` that of an average one of random lengths.
//! WRITES is the share of accesses that write, in percent; the sort and YCSB have their own.
//!
//! Run all forms under the same limit of memory: `bench/heap/workloads.py` does.

#[path = "workloads/ycsb.rs"]
mod ycsb;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use swing_heap::{Handle, HeapOptions, ObjectHeap, PolicyKind};
use ycsb::{Latencies, Length, Request};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Where the objects are.
enum Objects {
    Heap(ObjectHeap, Vec<Handle>),
    Pointers(ObjectHeap, Vec<*mut u8>),
    Malloc(Vec<Box<[u8]>>),
    /// The first address of a mapped file, and where in it each object begins; the last one is
    /// where the next object will.
    Mapped(*mut u8, Vec<u64>),
}

struct Store {
    objects: Objects,
    length: Length,
    /// The key of an object, by which it has its length.
    key_of: fn(usize) -> u64,
    /// Of one access each.
    latencies: Latencies,
}

impl Store {
    /// A store of `count` objects, with addresses for `most`.
    fn new(
        side: &str,
        (count, most): (usize, usize),
        (length, key_of): (Length, fn(usize) -> u64),
        options: HeapOptions,
        folder: &Path,
        value: &mut dyn FnMut(usize) -> Vec<u8>,
    ) -> Result<Self> {
        let mut options = options;
        if side == "lists" {
            options.policy = PolicyKind::TwoLists;
        }
        let latencies = Latencies::new();
        let objects = match side {
            "heap" | "lists" => {
                Objects::Heap(ObjectHeap::open(folder, options)?, Vec::with_capacity(most))
            }
            "pointers" => {
                let heap = ObjectHeap::open(folder, options)?;
                heap.enable_pointers(None)?;
                Objects::Pointers(heap, Vec::with_capacity(most))
            }
            "malloc" => Objects::Malloc(Vec::with_capacity(most)),
            "mapped" => {
                let room: usize = (0..most).map(|i| length.of(key_of(i))).sum();
                let (base, places) = map_filled(folder, count, (room, most, length), value)?;
                return Ok(Store {
                    objects: Objects::Mapped(base, places),
                    length,
                    key_of,
                    latencies,
                });
            }
            other => return Err(format!("no side {other}").into()),
        };
        let mut store = Store { objects, length, key_of, latencies };
        for i in 0..count {
            store.insert(&value(i))?;
        }
        Ok(store)
    }

    /// A new object; the number of the first one is 0.
    fn insert(&mut self, value: &[u8]) -> Result<u32> {
        Ok(match &mut self.objects {
            Objects::Heap(heap, all) => {
                all.push(heap.alloc_from(value)?);
                all.len() - 1
            }
            Objects::Pointers(heap, all) => {
                all.push(heap.pointer(heap.alloc_from(value)?)?.as_ptr());
                all.len() - 1
            }
            Objects::Malloc(all) => {
                all.push(value.into());
                all.len() - 1
            }
            Objects::Mapped(base, places) => {
                let at = places[places.len() - 1];
                // SAFETY: the mapping has room for one object more; main sees to that.
                let to = unsafe { base.add(at as usize) };
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to, value.len()) };
                places.push(at + value.len() as u64);
                places.len() - 2
            }
        } as u32)
    }

    /// The bytes of an object that begins at an address.
    fn slice(&self, i: usize, at: *const u8) -> &[u8] {
        // SAFETY: the object of this store begins there; one thread uses the store.
        unsafe { std::slice::from_raw_parts(at, self.length.of((self.key_of)(i))) }
    }

    fn read<R>(&self, i: u32, with: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let i = i as usize;
        Ok(match &self.objects {
            Objects::Heap(heap, all) => with(&heap.read(all[i])?),
            Objects::Malloc(all) => with(&all[i]),
            Objects::Pointers(_, all) => with(self.slice(i, all[i])),
            Objects::Mapped(base, places) => {
                with(self.slice(i, base.wrapping_add(places[i] as usize)))
            }
        })
    }

    fn write<R>(&mut self, i: u32, with: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let i = i as usize;
        let bytes = self.length.of((self.key_of)(i));
        Ok(match &mut self.objects {
            Objects::Heap(heap, all) => with(&mut heap.write(all[i])?),
            Objects::Malloc(all) => with(&mut all[i]),
            Objects::Pointers(_, all) => with(slice_mut(all[i], bytes)),
            Objects::Mapped(base, places) => {
                with(slice_mut(base.wrapping_add(places[i] as usize), bytes))
            }
        })
    }

    /// Gives an object other bytes, as long as the ones before.
    fn replace(&mut self, i: u32, value: &[u8]) -> Result<()> {
        if let Objects::Heap(heap, all) = &self.objects {
            return Ok(heap.replace(all[i as usize], value)?);
        }
        self.write(i, |bytes| bytes.copy_from_slice(value))
    }

    /// Gives an object the bytes of another one, as far as both go.
    fn exchange(&mut self, i: u32, own: &[u8], other: &[u8]) -> Result<()> {
        if own.len() == other.len() {
            return self.replace(i, other);
        }
        let both = own.len().min(other.len());
        self.write(i, |bytes| bytes[..both].copy_from_slice(&other[..both]))
    }

    /// Tells the store that objects are read next. Swap and files read ahead by themselves.
    fn prefetch(&self, wanted: &[u32]) -> Result<()> {
        if let Objects::Heap(heap, all) = &self.objects {
            let handles: Vec<Handle> = wanted.iter().map(|&i| all[i as usize]).collect();
            heap.prefetch(&handles)?;
        }
        Ok(())
    }

    fn key(&self, i: u32) -> Result<u64> {
        self.read(i, |bytes| {
            let mut key = [0; 8];
            key.copy_from_slice(&bytes[..8]);
            u64::from_le_bytes(key)
        })
    }

    fn heap(&self) -> Option<&ObjectHeap> {
        match &self.objects {
            Objects::Heap(heap, _) | Objects::Pointers(heap, _) => Some(heap),
            _ => None,
        }
    }

    /// Reads all of an object, and changes it if `write` says so.
    fn visit(&mut self, i: u32, write: bool) -> Result<u64> {
        let sum = |bytes: &[u8]| bytes.iter().step_by(64).map(|&b| u64::from(b)).sum::<u64>();
        let started = Instant::now();
        let found = if write {
            self.write(i, |bytes| {
                let found = sum(bytes);
                bytes[9] = bytes[9].wrapping_add(1);
                found
            })
        } else {
            self.read(i, sum)
        };
        self.latencies.add(started.elapsed());
        found
    }
}

/// A mapped file of `room` bytes with `count` objects; where each of them begins. They are written
/// past the page cache: a control group of version 1 lets a program that fills a mapping wait for
/// its own dirty pages. Read one by one, as objects are, a mapping is fastest without read-ahead.
fn map_filled(
    folder: &Path,
    count: usize,
    (room, most, length): (usize, usize, Length),
    value: &mut dyn FnMut(usize) -> Vec<u8>,
) -> Result<(*mut u8, Vec<u64>)> {
    const PIECE: usize = 1 << 20;
    let file = tempfile::tempfile_in(folder)?;
    let len = room.next_multiple_of(PIECE);
    file.set_len(len as u64)?;
    let mut direct = OpenOptions::new();
    direct.write(true).custom_flags(libc::O_DIRECT);
    // Some file systems have no direct writes.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let to = direct.open(path).or_else(|_| file.try_clone())?;
    let mut buffer = vec![0_u8; PIECE + length.most() + 4096];
    let start = buffer.as_ptr().align_offset(4096);
    let (mut used, mut at) = (0, 0);
    let mut places = Vec::with_capacity(most + 1);
    places.push(0);
    for i in 0..count {
        let value = value(i);
        buffer[start + used..start + used + value.len()].copy_from_slice(&value);
        used += value.len();
        places.push(places[i] + value.len() as u64);
        if used >= PIECE || i + 1 == count {
            // The last piece may have old bytes behind its end, where no object is yet.
            to.write_all_at(&buffer[start..start + PIECE], at)?;
            buffer.copy_within(start + PIECE..start + used.max(PIECE), start);
            (used, at) = (used.saturating_sub(PIECE), at + PIECE as u64);
            if i + 1 == count && used > 0 {
                to.write_all_at(&buffer[start..start + PIECE], at)?;
            }
        }
    }
    to.sync_data()?;
    let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    let fd = file.as_raw_fd();
    // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, access, shared, fd, 0) };
    // SAFETY: the mapping above; nothing is changed where there is none.
    if base == libc::MAP_FAILED || unsafe { libc::madvise(base, len, libc::MADV_RANDOM) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok((base.cast(), places))
}

/// An object's bytes, to be changed.
fn slice_mut<'a>(at: *mut u8, bytes: usize) -> &'a mut [u8] {
    // SAFETY: as in `Store::slice`; the caller has the store for itself.
    unsafe { std::slice::from_raw_parts_mut(at, bytes) }
}

/// A place among `count`: in 80 of 100 cases in the first fifth.
fn skewed(random: &mut fastrand::Rng, count: usize) -> usize {
    let hot = random.u32(..10) < 8;
    random.usize(..if hot { count / 5 } else { count })
}

fn random_access(store: &mut Store, chosen: &[u32], accesses: usize, writes: u32) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut sum = 0;
    for _ in 0..accesses {
        let i = chosen[skewed(&mut random, chosen.len())];
        sum += store.visit(i, random.u32(..100) < writes)?;
    }
    Ok(sum)
}

/// The tree is ordinary memory on all sides; its values are the objects.
fn btree(store: &mut Store, chosen: &[u32], accesses: usize, writes: u32) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(2);
    let key = |place: usize| (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let tree: BTreeMap<u64, u32> =
        chosen.iter().enumerate().map(|(place, &i)| (key(place), i)).collect();
    let mut sum = 0;
    for _ in 0..accesses {
        let wanted = key(skewed(&mut random, chosen.len()));
        let i = *tree.get(&wanted).ok_or("a key is not in the tree")?;
        sum += store.visit(i, random.u32(..100) < writes)?;
    }
    Ok(sum)
}

/// Sorts the objects by their keys: what lies in them is exchanged.
fn quicksort(store: &mut Store, chosen: &[u32]) -> Result<u64> {
    let mut parts = vec![(0, chosen.len())];
    while let Some((from, to)) = parts.pop() {
        if to - from < 2 {
            continue;
        }
        // Never the last one, or a part of two would stay as it is.
        let pivot = store.key(chosen[from + (to - 1 - from) / 2])?;
        let (mut low, mut high) = (from, to - 1);
        loop {
            while store.key(chosen[low])? < pivot {
                low += 1;
            }
            while store.key(chosen[high])? > pivot {
                high -= 1;
            }
            if low >= high {
                break;
            }
            let left = store.read(chosen[low], <[u8]>::to_vec)?;
            let right = store.read(chosen[high], <[u8]>::to_vec)?;
            store.exchange(chosen[low], &left, &right)?;
            store.exchange(chosen[high], &right, &left)?;
            low += 1;
            high -= 1;
        }
        parts.extend([(from, high + 1), (high + 1, to)]);
    }
    let mut last = 0;
    let mut sum = 0_u64;
    for (place, &i) in chosen.iter().enumerate() {
        let key = store.key(i)?;
        if key < last {
            return Err("the objects are not in order".into());
        }
        last = key;
        sum = sum.wrapping_add(key.wrapping_mul(place as u64 + 1));
    }
    Ok(sum)
}

/// Eight hashes of a key: each sets, or looks at, a bit of one object.
fn bloom(store: &mut Store, chosen: &[u32], accesses: usize, writes: u32) -> Result<u64> {
    let bytes = store.length.least();
    let mut random = fastrand::Rng::with_seed(3);
    let mut found = 0;
    for access in 0..accesses / 8 {
        let key = random.u64(..);
        // Evenly among the others.
        let sets = (access as u32 * writes / 100) != ((access as u32 + 1) * writes / 100);
        let mut all = true;
        for hash in 0..8_u64 {
            let h = (key ^ hash.wrapping_mul(0xd6e8_feb8_6659_fd93))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let i = chosen[(h >> 32) as usize % chosen.len()];
            let (at, bit) = (h as usize % (bytes - 16) + 16, 1_u8 << (h >> 29 & 7));
            let started = Instant::now();
            if sets {
                store.write(i, |bytes| bytes[at] |= bit)?;
            } else {
                all &= store.read(i, |bytes| bytes[at] & bit != 0)?;
            }
            store.latencies.add(started.elapsed());
        }
        found += u64::from(!sets && all);
    }
    Ok(found)
}

/// Neighbours of a node.
const DEGREE: usize = 8;

/// A node of the graph: half of its neighbours are near, the others popular ones.
fn node(i: usize, count: usize, bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(i as u64);
    let mut value = vec![i as u8; bytes];
    for edge in 0..DEGREE {
        let to = if edge % 2 == 0 {
            (i + random.usize(1..64)) % count
        } else {
            // Few nodes have most edges; they lie anywhere.
            let rank = (count as f64).powf(random.f64()) as u64;
            (ycsb::key_of(rank) % count as u64) as usize
        };
        value[16 + 4 * edge..20 + 4 * edge].copy_from_slice(&(to as u32).to_le_bytes());
    }
    value
}

/// Random walks with restarts; a visit that writes leaves a mark at the node.
fn graph(store: &mut Store, count: usize, accesses: usize, writes: u32) -> Result<u64> {
    let mut random = fastrand::Rng::with_seed(5);
    let (mut at, mut sum) = (0_u32, 0_u64);
    for _ in 0..accesses {
        if random.u32(..100) < 15 {
            at = (ycsb::key_of(random.u64(..1000)) % count as u64) as u32;
        }
        sum = sum.wrapping_mul(31).wrapping_add(store.visit(at, random.u32(..100) < writes)?);
        let edge = 16 + 4 * random.usize(..DEGREE);
        at = store.read(at, |bytes| {
            let mut to = [0; 4];
            to.copy_from_slice(&bytes[edge..edge + 4]);
            u32::from_le_bytes(to)
        })?;
    }
    Ok(sum)
}

/// A key-value store: its index is ordinary memory on all sides.
fn key_values(store: &mut Store, workload: char, count: usize, requests: usize) -> Result<u64> {
    let mut index: BTreeMap<u64, u32> =
        (0..count as u32).map(|record| (ycsb::key_of(record.into()), record)).collect();
    let length = store.length;
    let mut latencies = Latencies::new();
    let find = |index: &BTreeMap<u64, u32>, key: u64| index.get(&key).copied().ok_or("no such key");
    let sum = ycsb::run(workload, count as u64, requests, &mut latencies, |request| {
        Ok::<_, Box<dyn std::error::Error>>(match request {
            Request::Read(key) => store.read(find(&index, key)?, ycsb::sum_of)?,
            Request::Update(key, version) => {
                let value = ycsb::value_of(key, version, length);
                store.replace(find(&index, key)?, &value)?;
                0
            }
            Request::Modify(key, version) => {
                let i = find(&index, key)?;
                let sum = store.read(i, ycsb::sum_of)?;
                let value = ycsb::value_of(key, version, length);
                store.replace(i, &value)?;
                sum
            }
            Request::Insert(key) => {
                index.insert(key, store.insert(&ycsb::value_of(key, 0, length))?);
                0
            }
            Request::Scan(key, most) => {
                let found: Vec<u32> = index.range(key..).take(most).map(|(_, &i)| i).collect();
                store.prefetch(&found)?;
                let mut sum = 0_u64;
                for i in found {
                    sum = sum.wrapping_add(store.read(i, ycsb::sum_of)?);
                }
                sum
            }
        })
    })?;
    store.latencies = latencies;
    Ok(sum)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize| -> Result<usize> {
        Ok(arguments.get(i).ok_or("too few arguments; see the source")?.parse()?)
    };
    let length = Length::parse(arguments.get(4).ok_or("too few arguments; see the source")?)?;
    let (count, accesses) = (number(3)?, number(5)?);
    let (budget, folder) = ((number(6)? as u64) << 20, arguments.get(7).ok_or("no directory")?);
    let (workload, side) = (arguments[1].as_str(), arguments[2].as_str());
    let key_value = workload.strip_prefix("ycsb-").and_then(|name| name.chars().next());
    let mut keys = fastrand::Rng::with_seed(7);
    let key_of: fn(usize) -> u64 = match key_value {
        Some(_) => |i| ycsb::key_of(i as u64),
        None => |i| i as u64,
    };
    let mut value = |i: usize| match (workload, key_value) {
        (_, Some(_)) => ycsb::value_of(key_of(i), 0, length),
        ("graph", _) => node(i, count, length.of(key_of(i))),
        _ => {
            let mut value = vec![0_u8; length.of(key_of(i))];
            value[..8].copy_from_slice(&keys.u64(..).to_le_bytes());
            value
        }
    };
    let options = HeapOptions { budget, ..Default::default() };
    let most = count + if key_value.is_some() { accesses / 8 + 1000 } else { 0 };
    let lengths = (length, key_of);
    let folder = Path::new(folder);
    let mut store = Store::new(side, (count, most), lengths, options, folder, &mut value)?;
    let writes = |usual: u32| arguments.get(8).map_or(Ok(usual), |text| text.parse());
    let mut random = fastrand::Rng::with_seed(42);
    let chosen = random.choose_multiple(0..count as u32, count / 10);
    let before = store.heap().map(ObjectHeap::stats).transpose()?;
    let (read, written) = ycsb::disk_bytes();
    let started = Instant::now();
    let sum = match (workload, key_value) {
        (_, Some(name)) => key_values(&mut store, name, count, accesses)?,
        ("random", _) => random_access(&mut store, &chosen, accesses, writes(20)?)?,
        ("btree", _) => btree(&mut store, &chosen, accesses, writes(20)?)?,
        ("quicksort", _) => quicksort(&mut store, &chosen)?,
        ("bloom", _) => bloom(&mut store, &chosen, accesses, writes(50)?)?,
        ("graph", _) => graph(&mut store, count, accesses, writes(10)?)?,
        (other, _) => return Err(format!("no workload {other}").into()),
    };
    let seconds = started.elapsed().as_secs_f64();
    let after = ycsb::disk_bytes();
    let [p50, p99, p999] = store.latencies.microseconds();
    print!(
        "{{\"seconds\": {seconds:.3}, \"sum\": {sum}, \
         \"access_us\": [{p50:.2}, {p99:.1}, {p999:.1}], \
         \"io_read_bytes\": {}, \"io_written_bytes\": {}",
        after.0 - read,
        after.1 - written,
    );
    if let (Some(heap), Some(before)) = (store.heap(), before) {
        let stats = heap.stats()?;
        let (hits, misses) = (stats.hits - before.hits, stats.misses - before.misses);
        print!(
            ", \"hit_rate\": {:.4}, \"read_bytes\": {}, \"written_bytes\": {}, \
             \"write_amplification\": {:.3}, \"fragmentation\": {:.3}, \"miss_us\": {:?}",
            hits as f64 / (hits + misses) as f64,
            stats.read_bytes - before.read_bytes,
            stats.written_bytes - before.written_bytes,
            stats.write_amplification(),
            stats.fragmentation(),
            stats.miss_latencies.map(|d| d.as_micros()),
        );
    }
    println!("}}");
    Ok(())
}
